"""Training as a function of noisy answers: histograms, counts, then gradient descent with momentum.

Nothing here sees a record or knows how many there are: their number is an answer, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eupg.data.schema import Schema
from eupg.forget.private_trees.answers import WEIGHT_UNIT, Answers, Design
from eupg.learn.leaves.cells import Cells, Tree
from eupg.learn.leaves.grids import consistent, histogram_grids, private_cells
from eupg.learn.leaves.learner import LeafModel

Floats = NDArray[np.float64]
# Sums of the counts of larger groups are too noisy to tell the number of records.
_SMALL_GROUP = 50
_LEAST_REST = 1e-3


@dataclass(frozen=True)
class DescentRecipe:
    """The one set of settings, chosen on held-out parts of training records (docs/decisions/private-trees.md).

    Parameters
    ----------
    counting, histograms
        Shares of μ² for the counts of all cells, and for the fine histograms of numbers. The rest is for gradients.
    often
        The commonest cell of a group stands for the zero vector where it holds more than this share of the records.
    growth, most_growth
        The weight of such a group is multiplied by (1 − share)^−growth, at most by ``most_growth``.
    norm
        Vectors of records are cut to this part of their root mean square norm.
    residual
        Residuals are cut to this.
    steps, fewest, most
        Number of steps at 10,000 records and μ = 1, and its limits.
    step_size
        The same for the step size, times the squared norm.
    momentum, decay, tail
        Momentum; pull towards zero; the share of steps, the last ones, of which scores are averaged.
    """

    counting: float = 0.01
    histograms: float = 0.02
    often: float = 0.1
    growth: float = 0.5
    most_growth: float = 4.0
    norm: float = 0.6
    residual: float = 0.5
    steps: int = 150
    fewest: int = 20
    most: int = 800
    step_size: float = 4.0
    momentum: float = 0.9
    decay: float = 1e-4
    tail: float = 0.3


@dataclass(frozen=True)
class PrivateDescent:
    """Fits a model of leaves to noisy answers.

    Parameters
    ----------
    schema
        What the columns mean.
    ratio
        μ of all answers together.
    recipe
        The settings.
    """

    schema: Schema
    ratio: float
    recipe: DescentRecipe = DescentRecipe()

    def fit(self, answers: Answers, *, effort: int) -> LeafModel:
        """Ask for histograms, counts and gradients, and return the model."""
        masses, left = self._masses(answers)
        cells, weights = private_cells(self.schema, masses)
        counts = answers.counts(cells, self._part(self.recipe.counting))
        records = self._records(cells, counts)
        design = self._design(cells, weights, counts / records)
        scores = self._descend(answers, design, records, left - self.recipe.counting)
        margins = scores * (design.cell_weights / WEIGHT_UNIT)[:, None]
        return LeafModel(cells, margins, self.schema, effort)

    def _part(self, share: float) -> float:
        """Return the ratio of an answer that costs this share of μ²."""
        return self.ratio * math.sqrt(share)

    def _masses(self, answers: Answers) -> tuple[dict[int, Floats], float]:
        """Return the histogram of each numeric attribute, and the share of the budget that is left."""
        grids = histogram_grids(self.schema)
        if not grids:
            return {}, 1.0
        cells = Cells(tuple(grids.values()))
        counts = cells.parts(answers.counts(cells, self._part(self.recipe.histograms)))
        masses = {column: consistent(part) for column, part in zip(grids, counts, strict=True)}
        return masses, 1 - self.recipe.histograms

    def _records(self, cells: Cells, counts: Floats) -> float:
        """Return about how many records there are; fewer than a few noise levels cannot be told from none."""
        sums = [part.sum() for part in cells.parts(counts) if len(part) <= _SMALL_GROUP]
        return max(float(np.mean(sums)), 10 / self.ratio)

    def _design(self, cells: Cells, weights: Floats, shares: Floats) -> Design:
        """Let the commonest cell of each group stand for the zero vector, and give the rest more weight."""
        recipe = self.recipe
        zero = np.zeros(cells.count, dtype=bool)
        grown, squares = weights.copy(), 0.0
        for number, (group, part) in enumerate(zip(cells.groups, cells.parts(shares), strict=True)):
            commonest = int(part.argmax())
            rest = 1.0
            if group != Tree() and part[commonest] > recipe.often:
                zero[cells.offsets[number] + commonest] = True
                rest = 1 - min(float(part[commonest]), 1.0)
                grown[number] *= min(recipe.most_growth, max(rest, _LEAST_REST) ** -recipe.growth)
            squares += grown[number] ** 2 * rest
        classes = self.schema.classes
        return Design(
            cells=cells,
            weights=np.maximum(np.round(grown * WEIGHT_UNIT), 1).astype(np.int64),
            zero=zero,
            norm=math.ceil(recipe.norm * math.sqrt(squares) * WEIGHT_UNIT),
            # The residual vector of two classes, (−r, r), is √2 times as long as r.
            residual=recipe.residual * (1 if classes == 2 else math.sqrt(2)),
            classes=classes,
        )

    def _descend(self, answers: Answers, design: Design, records: float, share: float) -> Floats:
        """Return the average of the last scores."""
        recipe = self.recipe
        signal = records * self.ratio / 1e4
        steps = int(np.clip(round(recipe.steps * signal**0.4), recipe.fewest, recipe.most))
        gradient = answers.gradients(design, self._part(share / steps))
        # With one score per class, a step of half the size moves the difference of two classes as far.
        size = recipe.step_size * signal**0.5 / (design.norm / WEIGHT_UNIT) ** 2 / (1 if design.classes == 2 else 2)
        scores = np.zeros((design.cells.count, design.width))
        speed, total = np.zeros_like(scores), np.zeros_like(scores)
        first = int(steps * (1 - recipe.tail))
        for step in range(steps):
            speed = recipe.momentum * speed + gradient(scores) / records + recipe.decay * scores
            scores = scores - size * speed
            if step >= first:
                total += scores
        return total / (steps - first)
