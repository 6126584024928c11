"""How well scores tell members from non-members: the ROC curve, its area, and how far chance could move either.

Everything here is a share between 0 and 1. The variance of the area is DeLong, DeLong and Clarke-Pearson's (1988),
computed from ranks as Sun and Xu (2014) do; intervals of shares are Clopper and Pearson's (1934).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom, norm, rankdata

from eupg.audit.output_sets import binomial_bounds
from eupg.audit.signals import Floats, Mask, check_members
from eupg.errors import DataError, ParameterError

Interval = tuple[float, float]


def roc_curve(scores: Floats, members: Mask) -> tuple[Floats, Floats]:
    """Return the false-positive and true-positive shares at every threshold, from none accused to all.

    Equal scores are accused together, so the curve has one point per distinct score, and (0, 0).

    Examples
    --------
    >>> fpr, tpr = roc_curve(np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False]))
    >>> fpr.tolist(), tpr.tolist()
    ([0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0])
    """
    alarms, hits = _counts(scores, members)
    return alarms / alarms[-1], hits / hits[-1]


def auc(scores: Floats, members: Mask) -> float:
    """Return the chance that a member scores above a non-member, ties counting half.

    Examples
    --------
    >>> auc(np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False]))
    0.875
    """
    scores, members = check_scores(scores, members)
    m, n = int(members.sum()), int((~members).sum())
    return float((rankdata(scores)[members].sum() - m * (m + 1) / 2) / (m * n))


def delong(scores: Floats, members: Mask, people: NDArray[np.int64] | None = None) -> tuple[float, float]:
    """Return the area under the curve and its variance.

    The variance is infinite where a side has one person only: its spread cannot be seen. It is zero where all members,
    and all non-members, compare alike (perfect separation, all tied); :func:`auc_interval` knows what to do then.

    Parameters
    ----------
    scores, members
        One number per record, and whether it is a member's.
    people
        A number for the person of each record. Records of one person are not independent, and their deviations are
        added up before they are squared (Obuchowski 1997). By default each record is a person of its own.
    """
    scores, members = check_scores(scores, members)
    over, under = placements(scores, members)
    return float(over.mean()), _variance(over, under, members, people)


def delong_difference(
    scores_a: Floats, scores_b: Floats, members: Mask, people: NDArray[np.int64] | None = None
) -> tuple[float, float]:
    """Return the difference of two areas, a − b, and its variance, where both score the same records in one order."""
    scores_a, members = check_scores(scores_a, members)
    scores_b, members = check_scores(scores_b, members)
    over_a, under_a = placements(scores_a, members)
    over_b, under_b = placements(scores_b, members)
    # The variance of a difference of means of pairs holds the covariance already.
    variance = _variance(over_a - over_b, under_a - under_b, members, people)
    return float(over_a.mean() - over_b.mean()), variance


def _variance(over: Floats, under: Floats, members: Mask, people: NDArray[np.int64] | None) -> float:
    """Return the variance of the mean of placements, whose deviations go together within a person."""
    if people is None or len(np.unique(people)) == len(people):
        return _spread(over) / len(over) + _spread(under) / len(under)
    sides = [(over, people[members]), (under, people[~members])]
    size = int(people.max()) + 1
    sums = [np.bincount(who, (v - v.mean()) / len(v), minlength=size) for v, who in sides]
    counts = [len(np.unique(who)) for _, who in sides]
    if min(counts) < 2:
        return math.inf
    everybody = len(np.unique(people))
    own = sum(n / (n - 1) * float((s**2).sum()) for s, n in zip(sums, counts, strict=True))
    variance = own + 2 * everybody / (everybody - 1) * float((sums[0] * sums[1]).sum())
    return variance if variance > 1e-20 else 0.0


def auc_interval(area: float, variance: float, members: int, nonmembers: int, *, level: float) -> Interval:
    """Return the area's interval; where DeLong's variance says nothing, a wider one that always holds.

    That one takes min(members, nonmembers) pairs with no record in common: they are independent, and the area is the
    share of them that a member wins.
    """
    if not 0 < variance < math.inf:
        pairs = min(members, nonmembers)
        return clopper_pearson(area * pairs, pairs, level=level)
    reach = float(norm.isf((1 - level) / 2)) * math.sqrt(variance)
    return max(0.0, area - reach), min(1.0, area + reach)


def null_error(members: int, nonmembers: int) -> float:
    """Return the area's standard error if members and non-members were alike, for scores without ties.

    Examples
    --------
    >>> round(null_error(1628, 1628), 4)
    0.0101
    """
    return math.sqrt((members + nonmembers + 1) / (12 * members * nonmembers))


def tpr_at_fpr(scores: Floats, members: Mask, fpr: float) -> tuple[int, int]:
    """Return how many members, and non-members, are accused at the last threshold whose FPR is at most the one given.

    There is no interpolation: the counts belong to a threshold that an attacker could set.

    Examples
    --------
    >>> scores, members = np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False])
    >>> tpr_at_fpr(scores, members, 0.4), tpr_at_fpr(scores, members, 0.5)
    ((1, 0), (2, 1))
    """
    alarms, hits = _counts(scores, members)
    place = int(np.searchsorted(alarms, _allowed(fpr, int(alarms[-1])), side="right")) - 1
    return int(hits[place]), int(alarms[place])


def chance_of_hits(hits: int, members: int, nonmembers: int, fpr: float) -> float:
    """Return how often chance alone finds that many members, or more, at that false-positive rate.

    With k alarms allowed, ``hits`` or more members stand above the (k+1)-th non-member exactly when the first hits + k
    of all records, in order of score, hold at most k non-members; if members and non-members are alike, every order is
    equally likely. Where scores tie, chance finds fewer, and this is an upper bound.
    """
    allowed = _allowed(fpr, nonmembers)
    if allowed >= nonmembers:
        return 1.0
    return float(hypergeom.cdf(allowed, members + nonmembers, nonmembers, hits + allowed))


def clopper_pearson(hits: float, trials: int, *, level: float) -> Interval:
    """Return the exact interval of a share, seen ``hits`` times in ``trials``.

    Examples
    --------
    >>> [round(v, 4) for v in clopper_pearson(0, 10, level=0.95)]  # 0 and 1 − 0.025^(1/10)
    [0.0, 0.3085]
    """
    low, high = binomial_bounds(hits, trials, error=(1 - check_level(level)) / 2)
    return float(low), float(high)


def check_level(level: float) -> float:
    """Return the confidence level if it is one."""
    if not 0 < level < 1:
        raise ParameterError(f"level must lie between 0 and 1, got {level!r}: 0.95, say")
    return level


def check_scores(scores: Floats, members: Mask) -> tuple[Floats, Mask]:
    """Return the scores and mask if they belong together and both sides are there; else refuse them."""
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1:
        raise DataError(f"scores must be one number per record, got an array of shape {values.shape}")
    unknown = int(np.isnan(values).sum())
    if unknown:
        raise DataError(f"{unknown} of {len(values)} scores are NaN: look for a NaN in the signals or in the attack")
    return values, check_members(members, len(values))


def _counts(scores: Floats, members: Mask) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many non-members, and members, score at least each distinct score, from the highest; first (0, 0)."""
    scores, members = check_scores(scores, members)
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    hits = np.cumsum(members[order])[last]
    return np.concatenate([[0], last + 1 - hits]), np.concatenate([[0], hits])


def placements(scores: Floats, members: Mask) -> tuple[Floats, Floats]:
    """Return each member's share of non-members below it, and each non-member's share of members above it."""
    ranks, m, n = rankdata(scores), int(members.sum()), int((~members).sum())
    over = (ranks[members] - rankdata(scores[members])) / n
    under = 1 - (ranks[~members] - rankdata(scores[~members])) / m
    return over, under


def _spread(values: Floats) -> float:
    # What is left of rounding is no spread: placements are multiples of a half over the other side's number.
    spread = float(values.var(ddof=1)) if len(values) > 1 else math.inf
    return spread if spread > 1e-20 else 0.0


def _allowed(fpr: float, nonmembers: int) -> int:
    """Return how many alarms a false-positive rate allows; the hair undoes rounding, as in 0.29 · 100."""
    if not 0 <= fpr <= 1:
        raise ParameterError(f"fpr must lie between 0 and 1, got {fpr!r}: 0.01 is one per cent")
    return math.floor(fpr * nonmembers + 1e-9)
