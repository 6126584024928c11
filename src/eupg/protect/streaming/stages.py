"""The stages of streaming protection, each a list of independent tasks.

Survey counts the rows and takes a sample. Route writes each chunk's rows in the order of their cells. Group reads one
cell from all chunks, forms groups of at least k rows, permutes each quasi-identifier inside its group, and deals the
rows to parts at random. Shuffle reads one part from all cells and puts it into random order. Dealing rows to parts at
random and then shuffling each part draws every order of all rows with the same probability.

Tasks are small and name files. All files lie in one folder, hold records, and are erased with it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Attribute, Column, Listed
from eupg.data.date import Date
from eupg.data.schema import Schema
from eupg.errors import DataError, PrivacyError
from eupg.protect.microaggregation.groups import Groups
from eupg.protect.microaggregation.mdav import partitioned_mdav
from eupg.protect.streaming.chunks import Chunk, TableColumns
from eupg.protect.streaming.cut_tree import PER_CELL, CutTree
from eupg.protect.streaming.geometry import ColumnStatistics, Geometry, quasi_identifiers
from eupg.protect.streaming.kernel import Places, Points, constant_groups, permuted, squares
from eupg.protect.streaming.packed import (
    Slice,
    Sorted,
    packed,
    read_rows,
    row_layout,
    unpacked,
    write_sorted,
    written_aside,
)
from eupg.rng import Randomness

# Coordinates that are held at once, in single precision.
_NUMBERS = 1 << 27
# Rows that are grouped at once within a cell.
_GROUPED_AT_ONCE = 100_000


def group_rows(points: Points, k: int) -> Groups:
    """Return the group of each row of a cell, at least ``k`` rows per group."""
    return partitioned_mdav(points, k, cell=max(_GROUPED_AT_ONCE, 2 * k))


@dataclass(frozen=True)
class StreamSettings:
    """What a run is about: the columns, k, where its files lie, and how large cells and parts are."""

    schema: Schema
    k: int
    folder: str
    cell: int
    part: int

    @property
    def columns(self) -> TableColumns:
        """The columns that are read."""
        return TableColumns(self.schema)


@dataclass(frozen=True)
class Survey:
    """What one chunk, or a whole table, holds: its number of rows, statistics of its columns, and files of a sample."""

    rows: int
    statistics: tuple[ColumnStatistics, ...]
    samples: tuple[str, ...]

    def plus(self, other: Survey) -> Survey:
        """Return the survey of both."""
        pairs = zip(self.statistics, other.statistics, strict=True)
        return Survey(self.rows + other.rows, tuple(a.plus(b) for a, b in pairs), (*self.samples, *other.samples))


def survey_chunk(settings: StreamSettings, chunk: Chunk) -> Survey:
    """Check every value of a chunk, count, and write a sample of its rows."""
    columns = settings.columns.read(chunk)
    statistics = tuple(ColumnStatistics.of(a, c) for a, c in zip(settings.columns.attributes, columns, strict=True))
    chosen = _is_sampled(chunk, max(1, settings.cell // PER_CELL))
    path = Path(settings.folder) / f"sample-{chunk.first:012}.npy"
    with written_aside(path) as aside, aside.open("wb") as file:
        np.save(file, np.stack([column[chosen] for column in columns]))
    return Survey(chunk.rows, statistics, (str(path),))


def _is_sampled(chunk: Chunk, every: int) -> NDArray[np.bool_]:
    """Choose one row in ``every`` by a fixed scramble of its number, which no order of the table can follow."""
    x = np.arange(chunk.first, chunk.first + chunk.rows, dtype=np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x + np.uint64(0x9E3779B97F4A7C15)) ^ (x >> np.uint64(shift))
        x *= np.uint64(factor)
    x ^= x >> np.uint64(31)
    return np.asarray(x % np.uint64(every) == 0)


@dataclass(frozen=True, eq=False)
class Routing:
    """How the rows of a surveyed table are stored, placed and cut."""

    settings: StreamSettings
    statistics: tuple[ColumnStatistics, ...]
    tree: CutTree
    rows: int

    @classmethod
    def of(cls, settings: StreamSettings, survey: Survey) -> Routing:
        """Grow the tree of cuts from the sample."""
        sample = np.concatenate([np.load(path) for path in survey.samples], axis=1)
        geometry = Geometry(settings.schema, survey.statistics[:-1])
        sample = sample[:, :: -(-sample.shape[1] * max(1, geometry.width) // _NUMBERS)]
        most = settings.cell * sample.shape[1] / max(1, survey.rows)
        tree = CutTree.grow(geometry.points(list(sample)), max(most, 2.0))
        return cls(settings, survey.statistics, tree, survey.rows)

    @property
    def geometry(self) -> Geometry:
        """Where rows lie."""
        return Geometry(self.settings.schema, self.statistics[:-1])

    def leaf_of(self, columns: Sequence[Column]) -> NDArray[np.int32]:
        """Return the leaf of each row, with the coordinates of some rows at a time: many categories are wide."""
        geometry, rows = self.geometry, len(columns[0])
        step = max(1, _NUMBERS // (8 * max(1, geometry.width)))
        parts = [[column[i : i + step] for column in columns] for i in range(0, rows, step)]
        return np.concatenate([self.tree.leaf_of(geometry.points(part)) for part in parts])

    @cached_property
    def parts(self) -> int:
        """Number of parts of the release: a power of two, so that random bits choose one exactly uniformly."""
        return 1 << max(0, (self.rows - 1) // self.settings.part).bit_length()

    @cached_property
    def layout(self) -> np.dtype[Any]:
        """How one row is stored."""
        return row_layout(self.settings.columns.attributes, [s.single for s in self.statistics])


def route_chunk(plan: Routing, chunk: Chunk) -> Sorted:
    """Write the rows of a chunk in the order of their cells."""
    columns = plan.settings.columns.read(chunk)
    leaf = plan.leaf_of(columns)
    path = Path(plan.settings.folder) / f"routed-{chunk.first:012}"
    return write_sorted(path, packed(plan.settings.columns.attributes, columns, plan.layout), leaf, plan.tree.leaves)


def cells_of(plan: Routing, routed: Sequence[Sorted]) -> list[tuple[Slice, ...]]:
    """Return the rows of each cell, at least k and about as many as wanted.

    A leaf with too few rows is joined to the leaves that follow it. A leaf with too many, whose rows no cut could tell
    apart, is divided in the order of arrival.
    """
    k, size = plan.settings.k, plan.settings.cell
    if plan.rows < k:
        raise DataError(f"k={k} needs at least {k} records, got {plan.rows}: lower k or protect more records together")
    if sum(int(file.counts.sum()) for file in routed) != plan.rows:
        raise DataError("the table changed while it was read: repeat the run once nothing writes to it")
    cells: list[tuple[Slice, ...]] = []
    waiting: list[Slice] = []
    for leaf in zip(*(file.slices() for file in routed), strict=True):
        waiting += [piece for piece in leaf if piece.rows]
        total = sum(piece.rows for piece in waiting)
        if total >= k:
            cells += _divided(waiting, max(1, round(total / size)) if total > 2 * size else 1)
            waiting = []
    if waiting:
        cells[-1] = (*cells[-1], *waiting)
    return cells


def _divided(pieces: Sequence[Slice], count: int) -> Iterator[tuple[Slice, ...]]:
    """Divide consecutive rows into this many parts of nearly equal size."""
    total = sum(piece.rows for piece in pieces)
    ends = [total * (i + 1) // count for i in range(count)]
    part: list[Slice] = []
    seen = 0
    for piece in pieces:
        first, left = piece.first, piece.rows
        while left:
            take = min(left, ends[0] - seen)
            part.append(Slice(piece.path, first, take))
            first, left, seen = first + take, left - take, seen + take
            if seen == ends[0]:
                yield tuple(part)
                part, ends = [], ends[1:]


@dataclass(frozen=True, eq=False)
class Grouped:
    """A protected cell: its rows in the order of their parts, and figures of all its groups together.

    ``shared`` counts, for each attribute that is not permuted, the rows in groups with a single value of it.
    """

    file: Sorted
    groups: int
    smallest: int
    squares: float
    shared: Mapping[str, int]


@dataclass(frozen=True)
class CellTask:
    """One cell, and its own randomness."""

    number: int
    slices: tuple[Slice, ...]
    rng: Randomness


def group_cell(plan: Routing, task: CellTask) -> Grouped:
    """Group the rows of a cell, permute each quasi-identifier inside its group, and deal the rows to parts."""
    settings = plan.settings
    rows = read_rows(task.slices, plan.layout)
    points = plan.geometry.points(unpacked(settings.columns.attributes, rows))
    groups = group_rows(points, settings.k)
    order = np.argsort(groups, kind="stable")
    rows, groups, points = rows[order], groups[order], points[order]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(groups)) + 1, [len(rows)]])
    smallest = int(np.diff(starts).min())
    if smallest < settings.k:
        raise PrivacyError(
            f"a group of {smallest} records was formed, expected at least {settings.k}: report this error"
        )
    chosen = quasi_identifiers(settings.schema)
    for j in chosen:
        rows[f"c{j}"] = rows[f"c{j}"][_uniform(task.rng.stage(f"attribute {j}"), starts)]
    names = settings.columns.names
    shared = {
        names[j]: int(constant_groups(np.ascontiguousarray(rows[f"c{j}"]), starts))
        for j in range(len(names))
        if j not in chosen
    }
    deal = task.rng.stage("part").words(len(rows)) >> np.uint64(63 - (plan.parts - 1).bit_length())
    path = Path(settings.folder) / f"grouped-{task.number:06}"
    file = write_sorted(path, rows, deal.astype(np.int64), plan.parts)
    return Grouped(file, len(starts) - 1, smallest, float(squares(points, starts)), shared)


def _uniform(rng: Randomness, starts: Places) -> Places:
    """Draw a uniform permutation inside each group: position i receives the value of the answer's entry i."""
    source = np.empty(int(starts[-1]), np.int64)
    while not permuted(rng.words(len(source)), starts, source):
        pass
    return source


