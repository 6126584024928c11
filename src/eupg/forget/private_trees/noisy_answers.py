"""Noisy answers: the only path from the records to a private model.

Training asks questions (:class:`Answers`) and sees nothing else of the records. Every answer is a vector of whole
numbers plus noise, which a :class:`~eupg.forget.private_trees.budget.Budget` draws and accounts for. The *bound* of an
answer is the largest norm, in whole numbers, of one unit's contribution. A unit is a record, or all records of a
person, which are cut together.

An answer with Gaussian noise and bound b is a Gaussian mechanism of ratio b/s, up to the distance that
:func:`eupg.protect.noise.fast.distance` bounds. Questions may depend on earlier answers: Gaussian mechanisms of ratios
μ₁, μ₂, … together are one of ratio √(μ₁² + μ₂² + …) (Dong, Roth and Su, "Gaussian differential privacy", 2022). With
Laplace noise an answer is (b/s)-differentially private, and these numbers add up. An account in whole numbers refuses a
question beyond the budget.

In whole numbers a unit's contribution does not depend on the other units or on the order of summation, and its norm is
bounded without rounding. Floating point is used only before a contribution is cut to its limit and after noise was
added, where it cannot weaken the claim.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Labels, Matrix
from eupg.errors import DataError, ParameterError, PrivacyError
from eupg.forget.private_trees.budget import Budget
from eupg.forget.private_trees.kernel import Cells, add_people, add_residuals
from eupg.learn.leaves.cells import LeafCells
from eupg.progress import SILENT, Progress, advance
from eupg.protect.noise.discrete import Whole
from eupg.protect.noise.fast import SPREAD
from eupg.rng import Randomness

Floats = NDArray[np.float64]
# Weights of groups are multiples of 1/4096.
WEIGHT_UNIT = 2**12
# More draws than any training takes; what their distance adds to δ is set aside.
MOST_DRAWS = 2**30
_LARGEST_SUM = 2**62
# Squares of residuals in whole numbers, summed over classes, stay far inside 63 bits.
_LARGEST_RESIDUAL = 2**28
_GROUP_RESIDUAL = 0.5


@dataclass(frozen=True, eq=False)
class Design:
    """How records become vectors: the weights of their cells, and where vectors and residuals are cut.

    Parameters
    ----------
    cells, weights
        The cells, and the weight of each group in units of 1/``WEIGHT_UNIT``.
    zero
        True for cells that stand for the zero vector: at most one per group.
    norm
        The norm, in the units of weights, to which a record's vector is cut.
    residual
        The norm to which a residual is cut: probability less truth, a number for two classes, else a vector.
    classes
        Number of classes.
    """

    cells: LeafCells
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
    """Answers questions about records, with noise. A ratio is that of one answer."""

    def counts(self, cells: LeafCells, ratio: float) -> Floats:
        """Return roughly the number of units in each cell."""

    def gradients(self, design: Design, ratio: float) -> Callable[[Floats], Floats]:
        """Return a function from scores of cells to the gradient of the summed loss; each call is a question."""

    def residuals(self, cells: LeafCells, classes: int, ratio: float) -> Callable[[Floats, int], Floats]:
        """Return a function from scores of cells and a group to that group's part of the gradient; likewise."""


@dataclass
class Account:
    """Adds noise to sums over records, as long as the budget allows for it.

    Parameters
    ----------
    budget
        What all answers together may cost.
    rng
        The source of noise.
    """

    budget: Budget
    rng: Randomness
    spent: int = field(default=0, init=False)
    drawn: int = field(default=0, init=False)

    def bound(self, ratio: float, records: int) -> int:
        """Return the bound of an answer of this ratio; sums over so many records must fit into 63 bits."""
        bound = int(ratio * SPREAD)
        if bound * (records + 1) >= _LARGEST_SUM:
            raise DataError(
                f"{records} records are too many for answers with a ratio of {ratio:g}: use fewer, or a smaller ε"
            )
        return bound

    def noisy(self, exact: Whole, bound: int) -> Floats:
        """Add noise to a sum to which each unit contributes at most ``bound`` in norm."""
        self.spent += self.budget.cost(bound)
        self.drawn += exact.size
        if self.spent > self.budget.limit or self.drawn > MOST_DRAWS:
            raise PrivacyError(
                f"the next answer would go beyond the budget of ratio {self.budget.ratio:g}, or {MOST_DRAWS} draws: "
                "ask less"
            )
        noise = self.budget.draw(exact.size, self.rng).reshape(exact.shape)
        return (exact + noise).astype(np.float64)


