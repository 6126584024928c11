"""Sets of a mechanism's outputs: which to count, how often they came up, and how surely.

Serves ``epsilon_bound``. Outputs are whole numbers, and a set lists some of them; or they are scores, and a set is
what lies at or above, or below, a threshold.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, betaincinv

Floats = NDArray[np.float64]
# Outputs, one a run: whole numbers (int64) or scores (float64).
Sample = NDArray[Any]
# A set of outputs: the listed ones, or those at or above (True) or below (False) a threshold.
OutputSet = NDArray[np.int64] | tuple[float, bool]
_MOST_CUTS = 512
_TINY = 1e-300


def binomial_bounds(hits: ArrayLike, trials: int, *, error: float) -> tuple[Floats, Floats]:
    """Bound a proportion from below and above, each wrong with probability at most ``error``, whatever the truth.

    The exact bounds of Clopper and Pearson (1934), for many counts at once.

    Examples
    --------
    >>> low, high = binomial_bounds(0, 20, error=0.05)
    >>> float(low), round(float(high), 4)  # the upper bound solves (1 − p)²⁰ = 0.05
    (0.0, 0.1391)
    """
    seen = np.asarray(hits, dtype=np.float64)
    low = np.where(seen > 0, betaincinv(np.where(seen > 0, seen, 1), trials - seen + 1, error), 0.0)
    high = np.where(seen < trials, betainccinv(seen + 1, np.where(seen < trials, trials - seen, 1), error), 1.0)
    return low, high


def choose(a: Sample, b: Sample, error: float, delta: float) -> tuple[OutputSet, bool]:
    """Return the set that shows the largest ε on these runs, and whether the second input favours it.

    Whole numbers are ranked on one half of the runs by how much the first input favours them. The other half chooses
    between all those above, or below, a rank (no other set does better, were the ranking exact) and a plain threshold.
    """
    if a.dtype == np.float64:
        _, cut, above, swapped = _best_cut(a, b, error, delta)
        return (cut, above), swapped
    ranked = _ranked(a, b)
    a, b = a[1::2], b[1::2]
    by_rank = _best_cut(_ranks(ranked, a), _ranks(ranked, b), error, delta)
    by_value = _best_cut(a.astype(np.float64), b.astype(np.float64), error, delta)
    _, cut, above, swapped = max(by_rank, by_value)
    if by_value > by_rank:
        return (cut, above), swapped
    rank = np.arange(len(ranked))
    return np.sort(ranked[rank >= cut if above else rank < cut]), swapped


def _best_cut(a: Floats, b: Floats, error: float, delta: float) -> tuple[float, float, bool, bool]:
    """Return the largest ε of all thresholds, the threshold, its side, and whether the second input favours it."""
    cuts = _cuts(np.concatenate([a, b]))
    # Of many sets some rare one looks good by luck: sharing the error among all keeps to those that would repeat.
    error /= 4 * len(cuts)
    below = [np.searchsorted(np.sort(scores), cuts) for scores in (a, b)]
    best = (-math.inf, 0.0, True, False)
    for above in (True, False):
        first, second = (len(s) - under if above else under for s, under in zip((a, b), below, strict=True))
        for swapped, hits in ((False, (first, len(a), second, len(b))), (True, (second, len(b), first, len(a)))):
            shown = epsilons(*hits, error, delta)
            i = int(shown.argmax())
            best = max(best, (float(shown[i]), float(cuts[i]), above, swapped))
    return best


def _ranked(a: Sample, b: Sample) -> Sample:
    """Return the distinct outputs in the order of their ratio on every other run; one not seen there has none."""
    outputs, codes = np.unique(np.concatenate([a, b]), return_inverse=True)
    seen, others = (np.bincount(c[::2], minlength=len(outputs)) for c in np.split(codes, [len(a)]))
    return np.asarray(outputs[np.argsort((seen + 1) / (others + 1), kind="stable")])


def _ranks(ranked: Sample, sample: Sample) -> Floats:
    order = np.argsort(ranked)
    return order[np.searchsorted(ranked[order], sample)].astype(np.float64)


def _cuts(scores: Floats) -> Floats:
    """Return every distinct score, or the quantiles of many, both tails closely: large ratios sit there."""
    distinct = np.unique(scores)
    if len(distinct) <= _MOST_CUTS:
        return distinct
    tail = np.geomspace(1e-5, 0.5, _MOST_CUTS // 2)
    return np.unique(np.quantile(scores, np.concatenate([tail, 1 - tail]), method="higher"))


def epsilons(hits: ArrayLike, runs: int, others: ArrayLike, other_runs: int, error: float, delta: float) -> Floats:
    """Return log((low − δ) / high); each of the two bounds is wrong with half of the error."""
    low, _ = binomial_bounds(hits, runs, error=error / 2)
    _, high = binomial_bounds(others, other_runs, error=error / 2)
    return np.asarray(np.log(np.maximum(low - delta, _TINY) / high))


def words(outputs: OutputSet) -> str:
    """Describe a set."""
    if isinstance(outputs, tuple):
        return f"an output {'of at least' if outputs[1] else 'below'} {outputs[0]:g}"
    shown = ", ".join(str(o) for o in outputs[:6].tolist())
    return f"an output in {{{shown}{f' and {len(outputs) - 6} more' if len(outputs) > 6 else ''}}}"


def count(outputs: OutputSet, sample: Sample) -> int:
    """Return how many outputs of the sample are in the set."""
    if isinstance(outputs, tuple):
        return int((sample >= outputs[0] if outputs[1] else sample < outputs[0]).sum())
    return int(np.isin(sample, outputs).sum())
