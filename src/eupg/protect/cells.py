"""Public cells: every attribute as finitely many intervals or categories, fixed by the schema alone.

Where a number has more grid points than cells, cells are equally wide. Where its bounds span orders of magnitude
(income, for example), cells grow in proportion to the distance from zero instead, so that a heavy tail keeps its shape.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Attribute, Categorical, Listed, Missing, Numeric

Codes = NDArray[np.int64]
Column = NDArray[np.float64]
# Bounds this far apart, as a ratio, span orders of magnitude.
_WIDE = 50


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of one attribute, in order; the last one is for a missing value, where the schema keeps it.

    ``starts`` holds each cell's first step on the public grid and, at the end, the number of steps.
    """

    attribute: Attribute
    starts: Codes

    @classmethod
    def of(cls, attribute: Attribute, most: int) -> Cells:
        """Divide an attribute into cells: one per category, or at most about ``most`` for numbers."""
        if isinstance(attribute, Numeric):
            return cls(attribute, _cut(attribute, most))
        assert isinstance(attribute, Listed)
        return cls(attribute, np.arange(attribute.points + 1))

    @property
    def known(self) -> int:
        """Number of cells, without that for a missing value."""
        return len(self.starts) - 1

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.known + (self.attribute.missing is Missing.KEEP)

    @property
    def ordered(self) -> bool:
        """Whether neighbouring cells are similar."""
        return not isinstance(self.attribute, Categorical)

    def code(self, column: Column) -> Codes:
        """Return the cell of each value."""
        empty, last = np.isnan(column), int(self.starts[-1]) - 1
        steps = self.attribute.steps(column) if isinstance(self.attribute, Numeric) else column
        steps = np.clip(np.rint(np.where(empty, 0.0, steps)), 0, last)
        codes = np.searchsorted(self.starts, steps, side="right") - 1
        return np.asarray(np.where(empty, self.known, codes), dtype=np.int64)

    def draw(self, codes: Codes, numbers: np.random.Generator) -> Column:
        """Return a value of the public grid for each cell, all of its steps equally likely."""
        empty = codes >= self.known
        at = np.where(empty, 0, codes)
        steps = numbers.integers(self.starts[at], self.starts[at + 1]).astype(np.float64)
        if isinstance(self.attribute, Numeric):
            steps = self.attribute.at(steps)
        return np.where(empty, np.nan, steps)


def _cut(attribute: Numeric, most: int) -> Codes:
    points, lower, upper = attribute.points, attribute.lower, attribute.upper
    if points <= most:
        return np.arange(points + 1)
    if (lower > 0 and upper / lower < _WIDE) or upper <= 0:
        return np.unique(np.rint(np.linspace(0, points, most + 1)).astype(np.int64))
    zero = -lower / attribute.resolution
    sides = [(side, reach) for side, reach in ((-1, zero), (1, points - 1 - zero)) if reach > 1]
    inner = [zero + side * np.geomspace(max(1.0, -zero), reach, max(2, most // len(sides))) for side, reach in sides]
    steps = np.rint(np.concatenate([*inner, [zero, zero + 1]])).astype(np.int64)
    return np.unique(np.concatenate([[0, points], steps[(steps > 0) & (steps < points)]]))
