"""The questions a synthesis asks of the records: each feature with the label, then pairs of features with the label.

Every answer has exact noise; what is made of the answers (:mod:`eupg.protect.synthesis.model`) sees no record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from eupg.data.attribute import Attribute, Column
from eupg.protect.cells import Cells
from eupg.protect.noise.discrete import exponential_choice
from eupg.protect.synthesis.budget import Budget, Noise
from eupg.protect.synthesis.marginals import Codes, Counts, bins, draw, gather, independent, positive
from eupg.rng import Randomness

Pair = tuple[int, int]
_MOST_BINS, _MOST_CELLS = 32, 128


@dataclass(frozen=True)
class Shape:
    """The resolution of the questions: the number of classes, and the most bins and cells of a feature."""

    classes: int
    bins: int
    cells: int

    @classmethod
    def fitting(cls, total: int, classes: int, budget: Budget) -> Shape:
        """Choose numbers for which an average count of a pair, or of a cell, exceeds its noise."""
        bins_ = int(np.clip(math.sqrt(total / (classes * budget.pair.spread)), 2, _MOST_BINS))
        return cls(classes, bins_, int(np.clip(total / (2 * budget.cut.spread), bins_, _MOST_CELLS)))


@dataclass(frozen=True, eq=False)
class Feature:
    """The answers about one feature.

    Parameters
    ----------
    cells, bin_of
        Its public cells, and the bin of each cell.
    fine
        Noisy counts of the cells.
    counts, variance
        Noisy counts of the bins (rows) in each class (columns), and the variance of the noise in each row.
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

        Numbers with more values than that take two questions: one for fine counts, which decide where the bins lie, and
        one for the counts per bin and class. Categories and short scales take one question.
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
        weights = np.zeros((int(self.bin_of.max()) + 1, len(self.bin_of)))
        for number, row in enumerate(weights):
            inside = self.bin_of == number
            counts = positive(self.fine[inside])
            row[inside] = counts if counts.any() else 1.0
        return self.cells.draw(draw(weights, binned, numbers), numbers)


def _count(places: Codes, size: int, noise: Noise, rng: Randomness) -> Counts:
    return np.asarray(np.bincount(places, minlength=size) + noise.draw(size, rng), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Binned:
    """Records as bins of each feature (``codes``) and a class (``y``), with each feature's noisy counts (``singles``).

    The counts have a row per bin and a column per class, and none is negative.
    """

    codes: list[Codes]
    y: Codes
    singles: list[Counts]

    def counts(self, pair: Pair) -> Codes:
        """Count the records in each class, bin of the first feature and bin of the second."""
        (i, j), classes = pair, self.singles[0].shape[1]
        shape = (classes, len(self.singles[i]), len(self.singles[j]))
        place = (self.y * shape[1] + self.codes[i]) * shape[2] + self.codes[j]
        return np.bincount(place, minlength=int(np.prod(shape))).reshape(shape)

    def score(self, pair: Pair, noise: float) -> int:
        """Return the L1 distance of a pair's counts from those expected of its noisy single features.

        One more record changes one count by one and no expected count, so it moves the score by at most one. The score
        is reduced by the noise that measuring the pair would add: a larger table must be worth it.
        """
        expected = independent(*(self.singles[i].T for i in pair))
        counts = self.counts(pair)
        return int(np.abs(counts - np.rint(expected).astype(np.int64)).sum()) - round(noise * counts.size)


def choose_tree(binned: Binned, budget: Budget, rng: Randomness) -> list[Pair]:
    """Choose pairs one by one, by the exponential mechanism, until they connect all features."""
    features = len(binned.codes)
    scores = {pair: binned.score(pair, budget.pair.size) for pair in combinations(range(features), 2)}
    part, chosen = np.arange(features), []
    for step in range(features - 1):
        candidates = [pair for pair in scores if part[pair[0]] != part[pair[1]]]
        pick = exponential_choice([scores[pair] for pair in candidates], budget.choice, rng.stage(f"choice {step}"))
        first, second = candidates[pick]
        chosen.append((first, second))
        part[part == part[second]] = part[first]
    return chosen


def measure(binned: Binned, pair: Pair, budget: Budget, rng: Randomness) -> Counts:
    """Return the noisy counts of a chosen pair: class, first feature, second feature."""
    counts = binned.counts(pair)
    return np.asarray(counts + budget.pair.draw(counts.size, rng).reshape(counts.shape), dtype=np.float64)
