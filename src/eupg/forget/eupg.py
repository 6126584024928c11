"""EUPG: forget by returning to a model that only ever saw protected data (paper, section 4)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from eupg.data.dataset import Dataset, RecordId
from eupg.data.ids import IdSet
from eupg.data.kind import check_kind
from eupg.errors import DataError, ModelFileError, ParameterError
from eupg.forget.durable import KeptState, Part
from eupg.forget.lottery import Lottery, Rows
from eupg.forget.protected_training import ProtectedTraining
from eupg.forget.released import HistoryElsewhere, Released
from eupg.forget.scored_base import ScoredBase, scored
from eupg.forget.summed_base import SummedBase
from eupg.forget.unlearner import Trained, check_history, check_same_table, check_start, ids_with, ids_without, kept_ids
from eupg.guarantees import Guarantee, KAnonymous
from eupg.guarantees.guarantee import assuming, both
from eupg.guarantees.wording import NO_PERSON, REQUESTS_APART
from eupg.learn.learner import Learner, Model, Scoring, Summing, Sums
from eupg.progress import SILENT, Progress
from eupg.protect.kanonymity import with_shared
from eupg.protect.mechanism import Grouping, Mechanism
from eupg.protect.microaggregation.groups import Groups
from eupg.protect.release import Release
from eupg.rng import Randomness
from eupg.validation import check_whole, is_share

Memory = Model | ScoredBase | SummedBase
# A model is never fitted on fewer people than this where people are drawn: it would be about them alone.
FEWEST_EXPOSED = 10
# With so many expected, about one draw in 200 is below the fewest.
_EXPECTED_ENOUGH = 2 * FEWEST_EXPOSED
TOPPED_UP = (
    "people who leave the sample of those seen raw are replaced by others, so whom the model is fitted on depends on "
    "who left before"
)


@dataclass(frozen=True, eq=False)
class Base:
    """A base model, and what is known about the release behind it. The release itself is not kept.

    Parameters
    ----------
    model
        The model.
    claim
        What the release claims for one of its records.
    released
        Who took part in the release.
    release_digest
        SHA-256 of the release; None where training itself is protected, so that the model is all that is released.
    groups
        The group of each record in the release, where the mechanism forms groups.
    """

    model: Model
    claim: Guarantee
    released: Released
    release_digest: str | None = None
    groups: Groups | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_history(self.claim, self.released)


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
        protection, such as :class:`~eupg.forget.private_trees.base.PrivateTrees`.
    learner
        Fits models; it must be able to go on from one, unless the base model is served as it is.
    pretrain, finetune
        Effort (epochs or trees) spent on the release and on the records. ``finetune=0`` serves the base model as
        it is: no record is ever seen raw, and every erasure is immediate.
    exposure
        The probability that a person is among those the model is fine-tuned on. It is decided once per person,
        whatever their values, independently of everyone else and of when they come. Erasing anyone else needs no
        training: the served model never saw their records. 1 is the paper's method, 0 the base alone. Where fewer
        than 10 of the people who are left are drawn, the base model is served, until newcomers make them 10 again.
    top_up
        Whether people who leave the sample are replaced by others until the share is reached again. Then whom the
        model is fitted on depends on who left before, and every claim says so.
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
        second = self._second
        if isinstance(second, type) or not isinstance(second, Learner):
            raise ParameterError(f"expected a learner such as XGBoostLearner(), got {second!r}")
        if not is_share(self.exposure):
            raise ParameterError(f"exposure is a share of people from 0 to 1, got {self.exposure!r}")
        for name, value, least in (("pretrain", self.pretrain, 1), ("finetune", self.finetune, 0)):
            check_whole(name, value, at_least=least)
        # A base model that is served as it is, or of which the leaves alone are used, need not be one to go on from.
        needed = (second,) if isinstance(second, Summing) else (self.learner, second)
        stuck = next((learner for learner in needed if not learner.warm_starts), None)
        if self.sees_raw and stuck is not None:
            raise ParameterError(
                f"{stuck!r} cannot go on from a given model, which EUPG needs: use one that can, or Retrain, or serve "
                "the base model as it is with exposure=0"
            )

    @property
    def depends_on_history(self) -> bool:
        """Whether the order of requests makes a difference: it does where others take the place of those who left."""
        return self.top_up and self.exposure < 1

    def train(self, data: Dataset, rng: Randomness) -> Trained:
        """Protect, pre-train on the release alone, fine-tune on the records."""
        return self.resume(self.base(data, rng), data, rng)

    def base(
        self, data: Dataset, rng: Randomness, *, released: Released | None = None, progress: Progress = SILENT
    ) -> Base:
        """Make a release and a base model from it: the only step that protects.

        Who takes part in the release is noted from the records, unless that history is kept elsewhere.
        """
        check_start(data, rng)
        check_kind(data.schema, self.mechanism, self.learner, self.finetuner)
        released = Released.of(data) if released is None else released
        if isinstance(self.mechanism, ProtectedTraining):
            with progress.step("pretrain"):
                model, claim = self.mechanism.pretrain(data, self.learner, effort=self.pretrain, rng=rng)
            return Base(model, claim, released)
        groups = None
        with progress.step("protect"):
            if isinstance(self.mechanism, Grouping):
                release, groups = self.mechanism.protect_in_groups(data, rng.stage("protect"))
            else:
                release = self.mechanism.protect(data, rng.stage("protect"))
        with progress.step("pretrain"):
            model = self.learner.fit(release, effort=self.pretrain, rng=rng.stage("pretrain").generator())
        claim = release.guarantee
        if isinstance(claim, KAnonymous) and claim.shared is None and groups is not None:
            claim = with_shared(claim, data, groups)
        return Base(model, claim, released, _digest(release), groups)

    def resume(self, base: Base, data: Dataset, rng: Randomness, *, lottery: Lottery | None = None) -> Trained:
        """Fine-tune a base model that was made before.

        Who may be seen raw is drawn now, unless a lottery is given in which that was decided before.
        """
        if lottery is None:
            self._check_enough(data)
            lottery = self.lottery(rng)
        released = base.released.retaining(data.id_set)
        return self._serve(base.model, self.claim(base.claim, data), data, lottery, released, rng)

    def lottery(self, rng: Randomness) -> Lottery | None:
        """Return a new lottery over who may be seen raw; none where everyone is."""
        return None if self.exposure == 1 else Lottery.start(self.exposure, rng)

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
        lottery = trained.lottery
        if lottery is not None and self.top_up:
            lottery = lottery.topped_up(data, rng)
        # Always from the base model, never from the served one: that is the whole argument.
        return self._serve(_memory(trained), trained.claim, data, lottery, released, rng)

    def erase(self, trained: Trained, rows: Dataset) -> Trained:
        """Return the model that :meth:`forget` would, from the records that leave instead of those that stay.

        The sums over these records are subtracted; the records are then dropped. The finetuner must be one that works
        with sums, such as :class:`~eupg.learn.leaves.leaf_ridge.LeafRidge`, and everyone must be seen raw.
        """
        memory, learner = self._summed(trained)
        ids = ids_without(trained, rows)
        released = trained.released.without(rows.id_set)
        return self._from_sums(trained, ids, released, memory.sums.minus(learner.sums(rows, start=memory.base)))

    def add(self, trained: Trained, rows: Dataset) -> Trained:
        """Return the model that :meth:`update` would for all records, from the new ones alone."""
        memory, learner = self._summed(trained)
        ids = ids_with(trained, rows)
        released = trained.released.joined(rows.id_set)
        return self._from_sums(trained, ids, released, memory.sums.plus(learner.sums(rows, start=memory.base)))

    def _summed(self, trained: Trained) -> tuple[SummedBase, Summing]:
        memory, learner = trained.memory, self._second
        if trained.lottery is not None or not (isinstance(memory, SummedBase) and isinstance(learner, Summing)):
            raise ParameterError(
                "records can be subtracted or added where exposure is 1, the finetuner is one such as LeafRidge, and "
                "the model was fitted with it: call forget with the records that stay, or update with all records"
            )
        return memory, learner

    def _from_sums(self, trained: Trained, ids: Set[RecordId], released: Released, sums: Sums) -> Trained:
        memory, learner = self._summed(trained)
        if not ids:
            return replace(trained, model=memory.base, ids=ids, kept=ids, released=released, memory=memory.base)
        model = learner.fit_sums(sums, effort=self.finetune, start=memory.base)
        summed = SummedBase(memory.base, sums)
        return replace(trained, model=model, ids=ids, kept=ids, released=released, memory=summed)

    @property
    def subtracts(self) -> bool:
        """Whether :meth:`erase` and :meth:`add` can be used."""
        return self.exposure == 1 and self.finetune > 0 and isinstance(self._second, Summing)

    @property
    def repair(self) -> str:
        """What forgetting does to a model that saw the records."""
        if self.subtracts:
            return "their part in its sums was subtracted, and the model was computed again from the base model"
        return "the base model was fine-tuned again on the records that are left"

    def save(self, model: Model, path: Path) -> None:
        """Write a fine-tuned model."""
        self._writer.save(model, path)

    def load(self, path: Path) -> Model:
        """Read a served model back: a fine-tuned one, or the base model."""
        if self._writer is self.learner:
            return self.learner.load(path)
        try:
            return self._writer.load(path)
        except ModelFileError:
            return self.learner.load(path)

    def parts(self, trained: Trained) -> Mapping[str, Part]:
        """Return the base model, and the sums over the records if the finetuner works with sums."""
        memory = _memory(trained)
        base = memory if isinstance(memory, Model) else memory.base
        parts = {"base": Part(base, lambda path: self.learner.save(base, path))}
        if isinstance(memory, SummedBase):
            sums, second = memory.sums, self._summed(trained)[1]
            parts["sums"] = Part(sums, lambda path: second.save_sums(sums, path, start=base))
        return parts

    def restore(self, served: Path, parts: Mapping[str, Path], kept: KeptState) -> Trained:
        """Return the trained model from its files, the base model in place of the served one, which it never needs."""
        base, second = self.learner.load(parts["base"]), self._second
        memory: Memory = base
        if "sums" in parts and isinstance(second, Summing):
            memory = SummedBase(base, second.load_sums(parts["sums"]))
        ids, known = kept.data.id_set, HistoryElsewhere()
        return Trained(base, kept.data.schema, kept.ids, ids, known, kept.claim, memory, kept.lottery)

    @property
    def _writer(self) -> Learner:
        """What writes fine-tuned models: the learner, unless the finetuner makes another kind."""
        return self._second if isinstance(self._second, Summing) else self.learner

    @property
    def _second(self) -> Learner:
        return self.learner if self.finetuner is None else self.finetuner

    def _serve(
        self,
        memory: Memory,
        claim: Guarantee,
        data: Dataset,
        lottery: Lottery | None,
        released: Released,
        rng: Randomness,
    ) -> Trained:
        kept = data.id_set
        base = memory.base if isinstance(memory, ScoredBase | SummedBase) else memory
        exposed = _exposed(data, lottery)
        seen = data if exposed.all() else data.select(exposed)
        if self.finetune == 0 or not len(seen):
            return Trained(base, data.schema, frozenset(), kept, released, claim, base, lottery)
        learner = self._second
        effort, generator = self.finetune, rng.stage("finetune").generator()
        if isinstance(learner, Summing):
            summed = SummedBase(base, learner.sums(seen, start=base))
            model = learner.fit_sums(summed.sums, effort=effort, start=base)
            # People leave one at a time here: nobody else's id is copied when they do.
            ids = IdSet(kept)
            seen_ids = ids if seen is data else seen.id_set
            return Trained(model, data.schema, seen_ids, ids, released, claim, summed, lottery)
        if isinstance(learner, Scoring) and learner.uses_scores:
            # The new scores are those of the people seen now: nothing stays of who left.
            known = scored(memory if isinstance(memory, ScoredBase) else base, seen.X, learner)
            model = learner.fit_scored(seen, effort=effort, rng=generator, start=base, scores=known.scores)
            return Trained(model, data.schema, seen.id_set, kept, released, claim, known, lottery)
        model = learner.fit(seen, effort=effort, rng=generator, start=base)
        return Trained(model, data.schema, seen.id_set, kept, released, claim, base, lottery)

    @property
    def sees_raw(self) -> bool:
        """Whether served models are fitted on anybody's records directly."""
        return self.exposure > 0 and self.finetune > 0

    @property
    def caveats(self) -> tuple[str, ...]:
        """What narrows every claim of this method, whoever is forgotten."""
        return (TOPPED_UP,) if self.depends_on_history else ()

    def claim(self, claim: Guarantee, data: Dataset) -> Guarantee:
        """Return a release's claim with what this method adds; where no person is known, it is about records."""
        claim = claim if data.names_people else claim.narrowed(NO_PERSON)
        return assuming(replace(claim, caveats=both(claim.caveats, self.caveats)), REQUESTS_APART, needed=self.sees_raw)

    def _check_enough(self, data: Dataset) -> None:
        """Refuse a share that is too small for the table before anyone is drawn.

        What is drawn is never refused. A sample that is drawn again because it was small depends on everyone who was
        there, the people who are erased later among them.
        """
        if not (self.sees_raw and self.exposure < 1):
            return
        everyone = len(np.unique(data.subjects))
        expected = self.exposure * everyone
        # The product of a share such as 10/90 and 90 may be a hair below 10.
        if expected < FEWEST_EXPOSED * (1 - 1e-9):
            enough = _EXPECTED_ENOUGH / everyone
            least = f"raise it to {enough:.2g}, or " if enough < 1 else ""
            raise DataError(
                f"exposure={self.exposure:g} of {everyone} people exposes {expected:.3g} on average, and fine-tuning "
                f"needs at least {FEWEST_EXPOSED}: {least}set it to 0 to serve the base model alone"
            )


def _exposed(data: Dataset, lottery: Lottery | None) -> Rows:
    """Return who is seen raw: those who are drawn, unless they are too few to learn from.

    This depends on the people who are left and on their own decisions alone, so that someone who has left makes no
    difference to it.
    """
    if lottery is None:
        return np.ones(len(data), dtype=bool)
    drawn = lottery.drawn(data)
    enough = len(np.unique(data.subjects[drawn])) >= FEWEST_EXPOSED
    return drawn if enough else np.zeros(len(data), dtype=bool)


def _digest(release: Release) -> str:
    digest = hashlib.sha256(np.ascontiguousarray(release.X).tobytes())
    digest.update(np.ascontiguousarray(release.y).tobytes())
    return digest.hexdigest()


def _memory(trained: Trained) -> Memory:
    if not isinstance(trained.memory, Model | ScoredBase | SummedBase):
        raise ParameterError("this model was not trained by EUPG: forget with the method that trained it")
    return trained.memory