class CellSums(Protocol):
    """Sums of residuals over cells, in whole numbers, as a function of the margins of cells."""

    @property
    def unit(self) -> float:
        """The value of one whole number."""

    def __call__(self, margins: Floats, weights: Whole) -> Whole:
        """Return the sums at these margins of cells, times the whole weight of each cell in the answer."""


class Records(Protocol):
    """Exact sums over records, to which answers add noise."""

    def __len__(self) -> int:
        """Return the number of records."""

    def counts(self, cells: LeafCells, unit: int) -> Whole:
        """Return what :func:`count_vector` does."""

    def vectors(self, design: Design, bound: int) -> CellSums:
        """Return what :meth:`ResidualSums.of_vectors` does."""

    def groups(self, cells: LeafCells, classes: int, bound: int) -> CellSums:
        """Return what :meth:`ResidualSums.of_groups` does."""


@dataclass(frozen=True, eq=False)
class HeldRecords:
    """Records in memory.

    Parameters
    ----------
    X, y
        The records; those of a person are neighbours.
    people
        The first record of each person, and the number of records at its end; None where each record is a unit.
    """

    X: Matrix
    y: Labels
    people: Whole | None

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.y)

    def counts(self, cells: LeafCells, unit: int) -> Whole:
        """Count the units in each cell, times ``unit``."""
        return count_vector(cells, self.X, unit, self.people)

    def vectors(self, design: Design, bound: int) -> ResidualSums:
        """Prepare the vectors of a design."""
        return ResidualSums.of_vectors(design, self.X, self.y, bound, self.people)

    def groups(self, cells: LeafCells, classes: int, bound: int) -> ResidualSums:
        """Prepare questions about one group each."""
        return ResidualSums.of_groups(cells, classes, self.X, self.y, bound, self.people)


@dataclass
class RecordAnswers:
    """Answers from the records, within a budget.

    Parameters
    ----------
    records
        Sums over the records, in memory or in files.
    budget
        What all answers together may cost.
    rng
        The source of noise.
    progress
        Is told how much of the budget is spent.
    """

    records: Records
    budget: Budget
    rng: Randomness
    progress: Progress = SILENT

    def __post_init__(self) -> None:
        self.account = Account(self.budget, self.rng)

    def counts(self, cells: LeafCells, ratio: float) -> Floats:
        """Return the number of units in each cell, with noise; a person's records share one between them."""
        bound = self._bound(ratio)
        unit = self.budget.per_group(bound, len(cells.groups))
        if not unit:
            raise ParameterError("the budget is too small to count anything: use a larger epsilon")
        return self._noisy(self.records.counts(cells, unit), bound) / unit

    def gradients(self, design: Design, ratio: float) -> Callable[[Floats], Floats]:
        """Return a function that gives the gradient at scores of cells, with noise."""
        bound = self._bound(ratio)
        sums = self.records.vectors(design, bound)
        weights = design.cell_weights

        def gradient(scores: Floats) -> Floats:
            return self._noisy(sums(scores * (weights / WEIGHT_UNIT)[:, None], weights), bound) * sums.unit

        return gradient

    def residuals(self, cells: LeafCells, classes: int, ratio: float) -> Callable[[Floats, int], Floats]:
        """Return a function that gives the sums of residuals in the cells of one group, with noise."""
        bound = self._bound(ratio)
        sums = self.records.groups(cells, classes, bound)

        def residual(scores: Floats, group: int) -> Floats:
            weights = (np.repeat(np.arange(len(cells.groups)), cells.sizes) == group).astype(np.int64)
            return self._noisy(sums(scores, weights)[weights == 1], bound) * sums.unit

        return residual

    def _bound(self, ratio: float) -> int:
        return self.account.bound(ratio, len(self.records))

    def _noisy(self, exact: Whole, bound: int) -> Floats:
        answer = self.account.noisy(exact, bound)
        advance(self.progress, self.account.spent / self.budget.limit)
        return answer


