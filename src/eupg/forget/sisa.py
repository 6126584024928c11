"""SISA: forget by retraining only the shards, from the slices, that held the record (Bourtoule et al. 2021)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

import numpy as np

from eupg.data.dataset import Dataset, Matrix, RecordId
from eupg.data.score import Probabilities
from eupg.errors import NothingRetained, ParameterError
from eupg.forget.checkpoints import CheckpointFolder
from eupg.forget.released import Released
from eupg.forget.sharding import Places, Sharding
from eupg.forget.stages import Plan, Shard, train_shard
from eupg.forget.storage import Storage
from eupg.forget.unlearner import Trained, check_same_table, check_start, kept_ids
from eupg.guarantees import Exact, Unit
from eupg.guarantees.guarantee import assuming
from eupg.guarantees.wording import REQUESTS_APART
from eupg.learn.learner import Learner, Model, accumulates, check_settings
from eupg.learn.workers import side_by_side
from eupg.rng import Randomness
from eupg.validation import is_share

# Below this many rows times effort, starting processes takes longer than the training.
_WORTH_PROCESSES = 1_000_000
_ORDERED = (
    "where one slice ends and the next begins follows from the declared likelihoods of everyone at the time when the "
    "shards were drawn"
)


class Aggregate(Enum):
    """How the shards' models answer together."""

    MEAN = "mean of the probabilities"
    VOTE = "share of the votes"


