"""The ROC curve of an audit on logarithmic axes, which show the few records that are found with certainty."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from eupg.audit.membership.report import AuditReport
from eupg.audit.membership.roc import roc_curve
from eupg.errors import DataError, MissingFramework, ParameterError

# Okabe and Ito's palette for colour-blind readers; line styles differ too, for print in grey.
_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "#6b6b6b"


def roc_figure(report: AuditReport, path: str | Path) -> Path:
    """Draw the ROC curves of an audit and its baseline as ``.svg`` or ``.png``, and return the path.

    Both axes are logarithmic: an attack does harm at the left end, where there are few false alarms. Points mark the
    report's low rates with their exact intervals. The shaded area has too few non-members to show anything. The report
    needs its scores, which one read back from JSON does not have.
    """
    if report.scores is None:
        raise DataError("this report has no scores (it was read from JSON): draw the one that report() returned")
    return save_figure(path, (5.6, 4.8), lambda axes: _draw(axes, report))


def save_figure(path: str | Path, size: tuple[float, float], draw: Callable[[Any], None]) -> Path:
    """Draw on one pair of axes and write them as ``.svg`` or ``.png``; the same drawing gives the same file."""
    target = Path(path)
    if target.suffix.lower() not in (".png", ".svg"):
        raise ParameterError(f"a figure is written as .svg or .png, got {target.name!r}")
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingFramework("a figure needs matplotlib: pip install 'eupg[demo]'") from error
    target.parent.mkdir(parents=True, exist_ok=True)
    style: Any = {"font.size": 10, "font.family": "sans-serif", "svg.fonttype": "none", "svg.hashsalt": "eupg"}
    with mpl.rc_context(style):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.add_subplot())
        metadata: Any = {"Date": None} if target.suffix.lower() == ".svg" else None
        figure.savefig(target, dpi=150, metadata=metadata)
    return target


def _draw(axes: Any, report: AuditReport) -> None:
    edge = 1 / report.nonmembers
    least = float(10 ** np.floor(np.log10(min(edge, 1 / report.members, 1e-3) / 1.5)))
    axes.set(xscale="log", yscale="log", xlim=(least, 1), ylim=(least, 1.15))
    _curve(axes, report, least, {"color": _BLUE, "linewidth": 2.2, "linestyle": "-", "zorder": 3})
    if report.baseline is not None and report.baseline.scores is not None:
        dashed = {"color": _ORANGE, "linewidth": 1.6, "linestyle": (0, (5, 2)), "zorder": 2}
        _curve(axes, report.baseline, least, dashed)
    axes.plot([least, 1], [least, 1], color=_GREY, linewidth=1, linestyle=":", label="chance (AUC 50)")
    for tail in report.tails:
        if tail.resolvable and tail.tpr > 0:
            reach = [[(tail.tpr - tail.low) / 100], [(tail.high - tail.tpr) / 100]]
            point: Any = {"color": "black", "marker": "o", "markersize": 5, "capsize": 4, "zorder": 4}
            axes.errorbar(tail.at / 100, tail.tpr / 100, reach, **point)
    hidden = f"below 1 in {report.nonmembers:,}: not observable"
    axes.axvspan(least, edge, color=_GREY, alpha=0.18, linewidth=0, label=hidden)
    axes.set_xlabel("non-members wrongly accused (false-positive rate)")
    axes.set_ylabel("members found (true-positive rate)")
    axes.set_title(f"{report.attack}: {report.members:,} members, {report.nonmembers:,} non-members", fontsize=10)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    axes.grid(which="major", color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right", fontsize=9)


def _curve(axes: Any, report: AuditReport, least: float, style: dict[str, Any]) -> None:
    assert report.scores is not None
    assert report.mask is not None
    fpr, tpr = roc_curve(report.scores, report.mask)
    label = f"{report.model}: AUC {report.auc:.1f} ({report.low:.1f} to {report.high:.1f})"
    # A logarithmic axis has no zero: such shares are drawn at or below the edge.
    axes.step(np.maximum(fpr, least), np.maximum(tpr, least / 10), where="post", label=label, **style)
