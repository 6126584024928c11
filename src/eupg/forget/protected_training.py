"""The protocol of what protects the *training* of the base model, rather than the data it is trained on.

What EUPG needs is a base model and a claim about it. A :class:`~eupg.protect.mechanism.Mechanism` gives both by way of
a release that any learner may be trained on; protected training gives them at once, and has a say in the learner.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.guarantees import Guarantee
from eupg.learn.learner import Learner, Model
from eupg.rng import Randomness


@runtime_checkable
class ProtectedTraining(Protocol):
    """Trains a base model on the records themselves, so that the model carries a claim."""

    def guarantee(self, schema: Schema) -> Guarantee:
        """Return the claim for tables of this schema, before any record is seen."""

    def check_learner(self, learner: Learner) -> None:
        """Refuse a learner that cannot be trained this way; asked when a method is built."""

    def pretrain(self, data: Dataset, learner: Learner, *, effort: int, rng: Randomness) -> tuple[Model, Guarantee]:
        """Train a base model and return it with what is claimed for it.

        Nothing of the model but what the claim covers may depend on the records: no scale, no number of them.
        """
