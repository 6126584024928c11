"""The budget of a synthesis, divided among its questions, and the noise that each answer needs.

Let f features vary, and let each person have at most m records. One person then changes the number of records by at
most m, and the counts of each single feature by m: by m·f in sum and m·√f in Euclidean length. The same holds for the
f − 1 chosen pairs, and the score of each of the f − 1 choices changes by m. All shares are fixed before any record is
seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from eupg.errors import MissingFramework, ParameterError
from eupg.protect.noise.discrete import discrete_gaussian, discrete_laplace, scale_at_least
from eupg.rng import Randomness

# Shares of the whole: the number of records, the single features, the choice of pairs; the chosen pairs get the rest.
_COUNT, _SINGLE, _CHOICE = Fraction(2, 100), Fraction(30, 100), Fraction(5, 100)
# Share of a feature's budget that finds its bins; the counts of the bins get the rest.
_CUT = Fraction(25, 100)
# Square roots and the accountant work in floating point: this much more noise makes up for rounding.
_MARGIN = 1e-9


@dataclass(frozen=True)
class Noise:
    """Whole-number noise of a fixed scale: discrete Laplace, or discrete Gaussian."""

    scale: Fraction
    gaussian: bool = False

    @property
    def spread(self) -> float:
        """Its standard deviation, very nearly."""
        return float(self.scale) * (1.0 if self.gaussian else math.sqrt(2.0))

    @property
    def size(self) -> float:
        """The mean of its absolute value, very nearly."""
        return float(self.scale) * (math.sqrt(2 / math.pi) if self.gaussian else 1.0)

    def draw(self, count: int, rng: Randomness) -> NDArray[np.int64]:
        """Draw noise for this many counts."""
        return (discrete_gaussian if self.gaussian else discrete_laplace)(self.scale, count, rng)


@dataclass(frozen=True)
class Budget:
    """The noise of each question.

    Parameters
    ----------
    choice
        Rate of the exponential mechanism that chooses each pair.
    count
        Noise of the number of records.
    single, cut, bins
        Noise of a feature's counts per class, where one question is enough; otherwise noise of its fine counts, which
        decide on the bins, and of the bins' counts per class.
    pair
        Noise of a chosen pair's counts per class.
    """

    choice: Fraction
    count: Noise
    single: Noise
    cut: Noise
    bins: Noise
    pair: Noise

    @classmethod
    def split(cls, epsilon: float, delta: float, records: int, features: int) -> Budget:
        """Divide (ε, δ) among the questions about a table with this many features and records per person."""
        pairs = features - 1
        single, choice = (_SINGLE, _CHOICE) if pairs else (1 - _COUNT, Fraction(0))
        # Each share, and the number of questions that divide it.
        shares = [(_COUNT, 1), (single, features), (single * _CUT, features), (single * (1 - _CUT), features)]
        shares.append((1 - _COUNT - single - choice, pairs) if pairs else (Fraction(1), 1))
        if not delta:
            whole = Fraction(float(epsilon))
            noise = [Noise(scale_at_least(records * times / (whole * share))) for share, times in shares]
            # One choice at rate r spends 2·r·m of ε.
            return cls(whole * choice / (2 * records * max(1, pairs)), *noise)
        rho = concentrated(epsilon, delta) * (1 - _MARGIN)
        if rho <= 0:
            raise ParameterError(f"no noise is enough for ε={epsilon:g} at δ={delta:g}: ask for a larger ε or δ")
        sigmas = [records * math.sqrt(times / (2 * rho * share)) * (1 + _MARGIN) for share, times in shares]
        noise = [Noise(scale_at_least(Fraction(sigma)), gaussian=True) for sigma in sigmas]
        # One choice at rate r spends (2·r·m)²/8 of ρ.
        rate = math.sqrt(8 * rho * choice / max(1, pairs)) * (1 - _MARGIN) / (2 * records)
        return cls(Fraction(rate), *noise)


@lru_cache
def concentrated(epsilon: float, delta: float) -> float:
    """Return the largest ρ, rounded down, for which ρ-zero-concentrated privacy implies (ε, δ)."""
    try:
        from dp_accounting import ZCDpEvent
        from dp_accounting.rdp import RdpAccountant
    except ModuleNotFoundError as error:
        raise MissingFramework(f"delta above 0 needs {error.name}: pip install 'eupg[synthesis]'") from error

    # The accountant's own list of orders has wide gaps where ρ is small: up to 3 % of the budget would be lost.
    orders = 1 + np.geomspace(1e-2, 1e6, 800)

    def spent(rho: float) -> float:
        return float(RdpAccountant(orders).compose(ZCDpEvent(rho)).get_epsilon(delta))

    # ρ-zero-concentrated privacy never implies less than ε = ρ at a δ below ½, and often much more.
    low, high = 0.0, float(epsilon)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle) <= epsilon else (low, middle)
    return low
