"""Finite channels: local differential privacy that can be checked exactly, in whole numbers.

Floating-point noise leaks through its lowest bits. Here every attribute has finitely many public values, and each
input value has a row of integer weights that sum to 2⁶³: the probability of an output is its weight over 2⁶³, without
any rounding. A channel satisfies ε-local DP if the weights of each output, for any two inputs, differ by at most a
factor e^ε. That is checked exhaustively, against a rational number just below e^ε, whenever a channel is built.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import MOST_POINTS
from eupg.errors import ParameterError, PrivacyError
from eupg.rng import Randomness
from eupg.validation import check_positive

Codes = NDArray[np.int64]
Weights = NDArray[np.uint64]

TOTAL = 2**63
# Tables are built for slightly less than ε, so that rounding to integers cannot cross it.
_MARGIN = 1e-6
_MOST_CATEGORIES = 2**12


@dataclass(frozen=True, eq=False)
class LaplaceChannel:
    """Discrete Laplace noise on a grid, clamped to its ends.

    ``noise[t]`` is the weight of moving by exactly ``t`` steps in one direction; its last entry is the weight of moving
    that far or farther. ``tail[t]`` is the weight of moving by ``t`` or more. Clamping gathers the tails at the two
    ends, so input ``i`` has weights ``tail[i]`` (lowest output), ``noise[|j−i|]`` (inner outputs) and
    ``tail[size−1−i]`` (highest output).
    """

    size: int
    epsilon: float
    noise: Weights

    @cached_property
    def tail(self) -> Weights:
        """Weight of moving by at least that many steps in one direction."""
        return np.cumsum(self.noise[::-1], dtype=np.uint64)[::-1].copy()

    @classmethod
    def build(cls, size: int, epsilon: float) -> LaplaceChannel:
        """Build and check the channel of ``size`` grid points."""
        check_positive("epsilon", epsilon)
        if not 1 <= size <= MOST_POINTS:
            raise ParameterError(f"a grid has 1 to {MOST_POINTS} points, got {size}: declare a coarser resolution")
        if size == 1:
            return cls(1, epsilon, np.array([TOTAL], dtype=np.uint64))
        rate = epsilon * (1 - _MARGIN) / (size - 1)
        # Two-sided geometric: moving by t steps one way has probability (1−q)/(1+q)·q^t, with q = e^−rate.
        centre = -math.expm1(-rate) / (1 + math.exp(-rate))
        noise = np.rint(centre * np.exp(-rate * np.arange(size)) * TOTAL).astype(np.uint64)
        noise[0] -= noise[0] % 2
        noise[1:-1] = np.maximum(noise[1:-1], _least(int(noise[0]), epsilon))
        # A row must sum to 2⁶³: the ends get the rest, or at least the smallest weight that ε allows.
        inner, least = int(noise[1:-1].sum()), _least((TOTAL + int(noise[0])) // 2, epsilon)
        noise[-1] = max((TOTAL - int(noise[0])) // 2 - inner, least)
        noise[0] = TOTAL - 2 * (inner + int(noise[-1]))
        channel = cls(size, epsilon, noise)
        channel.check()
        return channel

    def check(self) -> None:
        """Raise unless, for each output, the largest weight is at most e^ε times the smallest."""
        self.check_total()
        if self.size == 1:
            return
        within_ratio(int(self.tail.max()), int(self.tail.min()), self.epsilon)
        if self.size > 2:
            # An inner output j is reached over distances 0 to max(j, size−1−j); every such range is checked.
            reach = slice(self.size // 2, self.size - 1)
            largest = np.maximum.accumulate(self.noise[:-1])[reach]
            smallest = np.minimum.accumulate(self.noise[:-1])[reach]
            for high, low in zip(largest.tolist(), smallest.tolist(), strict=True):
                within_ratio(high, low, self.epsilon)

    def check_total(self) -> None:
        """Raise unless every row of weights sums to 2⁶³."""
        if self.noise.shape != (self.size,) or 2 * sum(self.noise.tolist()) - int(self.noise[0]) != TOTAL:
            raise PrivacyError("a channel's rows must sum to 2⁶³ exactly")

    def matrix(self) -> Weights:
        """Return every weight: row = input, column = output."""
        i = np.arange(self.size)
        weights: Weights = self.noise[np.abs(i[:, None] - i[None, :])]
        if self.size > 1:
            weights[:, 0], weights[:, -1] = self.tail[i], self.tail[self.size - 1 - i]
        return weights

    def sample(self, codes: Codes, rng: Randomness) -> Codes:
        """Add noise by one draw per value, then clamp."""
        if self.size == 1:
            return codes.copy()
        two_sided = np.concatenate([self.noise[:0:-1], self.noise])
        edges = np.cumsum(two_sided, dtype=np.uint64)
        moved = np.searchsorted(edges[:-1], rng.words(len(codes)), side="right") - (self.size - 1)
        return np.asarray(np.clip(codes + moved, 0, self.size - 1), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class TableChannel:
    """Any channel as its full table of weights; built from a utility by the exponential mechanism."""

    epsilon: float
    weights: Weights

    @property
    def size(self) -> int:
        """Number of inputs and of outputs."""
        return len(self.weights)

    @classmethod
    def build(cls, utility: NDArray[np.float64], epsilon: float) -> TableChannel:
        """Weigh each output by exp(s · utility), with the largest ``s`` whose channel satisfies ε.

        The textbook scale ε/(2·sensitivity) is safe for every utility. Since this table is finite, the scale that just
        meets ε is found by bisection and then checked in whole numbers. Equal utilities for all wrong answers give
        k-ary randomised response.
        """
        size = len(utility)
        _check(size, epsilon)
        if utility.shape != (size, size) or not np.isfinite(utility).all():
            raise ParameterError(f"a utility is a square table of finite numbers, got one of shape {utility.shape}")
        target = epsilon * (1 - _MARGIN)
        # No utility needs a larger scale: at equal row sums the column with the largest range would spend all of ε.
        low, high = 0.0, 2 * target / max(1e-9, float(np.ptp(utility, axis=0).max()))
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if _log_ratio(utility, middle) <= target else (low, middle)
        while True:
            channel = cls(epsilon, _integers(_probabilities(utility, low), epsilon))
            try:
                channel.check()
                return channel
            except PrivacyError:
                # Rounding crossed ε (all rows nearly equal, ε tiny): a flatter table is as private, and always passes.
                low /= 2

    def check(self) -> None:
        """Raise unless every column's largest weight is at most e^ε times its smallest, and rows sum to 2⁶³."""
        if any(sum(row) != TOTAL for row in self.weights.tolist()):
            raise PrivacyError("a channel's rows must sum to 2⁶³ exactly")
        for high, low in zip(self.weights.max(axis=0).tolist(), self.weights.min(axis=0).tolist(), strict=True):
            within_ratio(high, low, self.epsilon)

    def matrix(self) -> Weights:
        """Return every weight: row = input, column = output."""
        return self.weights

    def sample(self, codes: Codes, rng: Randomness) -> Codes:
        """Draw each output from the row of its input."""
        words, out = rng.words(len(codes)), np.empty_like(codes)
        edges = np.cumsum(self.weights, axis=1, dtype=np.uint64)
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(self.size), side="right")
        for code, rows in enumerate(np.split(order, ends[:-1])):
            out[rows] = np.searchsorted(edges[code, :-1], words[rows], side="right")
        return out


