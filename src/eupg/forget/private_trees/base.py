"""Differentially private leaves: a base model for tables that is served as it is."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from eupg.data.dataset import Dataset
from eupg.data.picture import require_table
from eupg.data.schema import Schema
from eupg.errors import DataError, ParameterError
from eupg.forget.private_trees.answers import MOST_DRAWS, RecordAnswers
from eupg.forget.private_trees.training import PrivateDescent
from eupg.guarantees import DifferentiallyPrivate
from eupg.learn.learner import Learner, Model, check_settings
from eupg.learn.leaves.learner import LeafLearner
from eupg.learn.noisy import gaussian_ratio
from eupg.protect.exact_gaussian import distance
from eupg.protect.units import random_rank, unit_claim
from eupg.rng import Randomness

# Calibration is a root to about 1e-12; this much less keeps the claim on the safe side of it.
_HAIR = 1 - 1e-9
_MODEL_ONLY = (
    "the claim is about the model: exact numbers of records that are noted beside it, and how long training took, are "
    "not covered"
)
_NOISE = (
    "the noise is a discrete Gaussian, drawn in whole numbers without rounding, and δ includes its distance from the "
    "Gaussian noise it is accounted as"
)


@dataclass(frozen=True)
class PrivateTrees:
    """Train the base model on public cells with noisy gradients, so that it hardly depends on any one person.

    Takes the place of a mechanism in :class:`~eupg.forget.eupg.EUPG`, with :class:`~eupg.learn.leaves.learner.
    LeafLearner`. The model adds up one number per cell of public grids, categories and small random trees. It satisfies
    (ε, δ)-differential privacy for everything about a person: their presence, all attributes and the label. Served as
    it is (``exposure=0``), it never has to change when somebody is erased.

    Parameters
    ----------
    epsilon, delta
        Budget of one person, or of one record where the schema names no person.
    max_records
        The most records of one person that are used; of those who have more, some are left out at random. Only asked
        where the schema names the person.

    Examples
    --------
    >>> from eupg.forget.eupg import EUPG
    >>> from eupg.learn.leaves.learner import LeafLearner
    >>> method = EUPG(PrivateTrees(epsilon=1.0), LeafLearner(), pretrain=1, finetune=0, exposure=0)
    >>> method.sees_raw
    False
    """

    epsilon: float = 1.0
    delta: float = 1e-5
    max_records: int = 1

    def __post_init__(self) -> None:
        check_settings(self, whole={"max_records": 1}, positive=("epsilon", "delta"), not_negative=())
        if self.delta >= 1:
            raise ParameterError(f"delta must be below 1, got {self.delta!r}: usual is 1e-5")
        if self._set_aside > self.delta / 10:
            raise ParameterError(
                f"noise on a grid cannot reach delta={self.delta:g} with epsilon={self.epsilon:g}: use a delta of at "
                f"least {10 * self._set_aside:.2g}, or a smaller epsilon"
            )

    @property
    def _set_aside(self) -> float:
        """What is set aside of δ because noise is discrete.

        With answers whose total distance from Gaussian ones is at most τ on every table, P(S) ≤ P*(S) + τ ≤
        e^ε·P*′(S) + δ* + τ ≤ e^ε·(P′(S) + τ) + δ* + τ. So δ = δ* + (1 + e^ε)·τ.
        """
        return (1 + math.exp(min(float(self.epsilon), 700.0))) * distance(MOST_DRAWS)

    @property
    def ratio(self) -> float:
        """μ of all answers together: the largest for which (ε, δ) holds."""
        return gaussian_ratio(float(self.epsilon), float(self.delta) - self._set_aside) * _HAIR

    def guarantee(self, schema: Schema) -> DifferentiallyPrivate:
        """Return the claim: (ε, δ) for one person, on all attributes and the label."""
        require_table(schema, "PrivateTrees", "PixelDP, which protects the pictures themselves")
        return unit_claim(self.epsilon, self.delta, schema, (_MODEL_ONLY, _NOISE))

    def check_learner(self, learner: Learner) -> None:
        """Refuse a learner that cannot keep a model of leaves."""
        if not isinstance(learner, LeafLearner):
            raise ParameterError(
                f"PrivateTrees makes models of leaves, which {type(learner).__name__} cannot keep: use LeafLearner()"
            )

    def pretrain(
        self, data: Dataset, learner: Learner, *, effort: int, rng: Randomness
    ) -> tuple[Model, DifferentiallyPrivate]:
        """Train the base model from noisy answers alone."""
        self.check_learner(learner)
        claim = replace(self.guarantee(data.schema), seeded=rng.seeded)
        if not len(data):
            raise DataError("there is no record to train on: bring at least one")
        secret = rng.stage("protect")
        per_unit = 1 if data.schema.subject is None else int(self.max_records)
        # Which records of a person are used is drawn for each person independently of all others.
        used = (
            data if data.schema.subject is None else data.select(random_rank(data, secret.stage("records")) < per_unit)
        )
        answers = RecordAnswers(used.X, used.y, per_unit, self.ratio, secret.stage("noise"))
        return PrivateDescent(_unnamed(data.schema), self.ratio).fit(answers, effort=effort), claim


def _unnamed(schema: Schema) -> Schema:
    """Return the schema without the columns that name records or people, which no model file need mention."""
    return Schema(tuple(a for a in schema.attributes if a not in (*schema.identifiers, schema.subject)))
