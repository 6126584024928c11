"""Exact confidence bounds of a proportion (Clopper and Pearson, 1934)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, betaincinv

from eupg.errors import ParameterError

Floats = NDArray[np.float64]
Interval = tuple[float, float]


def binomial_bounds(hits: ArrayLike, trials: int, *, error: float) -> tuple[Floats, Floats]:
    """Return a lower and an upper bound of a proportion for each count.

    Each bound is wrong with probability at most ``error``, whatever the true proportion is.

    Examples
    --------
    >>> low, high = binomial_bounds(0, 20, error=0.05)
    >>> float(low), round(float(high), 4)  # the upper bound solves (1 − p)²⁰ = 0.05
    (0.0, 0.1391)
    """
    counts = np.asarray(hits, dtype=np.float64)
    low = np.where(counts > 0, betaincinv(np.where(counts > 0, counts, 1), trials - counts + 1, error), 0.0)
    high = np.where(counts < trials, betainccinv(counts + 1, np.where(counts < trials, trials - counts, 1), error), 1.0)
    return low, high


def clopper_pearson(hits: float, trials: int, *, level: float) -> Interval:
    """Return the exact interval of a proportion that was observed ``hits`` times in ``trials``.

    Examples
    --------
    >>> [round(v, 4) for v in clopper_pearson(0, 10, level=0.95)]  # 0 and 1 − 0.025^(1/10)
    [0.0, 0.3085]
    """
    low, high = binomial_bounds(hits, trials, error=(1 - check_level(level)) / 2)
    return float(low), float(high)


def check_level(level: float) -> float:
    """Return the confidence level, or refuse it."""
    if not 0 < level < 1:
        raise ParameterError(f"level must lie between 0 and 1, got {level!r}: use 0.95, for example")
    return level
