"""Noisy fine-tuning that forgets where it began: how its steps move, and how much noise a claim needs.

Two runs of the same steps on the same examples, from two different starting points, end in distributions that overlap
more, the more noise is added on the way (Koloskova et al., "Certified unlearning for neural networks"). A learner with
gradients carries the steps out (``fit_noisy``); the accounting here needs no framework. Proofs are in
``docs/guarantees.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from eupg.data.dataset import Examples
from eupg.errors import ParameterError
from eupg.guarantees.gaussian import gaussian_epsilon, gaussian_ratio
from eupg.learn.learner import Model, check_settings

# Calibration is a root to about 1e-12; this much more noise keeps the claim on the safe side of it.
_MARGIN = 1 + 1e-9


@dataclass(frozen=True)
class GradientClipping:
    """Steps x ← x − γ(clip(g) + λx) + noise from a clipped start: pulled to zero, pushed by a bounded amount.

    Parameters
    ----------
    start, gradient
        C0 and C1: the largest norms of the initial weights and of the gradient of a mini-batch.
    decay
        λ: pull towards zero, outside of the clipping.
    step_size, steps
        γ and T.
    """

    start: float
    gradient: float
    decay: float
    step_size: float
    steps: int

    def __post_init__(self) -> None:
        check_settings(self, whole={"steps": 1}, positive=("start", "gradient", "step_size"), not_negative=("decay",))
        if self.step_size * self.decay > 1:
            raise ParameterError(
                f"step_size × decay must be at most 1, got {self.step_size * self.decay:g}: the pull towards zero "
                "would overshoot it"
            )

    @property
    def keeps(self) -> float:
        """ρ = 1 − γλ: the share of the weights that one step keeps."""
        return 1 - self.step_size * self.decay

    @property
    def reach(self) -> float:
        """How far apart two runs with the same noise can end: 2·C0·ρ^T + 2γ·C1·(1 + ρ + … + ρ^(T−1))."""
        powers = self.keeps ** np.arange(self.steps)
        return float(2 * self.start * self.keeps**self.steps + 2 * self.step_size * self.gradient * powers.sum())

    def ratio(self, sigma: float) -> float:
        """μ: the ends are no easier to distinguish than two normal distributions of spread 1 at distance μ."""
        powers = self.keeps ** np.arange(self.steps)
        return self.reach / (sigma * math.sqrt(float((powers**2).sum())))

    def sigma(self, epsilon: float, delta: float) -> float:
        """Return the least noise, added at each step, with which (ε, δ) holds."""
        return self.ratio(1.0) / gaussian_ratio(epsilon, delta) * _MARGIN

    def epsilon(self, sigma: float, delta: float) -> float:
        """Return the least ε that holds with this noise."""
        return gaussian_epsilon(self.ratio(sigma), delta)


@dataclass(frozen=True)
class ModelClipping:
    """Steps x ← clip(x − γg) + noise: each brings any two points within twice the radius, then adds noise.

    Parameters
    ----------
    radius
        C2: the largest norm of the weights before noise is added, at the start and at each step.
    step_size, steps
        γ and T.
    """

    radius: float
    step_size: float
    steps: int

    def __post_init__(self) -> None:
        check_settings(self, whole={"steps": 1}, positive=("radius", "step_size"))

    @property
    def start(self) -> float:
        """The largest norm of the initial weights."""
        return self.radius

    def sigma(self, epsilon: float, delta: float) -> float:
        """Return the least noise, added at each step, with which (ε, δ) holds: δ shrinks by one factor per step."""
        one_step = math.exp(math.log(delta) / self.steps)
        return 2 * self.radius / gaussian_ratio(epsilon, one_step) * _MARGIN

    def epsilon(self, sigma: float, delta: float) -> float:
        """Return the least ε that holds with this noise."""
        return gaussian_epsilon(2 * self.radius / sigma, math.exp(math.log(delta) / self.steps))


NoisySteps = GradientClipping | ModelClipping


@runtime_checkable
class NoisyLearner(Protocol):
    """A learner with gradients, which can take noisy steps."""

    def fit_noisy(
        self,
        examples: Examples,
        *,
        effort: int,
        noise: NoisySteps,
        sigma: float,
        rng: np.random.Generator,
        start: Model,
    ) -> Model:
        """Take the noisy steps from ``start``, then train as usual until ``effort`` passes are full.

        Only the clipped weights of the start are used: no scale, no running statistic.
        """

    def check_noisy(self, examples: Examples, *, effort: int, noise: NoisySteps) -> None:
        """Refuse a network that passes on more than its trainable weights, and more steps than the effort has."""
