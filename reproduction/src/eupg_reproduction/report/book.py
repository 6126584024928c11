"""The results file as a book of figures: looked up by configuration, summed up over repetitions, missing if missing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from eupg.errors import DataError
from eupg_reproduction.cell import Cell, Value
from eupg_reproduction.experiment import Experiment, Grid
from eupg_reproduction.experiments import EXPERIMENTS, experiment
from eupg_reproduction.report.linkage import Linkage
from eupg_reproduction.results import Result
from eupg_reproduction.spread import Spread

if TYPE_CHECKING:
    from eupg_reproduction.report.picture_search import Searched

REPEATS = 5
Where = Mapping[str, Value]


class Book:
    """Finds the figures of a configuration in all its repetitions.

    Parameters
    ----------
    results
        What counts of a results file: one result a cell.
    linkage
        What blocks of pictures show, by size of a block; see :mod:`eupg_reproduction.report.linkage`.
    searched
        What recipes for pictures gave on held-out ones; see :mod:`eupg_reproduction.report.picture_search`.
    torn
        How many lines of the file were cut off.
    """

    def __init__(
        self,
        results: Iterable[Result],
        *,
        linkage: Mapping[int, Linkage] | None = None,
        searched: Searched | None = None,
        torn: int = 0,
    ) -> None:
        self.linkage, self.searched, self.torn = dict(linkage or {}), searched, torn
        self.results = {result.cell.key: result for result in results}
        self._runs: dict[str, dict[int, Result]] = {}
        for result in self.results.values():
            if result.cell.repetition < REPEATS:
                self._runs.setdefault(_name(result.cell.config), {})[result.cell.repetition] = result

    def runs(self, where: Where) -> list[Result]:
        """Return the results of a configuration, by repetition; none where it was not measured."""
        found, most = self._runs.get(_name(where), {}), asked(where) or REPEATS
        return [found[number] for number in sorted(found) if number < most]

    def values(self, where: Where, figure: str) -> list[float]:
        """Return a figure of all repetitions; ``after.audit.auc`` is that part of a part, ``seconds.forget`` a time."""
        found = [_part(result, figure) for result in self.runs(where)]
        return [value for value in found if value is not None]

    def spread(self, where: Where, figure: str) -> Spread | None:
        """Return mean and standard deviation of a figure; None where nothing was measured."""
        values = self.values(where, figure)
        return Spread.of(values) if values else None

    def missing(self, name: str) -> list[Cell]:
        """Return the cells of an experiment that were not measured."""
        return [cell for cell in experiment(name).cells(REPEATS) if cell.key not in self.results]

    def used(self) -> list[Result]:
        """Return the results that the report is made of, all experiments but the smoke test."""
        return [result for key, result in self.results.items() if key in _wanted()]

    def lacking(self) -> int:
        """Return how many cells of the report were not measured."""
        return len(_wanted()) - len(self.used())


@cache
def _wanted() -> frozenset[str]:
    return frozenset(cell.key for one in measured() for cell in one.cells(REPEATS))


def asked(where: Where) -> int:
    """Return how many repetitions of a configuration the experiments ask for; 0 where none of them has it."""
    return _counts().get(_name(where), 0)


@cache
def _counts() -> Mapping[str, int]:
    # Experiments share cells: the one that asks for most repetitions counts.
    cells = {cell.key: cell for one in measured() for cell in one.cells(REPEATS)}
    return Counter(_name(cell.config) for cell in cells.values())


def measured() -> list[Experiment]:
    """Return the experiments of the report."""
    return [one for one in EXPERIMENTS if one.name != "smoke"]


def place(grid: Grid, table: str, model: str, method: str, changed: Where | None = None) -> dict[str, Value]:
    """Return the configuration of one place in a grid; what the grid sweeps must be given."""
    settings = dict(grid.settings) | dict(changed or {})
    swept = [name for name, value in settings.items() if isinstance(value, tuple)]
    if swept:
        raise DataError(f"{swept[0]!r} is swept here: say which value is meant")
    plain: dict[str, Value] = {k: v for k, v in settings.items() if not isinstance(v, tuple)}
    return {"kind": grid.kind, "set": table, "model": model, "method": method, **plain}


def _name(config: Where) -> str:
    return json.dumps({k: v for k, v in config.items() if k != "repetition"}, sort_keys=True)


def _part(result: Result, figure: str) -> float | None:
    """Return a figure of a result; None where it was not taken, as a method has no time of a phase it lacks."""
    found: Any = {**result.metrics, "seconds": result.seconds}
    for name in figure.split("."):
        if not isinstance(found, dict) or name not in found:
            return None
        found = found[name]
    return float(found)
