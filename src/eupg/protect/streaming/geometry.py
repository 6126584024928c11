"""Where rows lie in Euclidean space: the geometry of k-anonymity, with scales from statistics instead of all rows.

As in :mod:`eupg.protect.kanonymity`: z-scores of numbers, and one-hot/√2 for categories, so that two of them are 1
apart. Coordinates decide which rows share a group. They are not released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Attribute, Categorical, Column, Role
from eupg.data.schema import Schema
from eupg.protect.streaming.kernel import Points, mark, standardise

# The distance of a category's coordinate from 0.
_HEIGHT = float(np.sqrt(0.5))


@dataclass(frozen=True)
class ColumnStatistics:
    """Count, mean and squared deviations of a column's numbers, its missing values, and the counts of its codes.

    ``single`` says whether single precision holds every number exactly.
    """

    known: int
    mean: float
    deviations: float
    missing: int
    codes: tuple[int, ...]
    single: bool

    @classmethod
    def of(cls, attribute: Attribute, values: Column) -> ColumnStatistics:
        """Count a column of one chunk."""
        empty = np.isnan(values)
        missing = int(np.count_nonzero(empty))
        known = values[~empty] if missing else values
        codes: NDArray[np.int64] = np.zeros(0, np.int64)
        if isinstance(attribute, Categorical):
            codes = np.bincount(known.astype(np.int64), minlength=len(attribute.categories))
        mean = float(known.mean()) if len(known) else 0.0
        deviations = float(np.square(known - mean).sum())
        single = bool((known.astype(np.float32) == known).all())
        return cls(len(known), mean, deviations, missing, tuple(codes.tolist()), single)

    def plus(self, other: ColumnStatistics) -> ColumnStatistics:
        """Return the statistics of both parts of a column."""
        known = self.known + other.known
        shift = other.mean - self.mean
        share = other.known / known if known else 0.0
        return ColumnStatistics(
            known,
            self.mean + shift * share,
            self.deviations + other.deviations + shift * shift * self.known * share,
            self.missing + other.missing,
            tuple(a + b for a, b in zip(self.codes, other.codes, strict=True)),
            self.single and other.single,
        )

    @property
    def spread(self) -> float:
        """The standard deviation, or 1 if all numbers are equal."""
        return float(np.sqrt(self.deviations / self.known)) or 1.0 if self.known else 1.0


def quasi_identifiers(schema: Schema) -> list[int]:
    """Return the positions of the features that are permuted."""
    return [j for j, a in enumerate(schema.features) if a.role is Role.QUASI_IDENTIFIER]


@dataclass(frozen=True)
class Geometry:
    """Maps coded rows to points."""

    schema: Schema
    statistics: tuple[ColumnStatistics, ...]

    @property
    def width(self) -> int:
        """Number of coordinates."""
        return len(self._coordinates())

    def points(self, columns: Sequence[Column]) -> Points:
        """Return the coordinates of rows, one column of values per feature."""
        coordinates = self._coordinates()
        points = np.empty((len(columns[0]), max(1, len(coordinates))), dtype=np.float32)
        points[:, len(coordinates) :] = 0
        for at, (j, code) in enumerate(coordinates):
            if code is None:
                standardise(columns[j], self.statistics[j].mean, self.statistics[j].spread, points, at)
            else:
                listed = isinstance(self.schema.features[j], Categorical)
                mark(columns[j], code, _HEIGHT if listed else 1.0, points, at)
        return points

    def _coordinates(self) -> list[tuple[int, int | None]]:
        """Return the column of each coordinate, and the code that it marks: none for a z-score, −1 for missing."""
        coordinates: list[tuple[int, int | None]] = []
        for j in quasi_identifiers(self.schema):
            statistics = self.statistics[j]
            if isinstance(self.schema.features[j], Categorical):
                coordinates += [(j, code) for code, count in enumerate(statistics.codes) if count]
            else:
                coordinates.append((j, None))
            if statistics.missing:
                coordinates.append((j, -1))
        return coordinates
