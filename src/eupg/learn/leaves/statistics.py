"""Whole numbers from which a ridge regression on cells follows, and which a record can leave and join.

A record lies in at most one cell of each group, so its features are zeros and ones. The sums of a least-squares fit are
then counts: of records in two cells at once, and of records of each class in a cell. Counts are exact. Those of a table
without some records are the counts of the table less those of the records, whatever happened in between.

Counts are personal data, as the records are: a cell pair that holds one record describes that record.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Labels, Matrix
from eupg.data.schema import Schema
from eupg.errors import DataError, ModelFileError
from eupg.learn.envelope import read_model, write_model
from eupg.learn.leaves.cells import Codes, NumberedCells
from eupg.learn.leaves.counting import count_labels, count_pairs

Whole = NDArray[np.int64]
_FORMAT = "eupg-ridge-statistics-2"
# Rows are counted in parts, so that memory does not grow with their number.
_ROWS = 100_000


@dataclass(frozen=True, eq=False)
class RidgeStatistics:
    """Counts of records by pairs of cells and by class.

    Parameters
    ----------
    pairs
        How many records lie in both of two cells: the upper triangle of a matrix, zeros below it. The diagonal counts
        the records of each cell. There is one matrix per class where there are two classes, else one for all.
    labels
        How many records of each class lie in each cell: one row per cell.
    records
        How many records of each class there are.

    Examples
    --------
    Three records in a group of two cells, numbered 0 and 1, and a group of one cell, numbered 2:

    >>> codes = np.array([[0, 2], [1, 2], [1, 2]], dtype=np.int32)
    >>> three = RidgeStatistics.of(codes, np.array([0, 1, 1]), cells=3, classes=2)
    >>> three.pairs.sum(axis=0).tolist()
    [[1, 0, 1], [0, 2, 2], [0, 0, 3]]
    >>> last = RidgeStatistics.of(codes[2:], np.array([1]), cells=3, classes=2)
    >>> three.minus(last) == RidgeStatistics.of(codes[:2], np.array([0, 1]), cells=3, classes=2)
    True
    """

    pairs: Whole
    labels: Whole
    records: Whole

    def __post_init__(self) -> None:
        for array in (self.pairs, self.labels, self.records):
            array.flags.writeable = False

    @classmethod
    def of(cls, codes: Codes, y: Labels, *, cells: int, classes: int) -> RidgeStatistics:
        """Count records, given the cells of each, one column per group; a code of ``cells`` stands for no cell."""
        pairs = np.zeros((_matrices(classes), cells, cells), dtype=np.int64)
        labels = np.zeros((cells, classes), dtype=np.int64)
        codes, y = np.ascontiguousarray(codes, dtype=np.int32), np.ascontiguousarray(y, dtype=np.int64)
        count_pairs(codes, y, cells, pairs)
        count_labels(codes, y, cells, labels)
        return cls(pairs, labels, np.bincount(y, minlength=classes).astype(np.int64))

    @classmethod
    def count_in(cls, cells: NumberedCells, X: Matrix, y: Labels, *, classes: int) -> RidgeStatistics:
        """Count the records of a table in these cells."""
        total = cls.of(cells.codes(X[:_ROWS]), y[:_ROWS], cells=cells.count, classes=classes)
        for start in range(_ROWS, len(y), _ROWS):
            part = slice(start, start + _ROWS)
            total = total.plus(cls.of(cells.codes(X[part]), y[part], cells=cells.count, classes=classes))
        return total

    @property
    def cells(self) -> int:
        """Number of cells."""
        return len(self.labels)

    @property
    def count(self) -> int:
        """Number of records."""
        return int(self.records.sum())

    def plus(self, others: RidgeStatistics) -> RidgeStatistics:
        """Return the counts with those of further records."""
        self._check_same_cells(others)
        return RidgeStatistics(self.pairs + others.pairs, self.labels + others.labels, self.records + others.records)

    def minus(self, others: RidgeStatistics) -> RidgeStatistics:
        """Return the counts without those of some of the records.

        Records that were never counted are refused where a count would fall below zero. That is the case unless all of
        their pairs of cells occur among the records that were counted.
        """
        self._check_same_cells(others)
        rest = RidgeStatistics(self.pairs - others.pairs, self.labels - others.labels, self.records - others.records)
        if min(array.min(initial=0) for array in (rest.pairs, rest.labels, rest.records)) < 0:
            raise DataError(
                f"{others.count} records were to be subtracted that are not all among the {self.count} counted here: "
                "pass records that were added and not erased since, with the values they were added with"
            )
        return rest

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RidgeStatistics):
            return NotImplemented
        mine, theirs = (self.pairs, self.labels, self.records), (other.pairs, other.labels, other.records)
        return all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def save(self, path: str | Path, schema: Schema) -> None:
        """Write the counts to one file with a digest.

        The file holds counts of the records and has to be protected, and deleted after an erasure, as they are.
        """
        upper = np.concatenate([matrix[np.triu_indices(self.cells)] for matrix in self.pairs])
        payload = b"".join(np.ascontiguousarray(a, dtype="<i8").tobytes() for a in (upper, self.labels, self.records))
        write_model(path, _FORMAT, schema, payload, effort=1, cells=self.cells)

    @classmethod
    def load(cls, path: str | Path) -> RidgeStatistics:
        """Read counts that :meth:`save` wrote; a damaged file is an error."""
        file = read_model(path, _FORMAT)
        cells, classes = file.about.get("cells"), file.schema.classes
        if type(cells) is not int or cells < 1:
            raise ModelFileError(f"{path} gives {cells!r:.60} as its number of cells: save the statistics again")
        matrices = _matrices(classes)
        above = matrices * cells * (cells + 1) // 2
        expected = 8 * (above + (cells + 1) * classes)
        if len(file.payload) != expected:
            raise ModelFileError(
                f"{path} has {len(file.payload)} bytes of counts, expected {expected} for {cells} cells: save the "
                "statistics again"
            )
        counts = np.frombuffer(file.payload, dtype="<i8").astype(np.int64)
        if counts.min() < 0:
            raise ModelFileError(f"{path} has counts below zero: save the statistics again")
        pairs = np.zeros((matrices, cells, cells), dtype=np.int64)
        for matrix, upper in zip(pairs, np.split(counts[:above], matrices), strict=True):
            matrix[np.triu_indices(cells)] = upper
        labels = counts[above : above + cells * classes].reshape(cells, classes).copy()
        return cls(pairs, labels, counts[above + cells * classes :].copy())

    def _check_same_cells(self, others: RidgeStatistics) -> None:
        if self.labels.shape != others.labels.shape:
            raise DataError(
                f"counts of {self.cells} cells and {len(self.records)} classes cannot be combined with counts of "
                f"{others.cells} cells and {len(others.records)} classes: count the records in the same cells"
            )


def _matrices(classes: int) -> int:
    """Return how many matrices of pairs there are: the regression weighs classes where there are two."""
    return 2 if classes == 2 else 1
