"""Training under pure ε: histograms, then a few sweeps over the attributes.

With Laplace noise, all cells of a record in one answer cost as much as separate answers about each, and budgets add up
without a root. So every question is about one group of cells: its scores are corrected by the noisy sums of residuals
there, then comes the next group. Nothing here sees a record or knows their number: that is an answer, too. The settings
are the same for all tables, chosen on held-out parts of training records (docs/decisions/pure-private-trees.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eupg.data.schema import Schema
from eupg.forget.private_trees.budget import LaplaceBudget
from eupg.forget.private_trees.noisy_answers import Answers, group_residual
from eupg.learn.leaves.cells import LeafCells
from eupg.learn.leaves.grids import binned_cells, histogram_cells
from eupg.learn.leaves.learner import LeafModel

Floats = NDArray[np.float64]
# The share of ε for histograms of all attributes; the rest is for residuals, less what rounding needs.
_HISTOGRAMS, _ROUNDING = 0.15, 1e-9
# Bins per number and sweeps at 20,000 records and ε = 1, how they grow with records·ε, and their limits.
_BINS, _BINS_GROWTH, _BINS_LIMITS = 12.0, 0.33, (2, 32)
_SWEEPS, _SWEEPS_GROWTH, _SWEEPS_LIMITS = 2.5, 0.25, (1, 4)
# The curvature of the loss per record, and a pull towards zero in units of the noise of an answer.
_CURVATURE, _PULL = 0.15, 4.0


@dataclass(frozen=True)
class PrivateSweeps:
    """Fits a model of leaves to noisy answers within a budget of pure ε."""

    schema: Schema
    budget: LaplaceBudget

    def fit(self, answers: Answers, *, effort: int) -> LeafModel:
        """Ask for histograms, then for residuals, and return the model."""
        fine = histogram_cells(self.schema)
        histograms = answers.counts(fine, self.budget.part(_HISTOGRAMS))
        # Below a few noise levels the number of records cannot be told from zero.
        records = max(float(histograms[0]), 10 / self.budget.ratio)
        bins = self._number(records, _BINS, _BINS_GROWTH, _BINS_LIMITS)
        cells, counts = binned_cells(self.schema, fine, histograms, records, bins)
        sweeps = self._number(records, _SWEEPS, _SWEEPS_GROWTH, _SWEEPS_LIMITS)
        return LeafModel(cells, self._sweep(answers, cells, counts, sweeps), self.schema, effort)

    def _number(self, records: float, typical: float, growth: float, limits: tuple[int, int]) -> int:
        return int(np.clip(round(typical * (records * self.budget.ratio / 2e4) ** growth), *limits))

    def _sweep(self, answers: Answers, cells: LeafCells, counts: Floats, sweeps: int) -> Floats:
        """Return the scores of cells."""
        groups, classes = len(cells.groups), self.schema.classes
        ratio = self.budget.part((1 - _HISTOGRAMS - _ROUNDING) / (sweeps * groups))
        residuals = answers.residuals(cells, classes, ratio)
        noise = math.sqrt(2) * group_residual(classes) / ratio
        scores = np.zeros((cells.count, 1 if classes == 2 else classes))
        steps = 1 / (_CURVATURE * np.maximum(counts, 0) + _PULL * noise)
        for group in list(range(groups)) * sweeps:
            part = slice(cells.offsets[group], cells.offsets[group] + cells.sizes[group])
            scores[part] -= steps[part, None] * residuals(scores, group)
        return scores
