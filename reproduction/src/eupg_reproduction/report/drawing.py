"""How figures look: one colour, marker and line per method, legible in print and by the colour-blind."""

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
    "synthesis ε=1": Look(_GREEN, "D", "-."),
    "a guess": Look("#999999", "", "-"),
}
HATCHES = {"protect": (_SKY, "//"), "pretrain": (_BLUE, ""), "finetune": (_ORANGE, ".."), "forget": (_RED, "xx")}


def panels(axes: Any, rows: int, columns: int, *, sharex: bool | str = True, sharey: bool | str = False) -> Any:
    """Replace one pair of axes by a grid of them, as an array of rows."""
    figure = axes.figure
    axes.remove()
    return figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey)


def line(axes: Any, places: Mapping[float, Spread | None], look: Look, label: str) -> None:
    """Draw what was measured as a line with its spreads; nothing where nothing was."""
    known = {x: one for x, one in places.items() if one is not None}
    if known:
        means, spreads = [one.mean for one in known.values()], [one.std for one in known.values()]
        bars = {"yerr": spreads, "capsize": 2, "elinewidth": 0.8}
        axes.errorbar(list(known), means, linestyle=look.line, linewidth=1.6, label=label, **look.marks, **bars)


def level(axes: Any, found: Spread | None, look: Look, label: str) -> None:
    """Draw a figure as a level line."""
    if found is not None:
        axes.axhline(found.mean, color=look.color, linestyle=look.line, linewidth=1.3, label=label, zorder=1)


def tidied(axes: Any) -> None:
    """Take away what tells nothing; say so where there is nothing to see."""
    axes.grid(which="major", color="#dddddd", linewidth=0.6)
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
        look = {"loc": "outside lower center", "frameon": False, "fontsize": 9}
        figure.legend(found.values(), found.keys(), ncols=columns, **look)


def title(t: str, more: str = "") -> str:
    """Return the title of a set's panel, with what utility means there."""
    return f"{SETS[t]}{more} ({'AUC, %' if t == 'credit' else 'accuracy, %'})"


def below(axes: Any, lines: Sequence[str]) -> None:
    """Name in the picture what lies below it, so that the rest can be told apart."""
    if lines:
        place = {"transform": axes.transAxes, "ha": "right", "va": "bottom"}
        axes.text(0.98, 0.02, "below: " + "\n".join(lines), fontsize=8, color=_GREY, **place)


def ticks(axes: Any, values: Iterable[float], labels: Iterable[str]) -> None:
    """Mark exactly these places on the horizontal axis."""
    axes.set_xticks(list(values), list(labels))
    axes.xaxis.set_minor_locator(axes.xaxis.get_major_locator().__class__([]))
