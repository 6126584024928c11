"""What answers may reveal in all: Gaussian noise for (ε, δ), or Laplace noise for ε alone.

Every answer is a vector of whole numbers plus noise of spread s = 2^40. Its *bound* b is the largest norm, in whole
numbers, of one unit's contribution: Euclidean for Gaussian noise, the sum of absolute values for Laplace noise. Its
*ratio* is b/s. Costs are whole numbers, so that the account is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from eupg.protect.noise.discrete import Whole
from eupg.protect.noise.fast import SPREAD, exact_gaussian, exact_laplace
from eupg.rng import Randomness


@dataclass(frozen=True)
class GaussianBudget:
    """Gaussian noise; ``ratio`` is μ of all answers together, and squared ratios add up."""

    ratio: float
    euclidean: ClassVar[bool] = True

    def part(self, share: float) -> float:
        """Return the ratio of an answer that costs this share of the budget."""
        return self.ratio * math.sqrt(share)

    def cost(self, bound: int) -> int:
        """Return what an answer with this bound costs."""
        return bound**2

    @property
    def limit(self) -> int:
        """The most that all answers may cost."""
        return math.floor(self.ratio**2 * SPREAD**2)

    def per_group(self, bound: int, groups: int) -> int:
        """Return the largest u such that a vector of ``groups`` entries of u has a norm of at most ``bound``."""
        return math.isqrt(bound**2 // groups)

    def draw(self, count: int, rng: Randomness) -> Whole:
        """Draw noise."""
        return exact_gaussian(count, rng)


@dataclass(frozen=True)
class LaplaceBudget:
    """Laplace noise; ``ratio`` is ε of all answers together, and ratios add up."""

    ratio: float
    euclidean: ClassVar[bool] = False

    def part(self, share: float) -> float:
        """Return the ratio of an answer that costs this share of the budget."""
        return self.ratio * share

    def cost(self, bound: int) -> int:
        """Return what an answer with this bound costs."""
        return bound

    @property
    def limit(self) -> int:
        """The most that all answers may cost."""
        return math.floor(self.ratio * SPREAD)

    def per_group(self, bound: int, groups: int) -> int:
        """Return the largest u such that ``groups`` entries of u add up to at most ``bound``."""
        return bound // groups

    def draw(self, count: int, rng: Randomness) -> Whole:
        """Draw noise."""
        return exact_laplace(count, rng)


Budget = GaussianBudget | LaplaceBudget