@dataclass(frozen=True, eq=False)
class Ensemble:
    """One model a shard; empty shards have none."""

    models: tuple[Model, ...]
    aggregate: Aggregate

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the mean probability, or the share of votes, over the shards."""
        each = [model.predict_proba(X) for model in self.models]
        if self.aggregate is Aggregate.VOTE:
            each = [np.eye(p.shape[1])[p.argmax(axis=1)] for p in each]
        return np.asarray(np.mean(each, axis=0))


@dataclass(frozen=True, eq=False)
class Memory:
    """What SISA keeps between requests: who sits where, and a checkpoint for each slice of each shard.

    ``marks`` tell whether the values behind a name are still those that were trained on. ``dealt`` and ``lost`` count
    each shard's records since the shards were drawn: those it was given, and those that were forgotten or corrected.
    """

    sharding: Sharding
    places: Mapping[RecordId, int]
    marks: Mapping[RecordId, int]
    folder: CheckpointFolder
    checkpoints: tuple[tuple[str | None, ...], ...]
    models: tuple[Model | None, ...]
    dealt: tuple[int, ...]
    lost: tuple[int, ...]

    def storage(self) -> Storage:
        """Return what this costs."""
        # Those of an earlier state may have been erased since.
        names = {name for shard in self.checkpoints for name in shard if name and self.folder.holds(name)}
        return Storage(len(names), self.folder.size(names), sum(m is not None for m in self.models))


@dataclass(frozen=True)
class SISA:
    """Forget by retraining the affected shards, each from its last checkpoint that had not seen the record.

    Records are dealt to shards and, inside a shard, to slices. A shard's model is trained on its first slice, then on
    its first two, and so on, with a checkpoint (weights and optimiser) after each. The shards answer together.

    Parameters
    ----------
    learner
        Fits models; with more than one slice it must be able to go on from one.
    effort
        Epochs or trees of one shard's model. Epochs are spread so that a shard costs what as many plain epochs on it
        would: each of R slices trains 2E/(R+1) of them. Trees are dealt out evenly.
    shards, slices
        How many; 5 and 10 in the paper.
    unit
        Whether all records of a person share a shard and slice (the default), or each record is dealt alone.
    likelihood
        How likely each person (or record) is to ask for erasure, on any scale; who is not listed counts 0. The likelier
        sit together in the last shards and slices, so that requests touch little.
    aggregate
        How the shards answer together.
    redraw
        The share of a shard's records that may be forgotten or corrected before all shards are drawn anew and trained
        from the beginning, 0.2 by default. Whoever chooses requests by looking at the model learns who shares a shard,
        and could empty the shards they guess; a new draw makes that knowledge worthless. 0 draws anew at every forget,
        which costs a training and needs no assumption about requests. None never does, as in the paper.
    folder
        Where checkpoints are kept; by default a temporary folder.
    jobs
        Shards to train at the same time; by default one a core where that pays.
    """

    learner: Learner
    effort: int = 50
    shards: int = 5
    slices: int = 10
    unit: Unit = Unit.PERSON
    likelihood: Mapping[str, float] | None = field(default=None, repr=False)
    aggregate: Aggregate = Aggregate.MEAN
    redraw: float | None = 0.2
    folder: str | Path | None = None
    jobs: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.learner, type) or not isinstance(self.learner, Learner):
            raise ParameterError(f"expected a learner such as XGBoostLearner(), got {self.learner!r}")
        check_settings(self, whole={"effort": 1, "shards": 1, "slices": 1}, positive=(), not_negative=())
        if self.jobs is not None:
            check_settings(self, whole={"jobs": 1}, positive=(), not_negative=())
        if self.slices > 1 and not self.learner.warm_starts:
            raise ParameterError(
                f"{self.learner!r} cannot go on from a given model, which slices need: use one that can, or slices=1"
            )
        for name, kind in (("unit", Unit), ("aggregate", Aggregate)):
            if not isinstance(getattr(self, name), kind):
                choices = ", ".join(f"{kind.__name__}.{c.name}" for c in kind)
                raise ParameterError(f"{name} must be one of {choices}, got {getattr(self, name)!r}")
        if self.redraw is not None and not is_share(self.redraw):
            raise ParameterError(f"redraw is a share of a shard's records from 0 to 1, or None, got {self.redraw!r}")
        if self.likelihood is not None and not all(np.isfinite(v) for v in self.likelihood.values()):
            raise ParameterError("likelihoods must be finite numbers: give each person one, or leave them out")

    def train(self, data: Dataset, rng: Randomness) -> Trained:
        """Deal the records to shards and slices, and train every shard."""
        check_start(data, rng)
        return self._train_all(CheckpointFolder(self.folder), data, rng)

    def _train_all(self, folder: CheckpointFolder, data: Dataset, rng: Randomness) -> Trained:
        """Draw the shards and train every one from the beginning."""
        sharding = Sharding.draw(
            data,
            rng.stage("shards"),
            shards=self.shards,
            slices=self.slices,
            unit=self.unit,
            likelihood=self.likelihood,
        )
        blank: tuple[str | None, ...] = (None,) * self.slices
        zeros = (0,) * self.shards
        none = Memory(sharding, {}, {}, folder, (blank,) * self.shards, (None,) * self.shards, zeros, zeros)
        return self._retrain(none, data, dict.fromkeys(range(self.shards), 0), rng)

    def forget(self, trained: Trained, retained: Dataset, rng: Randomness) -> Trained:
        """Retrain the shards that held a forgotten record; the others stay as they are."""
        kept = kept_ids(trained, retained)
        return trained if trained.ids <= kept else self.update(trained, retained, rng)

    def update(self, trained: Trained, data: Dataset, rng: Randomness) -> Trained:
        """Retrain the shards whose records have changed, each from the first slice that did."""
        check_same_table(trained, data)
        check_start(data, rng)
        memory = _memory(trained)
        now = _marks(data)
        changed = [place for name, place in memory.places.items() if now.get(name) != memory.marks[name]]
        memory = replace(memory, lost=_plus(memory.lost, np.array(changed, dtype=np.int64) // self.slices))
        if self._is_due(memory):
            return self._drawn_anew(memory, data, rng)
        new = data.select(~np.isin(data.ids, list(memory.places)))
        changed += memory.sharding.places(new, self.likelihood).tolist()
        first: dict[int, int] = {}
        for place in changed:
            shard, part = divmod(place, self.slices)
            first[shard] = min(part, first.get(shard, part))
        return self._retrain(memory, data, first, rng)

    def _is_due(self, memory: Memory) -> bool:
        """Tell whether a shard has lost so much since the shards were drawn that they are drawn anew."""
        each = zip(memory.lost, memory.dealt, strict=True)
        return self.redraw is not None and any(lost and lost >= self.redraw * dealt for lost, dealt in each)

    def _drawn_anew(self, memory: Memory, data: Dataset, rng: Randomness) -> Trained:
        """Train everything from the beginning on new shards, then erase all that the old ones left."""
        trained = self._train_all(memory.folder, data, rng)
        try:
            memory.folder.erase(_names(memory))
        except BaseException:
            # Nobody would know of these any more, and no later request would delete them.
            memory.folder.erase(_names(_memory(trained)))
            raise
        return trained

    def _retrain(self, memory: Memory, data: Dataset, first: Mapping[int, int], rng: Randomness) -> Trained:
        """Train the given shards again from the given slices, then erase the checkpoints they replace."""
        known = memory.sharding.places(data, self.likelihood)
        places = np.array([memory.places.get(n, p) for n, p in zip(data.ids.tolist(), known.tolist(), strict=True)])
        plan = Plan.of(self.effort, self.slices, accumulates=accumulates(self.learner))
        work = {s: self._shard(memory, data, places, s, part) for s, part in sorted(first.items())}
        shared = (self.learner, plan, work, memory.folder.path, rng)
        checkpoints, models = list(memory.checkpoints), list(memory.models)
        try:
            for shard, written in side_by_side(train_shard, shared, list(work), jobs=self._jobs(data)):
                checkpoints[shard] = (*checkpoints[shard][: work[shard].begin], *written)
                models[shard] = self.learner.load(memory.folder.path / written[-1]) if written[-1] else None
            stale = (name for shard in work for name in memory.checkpoints[shard][work[shard].begin :])
            memory.folder.erase(name for name in stale if name is not None)
        except BaseException:
            # Nobody would know of these any more, and no later request would delete them.
            memory.folder.erase(name for shard in work.values() for name in shard.names)
            raise
        kept = dict(zip(data.ids.tolist(), places.tolist(), strict=True))
        newcomers = places[~np.isin(data.ids, list(memory.places))]
        new = replace(
            memory,
            places=kept,
            marks=_marks(data),
            checkpoints=tuple(checkpoints),
            models=tuple(models),
            dealt=_plus(memory.dealt, newcomers // self.slices),
        )
        return self._trained(new, data)

    def _shard(self, memory: Memory, data: Dataset, places: Places, shard: int, part: int) -> Shard:
        """Gather what retraining a shard needs; where a checkpoint is missing, it goes further back."""
        before = memory.checkpoints[shard]
        while part and before[part - 1] is not None and not memory.folder.holds(before[part - 1]):
            part -= 1
        rows = places // self.slices == shard
        names = memory.folder.new_names(shard, range(part, self.slices))
        start = before[part - 1] if part else None
        return Shard(data.schema, data.X[rows], data.y[rows], places[rows] % self.slices, part, start, tuple(names))

    def _trained(self, memory: Memory, data: Dataset) -> Trained:
        models = tuple(m for m in memory.models if m is not None)
        if not models:
            raise NothingRetained("no shard has a record left to train on: keep at least one, or retire the model")
        caveats = (*data.schema.caveats, *((_ORDERED,) if self.likelihood is not None else ()))
        # Drawn anew each time, the shards are a function of those who are left and of fresh randomness alone.
        claim = assuming(Exact(caveats=caveats), REQUESTS_APART, needed=self.redraw != 0)
        ids = data.id_set
        model = Ensemble(models, self.aggregate)
        return Trained(model, data.schema, ids, ids, Released(), claim, memory)

    def _jobs(self, data: Dataset) -> int:
        if self.jobs is not None:
            return self.jobs
        here = getattr(self.learner, "in_process", False)
        small = len(data) * self.effort < _WORTH_PROCESSES
        return 1 if here or small else os.cpu_count() or 1


def _names(memory: Memory) -> list[str]:
    return [name for shard in memory.checkpoints for name in shard if name is not None]


def _plus(counts: tuple[int, ...], shards: Places) -> tuple[int, ...]:
    """Return the counts with one more for each time that a shard is named."""
    return tuple((np.array(counts) + np.bincount(shards, minlength=len(counts))).tolist())


def _marks(data: Dataset) -> dict[RecordId, int]:
    """Return a number for each record that changes with its values."""
    rows = zip(data.ids.tolist(), data.X, data.y.tolist(), strict=True)
    return {name: hash((row.tobytes(), label)) for name, row, label in rows}


def _memory(trained: Trained) -> Memory:
    if not isinstance(trained.memory, Memory):
        raise ParameterError("this model was not trained by SISA: forget with the method that trained it")
    return trained.memory
