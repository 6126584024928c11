"""Training as a function of noisy answers: histograms, counts, then gradient descent with momentum.

Nothing here sees a record or knows their number: that is an answer, too. The settings are the same for all tables; they
were chosen on held-out parts of training records (docs/decisions/private-trees.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eupg.data.schema import Schema
from eupg.forget.private_trees.budget import GaussianBudget
from eupg.forget.private_trees.noisy_answers import WEIGHT_UNIT, Answers, Design
from eupg.learn.leaves.cells import LeafCells, Tree
from eupg.learn.leaves.grids import consistent, histogram_grids, private_cells
from eupg.learn.leaves.learner import LeafModel

Floats = NDArray[np.float64]
# Shares of μ² for the counts of all cells, and for the fine histograms of numbers. The rest is for gradients.
_COUNTING, _HISTOGRAMS = 0.01, 0.02
# The commonest cell of a group stands for the zero vector if it holds more than this share of the records. The weight
# of such a group is multiplied by (1 − share)^−growth, at most by the last number.
_COMMON, _GROWTH, _MOST_GROWTH = 0.1, 0.5, 4.0
# Vectors of records are cut to this part of their root mean square norm, and residuals to this number.
_NORM, _RESIDUAL = 0.6, 0.5
# The number of steps at 10,000 records and μ = 1, and its limits; the step size there, times the squared norm.
_STEPS, _FEWEST_STEPS, _MOST_STEPS = 150, 20, 800
_STEP_SIZE = 4.0
# Momentum, pull towards zero, and the share of steps, the last ones, over which scores are averaged.
_MOMENTUM, _DECAY, _TAIL = 0.9, 1e-4, 0.3
# The summed counts of larger groups are too noisy to estimate the number of records.
_SMALL_GROUP = 50
_LEAST_REST = 1e-3


@dataclass(frozen=True)
class PrivateDescent:
    """Fits a model of leaves to noisy answers within a budget."""

    schema: Schema
    budget: GaussianBudget

    def fit(self, answers: Answers, *, effort: int) -> LeafModel:
        """Ask for histograms, counts and gradients, and return the model."""
        masses, left = self._masses(answers)
        cells, weights = private_cells(self.schema, masses)
        counts = answers.counts(cells, self.budget.part(_COUNTING))
        records = self._records(cells, counts)
        design = self._design(cells, weights, counts / records)
        scores = self._descend(answers, design, records, left - _COUNTING)
        margins = scores * (design.cell_weights / WEIGHT_UNIT)[:, None]
        return LeafModel(cells, margins, self.schema, effort)

    def _masses(self, answers: Answers) -> tuple[dict[int, Floats], float]:
        """Return the histogram of each numeric attribute, and the share of the budget that is left."""
        grids = histogram_grids(self.schema)
        if not grids:
            return {}, 1.0
        cells = LeafCells(tuple(grids.values()))
        counts = cells.parts(answers.counts(cells, self.budget.part(_HISTOGRAMS)))
        masses = {column: consistent(part) for column, part in zip(grids, counts, strict=True)}
        return masses, 1 - _HISTOGRAMS

    def _records(self, cells: LeafCells, counts: Floats) -> float:
        """Return roughly the number of units; below a few noise levels it cannot be told from zero."""
        sums = [part.sum() for part in cells.parts(counts) if len(part) <= _SMALL_GROUP]
        return max(float(np.mean(sums)), 10 / self.budget.ratio)

    def _design(self, cells: LeafCells, weights: Floats, shares: Floats) -> Design:
        """Let the commonest cell of each group stand for the zero vector, and give the rest more weight."""
        zero = np.zeros(cells.count, dtype=bool)
        grown, squares = weights.copy(), 0.0
        for number, (group, part) in enumerate(zip(cells.groups, cells.parts(shares), strict=True)):
            commonest = int(part.argmax())
            rest = 1.0
            if group != Tree() and part[commonest] > _COMMON:
                zero[cells.offsets[number] + commonest] = True
                rest = 1 - min(float(part[commonest]), 1.0)
                grown[number] *= min(_MOST_GROWTH, max(rest, _LEAST_REST) ** -_GROWTH)
            squares += grown[number] ** 2 * rest
        classes = self.schema.classes
        return Design(
            cells=cells,
            weights=np.maximum(np.round(grown * WEIGHT_UNIT), 1).astype(np.int64),
            zero=zero,
            norm=math.ceil(_NORM * math.sqrt(squares) * WEIGHT_UNIT),
            # The residual vector of two classes, (−r, r), is √2 times as long as r.
            residual=_RESIDUAL * (1 if classes == 2 else math.sqrt(2)),
            classes=classes,
        )

    def _descend(self, answers: Answers, design: Design, records: float, share: float) -> Floats:
        """Return the average of the last scores."""
        signal = records * self.budget.ratio / 1e4
        steps = int(np.clip(round(_STEPS * signal**0.4), _FEWEST_STEPS, _MOST_STEPS))
        gradient = answers.gradients(design, self.budget.part(share / steps))
        # With one score per class, a step of half the size moves the difference of two classes as far.
        size = _STEP_SIZE * signal**0.5 / (design.norm / WEIGHT_UNIT) ** 2 / (1 if design.classes == 2 else 2)
        scores = np.zeros((design.cells.count, design.width))
        speed, total = np.zeros_like(scores), np.zeros_like(scores)
        first = int(steps * (1 - _TAIL))
        for step in range(steps):
            speed = _MOMENTUM * speed + gradient(scores) / records + _DECAY * scores
            scores = scores - size * speed
            if step >= first:
                total += scores
        return total / (steps - first)
