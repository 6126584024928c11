"""A base model with what it said of each record: a forget need not ask it about the same records again.

Boosted trees that go on from a base model use its answers alone, and these do not change when somebody leaves. They are
found again by the row's values, so a record that was changed is a new one, and no name is kept. This lives beside a
trained model in memory: files hold the base model alone, and whoever starts from a file asks it once.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Matrix
from eupg.learn.learner import Model, Scores, Scoring

Words = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class ScoredBase:
    """A base model and its scores of some rows.

    Parameters
    ----------
    base
        The model.
    scores
        What it says of each row.
    digests
        64 bits for each row that follow from its values. Different rows share them as rarely as random numbers do, and
        nobody can make such rows, since the key is drawn for this model.
    key
        Makes the digests: an odd number for each column.
    """

    base: Model
    scores: Scores = field(repr=False)
    digests: Words = field(repr=False)
    key: Words = field(repr=False)

    @classmethod
    def of(cls, base: Model, X: Matrix, learner: Scoring) -> ScoredBase:
        """Ask a base model about these rows."""
        key = np.frombuffer(os.urandom(8 * X.shape[1]), dtype=np.uint64) | np.uint64(1)
        return cls(base, learner.scores(base, X), _digests(X, key), key)

    def on(self, X: Matrix, learner: Scoring) -> ScoredBase:
        """Return the same for these rows and no others; only those that were not there before are asked about."""
        digests = _digests(X, self.key)
        order = np.argsort(self.digests)
        place = np.searchsorted(self.digests[order], digests)
        found = order[np.minimum(place, len(order) - 1)]
        scores, new = self.scores[found], self.digests[found] != digests
        if new.any():
            scores[new] = learner.scores(self.base, X[new])
        return ScoredBase(self.base, scores, digests, self.key)


def scored(memory: Model | ScoredBase, X: Matrix, learner: Scoring) -> ScoredBase:
    """Return a base model with its scores of these rows, from what is remembered as far as it goes."""
    return memory.on(X, learner) if isinstance(memory, ScoredBase) else ScoredBase.of(memory, X, learner)


def base_of(memory: object) -> object:
    """Return the base model itself, where a memory holds its scores too."""
    return memory.base if isinstance(memory, ScoredBase) else memory


def _digests(X: Matrix, key: Words) -> Words:
    """Mix the bits of a row's values; a missing value has its own."""
    words = np.ascontiguousarray(X, dtype=np.float64).view(np.uint64)
    # Whole numbers have all of their bits at the upper end, where a product does not spread them.
    words = words ^ (words >> np.uint64(32))
    mixed = np.zeros(len(words), dtype=np.uint64)
    for column, odd in zip(words.T, key, strict=True):
        mixed ^= column
        mixed *= odd
        mixed ^= mixed >> np.uint64(32)
    return mixed
