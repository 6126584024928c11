"""Rows in files of a run: each column in the smallest type that holds it exactly, so that tasks read few bytes.

The files hold records. They lie in the folder of a run, and are erased with it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Attribute, Column, Listed
from eupg.errors import StorageError

Rows = NDArray[np.void]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Slice:
    """Consecutive rows of a file."""

    path: str
    first: int
    rows: int


@dataclass(frozen=True, eq=False)
class Sorted:
    """A file of rows in the order of a number, such as that of their cell, and how many rows each number has."""

    path: str
    counts: Places

    def slices(self) -> list[Slice]:
        """Return the rows of each number."""
        starts = np.concatenate([[0], np.cumsum(self.counts)])
        return [Slice(self.path, int(a), int(b - a)) for a, b in pairwise(starts)]


def row_layout(attributes: Sequence[Attribute], single: Sequence[bool]) -> np.dtype[Any]:
    """Return how one row is stored; ``single`` says where single precision holds every number exactly."""
    types = [_column_type(a, single=s) for a, s in zip(attributes, single, strict=True)]
    return np.dtype([(f"c{j}", kind) for j, kind in enumerate(types)])


def is_single(column: Column) -> bool:
    """Tell whether single precision holds every number of a column exactly."""
    return bool(((column.astype(np.float32) == column) | np.isnan(column)).all())


def packed(attributes: Sequence[Attribute], columns: Sequence[Column], layout: np.dtype[Any]) -> Rows:
    """Store columns as rows."""
    rows = np.empty(len(columns[0]), dtype=layout)
    for j, (attribute, column) in enumerate(zip(attributes, columns, strict=True)):
        missing = len(attribute.categories) if isinstance(attribute, Listed) else np.nan
        rows[f"c{j}"] = np.where(np.isnan(column), missing, column)
    return rows


def unpacked(attributes: Sequence[Attribute], rows: Rows) -> list[Column]:
    """Return the columns of stored rows."""
    return [unpacked_column(attribute, rows[f"c{j}"]) for j, attribute in enumerate(attributes)]


def unpacked_column(attribute: Attribute, column: NDArray[Any]) -> Column:
    """Return one column of stored rows."""
    values = column.astype(np.float64)
    if isinstance(attribute, Listed):
        values[column == len(attribute.categories)] = np.nan
    return values


def write_sorted(path: Path, rows: Rows, number: NDArray[np.integer[Any]], numbers: int) -> Sorted:
    """Write rows in the order of a number below ``numbers``; rows of the same number stay in order."""
    # Radix sort, which NumPy has for short integers only.
    key = number.astype(np.uint16) if numbers <= 1 << 16 else number
    order = np.argsort(key, kind="stable")
    with written_aside(path) as aside:
        rows[order].tofile(aside)
    return Sorted(str(path), np.bincount(number, minlength=numbers).astype(np.int64))


def read_rows(slices: Sequence[Slice], layout: np.dtype[Any]) -> Rows:
    """Return the rows of several slices, one after the other."""
    rows = np.empty(sum(piece.rows for piece in slices), dtype=layout)
    at = 0
    view = rows.view(np.uint8).data
    for piece in slices:
        size = piece.rows * layout.itemsize
        with open(piece.path, "rb", buffering=0) as file:
            file.seek(piece.first * layout.itemsize)
            if file.readinto(view[at : at + size]) != size:
                raise StorageError("a file of the run is shorter than it was written: check the disk, and repeat")
        at += size
    return rows


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """Give a name beside ``path`` to write to, which takes its place at the end: a killed task leaves no half."""
    aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    yield aside
    os.replace(aside, path)


def _column_type(attribute: Attribute, *, single: bool) -> np.dtype[Any]:
    """Return the smallest type that holds every value of a column exactly; a missing category is the largest code."""
    if isinstance(attribute, Listed):
        return np.min_scalar_type(len(attribute.categories))
    return np.dtype(np.float32 if single else np.float64)
