"""Records in files, larger than memory: the counts of a synthesis, added up over parts by an executor.

Counts are whole numbers, so they are those of the whole table in memory, whatever the parts and wherever they are
counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations

import numpy as np

from eupg.data.schema import Schema
from eupg.executor.executor import Executor, added_up
from eupg.protect.cells import Cells
from eupg.protect.streaming.record_parts import RecordPart
from eupg.protect.synthesis.marginals import Codes, Counts
from eupg.protect.synthesis.questions import Binned, ColumnCounts, Feature, Pair, column_counts

# Counts of pairs that one answer holds: enough for all pairs of 60 features.
_NUMBERS = 1 << 22


@dataclass(frozen=True)
class StreamedTable:
    """Records in the parts of a run."""

    schema: Schema
    parts: Sequence[RecordPart]
    executor: Executor

    def __len__(self) -> int:
        """Return the number of records."""
        return sum(part.rows for part in self.parts)

    def column(self, number: int) -> ColumnCounts:
        """Return what counts the records by one feature."""
        return partial(self._count, number)

    def pairs(self, features: Mapping[int, Feature], singles: list[Counts]) -> StreamedPairs:
        """Return what counts the records by two of these features."""
        return StreamedPairs(self, features, singles)

    def _count(self, number: int, cells: Cells, bin_of: Codes, classes: int) -> Codes:
        if not self.parts:
            return np.zeros((int(bin_of.max()) + 1, classes), dtype=np.int64)
        return added_up(self.executor, partial(_column, number, cells, bin_of, classes), self.parts)


@dataclass(frozen=True, eq=False)
class StreamedPairs:
    """Counts of pairs of features, many pairs in one reading of the records; those counted last are remembered."""

    table: StreamedTable
    features: Mapping[int, Feature]
    singles: list[Counts]
    known: dict[Pair, Codes] = field(default_factory=dict)

    def counts(self, pair: Pair) -> Codes:
        """Return the number of records in each class, bin of the first feature and bin of the second."""
        if pair not in self.known:
            self.known.clear()
            self.known.update(self._count(self._from(pair)))
        return self.known[pair]

    def _from(self, pair: Pair) -> list[Pair]:
        """Return this pair and those that follow it, as many as fit into one answer."""
        pairs = list(combinations(range(len(self.singles)), 2))
        pairs = pairs[pairs.index(pair) :]
        sizes = np.cumsum([int(np.prod(self._shape(each))) for each in pairs])
        return pairs[: max(1, int(np.searchsorted(sizes, _NUMBERS, side="right")))]

    def _shape(self, pair: Pair) -> tuple[int, int, int]:
        (i, j), classes = pair, self.singles[0].shape[1]
        return classes, len(self.singles[i]), len(self.singles[j])

    def _count(self, pairs: list[Pair]) -> dict[Pair, Codes]:
        shapes = [self._shape(pair) for pair in pairs]
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        total = np.zeros(int(ends[-1]), dtype=np.int64)
        if self.table.parts:
            work = partial(_pairs, self.features, self.singles, pairs)
            total = added_up(self.table.executor, work, self.table.parts)
        split = np.split(total, ends[:-1])
        return {pair: part.reshape(shape) for pair, part, shape in zip(pairs, split, shapes, strict=True)}


def _column(number: int, cells: Cells, bin_of: Codes, classes: int, part: RecordPart) -> Codes:
    return column_counts(part.column(number), part.labels(), cells, bin_of, classes)


def _pairs(features: Mapping[int, Feature], singles: list[Counts], pairs: list[Pair], part: RecordPart) -> Codes:
    X, y, _ = part.read()
    binned = Binned([feature.code(X[:, j]) for j, feature in features.items()], y, singles)
    return np.concatenate([binned.counts(pair).ravel() for pair in pairs])
