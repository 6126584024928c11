"""Experiments: one question each, and the cells that answer it, declared as grids of settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from eupg_reproduction.cell import Cell, Value


@dataclass(frozen=True)
class Grid:
    """All combinations of sets, models, methods and settings; a setting with several values is swept.

    Examples
    --------
    >>> grid = Grid("base", ("heart",), ("xgboost",), ("k=3", "k=10"), {"effort": 100, "references": (4, 8)})
    >>> len(list(grid.cells(range(5))))
    20
    """

    kind: str
    sets: tuple[str, ...]
    models: tuple[str, ...]
    methods: tuple[str, ...]
    settings: Mapping[str, Value | tuple[Value, ...]] = field(default_factory=dict)

    def cells(self, repetitions: Sequence[int]) -> Iterator[Cell]:
        """Yield every cell, one repetition after another."""
        swept = [v if isinstance(v, tuple) else (v,) for v in self.settings.values()]
        for repetition, *place in product(repetitions, self.sets, self.models, self.methods, *swept):
            names = ("set", "model", "method", *self.settings)
            yield Cell.of(dict(zip(names, place, strict=True)) | {"kind": self.kind, "repetition": repetition})


@dataclass(frozen=True)
class Experiment:
    """One question, and the cells that answer it.

    Parameters
    ----------
    name, about
        Its name, and its question.
    grids
        Its cells. Cells that two experiments share are computed once.
    core_minutes
        Minutes on one core for 5 repetitions as a part of ``all``, estimated from one repetition on a 2-core machine.
        Shared cells, reference models and trainings count once, so an experiment run by itself may take longer.
    most_repeats
        The most repetitions, however many are requested.
    gpu
        Whether it needs a GPU; then ``core_minutes`` are minutes on one H200, and ``all`` leaves it out.
    """

    name: str
    about: str
    grids: tuple[Grid, ...]
    core_minutes: float
    most_repeats: int | None = None
    gpu: bool = False

    def cells(self, repeats: int) -> list[Cell]:
        """Return every cell once."""
        count = repeats if self.most_repeats is None else min(repeats, self.most_repeats)
        return list({cell.key: cell for grid in self.grids for cell in grid.cells(range(count))}.values())
