"""A comparison as a table for the terminal and a picture: utility against the time a forget takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from eupg.audit.membership.plot import save_figure
from eupg.certify.summary import readable
from eupg.compare.result import Audited, MethodComparison, Row
from eupg.forget.storage import Storage

# Okabe and Ito's palette. Markers differ too, for print in grey.
_COLOURS = ("#000000", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = ("s", "D", "o", "^", "v", "P", "X")


def style_of(series: int) -> dict[str, str]:
    """Return colour and marker of the n-th series of a picture."""
    return {"color": _COLOURS[series % len(_COLOURS)], "marker": _MARKERS[series % len(_MARKERS)]}


def table(comparison: MethodComparison) -> Table:
    """Return the table: one row per method; those that were not measured come last."""
    repetitions = f"{comparison.repetitions} repetition{'s' * (comparison.repetitions > 1)}"
    title = f"{_title(comparison)}, {repetitions}; utility is {comparison.utility_name} in percent"
    shown = Table(title=title, title_justify="left", expand=False, show_lines=True)
    shown.add_column("method\nclaim")
    for heading in ("utility", "audit AUC", "seconds", "stored"):
        shown.add_column(heading, no_wrap=True)
    for row in comparison.rows:
        before, after = row.audited("before"), row.audited("after")
        speed_up = comparison.speed_up(row)
        seconds = [f"{stage} {s:.2f}" for stage, s in row.stage_s.items()]
        shown.add_row(
            f"[bold]{row.method}[/]\n{escape(row.claim.label)}",
            f"{_utility(row, 'before')} →\n{_utility(row, 'after')}",
            "–" if before is None or after is None else f"{before.auc:.1f} → {after.auc:.1f}\n{_interval(after)}",
            "\n".join(seconds if speed_up is None else [*seconds, f"[dim]{speed_up:.1f}×[/]"]),
            _stored(row.runs[0].storage),
        )
    measured = {row.method for row in comparison.rows}
    for method, reason in {run.method: run.reason for run in comparison.missing if run.method not in measured}.items():
        cell = f"{escape(method)}\n{escape(f'not measured: {readable(reason)}')}"
        shown.add_row(cell, "–", "–", "–", "–", style="dim")
    return shown


def _title(comparison: MethodComparison) -> str:
    return f"{comparison.source}: {comparison.forgotten:,} of {comparison.people:,} {comparison.units} forgotten"


def notes(comparison: MethodComparison) -> list[str]:
    """Return the notes below the table."""
    lines = [
        "Short retrain: from scratch, for as many epochs or trees as the others fine-tune. Exact, at the same cost."
    ]
    if comparison.references:
        lines.append(
            f"Audit: RMIA, offline, with {comparison.references} reference models, which are trained from scratch on "
            "halves of the retained records and shared by all methods. Members are the forgotten records, non-members "
            "the test records. 50 is chance. Brackets: the 95 % interval after forgetting, for the choice of records."
        )
    lines.append(
        "Arrows lead from before to after forgetting. The last line of the seconds says how many times as fast as "
        "Retrain a method forgets. Stored: the model files needed to forget, and the models per prediction if several."
    )
    if comparison.missing:
        total = len(comparison.missing) + sum(len(row.runs) for row in comparison.rows)
        cause = "the comparison was interrupted" if comparison.interrupted else comparison.missing[0].reason
        lines.append(f"{len(comparison.missing)} of {total} runs are missing: {cause}.")
    return lines


def _utility(row: Row, when: str) -> str:
    mean, spread = row.utility(when)
    return f"{mean:.1f}" + (f" ± {spread:.1f}" if len(row.runs) > 1 else "")


def _interval(audit: Audited) -> str:
    return f"({audit.low:.1f} to {audit.high:.1f})"


def _stored(storage: Storage) -> str:
    files = f"{storage.files} file{'s' * (storage.files > 1)}\n{_size(storage.size_bytes)}"
    return files + (f"\n{storage.models_a_prediction} models" if storage.models_a_prediction > 1 else "")


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.0f} kB"


def picture(comparison: MethodComparison, path: str | Path) -> Path:
    """Draw utility after forgetting against the time of the forget: one point per method, with its claim."""
    return save_figure(path, (7.6, 5.0), lambda axes: _draw(axes, comparison))


def _draw(axes: Any, comparison: MethodComparison) -> None:
    points = [(row.forget_s, *row.utility("after")) for row in comparison.rows]
    for i, ((seconds, utility, spread), row) in enumerate(zip(points, comparison.rows, strict=True)):
        error = spread if len(row.runs) > 1 else None
        axes.errorbar(seconds, utility, error, linestyle="none", markersize=9, capsize=4, **style_of(i))
    _label_points(axes, points, [f"{row.method}\n{row.claim.label}" for row in comparison.rows])
    axes.set(xscale="log", xlabel="seconds to forget (logarithmic; left is faster)")
    axes.set_ylabel(f"{comparison.utility_name} after forgetting, %")
    axes.set_title(_title(comparison), fontsize=10, loc="left")
    axes.margins(x=0.12, y=0.12)
    axes.xaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")
    style_axes(axes)


def style_axes(axes: Any) -> None:
    """Give a picture a light grid behind its points and no frame."""
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _label_points(axes: Any, points: list[tuple[float, float, float]], names: list[str]) -> None:
    """Name the points in a column beside the picture, best first, each with a line to its point; none can collide."""
    for place, i in enumerate(sorted(range(len(points)), key=lambda i: -points[i][1])):
        axes.annotate(
            names[i],
            points[i][:2],
            xytext=(1.03, 0.96 - 0.92 * place / max(1, len(points) - 1)),
            textcoords="axes fraction",
            va="center",
            fontsize=9,
            arrowprops={"arrowstyle": "-", "color": style_of(i)["color"], "linewidth": 0.7, "shrinkB": 5},
            annotation_clip=False,
        )
