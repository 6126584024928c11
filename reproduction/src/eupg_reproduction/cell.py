"""Cells, the smallest units of measurement, and jobs, which measure several cells together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eupg.errors import DataError

Value = str | int | float
_OWN = ("kind", "set", "model", "method", "repetition")


@dataclass(frozen=True)
class Cell:
    """One repetition of one method: the smallest unit that is measured and stored.

    Parameters
    ----------
    kind
        What is measured: one of the kinds in :mod:`eupg_reproduction.kinds`.
    set, model, method
        The data set, the model and the method, by the names of :mod:`eupg_reproduction.methods`.
    settings
        All other settings, sorted by name.
    repetition
        The number of the draw of randomness and requests, from 0.

    Examples
    --------
    >>> a = Cell.of({"kind": "quality", "set": "adult", "model": "mlp", "method": "Retrain", "repetition": 0, "b": 1})
    >>> b = Cell.of({"b": 1, "repetition": 0, "method": "Retrain", "model": "mlp", "set": "adult", "kind": "quality"})
    >>> a.key == b.key, str(a)
    (True, 'quality adult mlp Retrain b=1 #0')
    """

    kind: str
    set: str
    model: str
    method: str
    settings: tuple[tuple[str, Value], ...]
    repetition: int

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Cell:
        """Make a cell of its plain form."""
        missing = [name for name in _OWN if name not in config]
        if missing:
            raise DataError(f"a cell needs {', '.join(_OWN)}, but {missing[0]!r} is missing from {dict(config)!r}")
        settings = tuple(sorted((k, v) for k, v in config.items() if k not in _OWN))
        return cls(
            config["kind"], config["set"], config["model"], config["method"], settings, int(config["repetition"])
        )

    @property
    def config(self) -> dict[str, Value]:
        """The plain form, which is hashed and written with the figures."""
        return {name: getattr(self, name) for name in _OWN} | dict(self.settings)

    @property
    def key(self) -> str:
        """The hash of the configuration, which identifies a result."""
        text = json.dumps(self.config, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def get(self, name: str) -> Any:
        """Return a setting."""
        return dict(self.settings)[name]

    def has(self, name: str) -> bool:
        """Return whether there is such a setting."""
        return name in dict(self.settings)

    def __str__(self) -> str:
        """Return the name of the cell, for people and filters."""
        settings = "".join(f"{name}={value} " for name, value in self.settings)
        return f"{self.kind} {self.set} {self.model} {self.method} {settings}#{self.repetition}"


@dataclass(frozen=True)
class Job:
    """Cells of one kind that share work, such as reference models or a base model."""

    cells: tuple[Cell, ...]

    @property
    def kind(self) -> str:
        """What is measured."""
        return self.cells[0].kind

    def __str__(self) -> str:
        """Return the name of the first cell and the number of others."""
        more = f" and {len(self.cells) - 1} more" if len(self.cells) > 1 else ""
        return f"{self.cells[0]}{more}"


def group(cells: Iterable[Cell], together: Mapping[str, frozenset[str]]) -> list[Job]:
    """Group cells into jobs: those of one kind that differ only in the settings ``together`` of that kind."""
    jobs: dict[str, list[Cell]] = {}
    for cell in cells:
        apart = {k: v for k, v in cell.config.items() if k not in together[cell.kind]}
        jobs.setdefault(json.dumps(apart, sort_keys=True), []).append(cell)
    return [Job(tuple(mine)) for mine in jobs.values()]


def matches(cell: Cell, filters: Sequence[str]) -> bool:
    """Return whether a cell passes all filters: ``name=value`` of its plain form, or a part of its name.

    Examples
    --------
    >>> cell = Cell("quality", "adult", "mlp", "EUPG k=30", (("forget", 0.05),), 1)
    >>> [matches(cell, [f]) for f in ("set=adult", "forget=0.05", "EUPG", "method=EUPG", "repetition=1")]
    [True, True, True, False, True]
    """
    config = cell.config
    for one in filters:
        name, _, value = one.partition("=")
        if name in config:
            if str(config[name]) != value:
                return False
        elif one not in str(cell):
            return False
    return True
