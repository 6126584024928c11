"""The questions a synthesis asks of the records: each feature with the label, then pairs of features with the label.

Every answer has exact noise; what is made of the answers (:mod:`eupg.protect.synthesis.model`) sees no record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

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
        cls, attribute: Attribute, counts_of: ColumnCounts, shape: Shape, budget: Budget, rng: Randomness
    ) -> Feature:
        """Ask for a feature's counts in at most ``shape.bins`` bins.

        Numbers with more values than that take two questions: one for fine counts, which decide where the bins lie, and
        one for the counts per bin and class. Categories and short scales take one question.
        """
        classes, wide = shape.classes, shape.bins
        cells = Cells.of(attribute, shape.cells)
        apart = cells.size - cells.known
        if cells.size > wide and cells.ordered:
            fine = _noisy(counts_of(cells, np.arange(cells.size), 1), budget.cut, rng.stage("cut"))[:, 0]
            bin_of = bins(fine[:, None], wide, ordered=True, apart=apart)
            counts = _noisy(counts_of(cells, bin_of, classes), budget.bins, rng.stage("bins"))
            return cls(cells, bin_of, fine, counts, np.full((len(counts), 1), budget.bins.spread**2))
        both = _noisy(counts_of(cells, np.arange(cells.size), classes), budget.single, rng.stage("single"))
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


def _noisy(counts: Codes, noise: Noise, rng: Randomness) -> Counts:
    return np.asarray(counts + noise.draw(counts.size, rng).reshape(counts.shape), dtype=np.float64)


class ColumnCounts(Protocol):
    """Counts the records by one feature."""

    def __call__(self, cells: Cells, bin_of: Codes, classes: int, /) -> Codes:
        """Return the exact number of records in each bin of cells (rows) and class (columns; one for all together)."""


def column_counts(column: Column, y: Codes, cells: Cells, bin_of: Codes, classes: int) -> Codes:
    """Count the records of a table by the values of one column."""
    width = int(bin_of.max()) + 1
    place = bin_of[cells.code(column)] * classes + (y if classes > 1 else 0)
    return np.bincount(place, minlength=width * classes).reshape(width, classes)


class PairCounts(Protocol):
    """Counts the records by two features; ``singles`` are the noisy counts of each feature, bins by classes."""

    @property
    def singles(self) -> list[Counts]:
        """The counts of each feature."""

    def counts(self, pair: Pair) -> Codes:
        """Return the exact number of records in each class, bin of the first feature and bin of the second."""


def pair_score(pairs: PairCounts, pair: Pair, noise: float) -> int:
    """Return the L1 distance of a pair's counts from those expected of its noisy single features.

    One more record changes one count by one and no expected count, so it moves the score by at most one. The score is
    reduced by the noise that measuring the pair would add: a larger table must be worth it.
    """
    expected = independent(*(pairs.singles[i].T for i in pair))
    counts = pairs.counts(pair)
    return int(np.abs(counts - np.rint(expected).astype(np.int64)).sum()) - round(noise * counts.size)


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


def choose_tree(binned: PairCounts, budget: Budget, rng: Randomness) -> list[Pair]:
    """Choose pairs one by one, by the exponential mechanism, until they connect all features."""
    features = len(binned.singles)
    scores = {pair: pair_score(binned, pair, budget.pair.size) for pair in combinations(range(features), 2)}
    part, chosen = np.arange(features), []
    for step in range(features - 1):
        candidates = [pair for pair in scores if part[pair[0]] != part[pair[1]]]
        pick = exponential_choice([scores[pair] for pair in candidates], budget.choice, rng.stage(f"choice {step}"))
        first, second = candidates[pick]
        chosen.append((first, second))
        part[part == part[second]] = part[first]
    return chosen


def measure(binned: PairCounts, pair: Pair, budget: Budget, rng: Randomness) -> Counts:
    """Return the noisy counts of a chosen pair: class, first feature, second feature."""
    return _noisy(binned.counts(pair), budget.pair, rng)
