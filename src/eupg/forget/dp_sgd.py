"""A base model trained under differential privacy, in place of one trained on protected data (paper, future work).

The flow of EUPG does not change: the base model carries the claim, fine-tuning continues from it with the records
themselves, and forgetting returns to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from eupg.data.dataset import Dataset
from eupg.data.kind import Accepts, DataKind, check_kind
from eupg.data.schema import Schema
from eupg.errors import ParameterError
from eupg.forget.protected_training import UnitBudget, without_names
from eupg.forget.unlearner import check_start
from eupg.guarantees import DifferentiallyPrivate
from eupg.learn.learner import Learner, Model, check_settings
from eupg.learn.sampled_gaussian import least_noise
from eupg.learn.torch.dp_sgd import PrivateSteps, Rows, check_network, fit_privately
from eupg.learn.torch.learner import TorchLearner
from eupg.protect.noise.discrete import discrete_laplace, scale_at_least
from eupg.protect.units import random_rank, unit_claim, units_of
from eupg.rng import Randomness
from eupg.validation import check_below_one

# The part of ε that pays for counting people: at ε = 1 the count is off by about 70, which hardly matters above 1,000.
COUNTING = 0.02
_NOISE = "the noise is pseudo-random and in floating point, and the claim takes it for true Gaussian noise"
_MODEL_ONLY = "the claim is about the model: exact numbers of records that are noted beside it are not covered"


@dataclass(frozen=True)
class DPSGDBase(UnitBudget):
    """Train the base model by DP-SGD, so that it hardly depends on any one person.

    Takes the place of a mechanism in :class:`~eupg.forget.eupg.EUPG`, with a learner of networks. The claim is
    (ε, δ)-differential privacy for everything about a person: their presence, all attributes and the label.

    Parameters
    ----------
    epsilon, delta, max_records
        As in :class:`~eupg.forget.protected_training.UnitBudget`: the claim, and the most records used per person.
    clip
        The largest norm of one person's gradient.
    batch
        The number of people that a step draws on average.
    learning_rate, momentum
        Those of gradient descent; the learner's own settings are for fine-tuning.
    people
        The approximate number of people, if it is public. Otherwise they are counted with noise, for a fiftieth of ε.

    Examples
    --------
    >>> from eupg import EUPG
    >>> from eupg.learn import TorchLearner
    >>> method = EUPG(DPSGDBase(epsilon=1.0), TorchLearner(), pretrain=10, finetune=5, exposure=0.05)
    >>> method.mechanism.delta
    1e-05
    """

    accepts: ClassVar[Accepts] = Accepts(DataKind.TABLE, instead="PixelDP, which protects the pictures themselves")
    clip: float = 10.0
    batch: int = 512
    learning_rate: float = 0.03
    momentum: float = 0.9
    people: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        whole = {"batch": 1} | ({} if self.people is None else {"people": 1})
        check_settings(self, whole=whole, positive=("clip", "learning_rate"))
        check_below_one("momentum", self.momentum)

    def guarantee(self, schema: Schema) -> DifferentiallyPrivate:
        """Return the claim: (ε, δ) for one person, on all attributes and the label."""
        check_kind(schema, self)
        who = "records" if schema.subject is None else "people"
        counted = (
            f"a fiftieth of ε pays for counting the {who} with noise"
            if self.people is None
            else f"the number of {who} was declared as about {self.people} and is taken as public"
        )
        return unit_claim(self.epsilon, self.delta, schema, (counted, _MODEL_ONLY, _NOISE))

    def check_learner(self, learner: Learner) -> None:
        """Refuse a learner that does not train networks."""
        if not isinstance(learner, TorchLearner):
            raise ParameterError(
                f"DP-SGD trains networks, and {type(learner).__name__} is not a TorchLearner: use TorchLearner(), or "
                "protect the data instead, with LocalDP or ProbabilisticKAnonymity"
            )

    def pretrain(
        self, data: Dataset, learner: Learner, *, effort: int, rng: Randomness
    ) -> tuple[Model, DifferentiallyPrivate]:
        """Train the base model; everything but its noisy steps follows from the schema and the noisy count alone."""
        self.check_learner(learner)
        assert isinstance(learner, TorchLearner)
        claim = replace(self.guarantee(data.schema), seeded=rng.seeded)
        schema, records = without_names(data.schema), self.records_per_unit(data.schema)
        check_network(learner, schema, records=records)
        check_start(data, rng)
        secret = rng.stage("protect")
        rows = rows_of_units(data, records, secret.stage("records"))
        model = fit_privately(
            learner,
            replace(data, schema=schema),
            rows,
            effort=effort,
            steps=self.steps(self._count(len(rows), secret.stage("count")), effort),
            weights=rng.stage("pretrain").generator(),
            noise=secret.stage("noise").generator(),
        )
        return model, claim

    def steps(self, people: int, effort: int) -> PrivateSteps:
        """Return the steps for about this many people: their number, and the least noise with which the claim holds."""
        rate = self.batch / max(people, self.batch)
        count = math.ceil(effort / rate)
        return PrivateSteps(
            rate=rate,
            count=count,
            batch=float(self.batch),
            clip=float(self.clip),
            noise=least_noise(self._budget, float(self.delta), rate=rate, steps=count),
            learning_rate=float(self.learning_rate),
            momentum=float(self.momentum),
        )

    @property
    def _budget(self) -> float:
        """The part of ε that is left for the steps."""
        return float(self.epsilon) * (1 - COUNTING if self.people is None else 1.0)

    def _count(self, exact: int, rng: Randomness) -> int:
        """Return the number of people: as declared, or counted with noise."""
        if self.people is not None:
            return int(self.people)
        scale = scale_at_least(1 / (Fraction(float(self.epsilon)) - Fraction(self._budget)))
        return max(1, exact + int(discrete_laplace(scale, 1, rng)[0]))


def rows_of_units(data: Dataset, records: int, rng: Randomness) -> Rows:
    """Return one line per unit with the positions of its records, then −1; of more than ``records``, a random choice.

    A unit is a person if the schema names one, else a record. The choice for one does not depend on any other.
    """
    if data.schema.subject is None:
        return np.arange(len(data))[:, None]
    unit, rank = units_of(data), random_rank(data, rng)
    # Places beyond the largest number of records of a person would stay empty, so they are left out.
    rows = np.full((int(unit.max()) + 1, min(records, int(rank.max()) + 1)), -1, dtype=np.int64)
    used = rank < records
    rows[unit[used], rank[used]] = np.flatnonzero(used)
    return rows
