"""A frontier as a table and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from eupg.audit.membership.plot import save_figure
from eupg.certify.summary import readable
from eupg.compare.show import style_axes, style_of
from eupg.plan.advice import Advice
from eupg.plan.frontier import Frontier, Point

_LEAST_S = 1e-4


def table(frontier: Frontier, advice: Advice) -> Table:
    """Return the table: best utility first, unmeasured rows last, the recommended point marked."""
    people = f" of {frontier.people:,} people" if frontier.names_people else ""
    title = (
        f"{frontier.table}: {frontier.records:,} records{people}; "
        f"{frontier.utility_name} in percent on {frontier.units} held out"
    )
    caption = (
        "changes: share of erasures that change the model; comparing it before and after then shows who was forgotten, "
        "unless many are forgotten together. s each: expected seconds per erasure. MB: model files that are kept."
    )
    shown = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    shown.add_column("")
    shown.add_column("method")
    for heading in (f"{frontier.utility_name} ± 95 %", "changes", "s each", "MB"):
        shown.add_column(heading, justify="right")
    shown.add_column("claim")
    for point in sorted(frontier.points, key=lambda p: -p.utility):
        shown.add_row(
            "→" if point is advice.point else "",
            point.name,
            f"{point.utility:.1f} ± {(point.high - point.low) / 2:.1f}",
            f"{1 - point.free:.1%}",
            _cost(point),
            f"{point.storage_bytes / 1e6:.1f}",
            escape(point.claim.label),
            style="bold" if point is advice.point else None,
        )
    for row in frontier.unmeasured:
        shown.add_row("", escape(row.name), *["–"] * 4, escape(f"not measured: {readable(row.reason)}"), style="dim")
    return shown


def _cost(point: Point) -> str:
    return "0" if point.expected_s == 0 else f"{point.expected_s:.2g}"


def picture(frontier: Frontier, advice: Advice, path: str | Path) -> Path:
    """Draw utility against the expected seconds per erasure: one line per guarantee, one point per exposure."""
    return save_figure(path, (8.2, 4.8), lambda axes: _draw(axes, frontier, advice))


def _draw(axes: Any, frontier: Frontier, advice: Advice) -> None:
    names = list(dict.fromkeys(p.guarantee for p in frontier.points if p.guarantee is not None))
    for i, name in enumerate(names):
        # Black, the first colour, is left to the controls.
        style = style_of(i + 1) | {"linestyle": "-"}
        _line(axes, [p for p in frontier.points if p.guarantee == name], name, style)
    scratch = [p for p in frontier.points if p.is_control and p.exposure is not None]
    dashed = {"color": "#6b6b6b", "marker": "s", "linestyle": "--"}
    _line(axes, scratch, f"from scratch on the same {frontier.units}", dashed)
    for name, marker in (("Retrain", "*"), ("Short retrain", "d")):
        measured = [p for p in frontier.points if p.name == name]
        _line(axes, measured, name, {"color": "black", "marker": marker, "linestyle": "none"})
    best = advice.point
    ring: Any = {"s": 220, "facecolors": "none", "edgecolors": "black", "linewidths": 1.5, "label": "recommended"}
    if best is not None:
        axes.scatter(max(best.expected_s, _LEAST_S), best.utility, **ring)
    axes.set(xscale="log", xlabel="expected seconds of training for one erasure (left edge: none)")
    axes.xaxis.set_major_formatter(lambda seconds, _: "0" if seconds <= _LEAST_S else f"{seconds:g}")
    axes.set_ylabel(f"{frontier.utility_name} on {frontier.units} held out, %")
    axes.set_title(f"{frontier.table}: {frontier.people:,} {frontier.units}", fontsize=10, loc="left")
    style_axes(axes)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)


def _line(axes: Any, points: list[Point], label: str, style: dict[str, str]) -> None:
    if not points:
        return
    ordered = sorted(points, key=lambda p: p.expected_s)
    seconds = [max(p.expected_s, _LEAST_S) for p in ordered]
    axes.plot(seconds, [p.utility for p in ordered], label=label, markersize=7, linewidth=1.4, **style)
