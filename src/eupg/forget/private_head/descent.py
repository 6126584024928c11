"""Training as a function of noisy answers: the number of units, the mean of vectors, then gradient descent.

Nothing here sees a record or knows their number: that is an answer, too. The settings are the same for all data; they
were chosen on held-out parts of training records (docs/decisions/public-features.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eupg.data.schema import Schema
from eupg.data.vector import GRID
from eupg.forget.private_head.noisy_answers import HeadDesign, VectorAnswers
from eupg.forget.private_trees.budget import GaussianBudget
from eupg.learn.heads.model import HeadModel

Floats = NDArray[np.float64]
# Shares of μ² for the number of units and for the mean vector. The rest is for gradients.
_COUNTING, _CENTRE = 0.005, 0.03
# The constant beside features of length 1, and the number to which residuals are cut.
_CONSTANT, _RESIDUAL = 0.25, 0.5
# The number of steps at 10,000 units and μ = 1, how it grows, and its limits; the step size there, likewise.
_STEPS, _STEPS_GROWTH, _STEPS_LIMITS = 80, 0.4, (20, 200)
_SIZE, _SIZE_GROWTH = 20.0, 0.5
# Momentum, and the share of steps, the last ones, over which weights are averaged.
_MOMENTUM, _TAIL = 0.9, 0.3


@dataclass(frozen=True)
class HeadDescent:
    """Fits a linear model of public features to noisy answers within a budget."""

    schema: Schema
    budget: GaussianBudget

    def fit(self, answers: VectorAnswers, *, effort: int) -> HeadModel:
        """Ask for the number of units, the mean and gradients, and return the model."""
        # Below a few noise levels the number of units cannot be told from zero.
        units = max(answers.units(self.budget.part(_COUNTING)), 10 / self.budget.ratio)
        centre = np.rint(answers.total(self.budget.part(_CENTRE)) / units * GRID)
        classes = self.schema.classes
        design = HeadDesign(
            centre=np.clip(centre, -GRID, GRID).astype(np.int64),
            constant=round(_CONSTANT * GRID),
            # The residual vector of two classes, (−r, r), is √2 times as long as r.
            residual=_RESIDUAL * (1 if classes == 2 else math.sqrt(2)),
            classes=classes,
        )
        weights = self._descend(answers, design, units)
        weights[0] *= design.constant / GRID
        return HeadModel(weights, design.centre, self.schema, effort)

    def _descend(self, answers: VectorAnswers, design: HeadDesign, units: float) -> Floats:
        """Return the average of the last weights."""
        signal = units * self.budget.ratio / 1e4
        steps = int(np.clip(round(_STEPS * signal**_STEPS_GROWTH), *_STEPS_LIMITS))
        share = 1 - _COUNTING - _CENTRE - 1e-9
        gradient = answers.gradients(design, self.budget.part(share / steps))
        size = _SIZE * signal**_SIZE_GROWTH
        weights = np.zeros((len(design.centre) + 1, design.width))
        speed, total = np.zeros_like(weights), np.zeros_like(weights)
        first = int(steps * (1 - _TAIL))
        for step in range(steps):
            speed = _MOMENTUM * speed + gradient(weights) / units
            weights = weights - size * speed
            if step >= first:
                total += weights
        return total / (steps - first)
