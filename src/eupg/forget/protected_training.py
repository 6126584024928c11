"""Protection of the *training* of the base model, rather than of the data it is trained on.

EUPG needs a base model and a claim about it. A :class:`~eupg.protect.mechanism.Mechanism` gives both through a release,
on which any learner may be trained. Protected training gives them at once, and restricts the learner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.guarantees import Guarantee
from eupg.learn.learner import Learner, Model, check_settings
from eupg.rng import Randomness
from eupg.validation import check_below_one


@runtime_checkable
class ProtectedTraining(Protocol):
    """Trains a base model on the records themselves, so that the model carries a claim."""

    def guarantee(self, schema: Schema) -> Guarantee:
        """Return the claim for tables of this schema, before any record is seen."""

    def check_learner(self, learner: Learner) -> None:
        """Refuse a learner that cannot be trained this way; called when a method is built."""

    def pretrain(self, data: Dataset, learner: Learner, *, effort: int, rng: Randomness) -> tuple[Model, Guarantee]:
        """Train a base model and return it with its claim.

        Nothing of the model outside the claim may depend on the records: no scale, no number of them.
        """


@dataclass(frozen=True)
class UnitBudget:
    """The privacy budget of a training: that of one person, or of one record if the schema names no person.

    Parameters
    ----------
    epsilon, delta
        The claim.
    max_records
        The most records used per person; of a person with more, a random choice. Ignored if the schema names no person.
    """

    epsilon: float = 1.0
    delta: float = 1e-5
    max_records: int = 1

    def __post_init__(self) -> None:
        check_settings(self, whole={"max_records": 1}, positive=("epsilon", "delta"))
        check_below_one("delta", self.delta)

    def records_per_unit(self, schema: Schema) -> int:
        """Return the most records that belong to one unit."""
        return 1 if schema.subject is None else int(self.max_records)


def without_names(schema: Schema) -> Schema:
    """Return the schema without the columns that name records or people, which no model file needs."""
    return Schema(tuple(a for a in schema.attributes if a not in (*schema.identifiers, schema.subject)))
