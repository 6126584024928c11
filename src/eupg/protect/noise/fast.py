"""Discrete Gaussian and Laplace noise whose spread is a power of two: exact, and fast enough for millions of draws.

The method is that of :mod:`eupg.protect.noise.discrete`, which takes any scale. With a spread of 2^BITS every
probability it needs is a product of a binary fraction and of 1/k, so that each draw is a short sequence of comparisons
of random whole numbers, without a division of large numbers and without rounding.

A whole-number answer plus *rounded* Gaussian noise is the rounded sum of the answer and Gaussian noise, so its privacy
is exactly that of the Gaussian mechanism, however often it is used. The discrete Gaussian differs slightly from the
rounded one; :func:`distance` bounds the difference for all draws together, and the claim must add it. The discrete
Laplace distribution needs no such addition: probabilities of neighbouring whole numbers differ by a factor of
exp(1/s), exactly.
"""

from __future__ import annotations

import numpy as np

from eupg.protect.compiled import compiled, inner
from eupg.protect.noise.discrete import Whole
from eupg.rng import Randomness

BITS = 40
SPREAD = 1 << BITS
# Random words supplied per draw: slightly more than the average, so that one supply is nearly always enough.
_WORDS = 24
_CHUNK = 2**16


def distance(draws: int) -> float:
    """Return a bound on the total variation distance of this many draws from as many rounded Gaussian ones.

    Let φ be the density of spread s. The rounded Gaussian gives z the integral of φ from z−½ to z+½, which differs from
    φ(z) by at most the maximum of |φ″| there, over 24. Summed over z that is at most ∫|φ″|/24, plus an error of
    order 1/s³. The integral is 4·max|φ′| = 4/(s²√(2πe)) < 1/s². Half of the sum is the distance, less than 1/(48s²).
    The normalising sum of the discrete Gaussian differs from that of φ by a factor of 1 + 3exp(−2π²s²). For s = 2^40
    both errors are far below the difference between 1/48 and 1/40. Distances of independent draws add up, and so do
    those of draws for questions that depend on earlier answers.
    """
    return draws / 40 / 4.0**BITS


def exact_gaussian(count: int, rng: Randomness) -> Whole:
    """Draw whole numbers z with probability proportional to exp(−z²/2s²), s = 2^BITS."""
    return _drawn(count, rng, gaussian=True)


def exact_laplace(count: int, rng: Randomness) -> Whole:
    """Draw whole numbers z with probability proportional to exp(−|z|/s), s = 2^BITS."""
    return _drawn(count, rng, gaussian=False)


def _drawn(count: int, rng: Randomness, *, gaussian: bool) -> Whole:
    out = np.zeros(count, dtype=np.int64)
    words = np.empty(0, dtype=np.int64)
    done = 0
    while done < count:
        more = rng.words(_WORDS * min(count - done, _CHUNK) + _WORDS).astype(np.int64)
        # A draw that runs out of words begins again with the same words and further ones. With other words the
        # distribution would be wrong: draws that need many words would be abandoned more often.
        words = np.concatenate([words, more])
        done, used = _fill(out, done, words, gaussian)
        words = words[used:]
    return out


# Every function below returns the position of the next word, or −1 once words have run out.


@inner
def _one_in(k: int, words: Whole, at: int) -> tuple[int, bool]:
    """Return True with probability 1/k."""
    if k == 1:
        return at, True
    # A word in the last, incomplete stretch of k numbers would make small numbers likelier.
    limit = (2**63 - 1) - (2**63 - 1) % k
    while at < len(words):
        word = words[at]
        at += 1
        if word < limit:
            return at, word % k == 0
    return -1, False


@inner
def _exp_minus(part: int, halves: bool, words: Whole, at: int) -> tuple[int, bool]:
    """Return True with probability exp(−f), f = part/2^BITS of at most 1; with ``halves``, exp(−f²/2).

    Events of probability γ/1, γ/2, γ/3… are tried until one fails; the result is True if the number of the failed one
    is odd. An event of probability f/k is two independent ones, f and 1/k; one of f²/2k is three, f, f and 1/2k.
    """
    k = 1
    while True:
        at, passed = _one_in(2 * k if halves else k, words, at)
        for _ in range(2 if halves else 1):
            if at < 0 or at >= len(words):
                return -1, False
            if passed:
                passed = (words[at] >> (63 - BITS)) < part
                at += 1
        if not passed:
            return at, k % 2 == 1
        k += 1


@compiled
def _fill(out: Whole, done: int, words: Whole, gaussian: bool) -> tuple[int, int]:
    """Draw until ``out`` is full or words run out; return the number of draws, and where the next draw begins."""
    one = 1 << BITS
    at = start = 0
    while done < len(out):
        if at < 0 or at >= len(words):
            return done, start
        # Laplace noise of the same scale: the part below the scale with probability exp(−part/s), then whole scales.
        part, negative = words[at] >> (63 - BITS), words[at] & 1
        at, passed = _exp_minus(part, False, words, at + 1)
        whole = 0
        while at >= 0 and passed:
            at, more = _exp_minus(one, False, words, at)
            if not more:
                break
            whole += 1
        if at < 0:
            return done, start
        if not passed or (negative and part == 0 and whole == 0):
            continue
        if gaussian:
            # It is accepted with probability exp(−r²/2), where r = |z|/s − 1 is −(1 − f) without a whole scale, and
            # (whole − 1) + f with one: (whole − 1)² times exp(−1/2), whole − 1 times exp(−f), once exp(−f²/2).
            far = max(whole - 1, 0)
            at, passed = _exp_minus(part if whole else one - part, True, words, at)
            for _ in range(far):
                if at >= 0 and passed:
                    at, passed = _exp_minus(part, False, words, at)
            for _ in range(far * far):
                if at >= 0 and passed:
                    at, passed = _exp_minus(one, True, words, at)
        if at < 0:
            return done, start
        if passed:
            size = (whole << BITS) + part
            out[done] = -size if negative else size
            done += 1
            start = at
    return done, start
