"""Cells: each group divides all possible records, and a record lies in at most one cell per group.

A group is a grid over one attribute, or a tree of a few questions. Cells are described by plain numbers, so that a
model file holds them without code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Matrix
from eupg.errors import DataError

Codes = NDArray[np.int32]
_DEEPEST = 16


class NumberedCells(Protocol):
    """Cells that are numbered through, whatever they are made of."""

    @property
    def count(self) -> int:
        """Number of cells."""

    def codes(self, X: Matrix) -> Codes:
        """Return the cells of each record, one column per group; :attr:`count` stands for none."""


@dataclass(frozen=True)
class Grid:
    """Cells of one attribute: the numbers between two neighbouring edges; for categories, one cell per category.

    Parameters
    ----------
    column
        The attribute's position among the features.
    edges
        Ascending numbers; a value on an edge belongs to the cell above it.
    missing
        Whether a missing value has a cell of its own, the last. Without one, such a record lies in no cell.
    """

    column: int
    edges: tuple[float, ...]
    missing: bool = False

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.edges) + 1 + self.missing

    def codes(self, X: Matrix) -> NDArray[np.int64]:
        """Return each record's cell, or −1."""
        values = X[:, self.column]
        codes = np.searchsorted(np.asarray(self.edges, dtype=np.float64), values, side="right")
        return np.where(np.isnan(values), self.size - 1 if self.missing else -1, codes)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"column": self.column, "edges": list(self.edges), "missing": self.missing}


@dataclass(frozen=True)
class Question:
    """A question about one attribute: whether a number is at least ``cut``, or a category is one of ``categories``."""

    column: int
    cut: float | None = None
    categories: tuple[int, ...] = ()

    def passed(self, X: Matrix) -> NDArray[np.bool_]:
        """Tell for each record whether it passes; a missing value does not."""
        values = X[:, self.column]
        return np.isin(values, self.categories) if self.cut is None else values >= self.cut

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"column": self.column, "cut": self.cut, "categories": list(self.categories)}


@dataclass(frozen=True)
class Tree:
    """Cells by the answers to a few questions, which are all asked; without questions, one cell for all records."""

    questions: tuple[Question, ...] = ()

    @property
    def size(self) -> int:
        """Number of leaves."""
        return int(2 ** len(self.questions))

    def codes(self, X: Matrix) -> NDArray[np.int64]:
        """Return each record's leaf."""
        codes = np.zeros(len(X), dtype=np.int64)
        for question in self.questions:
            codes = 2 * codes + question.passed(X)
        return codes

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"questions": [question.to_json() for question in self.questions]}


Group = Grid | Tree


@dataclass(frozen=True)
class LeafCells:
    """The cells of several groups, numbered consecutively."""

    groups: tuple[Group, ...]

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of cells of each group."""
        return np.array([group.size for group in self.groups], dtype=np.int64)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Number of the first cell of each group."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)

    @property
    def count(self) -> int:
        """Number of cells of all groups."""
        return int(self.sizes.sum())

    def codes(self, X: Matrix) -> Codes:
        """Return the cells of each record, one column per group; :attr:`count` stands for none."""
        out = np.empty((len(X), len(self.groups)), dtype=np.int32)
        for number, (group, offset) in enumerate(zip(self.groups, self.offsets, strict=True)):
            codes = group.codes(X)
            out[:, number] = np.where(codes < 0, self.count, codes + offset)
        return out

    def parts(self, values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return values of all cells as one array per group."""
        return np.split(values, self.offsets[1:])

    def to_json(self) -> list[dict[str, Any]]:
        """Return plain values that :meth:`from_json` reads back."""
        return [group.to_json() for group in self.groups]

    @classmethod
    def from_json(cls, values: Any, columns: int) -> LeafCells:
        """Read cells of a table with this many columns; anything else is an error."""
        if not isinstance(values, list) or not values:
            raise DataError(f"expected a list of groups of cells, got {values!r:.60}")
        return cls(tuple(_group(value, columns) for value in values))


def _group(value: Any, columns: int) -> Group:
    if not isinstance(value, Mapping):
        raise DataError(f"expected a group of cells, got {value!r:.60}")
    if set(value) == {"questions"} and isinstance(value["questions"], list) and len(value["questions"]) <= _DEEPEST:
        return Tree(tuple(_question(question, columns) for question in value["questions"]))
    if set(value) == {"column", "edges", "missing"} and type(value["missing"]) is bool:
        edges = value["edges"]
        if isinstance(edges, list) and all(map(_number, edges)) and edges == sorted(set(edges)):
            return Grid(_column(value, columns), tuple(map(float, edges)), value["missing"])
    raise DataError(
        f"expected a grid with ascending edges, or a tree of at most {_DEEPEST} questions, got {value!r:.60}"
    )


def _question(value: Any, columns: int) -> Question:
    if isinstance(value, Mapping) and set(value) == {"column", "cut", "categories"}:
        cut, categories = value["cut"], value["categories"]
        listed = isinstance(categories, list) and all(type(c) is int for c in categories)
        if listed and (cut is None or _number(cut)):
            return Question(_column(value, columns), None if cut is None else float(cut), tuple(categories))
    raise DataError(f"expected a question with a column and a cut or categories, got {value!r:.60}")


def _column(value: Mapping[str, Any], columns: int) -> int:
    column = value["column"]
    if type(column) is not int or not 0 <= column < columns:
        raise DataError(f"expected a column from 0 to {columns - 1}, got {column!r:.60}")
    return column


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and bool(np.isfinite(value))
