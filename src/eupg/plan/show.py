"""A frontier as a table and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from eupg.audit.plot import save_figure
from eupg.certify.summary import readable
from eupg.compare.show import claim_label
from eupg.plan.advice import Advice
from eupg.plan.frontier import Frontier, Point

# Okabe and Ito's palette; markers differ too, for print in grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = ("o", "^", "v", "P", "X", "D")
_LEAST_S = 1e-4


def table(frontier: Frontier, advice: Advice) -> Table:
    """Return the table, best utility first, unmeasured rows last; the recommended point is marked."""
    whose = f" of {frontier.people:,} people" if frontier.names_people else ""
    title = (
        f"{frontier.table}: {frontier.records:,} records{whose}; "
        f"{frontier.utility_name} in percent on {frontier.units} held out"
    )
    out = Table(title=title, title_justify="left")
    out.add_column("")
    out.add_column("way")
    for heading in (frontier.utility_name, "free", "an erasure, s"):
        out.add_column(heading, justify="right")
    out.add_column("claim")
    for point in sorted(frontier.points, key=lambda p: -p.utility):
        out.add_row(
            "→" if point is advice.point else "",
            point.name,
            f"{point.utility:.1f}",
            f"{point.free:.1%}",
            _cost(point),
            claim_label(point.claim),
            style="bold" if point is advice.point else None,
        )
    for row in frontier.unmeasured:
        out.add_row("", escape(row.name), "–", "–", "–", escape(f"not measured: {readable(row.reason)}"), style="dim")
    return out


def _cost(point: Point) -> str:
    return "0" if point.expected_s == 0 else f"{point.expected_s:.2g}"


def picture(frontier: Frontier, advice: Advice, path: str | Path) -> Path:
    """Draw utility against the expected seconds of one erasure: lines are guarantees, points exposures."""
    return save_figure(path, (8.2, 4.8), lambda axes: _draw(axes, frontier, advice))


def _draw(axes: Any, frontier: Frontier, advice: Advice) -> None:
    names = list(dict.fromkeys(p.guarantee for p in frontier.points if p.guarantee is not None))
    for i, name in enumerate(names):
        look = {"color": _COLOURS[i % len(_COLOURS)], "marker": _MARKERS[i % len(_MARKERS)]}
        _line(axes, [p for p in frontier.points if p.guarantee == name], name, **look, linestyle="-")
    scratch = [p for p in frontier.points if p.is_control and p.exposure is not None]
    _line(axes, scratch, f"from scratch on the same {frontier.units}", color="#6b6b6b", marker="s", linestyle="--")
    for name, marker in (("Retrain", "*"), ("Short retrain", "d")):
        measured = [p for p in frontier.points if p.name == name]
        _line(axes, measured, name, color="black", marker=marker, linestyle="none")
    best = advice.point
    ring: Any = {"s": 220, "facecolors": "none", "edgecolors": "black", "linewidths": 1.5, "label": "recommended"}
    if best is not None:
        axes.scatter(max(best.expected_s, _LEAST_S), best.utility, **ring)
    axes.set(xscale="log", xlabel="expected seconds of training for one erasure (left edge: none)")
    axes.xaxis.set_major_formatter(lambda seconds, _: "0" if seconds <= _LEAST_S else f"{seconds:g}")
    axes.set_ylabel(f"{frontier.utility_name} on {frontier.units} held out, %")
    axes.set_title(f"{frontier.table}: {frontier.people:,} {frontier.units}", fontsize=10, loc="left")
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)


def _line(axes: Any, points: list[Point], label: str, **style: Any) -> None:
    if not points:
        return
    ordered = sorted(points, key=lambda p: p.expected_s)
    seconds = [max(p.expected_s, _LEAST_S) for p in ordered]
    axes.plot(seconds, [p.utility for p in ordered], label=label, markersize=7, linewidth=1.4, **style)