def count_vector(cells: LeafCells, X: Matrix, unit: int, people: Whole | None = None) -> Whole:
    """Return the number of units in each cell, times ``unit``.

    Each of a person's s records adds ⌊unit/s⌋ to at most one cell per group. So a person adds at most ``unit`` per
    group, in absolute values; and at most unit·√G in the Euclidean norm, as the average of s vectors of that norm.
    """
    sizes = unit_sizes(len(X), people)
    codes, total = cells.codes(X), np.zeros(cells.count, dtype=np.int64)
    for size in np.unique(sizes):
        total += np.bincount(codes[sizes == size].ravel(), minlength=cells.count + 1)[:-1] * (unit // int(size))
    return total


@dataclass(frozen=True, eq=False)
class ResidualSums:
    """Sums of residuals over cells, in whole numbers.

    A record with whole-number weights x on its cells adds x·R, where R is its residual in whole numbers, cut so that
    the norm of x·R is at most ``bound``. Each of a person's s records has a weight of 1/√s, and their sum is cut to the
    same bound.

    Parameters
    ----------
    cells, starts
        The cells of the first record, then those of the second, and so on; where each record's cells begin.
    y, people
        The classes of records, and the first record of each person, if units are people.
    limits, bound
        The largest norm of each record's R; the largest norm of a unit's sum.
    shape
        Number of cells, and of scores per cell.
    residual
        The norm to which a residual is cut before it becomes a whole number.
    euclidean
        Whether norms are Euclidean or sums of absolute values.
    unit
        The value of one whole number.
    """

    cells: Cells
    starts: NDArray[np.int64]
    y: Labels
    people: Whole | None
    limits: Whole
    bound: int
    shape: tuple[int, int]
    residual: float
    euclidean: bool
    unit: float

    @classmethod
    def of_vectors(cls, design: Design, X: Matrix, y: Labels, bound: int, people: Whole | None = None) -> ResidualSums:
        """Prepare the vectors of a design: ‖R‖ ≤ ⌊bound/max(⌈‖x‖⌉, norm)⌋, hence ‖x·R‖ = ‖x‖·‖R‖ ≤ bound."""
        # A smaller bound holds, too; it only wastes some of the budget, in designs with hardly any weight.
        bound = min(bound, _LARGEST_RESIDUAL * design.norm)
        codes = design.cells.codes(X)
        # A record in no cell of a group has the zero vector there, like one in a cell that stands for it.
        used = ~np.append(design.zero, True)[codes]
        squares = used @ design.weights**2
        # Squares are below 2^52, so their roots round to the nearest number, and the next whole number is not below.
        lengths = np.floor(np.sqrt(squares)).astype(np.int64) + 1
        limits = shares(bound, len(y), people) // np.maximum(lengths, design.norm)
        unit = design.residual * design.norm / WEIGHT_UNIT / max(bound, 1)
        shape = (design.cells.count, design.width)
        return cls(
            _short(codes[used], shape), _starts(used), y, people, limits, bound, shape, design.residual, True, unit
        )

    @classmethod
    def of_groups(
        cls, cells: LeafCells, classes: int, X: Matrix, y: Labels, bound: int, people: Whole | None = None
    ) -> ResidualSums:
        """Prepare questions about one group each, in which a record has at most one cell: |R| ≤ bound."""
        codes = cells.codes(X)
        used = codes < cells.count
        cut, limits = group_residual(classes), shares(bound, len(y), people)
        shape = (cells.count, 1 if classes == 2 else classes)
        own = _short(codes[used], shape)
        return cls(own, _starts(used), y, people, limits, bound, shape, cut, False, cut / max(bound, 1))

    def __call__(self, margins: Floats, weights: Whole) -> Whole:
        """Return the sums at these margins of cells, times the whole weight of each cell in the answer."""
        out = np.zeros(self.shape, dtype=np.int64)
        margins = np.ascontiguousarray(margins)
        records = (self.y, self.limits, self.residual, self.euclidean, margins)
        if self.people is None:
            add_residuals(self.cells, self.starts, *records, out)
        else:
            add_people(self.cells, self.starts, self.people, *records, weights, self.bound, out)
        return out * weights[:, None]


def group_residual(classes: int) -> float:
    """Return to what a residual is cut in questions about one group; that of two classes, (−r, r), counts once."""
    return _GROUP_RESIDUAL * (1 if classes == 2 else 2)


def unit_sizes(records: int, people: Whole | None) -> Whole:
    """Return for each record how many the person has."""
    return np.ones(records, dtype=np.int64) if people is None else np.repeat(np.diff(people), np.diff(people))


def shares(bound: int, records: int, people: Whole | None) -> Whole:
    """Return to what each record is cut: the bound, divided by the root of the number of a person's records."""
    if people is None:
        return np.full(records, bound, dtype=np.int64)
    return np.floor(bound / np.sqrt(unit_sizes(records, people))).astype(np.int64)


def _starts(used: NDArray[np.bool_]) -> Whole:
    return np.concatenate([[0], np.cumsum(used.sum(axis=1))]).astype(np.int64)


def _short(codes: NDArray[np.int32], shape: tuple[int, int]) -> Cells:
    """Return numbers of cells in two bytes where these are enough: every step of a training reads them all."""
    return codes.astype(np.uint16) if shape[0] <= 1 << 16 else codes
