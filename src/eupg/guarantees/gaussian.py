"""The privacy of Gaussian noise: ε and δ of two normal distributions whose means differ.

Any number of steps that add Gaussian noise to sums of bounded sensitivity is no easier to distinguish than one pair of
normal distributions, so every accounting with fixed steps ends here.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from eupg.errors import ParameterError


def gaussian_delta(ratio: float, epsilon: float) -> float:
    """Return δ(ε) of two normal distributions with spread 1 and distance ``ratio`` (Balle and Wang 2018).

    Examples
    --------
    >>> round(gaussian_delta(1.0, 0.0), 6)  # the total variation distance, 2Φ(1/2) − 1
    0.382925
    """
    if ratio == 0:
        return 0.0
    tail = math.exp(min(700.0, epsilon + float(log_ndtr(-epsilon / ratio - ratio / 2))))
    return max(0.0, float(ndtr(-epsilon / ratio + ratio / 2)) - tail)


def gaussian_epsilon(ratio: float, delta: float) -> float:
    """Return the ε at which δ(ε) is ``delta``; 0 if every ε satisfies it."""
    _check(0.0, delta)
    if gaussian_delta(ratio, 0.0) <= delta:
        return 0.0
    high = 1.0
    while gaussian_delta(ratio, high) > delta:
        high *= 2
    return float(brentq(lambda epsilon: gaussian_delta(ratio, epsilon) - delta, 0.0, high, xtol=1e-12))


def gaussian_ratio(epsilon: float, delta: float) -> float:
    """Return the largest distance, in spreads, at which (ε, δ) holds.

    Examples
    --------
    >>> round(gaussian_ratio(1.0, 1e-5), 4)
    0.2681
    """
    _check(epsilon, delta)
    high = 1.0
    while gaussian_delta(high, epsilon) < delta:
        high *= 2
    return float(brentq(lambda ratio: gaussian_delta(ratio, epsilon) - delta, 0.0, high, xtol=1e-13))


def _check(epsilon: float, delta: float) -> None:
    if not (0 <= epsilon < math.inf and 0 < delta < 1):
        raise ParameterError(f"expected ε of at least 0 and δ between 0 and 1, got {epsilon!r} and {delta!r}")
