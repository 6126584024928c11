"""A base model with its scores of the records, so that ``forget`` does not compute them again.

Boosted trees that continue from a base model use its scores alone, and these do not change when a person leaves. Scores
are looked up by the row's values, so a changed record is a new one, and no name is kept. They live beside a trained
model in memory: files hold the base model alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Matrix
from eupg.forget.summed_base import SummedBase
from eupg.learn.learner import Model, Scores, Scoring

Words = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class ScoredBase:
    """A base model and its scores of some rows.

    Parameters
    ----------
    base, scores
        The model, and its score of each row.
    digests
        64 bits per row that follow from its values. Different rows collide as rarely as random numbers, and nobody can
        construct a collision, since the key is drawn for this model.
    key
        The key of the digests: one odd number per column.
    """

    base: Model
    scores: Scores = field(repr=False)
    digests: Words = field(repr=False)
    key: Words = field(repr=False)

    @classmethod
    def of(cls, base: Model, X: Matrix, learner: Scoring) -> ScoredBase:
        """Compute a base model's scores of these rows."""
        key = np.frombuffer(os.urandom(8 * X.shape[1]), dtype=np.uint64) | np.uint64(1)
        return cls(base, learner.scores(base, X), _digests(X, key), key)

    def on(self, X: Matrix, learner: Scoring) -> ScoredBase:
        """Return the scores of exactly these rows; only rows that are new are scored."""
        digests = _digests(X, self.key)
        order = np.argsort(self.digests)
        place = np.searchsorted(self.digests[order], digests)
        known = order[np.minimum(place, len(order) - 1)]
        scores, new = self.scores[known], self.digests[known] != digests
        if new.any():
            scores[new] = learner.scores(self.base, X[new])
        return ScoredBase(self.base, scores, digests, self.key)


def scored(memory: Model | ScoredBase, X: Matrix, learner: Scoring) -> ScoredBase:
    """Return a base model with its scores of these rows, reusing those that are remembered."""
    return memory.on(X, learner) if isinstance(memory, ScoredBase) else ScoredBase.of(memory, X, learner)


def base_of(memory: object) -> object:
    """Return the base model itself, where a memory holds its scores or sums too."""
    return memory.base if isinstance(memory, ScoredBase | SummedBase) else memory


def _digests(X: Matrix, key: Words) -> Words:
    """Mix the bits of a row's values; a missing value has its own bits."""
    words = np.ascontiguousarray(X, dtype=np.float64).view(np.uint64)
    # Whole numbers have all their bits at the upper end, where a product does not spread them.
    words = words ^ (words >> np.uint64(32))
    mixed = np.zeros(len(words), dtype=np.uint64)
    for column, odd in zip(words.T, key, strict=True):
        mixed ^= column
        mixed *= odd
        mixed ^= mixed >> np.uint64(32)
    return mixed
