"""The ROC curve of an attack, the area under it (AUC), and their uncertainty.

All values are shares between 0 and 1. The variance of the AUC follows DeLong, DeLong and Clarke-Pearson (1988),
computed from ranks as in Sun and Xu (2014).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from eupg.audit.intervals import Interval, clopper_pearson
from eupg.audit.membership.signals import Floats, Mask, check_members
from eupg.errors import DataError, ParameterError

People = NDArray[np.int64]


def roc_curve(scores: Floats, members: Mask) -> tuple[Floats, Floats]:
    """Return the false-positive and true-positive rates at every threshold, from no alarm to all.

    Records with equal scores share a threshold: the curve has one point per distinct score, and (0, 0).

    Examples
    --------
    >>> fpr, tpr = roc_curve(np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False]))
    >>> fpr.tolist(), tpr.tolist()
    ([0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0])
    """
    alarms, hits = _counts(scores, members)
    return alarms / alarms[-1], hits / hits[-1]


def auc(scores: Floats, members: Mask) -> float:
    """Return the probability that a member scores above a non-member; ties count half.

    Examples
    --------
    >>> auc(np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False]))
    0.875
    """
    scores, members = check_scores(scores, members)
    m, n = int(members.sum()), int((~members).sum())
    return float((average_ranks(scores)[members].sum() - m * (m + 1) / 2) / (m * n))


def average_ranks(values: Floats) -> Floats:
    """Return the rank of each value from 1 up; equal values share the mean of their ranks.

    Examples
    --------
    >>> average_ranks(np.array([0.5, 0.1, 0.5, 0.9])).tolist()
    [2.5, 1.0, 2.5, 4.0]
    """
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = np.cumsum(counts) - (counts - 1) / 2
    return ranks[places]


def standard_errors(level: float) -> float:
    """Return how many standard errors an interval of this level reaches to each side, under a normal distribution.

    Examples
    --------
    >>> round(standard_errors(0.95), 2)
    1.96
    """
    return float(-ndtri((1 - level) / 2))


def delong(scores: Floats, members: Mask, people: People | None = None) -> tuple[float, float]:
    """Return the AUC and its variance.

    The variance is infinite if one side has a single person, and zero if all comparisons agree (perfect separation, or
    all scores tied); :func:`auc_interval` handles both. ``people`` numbers the person of each record. Records of one
    person are not independent, so their deviations are added before they are squared (Obuchowski 1997). By default
    every record belongs to a different person.
    """
    scores, members = check_scores(scores, members)
    over, under = placements(scores, members)
    return float(over.mean()), _variance(over, under, members, people)


def delong_difference(
    scores_a: Floats, scores_b: Floats, members: Mask, people: People | None = None
) -> tuple[float, float]:
    """Return the difference of two AUCs on the same records, a − b, and its variance."""
    scores_a, members = check_scores(scores_a, members)
    scores_b, members = check_scores(scores_b, members)
    over_a, under_a = placements(scores_a, members)
    over_b, under_b = placements(scores_b, members)
    # The variance of the paired differences includes the covariance.
    variance = _variance(over_a - over_b, under_a - under_b, members, people)
    return float(over_a.mean() - over_b.mean()), variance


def _variance(over: Floats, under: Floats, members: Mask, people: People | None) -> float:
    """Return the variance of the mean placement, with deviations added up within each person."""
    if people is None or len(np.unique(people)) == len(people):
        return _spread(over) / len(over) + _spread(under) / len(under)
    sides = [(over, people[members]), (under, people[~members])]
    size = int(people.max()) + 1
    sums = [np.bincount(who, (v - v.mean()) / len(v), minlength=size) for v, who in sides]
    counts = [len(np.unique(who)) for _, who in sides]
    if min(counts) < 2:
        return math.inf
    total = len(np.unique(people))
    own = sum(n / (n - 1) * float((s**2).sum()) for s, n in zip(sums, counts, strict=True))
    variance = own + 2 * total / (total - 1) * float((sums[0] * sums[1]).sum())
    return variance if variance > 1e-20 else 0.0


def _spread(values: Floats) -> float:
    # Anything below 1e-20 is rounding: placements are multiples of one half divided by a count.
    spread = float(values.var(ddof=1)) if len(values) > 1 else math.inf
    return spread if spread > 1e-20 else 0.0


def auc_interval(area: float, variance: float, members: int, nonmembers: int, *, level: float) -> Interval:
    """Return the interval of the AUC; without a usable variance, a wider one that always holds.

    The wider interval uses min(members, nonmembers) disjoint pairs. These are independent, and the AUC is the share of
    pairs in which the member scores higher.
    """
    if not 0 < variance < math.inf:
        pairs = min(members, nonmembers)
        return clopper_pearson(area * pairs, pairs, level=level)
    reach = standard_errors(level) * math.sqrt(variance)
    return max(0.0, area - reach), min(1.0, area + reach)


def null_error(members: int, nonmembers: int) -> float:
    """Return the standard error of the AUC if members and non-members do not differ, for scores without ties.

    Examples
    --------
    >>> round(null_error(1628, 1628), 4)
    0.0101
    """
    return math.sqrt((members + nonmembers + 1) / (12 * members * nonmembers))


def tpr_at_fpr(scores: Floats, members: Mask, fpr: float) -> tuple[int, int]:
    """Return the numbers of members and non-members above the last threshold whose FPR is at most ``fpr``.

    There is no interpolation: an attacker could set this threshold.

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
    """Return the probability of at least ``hits`` true positives at this FPR if members and non-members do not differ.

    With k alarms allowed, ``hits`` or more members score above the (k+1)-th non-member exactly when the top hits + k
    records include at most k non-members, and every order of the records is equally likely. With tied scores this is an
    upper bound.
    """
    allowed = _allowed(fpr, nonmembers)
    if allowed >= nonmembers:
        return 1.0
    # Loaded where it is needed: most commands compute no such chance, and scipy.stats is slow to load.
    from scipy.stats import hypergeom

    return float(hypergeom.cdf(allowed, members + nonmembers, nonmembers, hits + allowed))


def placements(scores: Floats, members: Mask) -> tuple[Floats, Floats]:
    """Return each member's share of non-members below it, and each non-member's share of members above it."""
    ranks, m, n = average_ranks(scores), int(members.sum()), int((~members).sum())
    over = (ranks[members] - average_ranks(scores[members])) / n
    under = 1 - (ranks[~members] - average_ranks(scores[~members])) / m
    return over, under


def check_scores(scores: Floats, members: Mask) -> tuple[Floats, Mask]:
    """Return the scores and the mask, or refuse them."""
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1:
        raise DataError(f"scores must be one number per record, got an array of shape {values.shape}")
    unknown = int(np.isnan(values).sum())
    if unknown:
        raise DataError(f"{unknown} of {len(values)} scores are NaN: look for a NaN in the signals or in the attack")
    return values, check_members(members, len(values))


def _counts(scores: Floats, members: Mask) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of non-members and members at or above each distinct score, highest first; they start at 0."""
    scores, members = check_scores(scores, members)
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    hits = np.cumsum(members[order])[last]
    return np.concatenate([[0], last + 1 - hits]), np.concatenate([[0], hits])


def _allowed(fpr: float, nonmembers: int) -> int:
    """Return how many false alarms a rate allows; 1e-9 undoes rounding, as in 0.29 · 100."""
    if not 0 <= fpr <= 1:
        raise ParameterError(f"fpr must lie between 0 and 1, got {fpr!r}: 0.01 is one per cent")
    return math.floor(fpr * nonmembers + 1e-9)
