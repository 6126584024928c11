"""Retrain: the exact method, and, at a small effort, the control that every EUPG figure stands beside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eupg.data.dataset import Dataset
from eupg.errors import ParameterError
from eupg.forget.released import Released
from eupg.forget.unlearner import Trained, check_same_table, check_start, kept_ids
from eupg.guarantees import Exact
from eupg.learn.learner import Learner, Model
from eupg.rng import Randomness
from eupg.validation import check_whole


@dataclass(frozen=True)
class Retrain:
    """Forget by training from scratch on the records that are left.

    Parameters
    ----------
    learner
        Fits models.
    effort
        Epochs or trees. With EUPG's fine-tuning effort this is the *short retrain*: exact forgetting at the same cost.
    """

    learner: Learner
    effort: int = 50

    def __post_init__(self) -> None:
        if isinstance(self.learner, type) or not isinstance(self.learner, Learner):
            raise ParameterError(f"expected a learner such as XGBoostLearner(), got {self.learner!r}")
        check_whole("effort", self.effort, at_least=1)

    def train(self, data: Dataset, rng: Randomness) -> Trained:
        """Train on all records."""
        check_start(data, rng)
        model = self.learner.fit(data, effort=self.effort, rng=rng.stage("pretrain").generator())
        return self._trained(model, data)

    def _trained(self, model: Model, data: Dataset) -> Trained:
        kept = data.id_set
        return Trained(model, data.schema, kept, kept, Released(), Exact(caveats=data.schema.caveats), None)

    @property
    def batches(self) -> bool:
        """Whether the learner trains several models at once faster than one after another."""
        return bool(getattr(self.learner, "batches", False))

    def train_many(self, tables: Sequence[Dataset], rngs: Sequence[Randomness]) -> list[Trained]:
        """Train on several tables at once, with a learner that can."""
        generators = [rng.stage("pretrain").generator() for rng in rngs]
        models = self.learner.fit_many(tables, effort=self.effort, rngs=generators)  # type: ignore[attr-defined]
        return [self._trained(model, data) for model, data in zip(models, tables, strict=True)]

    def forget(self, trained: Trained, retained: Dataset, rng: Randomness) -> Trained:
        """Train again on the retained records."""
        kept = kept_ids(trained, retained)
        return trained if trained.ids <= kept else self.update(trained, retained, rng)

    def update(self, trained: Trained, data: Dataset, rng: Randomness) -> Trained:
        """Train again on these records."""
        check_same_table(trained, data)
        return self.train(data, rng)
