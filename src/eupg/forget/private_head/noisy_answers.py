"""Noisy answers about records with public features: their number, their mean, and gradients.

Training sees nothing else of the records. Accounting and noise are those of private leaves
(:mod:`eupg.forget.private_trees.noisy_answers`): every answer is a sum of whole numbers to which a unit, a record or
all records of a person, contributes a vector of bounded norm.

Sums are computed by matrix products in double precision. These are exact: all terms are whole numbers, and every
partial sum, in whatever order a numerical library forms it, stays below 2^53. So what a unit contributes does not
depend on the other units, nor on how a library divides the work.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Labels, Matrix
from eupg.data.vector import GRID
from eupg.forget.private_head.kernel import shorten_people
from eupg.forget.private_trees.budget import GaussianBudget
from eupg.forget.private_trees.kernel import add_residuals
from eupg.forget.private_trees.noisy_answers import Account, shares, unit_sizes
from eupg.learn.heads.model import centred
from eupg.protect.noise.discrete import Whole
from eupg.rng import Randomness

Floats = NDArray[np.float64]
# All whole numbers up to this one are exact in double precision.
_EXACT = 2**53
# Weights are multiples of 2^-24 with columns of norm at most 2^15. A product with a vector is then below 2^12+15+24.
_WEIGHT_UNIT, _LONGEST = 2**24, 2**15
# Rows that are multiplied at a time fit into a core's cache.
_ROWS = 512


@dataclass(frozen=True, eq=False)
class HeadDesign:
    """How a record's vector is read, and where residuals are cut.

    Parameters
    ----------
    centre
        Subtracted from vectors, in units of the grid, before they are scaled to length 1 again.
    constant
        The constant beside the features, in units of the grid.
    residual
        The norm to which a residual is cut: probability less truth, a number for two classes, else a vector.
    classes
        Number of classes.
    """

    centre: Whole
    constant: int
    residual: float
    classes: int

    @property
    def width(self) -> int:
        """Number of scores: one for two classes, else one per class."""
        return 1 if self.classes == 2 else self.classes

    @property
    def norm(self) -> int:
        """The largest norm of a record's vector with the constant, rounded up."""
        return math.isqrt(GRID**2 + self.constant**2) + 1


class VectorAnswers:
    """Answers about records with public features, within a budget.

    Parameters
    ----------
    X, y
        The records; those of a person are neighbours.
    people
        The first record of each person, and the number of records at its end; None where each record is a unit.
    budget, rng
        What all answers together may cost, and the source of noise.
    """

    def __init__(self, X: Matrix, y: Labels, people: Whole | None, budget: GaussianBudget, rng: Randomness) -> None:
        self._X, self._y, self._people = X, y, people
        self.account = Account(budget, rng)

    def units(self, ratio: float) -> float:
        """Return roughly the number of units."""
        bound = self.account.bound(ratio, len(self._y))
        units = len(self._y) if self._people is None else len(self._people) - 1
        return float(self.account.noisy(np.array([units * bound]), bound)[0] / bound)

    def total(self, ratio: float) -> Floats:
        """Return roughly the sum of vectors over units, each the average of a person's records; in units of 1."""
        bound = self.account.bound(ratio, len(self._y))
        total = np.zeros(self._X.shape[1], dtype=np.int64)
        # Each of a person's s records counts ⌊bound/(GRID·s)⌋ times, so that their sum has a norm of at most bound.
        sizes = unit_sizes(len(self._y), self._people)
        for size in np.unique(sizes):
            total += self._X[sizes == size].sum(axis=0, dtype=np.int64) * (bound // (GRID * int(size)))
        return self.account.noisy(total, bound) / bound

    def gradients(self, design: HeadDesign, ratio: float) -> Callable[[Floats], Floats]:
        """Return a function from weights to the gradient of the summed loss, with noise; each call is a question.

        Weights have one row for the constant, then one per feature.
        """
        bound = self.account.bound(ratio, len(self._y))
        sums = GradientSums(design, self._X, self._y, self._people, bound)

        def gradient(weights: Floats) -> Floats:
            return self.account.noisy(sums(weights), bound) * (design.residual * design.norm / GRID / bound)

        return gradient


class GradientSums:
    """Sums of x·R over records, where x is a record's vector and R its residual, in whole numbers.

    R is cut so that the norm of x·R is at most ``bound``. Each of a person's s records has a weight of 1/√s, and their
    sum is cut to the same bound.
    """

    def __init__(self, design: HeadDesign, X: Matrix, y: Labels, people: Whole | None, bound: int) -> None:
        self._design, self._y, self._people, self._bound = design, y, people, bound
        self._X = centred(X, design.centre)
        self._limits = shares(bound, len(y), people) // design.norm
        self._rows = np.arange(len(y), dtype=np.int32)
        self._starts = np.arange(len(y) + 1, dtype=np.int64)
        if people is not None:
            self._products, self._offsets = _products(self._X, people, design.constant)

    def __call__(self, weights: Floats) -> Whole:
        """Return the sums at these weights, in the units of residual·norm/GRID/bound."""
        residuals = np.zeros((len(self._y), self._design.width), dtype=np.int64)
        margins = self._margins(weights)
        add_residuals(self._rows, self._starts, self._y, self._limits, self._design.residual, True, margins, residuals)
        if self._people is not None:
            shorten_people(self._people, self._products, self._offsets, self._design.norm, self._bound, residuals)
        return self._products_with(residuals)

    def _margins(self, weights: Floats) -> Floats:
        """Return the margins of all records, exactly, for weights rounded to multiples of 1/_WEIGHT_UNIT."""
        lengths = np.sqrt((weights**2).sum(axis=0))
        whole = np.rint(weights / np.maximum(lengths / _LONGEST, 1.0) * _WEIGHT_UNIT)
        out = np.empty((len(self._X), whole.shape[1]))
        for start in range(0, len(out), _ROWS):
            part = slice(start, start + _ROWS)
            out[part] = self._X[part].astype(np.float64) @ whole[1:] + self._design.constant * whole[0]
        return out / (GRID * _WEIGHT_UNIT)

    def _products_with(self, residuals: Whole) -> Whole:
        """Return Σ x·R: whole numbers below 2^53 in each block, since no product of a record exceeds the bound."""
        total = np.zeros((self._X.shape[1] + 1, residuals.shape[1]), dtype=np.int64)
        rows = max(1, min(_ROWS, _EXACT // max(self._bound, 1)))
        for start in range(0, len(residuals), rows):
            part = slice(start, start + rows)
            product = self._X[part].astype(np.float64).T @ residuals[part].astype(np.float64)
            total[1:] += product.astype(np.int64)
        total[0] = residuals.sum(axis=0) * self._design.constant
        return total


def _products(X: NDArray[np.int16], people: Whole, constant: int) -> tuple[Floats, Whole]:
    """Return the products of each pair of a person's vectors, with the constant, and where those of a person begin."""
    sizes = np.diff(people)
    offsets = np.concatenate([[0], np.cumsum(sizes**2)]).astype(np.int64)
    products = np.empty(offsets[-1])
    for p in range(len(sizes)):
        own = X[people[p] : people[p + 1]].astype(np.float64)
        products[offsets[p] : offsets[p + 1]] = (own @ own.T + constant**2).ravel()
    return products, offsets
