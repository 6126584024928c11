"""Which pairs of features belong together, given the label: the tree of a synthesis.

A pair's score is the L1 distance between its counts a class and those that the single features, already noisy, let
expect. One more record changes one count by one and nothing that is expected, so it moves the score by at most one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from eupg.protect.exact_noise import exponential_choice
from eupg.protect.marginals import Counts, independent
from eupg.protect.synthesis_budget import Budget
from eupg.rng import Randomness

Codes = NDArray[np.int64]
Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Binned:
    """Records as bins of each feature and a class, with what is known of each feature by noisy counts.

    Parameters
    ----------
    codes
        The bin of every record, one array a feature.
    y
        The class of every record.
    singles
        Noisy counts of each feature's bins (rows) in each class (columns), none negative.
    """

    codes: list[Codes]
    y: Codes
    singles: list[Counts]

    def counts(self, pair: Pair) -> NDArray[np.int64]:
        """Count the records in each class, bin of the first feature and bin of the second."""
        (i, j), classes = pair, self.singles[0].shape[1]
        shape = (classes, len(self.singles[i]), len(self.singles[j]))
        place = (self.y * shape[1] + self.codes[i]) * shape[2] + self.codes[j]
        return np.bincount(place, minlength=int(np.prod(shape))).reshape(shape)

    def score(self, pair: Pair, noise: float) -> int:
        """Score a pair, less what the noise of measuring it would cost: a larger table must be worth it."""
        expected = independent(*(self.singles[i].T for i in pair))
        counts = self.counts(pair)
        return int(np.abs(counts - np.rint(expected).astype(np.int64)).sum()) - round(noise * counts.size)


def choose_tree(binned: Binned, budget: Budget, rng: Randomness) -> list[Pair]:
    """Choose pairs one by one, by the exponential mechanism, until they connect all features."""
    features = len(binned.codes)
    scores = {pair: binned.score(pair, budget.pair.size) for pair in combinations(range(features), 2)}
    part, chosen = np.arange(features), []
    for step in range(features - 1):
        left = [pair for pair in scores if part[pair[0]] != part[pair[1]]]
        pick = exponential_choice([scores[pair] for pair in left], budget.choice, rng.stage(f"choice {step}"))
        first, second = left[pick]
        chosen.append((first, second))
        part[part == part[second]] = part[first]
    return chosen


def measure(binned: Binned, pair: Pair, budget: Budget, rng: Randomness) -> Counts:
    """Return the noisy counts of a chosen pair: class, first feature, second feature."""
    counts = binned.counts(pair)
    return np.asarray(counts + budget.pair.draw(counts.size, rng).reshape(counts.shape), dtype=np.float64)


def outward(pairs: list[Pair]) -> list[Pair]:
    """Return the tree's pairs from where most of them meet outwards, each as (known feature, next feature)."""
    if not pairs:
        return []
    known, left, ordered = {int(np.bincount(np.ravel(pairs)).argmax())}, list(pairs), []
    while left:
        pair = next(p for p in left if known & set(p))
        left.remove(pair)
        ordered.append(pair if pair[0] in known else (pair[1], pair[0]))
        known |= set(pair)
    return ordered
