"""One model's part of a grid: its figures by set and method, differences between methods, and who beats whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from eupg_reproduction.cell import Value
from eupg_reproduction.experiment import Grid
from eupg_reproduction.report.book import REPEATS, Book, Where, asked, place
from eupg_reproduction.report.versus import Pair, verdict
from eupg_reproduction.report.words import SETS, shown
from eupg_reproduction.spread import Spread

SHORT = "Short retrain"
UTILITY = "after.utility"


@dataclass(frozen=True)
class View:
    """Looks up one model in a grid.

    Parameters
    ----------
    book, grid, model
        Where to look.
    changed
        Values of the settings that the grid sweeps.
    """

    book: Book
    grid: Grid
    model: str
    changed: Where = field(default_factory=dict)

    def where(self, table: str, method: str) -> dict[str, Value]:
        """Return a configuration."""
        return place(self.grid, table, self.model, method, self.changed)

    def spread(self, table: str, method: str, figure: str = UTILITY) -> Spread | None:
        """Return a figure; by default utility after forgetting."""
        return self.book.spread(self.where(table, method), figure)

    def repeats(self, table: str, method: str) -> int:
        """Return how many repetitions there are to be."""
        return asked(self.where(table, method)) or REPEATS

    def shown(self, table: str, method: str, figure: str = UTILITY, decimals: int = 2) -> str:
        """Show a figure with its spread and its repetitions."""
        return shown(self.spread(table, method, figure), decimals, of=self.repeats(table, method))

    def means(self, method: str, figure: str = UTILITY) -> list[float | None]:
        """Return a method's means, one a set."""
        found = [self.spread(table, method, figure) for table in self.grid.sets]
        return [None if one is None else one.mean for one in found]

    def differences(self, method: str, other: str, figure: str = UTILITY) -> list[float | None]:
        """Return how far a method lies above another, one a set."""
        return [above(*(self.spread(t, m, figure) for m in (method, other))) for t in self.grid.sets]

    def control(self, methods: Iterable[str], other: str = SHORT, figure: str = UTILITY) -> str:
        """Say of each method where its control beats it."""
        return sentences(
            verdict(
                m, [Pair(SETS[t], self.spread(t, m, figure), self.spread(t, other, figure)) for t in self.grid.sets]
            )
            for m in methods
        )


def above(one: Spread | None, other: Spread | None) -> float | None:
    """Return how far a mean lies above another; None where one is missing."""
    return None if one is None or other is None else one.minus(other)


def sentences(verdicts: Iterable[str]) -> str:
    """Put verdicts one after another, a line of a list each."""
    return "\n".join(f"  - {one}." for one in verdicts)


def flat(values: Sequence[Sequence[float | None]]) -> list[float | None]:
    """Put lists of values together."""
    return [value for some in values for value in some]
