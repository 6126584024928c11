"""Differentially private leaves: a base model for tables that is served as it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from eupg.data.dataset import Dataset
from eupg.data.kind import Accepts, DataKind, check_kind
from eupg.data.schema import Schema
from eupg.errors import ParameterError
from eupg.forget.private_trees.answers import RecordAnswers
from eupg.forget.private_trees.budget import Budget, GaussianBudget
from eupg.forget.private_trees.noisy_training import NoisyTraining
from eupg.forget.private_trees.sweeps import PrivateSweeps
from eupg.forget.private_trees.training import PrivateDescent
from eupg.forget.protected_training import without_names
from eupg.forget.unlearner import check_start
from eupg.guarantees import DifferentiallyPrivate
from eupg.learn.learner import Learner, Model
from eupg.learn.leaves.learner import LeafLearner
from eupg.protect.units import unit_claim
from eupg.rng import Randomness


@dataclass(frozen=True)
class PrivateTrees(NoisyTraining):
    """Train the base model on public cells with noisy gradients, so that it hardly depends on any one person.

    Takes the place of a mechanism in :class:`~eupg.forget.eupg.EUPG`, with :class:`~eupg.learn.leaves.learner.
    LeafLearner`. The model adds up one number per cell of public grids, categories and small random trees. It satisfies
    (ε, δ)-differential privacy for everything about a person: their presence, all attributes and the label. Served as
    it is (``exposure=0``), it never has to change when a person is erased.

    Parameters
    ----------
    epsilon, delta
        The claim. With ``delta=0`` it is pure ε-differential privacy, at some cost in utility.
    max_records
        The most records used per person; of a person with more, a random choice. They are cut together, so that the
        noise does not grow with their number. Ignored if the schema names no person.

    Examples
    --------
    >>> from eupg.forget.eupg import EUPG
    >>> from eupg.learn.leaves.learner import LeafLearner
    >>> method = EUPG(PrivateTrees(epsilon=1.0), LeafLearner(), pretrain=1, finetune=0, exposure=0)
    >>> method.sees_raw
    False
    """

    accepts: ClassVar[Accepts] = Accepts(DataKind.TABLE, instead="PixelDP, which protects the pictures themselves")

    def guarantee(self, schema: Schema) -> DifferentiallyPrivate:
        """Return the claim: (ε, δ) for one person, on all attributes and the label."""
        check_kind(schema, self)
        return unit_claim(self.epsilon, self.delta, schema, self.caveats)

    def check_learner(self, learner: Learner) -> None:
        """Refuse a learner that cannot save a model of leaves."""
        if not isinstance(learner, LeafLearner):
            raise ParameterError(
                f"PrivateTrees makes models of leaves, which {type(learner).__name__} cannot save: use LeafLearner()"
            )

    def pretrain(
        self, data: Dataset, learner: Learner, *, effort: int, rng: Randomness
    ) -> tuple[Model, DifferentiallyPrivate]:
        """Train the base model from noisy answers alone."""
        check_start(data, rng)
        self.check_learner(learner)
        claim = replace(self.guarantee(data.schema), seeded=rng.seeded)
        schema, secret = without_names(data.schema), rng.stage("protect")
        X, y, people = self.used_records(data, secret)
        answers = RecordAnswers(X, y, people, self.budget, secret.stage("noise"))
        return _training(schema, self.budget).fit(answers, effort=effort), claim


def _training(schema: Schema, budget: Budget) -> PrivateDescent | PrivateSweeps:
    return PrivateDescent(schema, budget) if isinstance(budget, GaussianBudget) else PrivateSweeps(schema, budget)
