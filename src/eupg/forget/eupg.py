"""EUPG: forget by returning to a model that only ever saw protected data (paper, section 4)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Dataset
from eupg.errors import DataError, ParameterError
from eupg.forget.protected_training import ProtectedTraining
from eupg.forget.released import Released
from eupg.forget.scored_base import ScoredBase, scored
from eupg.forget.unlearner import Trained, check_same_table, check_start, kept_ids
from eupg.learn.learner import Learner, Model, Scoring
from eupg.protect.claim import NO_PERSON
from eupg.protect.guarantee import Guarantee
from eupg.protect.mechanism import Mechanism
from eupg.rng import Randomness

Rows = NDArray[np.bool_]
Memory = Model | ScoredBase
# Fewer people than this say nothing that would not be about them alone.
FEWEST_EXPOSED = 10


@dataclass(frozen=True)
class EUPG:
    """Forget by returning to a model that only ever saw protected data.

    Training fits a model to a release of the records, then fine-tunes it on the records themselves. Forgetting
    discards the fine-tuned model and repeats the second step without the records to forget, so what remains of them
    is what the release revealed.

    Parameters
    ----------
    mechanism
        Turns records into a release and says what is claimed for it; or trains the base model itself under
        protection, such as :class:`~eupg.forget.dp_sgd.DPSGDBase`.
    learner
        Fits models; it must be able to go on from one.
    pretrain, finetune
        Effort (epochs or trees) spent on the release and on the records. ``finetune=0`` serves the base model as
        it is: no record is ever seen raw, and every erasure is immediate.
    exposure
        The share of people the model is fine-tuned on, drawn once, uniformly, whatever their values. Erasing anyone
        else needs no training: the served model never saw their records. 1 is the paper's method, 0 the base alone.
    top_up
        Whether people who leave the sample are replaced by others, drawn by the same rule.
    finetuner
        Fits the fine-tuned model, where that is to be another learner than that of the base: a milder one, say.
    """

    mechanism: Mechanism | ProtectedTraining
    learner: Learner
    pretrain: int = 50
    finetune: int = 5
    exposure: float = 1.0
    top_up: bool = False
    finetuner: Learner | None = None

    def __post_init__(self) -> None:
        if isinstance(self.mechanism, type) or not isinstance(self.mechanism, Mechanism | ProtectedTraining):
            raise ParameterError(f"expected a mechanism such as ProbabilisticKAnonymity(k=30), got {self.mechanism!r}")
        if isinstance(self.learner, type) or not isinstance(self.learner, Learner):
            raise ParameterError(f"expected a learner such as XGBoostLearner(), got {self.learner!r}")
        if isinstance(self.mechanism, ProtectedTraining):
            self.mechanism.check_learner(self.learner)
        second = self.learner if self.finetuner is None else self.finetuner
        if isinstance(second, type) or not isinstance(second, Learner):
            raise ParameterError(f"expected a learner such as XGBoostLearner(), got {second!r}")
        if not second.warm_starts:
            raise ParameterError(
                f"{second!r} cannot go on from a given model, which EUPG needs: use one that can, or Retrain"
            )
        number = isinstance(self.exposure, (int, float, np.integer, np.floating))
        if not number or isinstance(self.exposure, bool) or not 0 <= self.exposure <= 1:
            raise ParameterError(f"exposure is a share of people from 0 to 1, got {self.exposure!r}")
        for name, value, least in (("pretrain", self.pretrain, 1), ("finetune", self.finetune, 0)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
                raise ParameterError(f"{name} must be a whole number of at least {least}, got {value!r}")

    @property
    def depends_on_history(self) -> bool:
        """Whether the order of requests makes a difference: it does where others take the place of those who left."""
        return self.top_up and self.exposure < 1

    def train(self, data: Dataset, rng: Randomness) -> Trained:
        """Protect, pre-train on the release alone, fine-tune on the records."""
        base, claim = self.base(data, rng)
        return self.resume(base, claim, data, rng)

    def base(self, data: Dataset, rng: Randomness) -> tuple[Model, Guarantee]:
        """Return the base model and what is claimed for it: the only step at which protection is made."""
        check_start(data, rng)
        if isinstance(self.mechanism, ProtectedTraining):
            return self.mechanism.pretrain(data, self.learner, effort=self.pretrain, rng=rng)
        release = self.mechanism.protect(data, rng.stage("protect"))
        model = self.learner.fit(release, effort=self.pretrain, rng=rng.stage("pretrain").generator())
        return model, release.guarantee

    def resume(self, base: Model, claim: Guarantee, data: Dataset, rng: Randomness) -> Trained:
        """Fine-tune a base model that was made before from a release of exactly these records."""
        exposed = self._draw(data, frozenset(), rng)
        self._check_enough(data, exposed)
        return self._serve(base, self.claim(claim, data), data, exposed, Released.of(data), rng)

    def forget(self, trained: Trained, retained: Dataset, rng: Randomness) -> Trained:
        """Fine-tune the base model again, on the retained records alone."""
        kept = kept_ids(trained, retained)
        if trained.ids <= kept:
            return replace(trained, kept=kept, released=trained.released.retaining(kept))
        return self.update(trained, retained, rng)

    def update(self, trained: Trained, data: Dataset, rng: Randomness) -> Trained:
        """Fine-tune the base model on these records; those that are new since the release never touched it."""
        check_same_table(trained, data)
        released = trained.released.retaining(data.id_set)
        exposed = self._still_exposed(trained, data, rng)
        # Always from the base model, never from the served one: that is the whole argument.
        return self._serve(_memory(trained), trained.claim, data, exposed, released, rng)

    def _serve(
        self, memory: Memory, claim: Guarantee, data: Dataset, exposed: Rows, released: Released, rng: Randomness
    ) -> Trained:
        kept = data.id_set
        base = memory.base if isinstance(memory, ScoredBase) else memory
        seen = data if exposed.all() else data.select(exposed)
        if self.finetune == 0 or not len(seen):
            return Trained(base, data.schema, frozenset(), kept, released, claim, base)
        learner = self.learner if self.finetuner is None else self.finetuner
        effort, generator = self.finetune, rng.stage("finetune").generator()
        if isinstance(learner, Scoring) and learner.uses_scores:
            # The new scores are those of the people seen now: nothing stays of who left.
            known = scored(memory, seen.X, learner)
            model = learner.fit_scored(seen, effort=effort, rng=generator, start=base, scores=known.scores)
            return Trained(model, data.schema, seen.id_set, kept, released, claim, known)
        model = learner.fit(seen, effort=effort, rng=generator, start=base)
        return Trained(model, data.schema, seen.id_set, kept, released, claim, base)

    def claim(self, claim: Guarantee, data: Dataset) -> Guarantee:
        """Return a release's claim; where nothing tells whose the records are, it says that it is about records."""
        return claim if data.names_people else claim.narrowed(NO_PERSON)

    def _check_enough(self, data: Dataset, exposed: Rows) -> None:
        """Refuse a sample that is too small to learn from; later erasures may make it smaller."""
        if not (0 < self.exposure < 1 and self.finetune):
            return
        everyone, count = len(np.unique(data.subjects)), len(np.unique(data.subjects[exposed]))
        if count < FEWEST_EXPOSED:
            least = f"raise it to {FEWEST_EXPOSED / everyone:.2g}, or " if everyone > FEWEST_EXPOSED else ""
            raise DataError(
                f"exposure={self.exposure:g} of {everyone} people exposes {count}, and fine-tuning needs at least "
                f"{FEWEST_EXPOSED}: {least}set it to 0 to serve the base model alone"
            )

    def _draw(self, data: Dataset, exposed: frozenset[str], rng: Randomness) -> Rows:
        """Draw further people until the share is reached; people are drawn by name alone, all equally likely."""
        if self.exposure == 1:
            return np.ones(len(data), dtype=bool)
        people, place = np.unique(data.subjects, return_inverse=True)
        chosen = np.isin(people, list(exposed))
        wanted = _count(self.exposure, len(people))
        others = np.flatnonzero(~chosen)
        drawn = rng.stage("exposure").permutation(len(others))[: max(0, wanted - int(chosen.sum()))]
        chosen[others[drawn]] = True
        return np.asarray(chosen[place])

    def _still_exposed(self, trained: Trained, data: Dataset, rng: Randomness) -> Rows:
        """Return who is exposed now: those who were, the share of people new since, and others if topped up."""
        if self.exposure == 1:
            return np.ones(len(data), dtype=bool)
        before = frozenset(data.subjects[np.isin(data.ids, list(trained.ids))].tolist())
        if self.top_up:
            return self._draw(data, before, rng)
        new = data.select(~np.isin(data.ids, list(trained.kept)))
        newcomers = np.setdiff1d(new.subjects, data.subjects[np.isin(data.ids, list(trained.kept))])
        drawn = rng.stage("newcomers").permutation(len(newcomers))[: _count(self.exposure, len(newcomers))]
        return np.isin(data.subjects, [*before, *newcomers[drawn].tolist()])


def _count(share: float, people: int) -> int:
    """Return how many people a share is; a share above 0 is at least one person."""
    return min(people, max(int(share > 0), round(share * people)))


def _memory(trained: Trained) -> Memory:
    if not isinstance(trained.memory, Model | ScoredBase):
        raise ParameterError("this model was not trained by EUPG: forget with the method that trained it")
    return trained.memory
