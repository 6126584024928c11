"""What trainings from noisy answers have in common: the budget of a unit, and which records stand for it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from eupg.data.dataset import Dataset, Labels, Matrix
from eupg.errors import ParameterError
from eupg.forget.private_trees.budget import Budget, GaussianBudget, LaplaceBudget
from eupg.forget.private_trees.noisy_answers import MOST_DRAWS
from eupg.forget.protected_training import UnitBudget
from eupg.guarantees.gaussian import gaussian_ratio
from eupg.learn.learner import check_settings
from eupg.protect.noise.discrete import Whole
from eupg.protect.noise.fast import distance
from eupg.protect.units import random_rank, units_of
from eupg.rng import Randomness
from eupg.validation import check_below_one

# Calibration is a root to about 1e-12; this much less keeps the claim on the safe side of it.
_MARGIN = 1 - 1e-9
_MODEL_ONLY = (
    "the claim is about the model: exact numbers of records that are noted beside it, and how long training took, are "
    "not covered"
)
_PURE = (
    "this is pure ε-differential privacy, with δ = 0: the noise is a discrete Laplace distribution, drawn in whole "
    "numbers without rounding"
)
_NOISE = (
    "the noise is a discrete Gaussian, drawn in whole numbers without rounding, and δ includes its distance from the "
    "Gaussian noise it is accounted as"
)


@dataclass(frozen=True)
class NoisyTraining(UnitBudget):
    """A budget that is spent on noisy answers, with noise in whole numbers; the parameters are those of its base."""

    def __post_init__(self) -> None:
        check_settings(self, whole={"max_records": 1}, positive=("epsilon",), not_negative=("delta",))
        check_below_one("delta", self.delta)
        if self.delta and self._set_aside > self.delta / 10:
            raise ParameterError(
                f"noise on a grid cannot reach delta={self.delta:g} with epsilon={self.epsilon:g}: use a delta of at "
                f"least {10 * self._set_aside:.2g}, a smaller epsilon, or delta=0"
            )

    @property
    def _set_aside(self) -> float:
        """The part of δ that is set aside because noise is discrete.

        With answers whose total distance from Gaussian ones is at most τ on every table, P(S) ≤ P*(S) + τ ≤
        e^ε·P*′(S) + δ* + τ ≤ e^ε·(P′(S) + τ) + δ* + τ. So δ = δ* + (1 + e^ε)·τ.
        """
        return (1 + math.exp(min(float(self.epsilon), 700.0))) * distance(MOST_DRAWS)

    @property
    def budget(self) -> Budget:
        """What all answers together may reveal: ε itself, or the largest μ for which (ε, δ) holds."""
        if not self.delta:
            return LaplaceBudget(float(self.epsilon))
        return GaussianBudget(gaussian_ratio(float(self.epsilon), float(self.delta) - self._set_aside) * _MARGIN)

    @property
    def caveats(self) -> tuple[str, ...]:
        """What the claim says about itself."""
        return (_MODEL_ONLY, _NOISE if self.delta else _PURE)

    def used_records(self, data: Dataset, rng: Randomness) -> tuple[Matrix, Labels, Whole | None]:
        """Return features and classes of at most ``max_records`` records per person, and where each person begins.

        The last is None where each record is a unit. A person's records are neighbours.
        """
        X, y = data.X, data.y
        if data.schema.subject is None:
            return X, y, None
        # The choice among a person's records does not depend on any other person.
        used = random_rank(data, rng.stage("records")) < self.max_records
        units, X, y = units_of(data)[used], X[used], y[used]
        # Neither does the way of adding up: where several records are allowed, all people are added up as such.
        if self.max_records == 1:
            return X, y, None
        order = np.argsort(units, kind="stable")
        return X[order], y[order], np.searchsorted(units[order], np.arange(units.max() + 2)).astype(np.int64)
