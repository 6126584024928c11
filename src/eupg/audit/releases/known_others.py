"""Reconstruction from a k-anonymous release by an adversary who knows every record except a few.

Permuting moves values inside a group and changes none. An adversary who knows the raw records of the group-mates
subtracts their values from each released column; the remaining values belong to the others. The retained records are
used raw in fine-tuning, so this is the adversary to fear after a forget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Matrix, Names
from eupg.protect.kanonymity import EffectiveK, effective_k
from eupg.protect.microaggregation.groups import Groups
from eupg.rng import Randomness

Mask = NDArray[np.bool_]
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Complement:
    """What is learned by an adversary who knows every record except the targets.

    ``linked`` is the probability of picking a target's own row among those that no known record explains, ``rebuilt``
    the share of targets whose quasi-identifiers all come out right when the remaining values are combined at random,
    and ``certain`` the share of those that always do, because at most one attribute still varies in their group.
    ``effective_k`` tells how many targeted people hide together in a group.
    """

    linked: float
    rebuilt: float
    certain: float
    effective_k: EffectiveK

    @classmethod
    def of(cls, shares: Sequence[tuple[float, float]], groups: Groups, wanted: Mask, subjects: Names) -> Complement:
        """Summarise the results of :func:`subtract` over several releases."""
        rebuilt, certain = np.mean(shares, axis=0)
        # Summed over the targets, one divided by the number of targets in the group gives 1 per group.
        linked = len(np.unique(groups[wanted])) / wanted.sum()
        return cls(float(linked), float(rebuilt), float(certain), effective_k(groups, wanted, subjects))


def subtract(truth: Matrix, shown: Matrix, groups: Groups, wanted: Mask, rng: Randomness) -> tuple[float, float]:
    """Subtract all known records from a release and combine the remaining values at random.

    ``truth`` and ``shown`` hold the quasi-identifiers of the records and of the released rows, each row in the place of
    a record of its group; ``wanted`` marks the targets. Returns the shares of targets that are rebuilt in all their
    quasi-identifiers, by luck or not, and with certainty.
    """
    present, targets = np.unique(groups[wanted]), wanted.sum()
    inside = np.isin(groups, present)
    truth, shown, wanted = truth[inside], shown[inside], wanted[inside]
    place = np.searchsorted(present, groups[inside])
    coded = [np.unique(np.concatenate(pair), return_inverse=True)[1] for pair in zip(truth.T, shown.T, strict=True)]
    true, released = np.split(np.stack(coded, axis=1), 2)
    columns = [_remaining(released[:, j], true[:, j], place, wanted) for j in range(true.shape[1])]
    # If a group lacks a known value, the value was changed and not moved: there the subtraction fails.
    failed = np.unique(np.concatenate([missing for _, _, missing in columns]))
    wanted = wanted & ~np.isin(place, failed)
    if not wanted.any():
        return 0.0, 0.0
    home = np.sort(place[wanted])
    values = np.stack([codes[~np.isin(where, failed)] for where, codes, _ in columns], axis=1)
    shuffled = [values[rng.stage(f"column {j}").permutation_within(home), j] for j in range(values.shape[1])]
    rebuilt = _count_common(np.stack(shuffled, axis=1), home, true[wanted], place[wanted])
    return float(rebuilt / targets), float(_count_certain(values, home) / targets)


def _remaining(released: Codes, true: Codes, place: Codes, wanted: Mask) -> tuple[Codes, Codes, Codes]:
    """Return the groups and values of a column beyond the known records, and the groups that lack a known value."""
    width = int(max(released.max(), true.max())) + 1
    keys = np.concatenate([place * width + released, (place * width + true)[~wanted]])
    distinct, number = np.unique(keys, return_inverse=True)
    more, less = (np.bincount(n, minlength=len(distinct)) for n in np.split(number, [len(released)]))
    rest = np.repeat(distinct, np.maximum(more - less, 0))
    return rest // width, rest % width, distinct[more < less] // width


def _count_common(guessed: Codes, home: Codes, true: Codes, place: Codes) -> int:
    """Count the true rows among the guessed rows of their group; equal rows count as often as they occur."""
    rows = np.column_stack([np.concatenate([home, place]), np.concatenate([guessed, true])])
    number = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    here, there = (np.bincount(n, minlength=number.max() + 1) for n in np.split(number, 2))
    return int(np.minimum(here, there).sum())


def _count_certain(values: Codes, home: Codes) -> int:
    """Count the rows of groups in which at most one attribute varies: there is only one way to combine them."""
    size = np.bincount(home)
    size = size[size > 0]
    starts = np.cumsum(size) - size
    varying = np.maximum.reduceat(values, starts, axis=0) != np.minimum.reduceat(values, starts, axis=0)
    return int(size[varying.sum(axis=1) <= 1].sum())
