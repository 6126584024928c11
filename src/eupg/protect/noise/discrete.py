"""Noise drawn without rounding: discrete Laplace, discrete Gaussian and the exponential mechanism, in whole numbers.

Floating-point noise leaks through its lowest bits. Every draw here is a sequence of comparisons of random integers, so
each outcome has exactly the claimed probability (Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential
Privacy", 2020); all draws are vectorised. Scales are rational numbers, rounded towards more noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eupg.errors import ParameterError
from eupg.rng import Randomness

Whole = NDArray[np.int64]
# Scales have a numerator below this: all products below then stay inside 63 bits.
_FINEST = 2**20
_BATCH = 1024


@lru_cache
def scale_at_least(scale: Fraction) -> Fraction:
    """Return the least scale with a small enough numerator and denominator that is at least the requested one."""
    if not 0 < scale < _FINEST:
        raise ParameterError(
            f"noise must have a scale between 0 and {_FINEST}, got {float(scale):g}: ask for a larger ε"
        )
    denominator = 1
    # The denominator is limited too, for scales near 0.
    while math.ceil(scale * denominator * 2) < _FINEST and denominator < 2**40:
        denominator *= 2
    return Fraction(math.ceil(scale * denominator), denominator)


def discrete_laplace(scale: Fraction, count: int, rng: Randomness) -> Whole:
    """Draw whole numbers z with probability proportional to exp(−|z|/scale)."""
    top, bottom = scale.numerator, scale.denominator
    if top >= 2 * _FINEST:
        raise ParameterError(f"a scale of {scale} is too fine: round it up with scale_at_least")
    out = np.zeros(count, dtype=np.int64)
    pending = np.arange(count)
    while len(pending):
        rest = below(np.full(len(pending), top, dtype=np.int64), rng)
        accepted = bernoulli_exp(rest, top, rng)
        size = (rest + top * _successes(len(pending), rng)) // bottom
        negative = below(np.full(len(pending), 2, dtype=np.int64), rng) == 1
        # Zero has one sign only: a negative zero is drawn again.
        accepted &= ~(negative & (size == 0))
        out[pending[accepted]] = np.where(negative, -size, size)[accepted]
        pending = pending[~accepted]
    return out


def discrete_gaussian(sigma: Fraction, count: int, rng: Randomness) -> Whole:
    """Draw whole numbers z with probability proportional to exp(−z²/2σ²)."""
    top, bottom = sigma.numerator, sigma.denominator
    out = np.zeros(count, dtype=np.int64)
    pending = np.arange(count)
    while len(pending):
        # Laplace noise of the same scale becomes Gaussian noise by accepting it with probability exp(−(|z|/σ − 1)²/2).
        drawn = discrete_laplace(sigma, len(pending), rng)
        accepted = bernoulli_exp((np.abs(drawn) * bottom - top) ** 2, 2 * top * top, rng)
        out[pending[accepted]] = drawn[accepted]
        pending = pending[~accepted]
    return out


def exponential_choice(scores: Sequence[int], rate: Fraction, rng: Randomness) -> int:
    """Choose a position with probability proportional to exp(rate · score); scores are whole numbers."""
    deficits = max(scores) - np.asarray(scores, dtype=np.int64)
    rate = Fraction(math.floor(rate * 2**30), 2**30)
    while True:
        # Many positions are tried at once for speed; the first that passes is taken, as if tried one by one.
        tried = below(np.full(min(len(deficits), _BATCH), len(deficits), dtype=np.int64), rng)
        # As Python's integers, since rate times score may need more than 63 bits.
        passed = bernoulli_exp(deficits[tried].astype(object) * rate.numerator, rate.denominator, rng)
        if passed.any():
            return int(tried[passed.argmax()])


def below(bounds: Whole, rng: Randomness) -> Whole:
    """Draw for each bound a uniform whole number from 0 up to, but not including, the bound."""
    limits = np.uint64(2**63) - np.uint64(2**63) % bounds.astype(np.uint64)
    words = rng.words(len(bounds))
    # A word in the last, incomplete stretch would make small numbers likelier: it is drawn again.
    while (again := np.flatnonzero(words >= limits)).size:
        words[again] = rng.words(len(again))
    return (words % bounds.astype(np.uint64)).astype(np.int64)


def bernoulli_exp(numerators: NDArray[Any], denominator: int, rng: Randomness) -> NDArray[np.bool_]:
    """Draw, for each γ = numerator/denominator of at least 0, True with probability exp(−γ)."""
    whole, rest = numerators // denominator, numerators % denominator
    out = _bernoulli_exp_fraction(rest.astype(np.int64), denominator, rng)
    pending = np.flatnonzero(out & (whole > 0))
    while len(pending):
        passed = _bernoulli_exp_fraction(np.ones(len(pending), dtype=np.int64), 1, rng)
        out[pending[~passed]] = False
        whole[pending] -= 1
        pending = pending[passed & (whole[pending] > 0)]
    return out


def _bernoulli_exp_fraction(numerators: Whole, denominator: int, rng: Randomness) -> NDArray[np.bool_]:
    """Do the same for γ of at most 1: True where the number of successes of γ/1, γ/2, γ/3… in a row is even."""
    out = np.zeros(len(numerators), dtype=bool)
    active, step = np.arange(len(numerators)), 1
    while len(active):
        success = below(np.full(len(active), denominator * step, dtype=np.int64), rng) < numerators[active]
        out[active[~success]] = step % 2 == 1
        active, step = active[success], step + 1
    return out


def _successes(count: int, rng: Randomness) -> Whole:
    """Count, for each draw, the successes of probability exp(−1) in a row."""
    out = np.zeros(count, dtype=np.int64)
    active = np.arange(count)
    while len(active):
        active = active[_bernoulli_exp_fraction(np.ones(len(active), dtype=np.int64), 1, rng)]
        out[active] += 1
    return out
