"""EUPG: forget by returning to a model that only ever saw protected data (paper, section 4)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from eupg.data.dataset import Dataset
from eupg.errors import DataError, ParameterError
from eupg.forget.lottery import Lottery, Rows
from eupg.forget.protected_training import ProtectedTraining
from eupg.forget.released import Released
from eupg.forget.scored_base import ScoredBase, scored
from eupg.forget.unlearner import Trained, check_same_table, check_start, kept_ids
from eupg.guarantees import Guarantee
from eupg.guarantees.guarantee import assuming, both
from eupg.guarantees.wording import NO_PERSON, REQUESTS_APART
from eupg.learn.learner import Learner, Model, Scoring
from eupg.protect.mechanism import Mechanism
from eupg.rng import Randomness
from eupg.validation import check_whole, is_share

Memory = Model | ScoredBase
# A model is never fitted on fewer people than this where people are drawn: it would be about them alone.
FEWEST_EXPOSED = 10
# With so many expected, about one draw in 200 is below the fewest.
_EXPECTED_ENOUGH = 2 * FEWEST_EXPOSED
TOPPED_UP = (
    "people who leave the sample of those seen raw are replaced by others, so whom the model is fitted on depends on "
    "who left before"
)


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
        second = self.learner if self.finetuner is None else self.finetuner
        if isinstance(second, type) or not isinstance(second, Learner):
            raise ParameterError(f"expected a learner such as XGBoostLearner(), got {second!r}")
        if not is_share(self.exposure):
            raise ParameterError(f"exposure is a share of people from 0 to 1, got {self.exposure!r}")
        for name, value, least in (("pretrain", self.pretrain, 1), ("finetune", self.finetune, 0)):
            check_whole(name, value, at_least=least)
        # A base model that is served as it is need not be one to go on from.
        stuck = next((learner for learner in (self.learner, second) if not learner.warm_starts), None)
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

    def resume(
        self,
        base: Model,
        claim: Guarantee,
        data: Dataset,
        rng: Randomness,
        *,
        lottery: Lottery | None = None,
        released: Released | None = None,
    ) -> Trained:
        """Fine-tune a base model that was made before from a release of exactly these records.

        Who may be seen raw is drawn now, unless a lottery is given in which that was decided before. Who had a part in
        the release is noted from the records, unless a history is given.
        """
        if lottery is None:
            self._check_enough(data)
            lottery = self.lottery(rng)
        released = Released.of(data) if released is None else released
        return self._serve(base, self.claim(claim, data), data, lottery, released, rng)

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
        base = memory.base if isinstance(memory, ScoredBase) else memory
        exposed = _exposed(data, lottery)
        seen = data if exposed.all() else data.select(exposed)
        if self.finetune == 0 or not len(seen):
            return Trained(base, data.schema, frozenset(), kept, released, claim, base, lottery)
        learner = self.learner if self.finetuner is None else self.finetuner
        effort, generator = self.finetune, rng.stage("finetune").generator()
        if isinstance(learner, Scoring) and learner.uses_scores:
            # The new scores are those of the people seen now: nothing stays of who left.
            known = scored(memory, seen.X, learner)
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


def _memory(trained: Trained) -> Memory:
    if not isinstance(trained.memory, Model | ScoredBase):
        raise ParameterError("this model was not trained by EUPG: forget with the method that trained it")
    return trained.memory
