"""The results file as one tidy table: a row per figure of a cell, looked up by configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from eupg.errors import DataError
from eupg_reproduction.cell import Cell, Value
from eupg_reproduction.experiment import Experiment
from eupg_reproduction.experiments import EXPERIMENTS, experiment
from eupg_reproduction.results import Result, read
from eupg_reproduction.spread import Spread

if TYPE_CHECKING:
    from eupg_reproduction.report.base_files import Run
    from eupg_reproduction.report.picture_files import Linkage, Searched

REPEATS = 5
UTILITY, RMIA, FORGET = "after.utility", "after.audit.auc", "seconds.forget"
Where = Mapping[str, Value]


def tidy(results: Iterable[Result]) -> pd.DataFrame:
    """Return one row per figure of a cell: its configuration, the repetition, the name of the figure, its value."""
    rows = []
    for result in results:
        place = {**result.cell.config, "place": name_of(result.cell.config)}
        parts = {**result.metrics, "seconds": result.seconds, "peak_mb": result.line.get("peak_mb")}
        rows += [{**place, "figure": figure, "value": value} for figure, value in _figures(parts)]
    return pd.DataFrame(rows, columns=None if rows else ["place", "repetition", "figure", "value"])


def _figures(parts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers of nested parts by dotted names, such as ``after.audit.auc``."""
    for name, part in parts.items():
        if isinstance(part, dict) and name != "claim":
            yield from _figures(part, f"{prefix}{name}.")
        elif isinstance(part, (bool, int, float)):
            yield f"{prefix}{name}", float(part)


class Measurements:
    """The results of the report, looked up by configuration and figure.

    ``linkage`` and ``searched`` come from the files of :mod:`eupg_reproduction.report.picture_files`, ``bases`` from
    :mod:`eupg_reproduction.report.base_files`; ``torn`` counts the lines of the results file that were cut off.
    """

    def __init__(
        self,
        results: Iterable[Result],
        *,
        linkage: Mapping[int, Linkage] | None = None,
        searched: Searched | None = None,
        bases: Iterable[Run] = (),
        torn: int = 0,
    ) -> None:
        self.bases = list(bases)
        self.linkage, self.searched, self.torn = dict(linkage or {}), searched, torn
        self.results = {result.cell.key: result for result in results}
        self.table = tidy(self.results.values())
        self._figures: dict[tuple[frozenset[tuple[str, Value]], str], dict[int, float]] = {}
        counted = self.table[self.table.repetition < self.table.place.map(lambda p: _counts().get(p) or REPEATS)]
        for place, figure, number, value in counted[["place", "figure", "repetition", "value"]].itertuples(index=False):
            self._figures.setdefault((place, figure), {})[number] = value

    @classmethod
    def read(cls, path: Path) -> Measurements:
        """Read a results file, and the files about pictures and base models beside it."""
        from eupg_reproduction.report.base_files import BASES, read_bases
        from eupg_reproduction.report.picture_files import read_linkage, read_search

        contents = read(path)
        if not contents.newest:
            raise DataError(f"{path} holds no results: run experiments first (eupg-reproduction run), or name a file")
        linkage, searched, bases = read_linkage(path.parent), read_search(path.parent), read_bases(path.parent / BASES)
        return cls(contents.newest.values(), linkage=linkage, searched=searched, bases=bases, torn=contents.torn)

    def values(self, where: Where, figure: str) -> list[float]:
        """Return a figure of all repetitions, in their order; empty if it was not measured."""
        by_repetition = self._figures.get((name_of(where), figure), {})
        return [by_repetition[number] for number in sorted(by_repetition)]

    def spread(self, where: Where, figure: str) -> Spread | None:
        """Return mean and standard deviation of a figure; None if it was not measured."""
        values = self.values(where, figure)
        return Spread.of(values) if values else None

    def at(self, name: str, t: str, model: str, method: str, figure: str = UTILITY, **swept: Value) -> Spread | None:
        """Return a figure of an experiment; by default utility after forgetting."""
        return self.spread(place(name, t, model, method, **swept), figure)

    def used(self) -> list[Result]:
        """Return the results of the report: all experiments except the smoke test."""
        return [result for key, result in self.results.items() if key in _cells()]

    def lacking(self) -> int:
        """Return how many cells of the report were not measured."""
        return len(_cells()) - len(self.used())


def above(one: Spread | None, other: Spread | None) -> float | None:
    """Return the difference of two means, if both are known."""
    return None if one is None or other is None else one.minus(other)


def mean_of(spread: Spread | None) -> float | None:
    """Return the mean, if it is known."""
    return None if spread is None else spread.mean


def reported() -> list[Experiment]:
    """Return the experiments of the report."""
    return [one for one in EXPERIMENTS if one.name != "smoke"]


@cache
def cells(name: str) -> Mapping[str, Cell]:
    """Return the cells of an experiment by their keys."""
    return {cell.key: cell for cell in experiment(name).cells(REPEATS)}


@cache
def _cells() -> Mapping[str, Cell]:
    # Experiments share cells: the one that asks for most repetitions counts.
    return {key: cell for one in reported() for key, cell in cells(one.name).items()}


@cache
def _counts() -> Mapping[frozenset[tuple[str, Value]], int]:
    return Counter(name_of(cell.config) for cell in _cells().values())


def asked(where: Where) -> int:
    """Return how many repetitions of a configuration the experiments ask for; 0 if none of them has it."""
    return _counts().get(name_of(where), 0)


@cache
def places(name: str) -> tuple[dict[str, Value], ...]:
    """Return the configurations of an experiment, each once, without the repetition."""
    configs = (cell.config for cell in experiment(name).cells(1))
    return tuple({key: value for key, value in config.items() if key != "repetition"} for config in configs)


def by_name(name: str, method: str) -> list[dict[str, Value]]:
    """Return the configurations of a method in an experiment."""
    return [one for one in places(name) if one["method"] == method]


def place(name: str, t: str, model: str, method: str, **swept: Value) -> dict[str, Value]:
    """Return the one configuration of an experiment with these settings; ``swept`` must fix what it sweeps."""
    settings = {"set": t, "model": model, "method": method, **swept}
    matching = [one for one in places(name) if settings.items() <= one.items()]
    if len(matching) != 1:
        raise DataError(f"{len(matching)} places of {name} are {t}, {model}, {method}, {swept}: name exactly one")
    return matching[0]


def name_of(config: Where) -> frozenset[tuple[str, Value]]:
    """Return what identifies a configuration, whatever the repetition."""
    return frozenset(item for item in config.items() if item[0] != "repetition")
