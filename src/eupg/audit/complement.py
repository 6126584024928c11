"""What someone rebuilds from a k-anonymous release who knows every record but a few.

Serves ``linkage``. Permuting moves values inside a group and changes none, so an adversary who knows the raw records of
the group-mates takes their values out of each released column: what is left belongs to the others. The retained records
are used raw in fine-tuning, so this adversary is the one to fear after a forget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Matrix, Names
from eupg.protect.kanonymity import EffectiveK, Groups, effective_k
from eupg.rng import Randomness

Mask = NDArray[np.bool_]
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Complement:
    """What remains hidden from someone who knows every record but the targets.

    Parameters
    ----------
    linked
        Chance to pick a target's own row among those that no known record explains: the mean of 1 over their number.
    rebuilt
        Share of targets all of whose quasi-identifiers come out when what is left of each column is put together at
        random; those alone in their group always do.
    certain
        Share of targets that come out so whatever the luck: at most one attribute still varies in their group.
    effective_k
        How many targeted people hide together in a group.
    """

    linked: float
    rebuilt: float
    certain: float
    effective_k: EffectiveK

    @classmethod
    def of(cls, shares: Sequence[tuple[float, float]], groups: Groups, wanted: Mask, subjects: Names) -> Complement:
        """Put together what :func:`subtract` found in each release, and how the targets share their groups."""
        rebuilt, certain = np.mean(shares, axis=0)
        # Summed over the targets, 1 over the targets in one's group gives 1 a group.
        linked = len(np.unique(groups[wanted])) / wanted.sum()
        return cls(float(linked), float(rebuilt), float(certain), effective_k(groups, wanted, subjects))


def subtract(truth: Matrix, shown: Matrix, groups: Groups, wanted: Mask, rng: Randomness) -> tuple[float, float]:
    """Take all other records out of a release, put the rest together at random, and see what comes out right.

    Parameters
    ----------
    truth, shown
        Quasi-identifiers of the records, and of the released rows, each row in the place of a record of its group.
    groups, wanted
        Group of each record, and whether it is a target.
    rng
        Randomness of putting together.

    Returns
    -------
    tuple of float
        Share of targets rebuilt in all their quasi-identifiers, and share rebuilt whatever the luck.
    """
    present, targets = np.unique(groups[wanted]), wanted.sum()
    inside = np.isin(groups, present)
    truth, shown, wanted = truth[inside], shown[inside], wanted[inside]
    place = np.searchsorted(present, groups[inside])
    coded = [np.unique(np.concatenate(pair), return_inverse=True)[1] for pair in zip(truth.T, shown.T, strict=True)]
    true, released = np.split(np.stack(coded, axis=1), 2)
    columns = [_left(released[:, j], true[:, j], place, wanted) for j in range(true.shape[1])]
    # A known value that is missing from a group was changed, not moved: there the subtraction fails.
    failed = np.unique(np.concatenate([missing for _, _, missing in columns]))
    wanted = wanted & ~np.isin(place, failed)
    if not wanted.any():
        return 0.0, 0.0
    home = np.sort(place[wanted])
    left = np.stack([codes[~np.isin(where, failed)] for where, codes, _ in columns], axis=1)
    rebuilt = _common(_assembled(left, home, rng), home, true[wanted], place[wanted])
    return float(rebuilt / targets), float(_settled(left, home) / targets)


def _left(released: Codes, true: Codes, place: Codes, wanted: Mask) -> tuple[Codes, Codes, Codes]:
    """Return what a column holds beyond the known records, by group, and the groups that lack a known value."""
    width = int(max(released.max(), true.max())) + 1
    keys = np.concatenate([place * width + released, (place * width + true)[~wanted]])
    distinct, number = np.unique(keys, return_inverse=True)
    more, less = (np.bincount(n, minlength=len(distinct)) for n in np.split(number, [len(released)]))
    rest = np.repeat(distinct, np.maximum(more - less, 0))
    return rest // width, rest % width, distinct[more < less] // width


def _assembled(left: Codes, home: Codes, rng: Randomness) -> Codes:
    columns = [left[rng.stage(f"column {j}").permutation_within(home), j] for j in range(left.shape[1])]
    return np.stack(columns, axis=1)


def _common(guessed: Codes, home: Codes, true: Codes, place: Codes) -> int:
    """Count the true rows that are among the guessed ones of their group, equal rows as often as they occur."""
    rows = np.column_stack([np.concatenate([home, place]), np.concatenate([guessed, true])])
    number = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    here, there = (np.bincount(n, minlength=number.max() + 1) for n in np.split(number, 2))
    return int(np.minimum(here, there).sum())


def _settled(left: Codes, home: Codes) -> int:
    """Count the rows of groups where at most one attribute varies: there is one way only to put them together."""
    size = np.bincount(home)
    size = size[size > 0]
    starts = np.cumsum(size) - size
    varying = np.maximum.reduceat(left, starts, axis=0) != np.minimum.reduceat(left, starts, axis=0)
    return int(size[varying.sum(axis=1) <= 1].sum())
