"""Noise drawn without rounding: discrete Laplace, discrete Gaussian and the exponential mechanism, in whole numbers.

Floating-point noise leaks through its lowest bits. Every draw here is a sequence of comparisons of random integers, so
that each outcome has exactly the probability that is claimed (Canonne, Kamath and Steinke, "The Discrete Gaussian for
Differential Privacy", 2020), vectorised. Scales are rational numbers, rounded to the side of more noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eupg.errors import ParameterError
from eupg.rng import Randomness

Whole = NDArray[np.int64]
# Scales have a numerator below this: all products below then stay inside 63 bits.
_FINEST = 2**20
_BATCH = 1024


def scale_at_least(scale: Fraction) -> Fraction:
    """Return the least scale of a simple enough form that is not below the one asked for."""
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
    left = np.arange(count)
    while len(left):
        rest = below(np.full(len(left), top, dtype=np.int64), rng)
        kept = bernoulli_exp(rest, top, rng)
        size = (rest + top * _successes(len(left), rng)) // bottom
        negative = below(np.full(len(left), 2, dtype=np.int64), rng) == 1
        # Zero has one sign only: drawn with the other, it is drawn again.
        kept &= ~(negative & (size == 0))
        out[left[kept]] = np.where(negative, -size, size)[kept]
        left = left[~kept]
    return out


def discrete_gaussian(sigma: Fraction, count: int, rng: Randomness) -> Whole:
    """Draw whole numbers z with probability proportional to exp(−z²/2σ²)."""
    top, bottom = sigma.numerator, sigma.denominator
    out = np.zeros(count, dtype=np.int64)
    left = np.arange(count)
    while len(left):
        # Laplace noise of the same scale is turned into Gaussian noise by keeping exp(−(|z|/σ − 1)²/2) of it.
        drawn = discrete_laplace(sigma, len(left), rng)
        kept = bernoulli_exp((np.abs(drawn) * bottom - top) ** 2, 2 * top * top, rng)
        out[left[kept]] = drawn[kept]
        left = left[~kept]
    return out


def exponential_choice(scores: Sequence[int], rate: Fraction, rng: Randomness) -> int:
    """Choose a position with probability proportional to exp(rate · score); scores are whole numbers."""
    short = max(scores) - np.asarray(scores, dtype=np.int64)
    rate = Fraction(math.floor(rate * 2**30), 2**30)
    while True:
        # Positions are tried many at a time for speed; the first that passes is taken, as if tried one by one.
        tried = below(np.full(min(len(short), _BATCH), len(short), dtype=np.int64), rng)
        # As Python's integers, since rate times score may need more than 63 bits.
        passed = bernoulli_exp(short[tried].astype(object) * rate.numerator, rate.denominator, rng)
        if passed.any():
            return int(tried[passed.argmax()])


def below(bounds: Whole, rng: Randomness) -> Whole:
    """Draw for each bound a uniform whole number from 0 up to, but not including, it."""
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
    todo = np.flatnonzero(out & (whole > 0))
    while len(todo):
        passed = _bernoulli_exp_fraction(np.ones(len(todo), dtype=np.int64), 1, rng)
        out[todo[~passed]] = False
        whole[todo] -= 1
        todo = todo[passed & (whole[todo] > 0)]
    return out


def _bernoulli_exp_fraction(numerators: Whole, denominator: int, rng: Randomness) -> NDArray[np.bool_]:
    """Do the same for γ of at most 1: count successes of chances γ/1, γ/2, γ/3…; it is True where they are even."""
    out = np.zeros(len(numerators), dtype=bool)
    alive, step = np.arange(len(numerators)), 1
    while len(alive):
        chance = below(np.full(len(alive), denominator * step, dtype=np.int64), rng) < numerators[alive]
        out[alive[~chance]] = step % 2 == 1
        alive, step = alive[chance], step + 1
    return out


def _successes(count: int, rng: Randomness) -> Whole:
    """Count, for each, how often in a row something of chance exp(−1) happens."""
    out = np.zeros(count, dtype=np.int64)
    alive = np.arange(count)
    while len(alive):
        alive = alive[_bernoulli_exp_fraction(np.ones(len(alive), dtype=np.int64), 1, rng)]
        out[alive] += 1
    return out
