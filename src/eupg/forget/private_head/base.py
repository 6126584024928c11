"""A private linear model of public features: a base model for pictures and texts that is served as it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from eupg.data.dataset import Dataset
from eupg.data.kind import Accepts, DataKind, check_kind
from eupg.data.schema import Schema
from eupg.errors import ParameterError
from eupg.forget.private_head.descent import HeadDescent
from eupg.forget.private_head.noisy_answers import VectorAnswers
from eupg.forget.private_trees.budget import GaussianBudget
from eupg.forget.private_trees.noisy_training import NoisyTraining
from eupg.forget.protected_training import without_names
from eupg.forget.unlearner import check_start
from eupg.guarantees import DifferentiallyPrivate
from eupg.learn.heads.model import HeadLearner
from eupg.learn.learner import Learner, Model, check_settings
from eupg.protect.units import unit_claim
from eupg.rng import Randomness


@dataclass(frozen=True)
class PrivateHead(NoisyTraining):
    """Train a linear model of public features with noisy gradients, so that it hardly depends on any one person.

    Takes the place of a mechanism in :class:`~eupg.forget.eupg.EUPG`, with :class:`~eupg.learn.heads.model.
    HeadLearner`, for pictures and texts that were encoded by :func:`~eupg.protect.features.encoder.encode_records`. The
    model satisfies (ε, δ)-differential privacy for everything about a person: their presence, the whole picture or
    text, and its label. Served as it is (``exposure=0``), it never has to change when a person is erased.

    Parameters
    ----------
    epsilon, delta
        The claim.
    max_records
        The most records used per person; of a person with more, a random choice. They are cut together, so that the
        noise does not grow with their number. Ignored if the schema names no person.

    Examples
    --------
    >>> from eupg import EUPG
    >>> method = EUPG(PrivateHead(epsilon=1.0), HeadLearner(), pretrain=1, finetune=0, exposure=0)
    >>> method.sees_raw
    False
    """

    accepts: ClassVar[Accepts] = Accepts(
        DataKind.VECTORS, instead="PrivateTrees for tables, or encode_records first for pictures"
    )

    def __post_init__(self) -> None:
        check_settings(self, whole={}, positive=("delta",))
        super().__post_init__()

    def guarantee(self, schema: Schema) -> DifferentiallyPrivate:
        """Return the claim: (ε, δ) for one person, on the whole picture or text and its label."""
        check_kind(schema, self)
        return unit_claim(self.epsilon, self.delta, schema, self.caveats)

    def check_learner(self, learner: Learner) -> None:
        """Refuse a learner that cannot save a linear model of public features."""
        if not isinstance(learner, HeadLearner):
            raise ParameterError(
                f"PrivateHead makes linear models of public features, which {type(learner).__name__} cannot save: use "
                "HeadLearner()"
            )

    def pretrain(
        self, data: Dataset, learner: Learner, *, effort: int, rng: Randomness
    ) -> tuple[Model, DifferentiallyPrivate]:
        """Train the model from noisy answers alone."""
        check_start(data, rng)
        self.check_learner(learner)
        claim = replace(self.guarantee(data.schema), seeded=rng.seeded)
        secret, budget = rng.stage("protect"), self.budget
        assert isinstance(budget, GaussianBudget)
        answers = VectorAnswers(*self.used_records(data, secret), budget, secret.stage("noise"))
        return HeadDescent(without_names(data.schema), budget).fit(answers, effort=effort), claim
