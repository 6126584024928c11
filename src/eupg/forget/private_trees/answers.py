"""Noisy answers: the only way from the records to a private model.

Training asks questions (:class:`Answers`) and sees nothing else of the records. Every answer is a vector of whole
numbers plus discrete Gaussian noise of spread s = 2^40, and it has a *bound*: the largest Euclidean norm, in whole
numbers, of what one unit adds to the vector. An answer with bound b is a Gaussian mechanism of ratio b/s, up to the
distance that :func:`eupg.protect.exact_gaussian.distance` bounds. Questions may depend on earlier answers: Gaussian
mechanisms of ratios μ₁, μ₂, … together are one of ratio √(μ₁² + μ₂² + …) (Dong, Roth and Su, "Gaussian differential
privacy", 2022). An account of the squared bounds, kept in whole numbers, refuses a question beyond the budget.

Why whole numbers: what one unit adds is then the same number whatever the other units are, in whatever order they are
summed, and its norm is bounded by arithmetic without rounding. Floating point enters before a contribution is cut to
its limit, and after noise was added, where it cannot weaken the claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Labels, Matrix
from eupg.errors import DataError, ParameterError, PrivacyError
from eupg.forget.private_trees.kernel import add_residuals, add_residuals_of_classes
from eupg.learn.leaves.cells import Cells
from eupg.protect.exact_gaussian import SPREAD, Whole, exact_gaussian
from eupg.rng import Randomness

Floats = NDArray[np.float64]
# Weights of groups are multiples of 1/4096.
WEIGHT_UNIT = 2**12
# More draws than any training takes; what their distance adds to δ is set aside.
MOST_DRAWS = 2**30
_LARGEST_SUM = 2**62
# Squares of residuals in whole numbers, summed over classes, stay far inside 63 bits.
_LARGEST_RESIDUAL = 2**28


@dataclass(frozen=True, eq=False)
class Design:
    """How records become vectors: the weight of the cells they lie in, and where vectors and residuals are cut.

    Parameters
    ----------
    cells
        The cells.
    weights
        The weight of each group, a multiple of 1/``WEIGHT_UNIT``, in such units.
    zero
        True for cells that stand for the zero vector: at most one per group.
    norm
        The norm, in the same units, to which a record's vector is cut.
    residual
        The norm to which a residual is cut: probability less truth, a number for two classes, else a vector.
    classes
        Number of classes.
    """

    cells: Cells
    weights: Whole
    zero: NDArray[np.bool_]
    norm: int
    residual: float
    classes: int

    @property
    def width(self) -> int:
        """Number of scores per cell: one for two classes, else one per class."""
        return 1 if self.classes == 2 else self.classes

    @property
    def cell_weights(self) -> Whole:
        """The weight of each cell; 0 for those that stand for the zero vector."""
        return np.where(self.zero, 0, np.repeat(self.weights, self.cells.sizes))


class Answers(Protocol):
    """Answers questions about records, with noise."""

    def counts(self, cells: Cells, ratio: float) -> Floats:
        """Return about how many records lie in each cell."""

    def gradients(self, design: Design, ratio: float) -> Callable[[Floats], Floats]:
        """Return a function from scores of cells to the gradient of the summed loss; each call is a question."""


@dataclass
class RecordAnswers:
    """Answers from the records, within a budget.

    Parameters
    ----------
    X, y
        The records that are used.
    per_unit
        The most of them that belong to one unit.
    ratio
        μ of all answers together.
    rng
        Where noise comes from.
    """

    X: Matrix
    y: Labels
    per_unit: int
    ratio: float
    rng: Randomness
    _spent: int = field(default=0, init=False)
    _drawn: int = field(default=0, init=False)

    def counts(self, cells: Cells, ratio: float) -> Floats:
        """Return the number of records in each cell, with noise."""
        bound = self._bound(ratio)
        exact = count_vector(cells, self.X, bound // self.per_unit)
        return self._noisy(exact, bound) / count_unit(cells, bound // self.per_unit)

    def gradients(self, design: Design, ratio: float) -> Callable[[Floats], Floats]:
        """Return the gradient at given scores of cells, with noise."""
        bound = self._bound(ratio)
        sums = GradientSums.of(design, self.X, self.y, bound // self.per_unit)

        def gradient(scores: Floats) -> Floats:
            return self._noisy(sums(scores), bound) * sums.unit

        return gradient

    def _bound(self, ratio: float) -> int:
        bound = int(ratio * SPREAD)
        if bound * (len(self.y) // self.per_unit + 1) >= _LARGEST_SUM:
            raise DataError(
                f"{len(self.y)} records are too many for answers with a ratio of {ratio:g}: use fewer, or a smaller ε"
            )
        return bound

    def _noisy(self, exact: Whole, bound: int) -> Floats:
        """Add noise, once the budget is found to allow for it."""
        self._spent += bound**2
        self._drawn += exact.size
        if self._spent > math.floor(self.ratio**2 * SPREAD**2) or self._drawn > MOST_DRAWS:
            raise PrivacyError(
                f"the next answer would go beyond the budget of ratio {self.ratio:g}, or {MOST_DRAWS} draws: ask less"
            )
        noise = exact_gaussian(exact.size, self.rng).reshape(exact.shape)
        return (exact + noise).astype(np.float64)


def count_unit(cells: Cells, bound: int) -> int:
    """Return what one record adds to a cell: it lies in at most one cell of each of G groups, so u²·G ≤ bound²."""
    unit = math.isqrt(bound**2 // len(cells.groups))
    if not unit:
        raise ParameterError("the budget is too small to count anything: use a larger epsilon, or fewer max_records")
    return unit


def count_vector(cells: Cells, X: Matrix, bound: int) -> Whole:
    """Return the number of records in each cell, in units such that one record adds a vector of norm at most bound."""
    tallies = np.zeros(cells.count + 1, dtype=np.int64)
    for group, offset in zip(cells.groups, cells.offsets, strict=True):
        codes = group.codes(X)
        tallies[:-1] += np.bincount(np.where(codes < 0, cells.count, codes + offset), minlength=cells.count + 1)[:-1]
    return tallies[:-1] * count_unit(cells, bound)


@dataclass(frozen=True, eq=False)
class GradientSums:
    """Sums of gradients in whole numbers.

    A record with vector x (whole weights, norm ‖x‖) and residual r adds x·R, where R is r in whole numbers, cut so that
    ‖R‖ ≤ ⌊bound/max(⌈‖x‖⌉, norm)⌋. Hence ‖x·R‖ = ‖x‖·‖R‖ ≤ bound, and a unit of m records adds at most m·bound.

    Parameters
    ----------
    design
        The vectors of records.
    cells, starts
        The cells of the first record, then those of the second, and so on; where each record's begin.
    y
        Classes.
    limits
        The largest norm of each record's R.
    unit
        What one whole number stands for.
    """

    design: Design
    cells: NDArray[np.int32]
    starts: NDArray[np.int64]
    y: Labels
    limits: Whole
    unit: float

    @classmethod
    def of(cls, design: Design, X: Matrix, y: Labels, bound: int) -> GradientSums:
        """Find the vectors of records; ``bound`` is that of one record."""
        # A smaller bound is kept, too; it only wastes some of the budget, in designs with hardly any weight.
        bound = min(bound, _LARGEST_RESIDUAL * design.norm)
        codes = design.cells.codes(X)
        # A record in no cell of a group has the zero vector there, like one in a cell that stands for it.
        used = ~np.append(design.zero, True)[codes]
        squares = used @ design.weights**2
        # Squares are below 2^52, so that their roots round to the nearest number; the next whole one is not below.
        lengths = np.floor(np.sqrt(squares)).astype(np.int64) + 1
        limits = bound // np.maximum(lengths, design.norm)
        starts = np.concatenate([[0], np.cumsum(used.sum(axis=1))]).astype(np.int64)
        unit = design.residual * design.norm / WEIGHT_UNIT / max(bound, 1)
        return cls(design, codes[used], starts, y, limits, unit)

    def __call__(self, scores: Floats) -> Whole:
        """Return the sum of the gradients at these scores of cells, in whole numbers."""
        weights = self.design.cell_weights[:, None]
        out = np.zeros((self.design.cells.count, self.design.width), dtype=np.int64)
        margins = np.ascontiguousarray(scores * weights / WEIGHT_UNIT)
        add = add_residuals if self.design.classes == 2 else add_residuals_of_classes
        add(self.cells, self.starts, self.y, self.limits, self.design.residual, margins, out)
        return out * weights
