"""EUPG: forget by returning to a model that only ever saw protected data (paper, section 4)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from eupg.data.dataset import Dataset
from eupg.errors import ParameterError
from eupg.forget.released import Released
from eupg.forget.unlearner import Trained, check_same_table, check_start, kept_ids
from eupg.learn.learner import Learner, Model
from eupg.protect.guarantee import Guarantee
from eupg.protect.mechanism import Mechanism
from eupg.rng import Randomness


@dataclass(frozen=True)
class EUPG:
    """Forget by returning to a model that only ever saw protected data.

    Training fits a model to a release of the records, then fine-tunes it on the records themselves. Forgetting
    discards the fine-tuned model and repeats the second step without the records to forget, so what remains of them
    is what the release revealed.

    Parameters
    ----------
    mechanism
        Turns records into a release and says what is claimed for it.
    learner
        Fits models; it must be able to go on from one.
    pretrain, finetune
        Effort (epochs or trees) spent on the release and on the records. ``finetune=0`` serves the base model as
        it is: no record is ever seen raw, and every erasure is immediate.
    """

    mechanism: Mechanism
    learner: Learner
    pretrain: int = 50
    finetune: int = 5

    def __post_init__(self) -> None:
        if isinstance(self.mechanism, type) or not isinstance(self.mechanism, Mechanism):
            raise ParameterError(f"expected a mechanism such as ProbabilisticKAnonymity(k=30), got {self.mechanism!r}")
        if isinstance(self.learner, type) or not isinstance(self.learner, Learner):
            raise ParameterError(f"expected a learner such as XGBoostLearner(), got {self.learner!r}")
        if not self.learner.warm_starts:
            raise ParameterError(
                f"{self.learner!r} cannot go on from a given model, which EUPG needs: use one that can, or Retrain"
            )
        for name, value, least in (("pretrain", self.pretrain, 1), ("finetune", self.finetune, 0)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
                raise ParameterError(f"{name} must be a whole number of at least {least}, got {value!r}")

    def train(self, data: Dataset, rng: Randomness) -> Trained:
        """Protect, pre-train on the release alone, fine-tune on the records."""
        base, claim = self.base(data, rng)
        return self.resume(base, claim, data, rng)

    def base(self, data: Dataset, rng: Randomness) -> tuple[Model, Guarantee]:
        """Return the base model and what is claimed for it: the only step at which protection is made."""
        check_start(data, rng)
        release = self.mechanism.protect(data, rng.stage("protect"))
        model = self.learner.fit(release, effort=self.pretrain, rng=rng.stage("pretrain").generator())
        return model, release.guarantee

    def resume(self, base: Model, claim: Guarantee, data: Dataset, rng: Randomness) -> Trained:
        """Fine-tune a base model that was made before from a release of exactly these records."""
        return self._serve(base, claim, data, Released.of(data), rng)

    def forget(self, trained: Trained, retained: Dataset, rng: Randomness) -> Trained:
        """Fine-tune the base model again, on the retained records alone."""
        kept = kept_ids(trained, retained)
        if trained.ids <= kept:
            return replace(trained, kept=kept, released=trained.released.retaining(kept))
        return self.update(trained, retained, rng)

    def update(self, trained: Trained, data: Dataset, rng: Randomness) -> Trained:
        """Fine-tune the base model on these records; those that are new since the release never touched it."""
        check_same_table(trained, data)
        released = trained.released.retaining(frozenset(data.ids.tolist()))
        # Always from the base model, never from the served one: that is the whole argument.
        return self._serve(_base(trained), trained.claim, data, released, rng)

    def _serve(self, base: Model, claim: Guarantee, data: Dataset, released: Released, rng: Randomness) -> Trained:
        kept = frozenset(data.ids.tolist())
        if self.finetune == 0 or not len(data):
            return Trained(base, data.schema, frozenset(), kept, released, claim, base)
        model = self.learner.fit(data, effort=self.finetune, rng=rng.stage("finetune").generator(), start=base)
        return Trained(model, data.schema, kept, kept, released, claim, base)


def _base(trained: Trained) -> Model:
    if not isinstance(trained.memory, Model):
        raise ParameterError("this model was not trained by EUPG: forget with the method that trained it")
    return trained.memory
