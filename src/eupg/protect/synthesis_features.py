"""Each feature by itself, and with the label: the first questions a synthesis asks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Attribute
from eupg.protect.cells import Cells
from eupg.protect.marginals import bins, draw, gather, positive
from eupg.protect.synthesis_budget import Budget, Noise
from eupg.rng import Randomness

Codes = NDArray[np.int64]
Column = NDArray[np.float64]
Counts = NDArray[np.float64]
_MOST_BINS, _MOST_CELLS = 32, 128


@dataclass(frozen=True)
class Shape:
    """How finely a table is looked at: the number of classes, and the most bins and cells of a feature."""

    classes: int
    bins: int
    cells: int

    @classmethod
    def fitting(cls, total: int, classes: int, budget: Budget) -> Shape:
        """Take so many that an average count of a pair, or of a cell, stands out from its noise."""
        bins_ = int(np.clip(math.sqrt(total / (classes * budget.pair.spread)), 2, _MOST_BINS))
        return cls(classes, bins_, int(np.clip(total / (2 * budget.cut.spread), bins_, _MOST_CELLS)))


@dataclass(frozen=True, eq=False)
class Feature:
    """What the answers say about one feature.

    Parameters
    ----------
    cells
        Its public cells.
    bin_of
        The bin of each cell.
    fine
        Noisy counts of the cells.
    counts
        Noisy counts of the bins (rows) in each class (columns).
    variance
        The variance of the noise in each row of ``counts``.
    """

    cells: Cells
    bin_of: Codes
    fine: Counts
    counts: Counts
    variance: Counts

    @classmethod
    def ask(
        cls, attribute: Attribute, column: Column, y: Codes, shape: Shape, budget: Budget, rng: Randomness
    ) -> Feature:
        """Ask for a feature's counts in at most ``shape.bins`` bins.

        Numbers with more values than that are asked about twice: once for fine counts, which say where the bins
        should lie, and once for the bins' counts a class. Categories, and short scales, need one question.
        """
        classes, wide = shape.classes, shape.bins
        cells = Cells.of(attribute, shape.cells)
        code, apart = cells.code(column), cells.size - cells.known
        if cells.size > wide and cells.ordered:
            fine = _count(code, cells.size, budget.cut, rng.stage("cut"))
            bin_of = bins(fine[:, None], wide, ordered=True, apart=apart)
            width = int(bin_of.max()) + 1
            counts = _count(bin_of[code] * classes + y, width * classes, budget.bins, rng.stage("bins"))
            variance = np.full((width, 1), budget.bins.spread**2)
            return cls(cells, bin_of, fine, counts.reshape(width, classes), variance)
        both = _count(code * classes + y, cells.size * classes, budget.single, rng.stage("single"))
        both = both.reshape(cells.size, classes)
        bin_of = bins(both, wide, ordered=cells.ordered, apart=apart)
        variance = np.bincount(bin_of).astype(np.float64)[:, None] * budget.single.spread**2
        return cls(cells, bin_of, both.sum(axis=1), gather(both, bin_of), variance)

    def code(self, column: Column) -> Codes:
        """Return the bin of each value."""
        return np.asarray(self.bin_of[self.cells.code(column)])

    def draw(self, binned: Codes, numbers: np.random.Generator) -> Column:
        """Return a value for each bin: a cell by its counts, then a value of the cell."""
        width, size = int(self.bin_of.max()) + 1, len(self.bin_of)
        weights = np.zeros((width, size))
        for each in range(width):
            inside = self.bin_of == each
            found = positive(self.fine[inside])
            weights[each, inside] = found if found.any() else 1.0
        return self.cells.draw(draw(weights, binned, numbers), numbers)


def _count(places: Codes, size: int, noise: Noise, rng: Randomness) -> Counts:
    return np.asarray(np.bincount(places, minlength=size) + noise.draw(size, rng), dtype=np.float64)
