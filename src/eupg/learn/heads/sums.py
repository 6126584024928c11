"""Whole numbers from which a ridge regression on public features follows, and which a record can leave and join.

Vectors of public features are whole numbers, so the sums of a least-squares fit are, too: of products of two features,
and of each feature by class. Those of a table without some records are the sums of the table less those of the records,
whatever happened in between.

The products are added up in double precision, which is exact here: in a block of rows every partial sum, in whatever
order a numerical library forms it, is a whole number below 2^53.

Sums are personal data, as the records are: those of one record describe it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Labels, Matrix
from eupg.data.schema import Schema
from eupg.data.vector import GRID
from eupg.errors import DataError, ModelFileError
from eupg.learn.envelope import read_model, write_model

Whole = NDArray[np.int64]
_FORMAT = "eupg-feature-sums-1"
# No product of two features of a record exceeds GRID², so that a block could have 2^29 rows and still be exact.
_ROWS = 4096


@dataclass(frozen=True, eq=False)
class FeatureSums:
    """Sums over records with public features; the first feature is a constant, the length of 1 on the grid.

    Parameters
    ----------
    pairs
        Sums of products of two features: the upper triangle of a matrix, zeros below it. There is one matrix per class
        where there are two classes, else one for all.
    labels
        The sum of each feature over the records of each class: one row per feature.
    records
        How many records of each class there are.

    Examples
    --------
    >>> X, y = np.array([[3, 4], [0, -5]], dtype=np.int16), np.array([0, 1])
    >>> both = FeatureSums.of(X, y, classes=2)
    >>> both.pairs.sum(axis=0)[1:, 1:].tolist()
    [[9, 12], [0, 41]]
    >>> both.minus(FeatureSums.of(X[1:], y[1:], classes=2)) == FeatureSums.of(X[:1], y[:1], classes=2)
    True
    """

    pairs: Whole
    labels: Whole
    records: Whole

    def __post_init__(self) -> None:
        for array in (self.pairs, self.labels, self.records):
            array.flags.writeable = False

    @classmethod
    def of(cls, X: Matrix, y: Labels, *, classes: int) -> FeatureSums:
        """Add up records."""
        size = X.shape[1] + 1
        pairs = np.zeros((_matrices(classes), size, size), dtype=np.int64)
        labels = np.zeros((size, classes), dtype=np.int64)
        for matrix, which in enumerate((y == 0, y == 1) if classes == 2 else (np.ones(len(y), dtype=bool),)):
            rows = np.flatnonzero(which)
            for start in range(0, len(rows), _ROWS):
                part = rows[start : start + _ROWS]
                block = np.full((len(part), size), float(GRID))
                block[:, 1:] = X[part]
                pairs[matrix] += np.triu(block.T @ block).astype(np.int64)
                labels += (block.T @ np.eye(classes)[y[part]]).astype(np.int64)
        return cls(pairs, labels, np.bincount(y, minlength=classes).astype(np.int64))

    @property
    def dimension(self) -> int:
        """Number of features, without the constant."""
        return len(self.labels) - 1

    @property
    def count(self) -> int:
        """Number of records."""
        return int(self.records.sum())

    def plus(self, others: FeatureSums) -> FeatureSums:
        """Return the sums with those of further records."""
        self._check_same_features(others)
        return FeatureSums(self.pairs + others.pairs, self.labels + others.labels, self.records + others.records)

    def minus(self, others: FeatureSums) -> FeatureSums:
        """Return the sums without those of some of the records.

        Records that were never added are refused where no table could have the sums that would be left: a negative
        number of records, or a negative sum of squares. Others cannot be recognised.
        """
        self._check_same_features(others)
        rest = FeatureSums(self.pairs - others.pairs, self.labels - others.labels, self.records - others.records)
        squares = np.einsum("kii->ki", rest.pairs)
        # What is left of no record is nothing at all.
        nothing = rest.count > 0 or not (rest.pairs.any() or rest.labels.any())
        if min(squares.min(), rest.records.min()) < 0 or not nothing:
            raise DataError(
                f"{others.count} records were to be subtracted that are not all among the {self.count} added here: "
                "pass records that were added and not erased since, with the values they were added with"
            )
        return rest

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FeatureSums):
            return NotImplemented
        mine, theirs = (self.pairs, self.labels, self.records), (other.pairs, other.labels, other.records)
        return all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def save(self, path: str | Path, schema: Schema) -> None:
        """Write the sums to one file with a digest; it has to be protected, and deleted after an erasure."""
        upper = np.concatenate([matrix[np.triu_indices(len(matrix))] for matrix in self.pairs])
        payload = b"".join(np.ascontiguousarray(a, dtype="<i8").tobytes() for a in (upper, self.labels, self.records))
        write_model(path, _FORMAT, schema, payload, effort=1)

    @classmethod
    def load(cls, path: str | Path) -> FeatureSums:
        """Read sums that :meth:`save` wrote; a damaged file is an error."""
        file = read_model(path, _FORMAT)
        size, classes, matrices = file.schema.columns + 1, file.schema.classes, _matrices(file.schema.classes)
        above = matrices * size * (size + 1) // 2
        expected = 8 * (above + (size + 1) * classes)
        if file.schema.vector is None or len(file.payload) != expected:
            raise ModelFileError(
                f"{path} has {len(file.payload)} bytes of sums, expected {expected} for {size - 1} public features: "
                "save the sums again"
            )
        numbers = np.frombuffer(file.payload, dtype="<i8").astype(np.int64)
        pairs = np.zeros((matrices, size, size), dtype=np.int64)
        for matrix, upper in zip(pairs, np.split(numbers[:above], matrices), strict=True):
            matrix[np.triu_indices(size)] = upper
        labels = numbers[above : above + size * classes].reshape(size, classes).copy()
        records = numbers[above + size * classes :].copy()
        if records.min() < 0 or (labels[0] != GRID * records).any():
            raise ModelFileError(f"{path} has sums that do not fit its numbers of records: save the sums again")
        return cls(pairs, labels, records)

    def _check_same_features(self, others: FeatureSums) -> None:
        if self.labels.shape != others.labels.shape:
            raise DataError(
                f"sums of {self.dimension} features and {len(self.records)} classes cannot be combined with sums of "
                f"{others.dimension} features and {len(others.records)} classes: encode the records alike"
            )


def _matrices(classes: int) -> int:
    """Return how many matrices of products there are: the regression weighs classes where there are two."""
    return 2 if classes == 2 else 1
