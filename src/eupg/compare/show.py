"""A comparison as a table for the terminal and a picture: utility against the time a forget takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from eupg.audit.plot import save_figure
from eupg.compare.result import Audited, Comparison, Row
from eupg.forget.storage import Storage
from eupg.guarantees import CertifiedUnlearning, DifferentiallyPrivate, Guarantee, KAnonymous
from eupg.guarantees.wording import percent

# Okabe and Ito's palette; markers differ too, for print in grey.
_COLOURS = ("#000000", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = ("s", "D", "o", "^", "v", "P", "X")


def claim_label(claim: Guarantee) -> str:
    """Say a claim in a few words, for a column or a point."""
    if isinstance(claim, KAnonymous):
        words = f"linking ≤ {claim.records}/{claim.k}"
        if claim.shared:
            name, share = max(claim.shared, key=lambda item: item[1])
            words += f", {name} shared in the group by {percent(share)}"
    elif isinstance(claim, DifferentiallyPrivate):
        words = f"ε={claim.epsilon:g}" + (f", δ={claim.delta:g}" if claim.delta else "") + f" a {claim.unit}"
    elif isinstance(claim, CertifiedUnlearning):
        words = f"({claim.epsilon:.3g}, {claim.delta:g})-unlearning"
    else:
        words = claim.notion
    return words + (", label open" if claim.leaves_open else "")


def table(found: Comparison) -> Table:
    """Return the table: one row a method."""
    title = (
        f"{found.source}: {found.forgotten:,} of {found.people:,} {found.units} forgotten, "
        f"{found.repetitions} repetition{'s' * (found.repetitions > 1)}; utility is {found.utility_name} in percent"
    )
    out = Table(title=title, title_justify="left", expand=False, show_lines=True)
    out.add_column("method\nclaim")
    for heading in ("utility", "audit AUC", "seconds", "kept"):
        out.add_column(heading, no_wrap=True)
    for row in found.rows:
        before, after = row.audited("before"), row.audited("after")
        out.add_row(
            f"[bold]{row.method}[/]\n{claim_label(row.claim)}",
            f"{_utility(row, 'before')} →\n{_utility(row, 'after')}",
            "–" if before is None or after is None else f"{before.auc:.1f} → {after.auc:.1f}\n{_interval(after)}",
            "\n".join(f"{stage} {s:.2f}" for stage, s in row.stage_s.items()) + f"\n[dim]{found.speed_up(row):.1f}×[/]",
            _kept(row.runs[0].storage),
        )
    return out


def notes(found: Comparison) -> list[str]:
    """Return what must be said under the table."""
    lines = [
        "Short retrain: from scratch, for as many epochs or trees as the others fine-tune. Exact, at the same cost."
    ]
    if found.references:
        lines.append(
            f"Audit: RMIA, offline, {found.references} reference models trained from scratch on halves of the retained "
            "records and shared by all methods; members are the records forgotten, non-members the test "
            "records. 50 is chance; in brackets the 95 % interval after forgetting, for the choice of records."
        )
    lines.append(
        "Arrows lead from before to after forgetting. The last line of the seconds: how many times as fast as "
        "Retrain's forget. Kept: model files needed to forget, and the models that answer together, where several do."
    )
    return lines


def _utility(row: Row, when: str) -> str:
    mean, spread = row.utility(when)
    return f"{mean:.1f}" + (f" ± {spread:.1f}" if len(row.runs) > 1 else "")


def _interval(found: Audited) -> str:
    return f"({found.low:.1f} to {found.high:.1f})"


def _kept(storage: Storage) -> str:
    files = f"{storage.files} file{'s' * (storage.files > 1)}\n{_size(storage.size_bytes)}"
    return files + (f"\n{storage.models_a_prediction} models" if storage.models_a_prediction > 1 else "")


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.0f} kB"


def picture(found: Comparison, path: str | Path) -> Path:
    """Draw utility after forgetting against the time of the forget, one point a method, its claim beside it."""
    return save_figure(path, (7.6, 5.0), lambda axes: _draw(axes, found))


def _draw(axes: Any, found: Comparison) -> None:
    points = [(row.forget_s, *row.utility("after")) for row in found.rows]
    for i, ((seconds, utility, spread), row) in enumerate(zip(points, found.rows, strict=True)):
        look: Any = {"color": _COLOURS[i % len(_COLOURS)], "marker": _MARKERS[i % len(_MARKERS)]}
        error = spread if len(row.runs) > 1 else None
        axes.errorbar(seconds, utility, error, linestyle="none", markersize=9, capsize=4, **look)
    _label_points(axes, points, [f"{row.method}\n{claim_label(row.claim)}" for row in found.rows])
    axes.set(xscale="log", xlabel="seconds to forget (logarithmic; left is faster)")
    axes.set_ylabel(f"{found.utility_name} after forgetting, %")
    axes.set_title(
        f"{found.source}: {found.forgotten:,} of {found.people:,} {found.units} forgotten", fontsize=10, loc="left"
    )
    axes.margins(x=0.12, y=0.12)
    axes.xaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _label_points(axes: Any, points: list[tuple[float, float, float]], names: list[str]) -> None:
    """Name the points in a column beside the picture, best first, each with a line to its point: none can collide."""
    for place, i in enumerate(sorted(range(len(points)), key=lambda i: -points[i][1])):
        axes.annotate(
            names[i],
            points[i][:2],
            xytext=(1.03, 0.96 - 0.92 * place / max(1, len(points) - 1)),
            textcoords="axes fraction",
            va="center",
            fontsize=9,
            arrowprops={"arrowstyle": "-", "color": _COLOURS[i % len(_COLOURS)], "linewidth": 0.7, "shrinkB": 5},
            annotation_clip=False,
        )
