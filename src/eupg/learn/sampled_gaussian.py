"""How much noise a private training needs: the accounting of Gaussian noise on Poisson samples.

Each step draws every unit (a record or a person) independently with the same probability, sums the contributions of
the drawn units, each of norm at most 1, and adds normal noise. The privacy losses of many such steps are composed
numerically (Koskela et al. 2020; Doroshenko et al. 2022) and always rounded towards more loss, for a unit that is added
as for one that is removed. ``docs/guarantees.md`` holds the argument.
"""

from __future__ import annotations

import math
from functools import lru_cache

from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution

from eupg.errors import ParameterError
from eupg.guarantees.gaussian import gaussian_ratio

# The grid of privacy losses: finer is tighter and slower, never less safe.
_GRID = 1e-3
# The search ends at this relative width and takes the upper end.
_WIDTH = 1e-3
# The search starts from a guess and widens by this factor; below the least noise accounting is slow and useless.
_STRIDE = 1.2
_LEAST = 0.2


def sampled_epsilon(noise: float, delta: float, *, rate: float, steps: int) -> float:
    """Return an ε that holds at ``delta`` for this many steps with noise of this spread.

    Examples
    --------
    >>> round(sampled_epsilon(1.0, 1e-5, rate=0.01, steps=1000), 1)
    1.8
    """
    return _epsilon(noise, delta, rate, steps, _GRID)


@lru_cache(maxsize=256)
def least_noise(epsilon: float, delta: float, *, rate: float, steps: int) -> float:
    """Return the least spread of noise with which (ε, δ) holds, rounded up."""
    if not (0 < epsilon < math.inf and 0 < delta < 1 and 0 < rate <= 1 and steps >= 1):
        raise ParameterError(
            f"expected ε above 0, δ between 0 and 1, a rate of at most 1 and at least one step, got {epsilon!r}, "
            f"{delta!r}, {rate!r} and {steps!r}"
        )
    grid = _GRID * min(1.0, epsilon)

    def enough(noise: float) -> bool:
        return _epsilon(noise, delta, rate, steps, grid) <= epsilon

    high = _first_guess(epsilon, delta, rate, steps)
    while not enough(high):
        high *= _STRIDE
    low = high / _STRIDE
    while low > _LEAST and enough(low):
        low, high = low / _STRIDE, low
    while high / low > 1 + _WIDTH:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _first_guess(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """Return roughly the noise that is needed: in the limit, many steps are one Gaussian (Bu et al. 2020)."""
    share = gaussian_ratio(epsilon, delta) / (rate * math.sqrt(steps))
    return max(_LEAST, 1 / math.sqrt(math.log1p(share**2)))


def _epsilon(noise: float, delta: float, rate: float, steps: int, grid: float) -> float:
    one = privacy_loss_distribution.from_gaussian_mechanism(
        standard_deviation=noise,
        sampling_prob=rate,
        value_discretization_interval=grid,
        pessimistic_estimate=True,
        neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
    )
    return float(one.self_compose(steps).get_epsilon_for_delta(delta))