Channel = LaplaceChannel | TableChannel


def randomised_response(size: int, epsilon: float) -> TableChannel:
    """Build k-ary randomised response: the truth e^ε times as likely as any other answer."""
    _check(size, epsilon)
    # The scale that meets ε needs no search here: it is ε itself.
    probabilities = _probabilities(np.eye(size), epsilon * (1 - _MARGIN))
    channel = TableChannel(epsilon, _integers(probabilities, epsilon))
    channel.check()
    return channel


def within_ratio(high: int, low: int, epsilon: float) -> None:
    """Raise unless high ≤ e^ε · low, decided in exact arithmetic."""
    bound = _exp_below(epsilon)
    if high * bound.denominator > low * bound.numerator:
        raise PrivacyError(f"weights {high} and {low} differ by more than e^{epsilon}: the channel is not ε-private")


@lru_cache
def _exp_below(epsilon: float) -> Fraction:
    """Return a rational number just below e^ε."""
    digits = Context(prec=60, rounding=ROUND_FLOOR)
    # exp() rounds correctly to nearest whatever the context says, so one step down is surely below.
    return Fraction(digits.next_minus(digits.exp(Decimal(min(epsilon, 1000.0)))))


def _log_ratio(utility: NDArray[np.float64], scale: float) -> float:
    logs = scale * utility
    logs = logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)
    return float((logs.max(axis=0) - logs.min(axis=0)).max())


def _probabilities(utility: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    weights = np.exp(scale * (utility - utility.max(axis=1, keepdims=True)))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _least(largest: int, epsilon: float) -> int:
    """Return the smallest weight that ε allows in one column with the largest: rounding must not go below it."""
    bound = _exp_below(epsilon)
    return largest * bound.denominator // bound.numerator + 1


def _integers(probabilities: NDArray[np.float64], epsilon: float) -> Weights:
    weights = np.floor(probabilities * TOTAL).astype(np.uint64)
    for column in weights.T:
        np.maximum(column, _least(int(column.max()), epsilon), out=column)
    for row, weight in enumerate(weights):
        # The few units that rounding lost or gained go to the likeliest output, where they matter least.
        likeliest = weight.argmax()
        weights[row, likeliest] = int(weight[likeliest]) + TOTAL - sum(weight.tolist())
    return weights


def _check(size: int, epsilon: float) -> None:
    check_positive("epsilon", epsilon)
    if not 1 <= size <= _MOST_CATEGORIES:
        raise ParameterError(
            f"an attribute may have 1 to {_MOST_CATEGORIES} categories here, got {size}: merge rare ones into one"
        )