@dataclass(frozen=True)
class PartTask:
    """One part of the release, and its own randomness."""

    path: str
    slices: tuple[Slice, ...]
    rng: Randomness


def shuffle_part(plan: Routing, task: PartTask) -> int:
    """Put the rows of a part into random order, write it as Parquet, and return their number."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = read_rows(task.slices, plan.layout)
    rows = rows[_uniform(task.rng.stage("order"), np.array([0, len(rows)]))]
    attributes = plan.settings.columns.attributes
    table = pa.table({a.name: _shown(a, rows[f"c{j}"]) for j, a in enumerate(attributes)})
    listed = [a.name for a in attributes if isinstance(a, Listed)]
    aside = Path(plan.settings.folder) / f"part-{secrets.token_hex(8)}"
    aside.touch(mode=0o600)
    pq.write_table(table, aside, compression="lz4", use_dictionary=listed)
    with aside.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(aside, task.path)
    return len(rows)


def _shown(attribute: Attribute, column: NDArray[Any]) -> Any:
    """Return a stored column as people read it."""
    import pyarrow as pa

    if isinstance(attribute, Listed):
        codes = pa.array(column.astype(np.int32), mask=column == len(attribute.categories))
        return pa.DictionaryArray.from_arrays(codes, pa.array(attribute.categories, pa.string()))
    column = np.ascontiguousarray(column)
    empty = np.isnan(column)
    if isinstance(attribute, Date):
        moments = np.where(empty, 0, np.round(column.astype(np.float64) * 86_400_000_000)).astype(np.int64)
        return pa.array(moments, mask=empty).cast(pa.timestamp("us"))
    return pa.array(column, mask=empty)
