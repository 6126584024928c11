"""How the report's figures look: one style a method, told apart by colour-blind readers and in grey."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eupg_reproduction.report.words import MISSING, SETS
from eupg_reproduction.spread import Spread

# Okabe and Ito's palette; markers and line styles differ too, for print in grey.
_BLACK, _GREY, _ORANGE, _SKY = "#000000", "#6b6b6b", "#E69F00", "#56B4E9"
_GREEN, _BLUE, _RED, _PURPLE = "#009E73", "#0072B2", "#D55E00", "#CC79A7"
FAINT = "#dddddd"


@dataclass(frozen=True)
class Look:
    """Colour, marker and line of a method; ``hollow`` markers are not filled."""

    color: str
    marker: str
    line: Any
    hollow: bool = False

    @property
    def marks(self) -> dict[str, Any]:
        """The look of its markers."""
        face = "white" if self.hollow else self.color
        return {"marker": self.marker, "color": self.color, "markerfacecolor": face, "markersize": 5.5}


LOOKS = {
    "Retrain": Look(_BLACK, "s", "--"),
    "Short retrain": Look(_GREY, "D", (0, (1, 1.5))),
    "From scratch": Look(_RED, "s", (0, (5, 2))),
    "SISA": Look(_SKY, "P", (0, (3, 1, 1, 1))),
    "Certified-SP": Look(_ORANGE, "X", (0, (6, 1.5))),
    "EUPG k=30": Look(_BLUE, "o", "-"),
    "EUPG ε=1": Look(_PURPLE, "^", "-."),
    "EUPG k=30, leaves refreshed": Look(_BLUE, "o", "-", hollow=True),
    "k=30": Look(_BLUE, "o", "-"),
    "ε=1": Look(_PURPLE, "^", "-."),
    "ε=4": Look(_PURPLE, "v", "-."),
    "synthesis ε=1": Look(_GREEN, "D", "-."),
}
HATCHES = {"protect": (_SKY, "//"), "pretrain": (_BLUE, ""), "finetune": (_ORANGE, ".."), "forget": (_RED, "xx")}


def panels(axes: Any, rows: int, columns: int, *, sharex: bool | str = True, sharey: bool | str = False) -> Any:
    """Replace one pair of axes by a grid of them, as an array of rows."""
    figure = axes.figure
    axes.remove()
    return figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey)


def line(axes: Any, places: Mapping[float, Spread | None], look: Look, label: str, *, error: bool = True) -> None:
    """Draw what was measured as a line with its spreads; nothing where nothing was."""
    known = {x: found for x, found in places.items() if found is not None}
    if not known:
        return
    xs, means, spreads = list(known), [s.mean for s in known.values()], [s.std for s in known.values()]
    bars: dict[str, Any] = {"yerr": spreads, "capsize": 2, "elinewidth": 0.8} if error else {}
    axes.errorbar(xs, means, linestyle=look.line, linewidth=1.6, label=label, **look.marks, **bars)


def level(axes: Any, found: Spread | None, look: Look, label: str) -> None:
    """Draw a figure as a level line."""
    if found is not None:
        axes.axhline(found.mean, color=look.color, linestyle=look.line, linewidth=1.3, label=label, zorder=1)


def tidy(axes: Any) -> None:
    """Take away what tells nothing; say so where there is nothing to see."""
    axes.grid(which="major", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if not axes.has_data():
        axes.set_yticks([])
        axes.text(0.5, 0.5, MISSING, transform=axes.transAxes, ha="center", va="center", color=_GREY)


def legend(figure: Any, *, columns: int) -> None:
    """Explain every look once, below all panels."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        figure.legend(
            found.values(), found.keys(), loc="outside lower center", ncols=columns, frameon=False, fontsize=9
        )


def unit(table: str) -> str:
    """Return what utility means on a set."""
    return "AUC, %" if table == "credit" else "accuracy, %"


def title(table: str, more: str = "") -> str:
    """Return the title of a set's panel."""
    return f"{SETS[table]}{more} ({unit(table)})"


def below(axes: Any, lines: Sequence[str]) -> None:
    """Name in the picture what lies below it, so that the rest can be told apart."""
    if lines:
        words = "\n".join(lines)
        axes.text(
            0.98, 0.02, f"below: {words}", transform=axes.transAxes, ha="right", va="bottom", fontsize=8, color=_GREY
        )


def ticks(axes: Any, values: Sequence[float], labels: Iterable[str]) -> None:
    """Mark exactly these places on the horizontal axis."""
    axes.set_xticks(list(values), list(labels))
    axes.xaxis.set_minor_locator(axes.xaxis.get_major_locator().__class__([]))
