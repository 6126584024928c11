"""Retrain: the exact method and, at a small effort, the control for every EUPG figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from eupg.data.dataset import Dataset
from eupg.errors import NothingRetained, ParameterError
from eupg.forget.durable import KeptState, ServedAlone
from eupg.forget.lottery import Lottery
from eupg.forget.released import Released
from eupg.forget.unlearner import Trained, check_same_table, check_start, kept_ids
from eupg.guarantees import Exact
from eupg.learn.learner import Learner, Model, check_learner
from eupg.rng import Randomness
from eupg.validation import check_whole, is_share


@dataclass(frozen=True)
class Retrain(ServedAlone):
    """Forget by training from scratch on the records that are left.

    Parameters
    ----------
    learner
        Fits models.
    effort
        Epochs or trees. With EUPG's fine-tuning effort this is the *short retrain*: exact forgetting at the same cost.
    exposure
        The probability that a person is among those the model is trained on, decided once per person as in
        :class:`~eupg.forget.eupg.EUPG`. Erasing anyone else needs no training.
    """

    # Who is left decides the model, whatever led to it.
    assumes_requests_apart: ClassVar[bool] = False
    repair: ClassVar[str] = "a new model was trained from the beginning on the records that are left"
    learner: Learner
    effort: int = 50
    exposure: float = 1.0

    def __post_init__(self) -> None:
        check_learner(self.learner)
        check_whole("effort", self.effort, at_least=1)
        if not is_share(self.exposure) or self.exposure == 0:
            raise ParameterError(f"exposure is a share of people above 0 and up to 1, got {self.exposure!r}")

    def train(self, data: Dataset, rng: Randomness) -> Trained:
        """Train on all records, or on those of the people who are drawn."""
        return self._train(data, self.lottery(rng), rng)

    def lottery(self, rng: Randomness) -> Lottery | None:
        """Return a new lottery over who may be seen raw; none where everyone is."""
        return None if self.exposure == 1 else Lottery.start(self.exposure, rng)

    def _train(self, data: Dataset, lottery: Lottery | None, rng: Randomness) -> Trained:
        check_start(data, rng)
        seen = data if lottery is None else data.select(lottery.drawn(data))
        if not len(seen):
            raise NothingRetained("nobody who is left is drawn to train on: raise the exposure, or retire the model")
        model = self.learner.fit(seen, effort=self.effort, rng=rng.stage("pretrain").generator())
        return replace(self._trained(model, data), ids=seen.id_set, lottery=lottery)

    def restore(self, served: Path, parts: Mapping[str, Path], kept: KeptState) -> Trained:
        """Return the trained model from its file."""
        return replace(self._trained(self.load(served), kept.data), ids=kept.ids, lottery=kept.lottery)

    def _trained(self, model: Model, data: Dataset) -> Trained:
        ids = data.id_set
        return Trained(model, data.schema, ids, ids, Released(), Exact(caveats=data.schema.caveats), None)

    @property
    def batches(self) -> bool:
        """Whether the learner trains several models at once faster than one after another."""
        return self.exposure == 1 and bool(getattr(self.learner, "batches", False))

    def train_many(self, tables: Sequence[Dataset], rngs: Sequence[Randomness]) -> list[Trained]:
        """Train on several tables at once, with a learner that ``batches``."""
        generators = [rng.stage("pretrain").generator() for rng in rngs]
        models = self.learner.fit_many(tables, effort=self.effort, rngs=generators)  # type: ignore[attr-defined]
        return [self._trained(model, data) for model, data in zip(models, tables, strict=True)]

    def forget(self, trained: Trained, retained: Dataset, rng: Randomness) -> Trained:
        """Train again on the retained records."""
        kept = kept_ids(trained, retained)
        return replace(trained, kept=kept) if trained.ids <= kept else self.update(trained, retained, rng)

    def update(self, trained: Trained, data: Dataset, rng: Randomness) -> Trained:
        """Train again on these records."""
        check_same_table(trained, data)
        return self._train(data, trained.lottery, rng)
