"""The look of figures: one colour, marker and line per method, legible in print and for the colour-blind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eupg_reproduction.report.words import MISSING, SETS
from eupg_reproduction.spread import Spread

# Okabe and Ito's palette; markers and line styles differ too, for print in grey.
_BLACK, _GREY, _ORANGE, _SKY = "#000000", "#6b6b6b", "#E69F00", "#56B4E9"
_GREEN, _BLUE, _RED, _PURPLE = "#009E73", "#0072B2", "#D55E00", "#CC79A7"


@dataclass(frozen=True)
class Look:
    """Colour, marker and line of a method."""

    color: str
    marker: str
    line: Any
    hollow: bool = False

    @property
    def marks(self) -> dict[str, Any]:
        """The options of its markers."""
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
    "synthesis ε=1": Look(_GREEN, "D", "-."),
    "a guess": Look("#999999", "", "-"),
}
HATCHES = {"protect": (_SKY, "//"), "pretrain": (_BLUE, ""), "finetune": (_ORANGE, ".."), "forget": (_RED, "xx")}


def panels(axes: Any, rows: int, columns: int, *, sharex: bool | str = True, sharey: bool | str = False) -> Any:
    """Replace one pair of axes by a grid, returned as an array of rows."""
    figure = axes.figure
    axes.remove()
    return figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey)


def line(axes: Any, places: Mapping[float, Spread | None], look: Look, label: str) -> None:
    """Draw the measured points as a line with error bars."""
    known = {x: one for x, one in places.items() if one is not None}
    if known:
        means, spreads = [one.mean for one in known.values()], [one.std for one in known.values()]
        bars = {"yerr": spreads, "capsize": 2, "elinewidth": 0.8}
        axes.errorbar(list(known), means, linestyle=look.line, linewidth=1.6, label=label, **look.marks, **bars)


def level(axes: Any, spread: Spread | None, look: Look, label: str) -> None:
    """Draw a horizontal line at a mean."""
    if spread is not None:
        axes.axhline(spread.mean, color=look.color, linestyle=look.line, linewidth=1.3, label=label, zorder=1)


def tidied(axes: Any) -> None:
    """Remove clutter; mark an empty panel as not measured."""
    axes.grid(which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if not axes.has_data():
        axes.set_yticks([])
        axes.text(0.5, 0.5, MISSING, transform=axes.transAxes, ha="center", va="center", color=_GREY)


def legend(figure: Any, *, columns: int) -> None:
    """Show every label once, below all panels."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if handles:
        look = {"loc": "outside lower center", "frameon": False, "fontsize": 9}
        figure.legend(handles.values(), handles.keys(), ncols=columns, **look)


def title(t: str, more: str = "") -> str:
    """Return the title of a set's panel, with its measure of utility."""
    return f"{SETS[t]}{more} ({'AUC, %' if t == 'credit' else 'accuracy, %'})"


def below(axes: Any, lines: Sequence[str]) -> None:
    """Name the points that lie below the panel."""
    if lines:
        place = {"transform": axes.transAxes, "ha": "right", "va": "bottom"}
        axes.text(0.98, 0.02, "below: " + "\n".join(lines), fontsize=8, color=_GREY, **place)


def ticks(axes: Any, values: Iterable[float], labels: Iterable[str]) -> None:
    """Set exactly these ticks on the horizontal axis."""
    axes.set_xticks(list(values), list(labels))
    axes.xaxis.set_minor_locator(axes.xaxis.get_major_locator().__class__([]))
