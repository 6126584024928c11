"""SISA: forget by retraining only the shards, from the slices, that held the record (Bourtoule et al. 2021)."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from eupg.data.dataset import Dataset, Matrix, RecordId
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.errors import NothingRetained, ParameterError
from eupg.executor.processes import LocalProcesses
from eupg.forget.durable import KeptState, Part
from eupg.forget.released import Released
from eupg.forget.sisa.sharding import Places, Sharding
from eupg.forget.sisa.stages import CheckpointFolder, Plan, Shard, train_shard
from eupg.forget.storage import Storage
from eupg.forget.unlearner import Trained, check_same_table, check_start, kept_ids
from eupg.guarantees import Exact, Unit
from eupg.guarantees.guarantee import assuming
from eupg.guarantees.wording import REQUESTS_APART
from eupg.killpoint import checkpoint
from eupg.learn.envelope import read_model, write_model
from eupg.learn.learner import Learner, Model, accumulates, check_learner, check_settings, own
from eupg.rng import Randomness
from eupg.temporary import lent_as_file, written_bytes
from eupg.validation import is_share

_FORMAT = "eupg-ensemble-1"
# Below this many rows times effort, starting processes takes longer than the training.
_WORTH_PROCESSES = 1_000_000
_ORDERED = (
    "where one slice ends and the next begins follows from the declared likelihoods of everyone at the time when the "
    "shards were drawn"
)


class Aggregate(Enum):
    """How the predictions of the shards' models are combined."""

    MEAN = "mean of the probabilities"
    VOTE = "share of the votes"


@dataclass(frozen=True, eq=False)
class Ensemble:
    """One model per shard; empty shards have none."""

    models: tuple[Model, ...]
    aggregate: Aggregate

    @property
    def schema(self) -> Schema:
        """What the columns mean."""
        schema: Schema = self.models[0].schema  # type: ignore[attr-defined]
        return schema

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the mean probability, or the share of votes, over the shards."""
        each = [model.predict_proba(X) for model in self.models]
        if self.aggregate is Aggregate.VOTE:
            each = [np.eye(p.shape[1])[p.argmax(axis=1)] for p in each]
        return np.asarray(np.mean(each, axis=0))


@dataclass(frozen=True, eq=False)
class Memory:
    """What SISA keeps between requests: the place of each record, and one checkpoint per slice of each shard.

    ``marks`` tell whether a record's values are still those that were trained on. ``dealt`` and ``lost`` count each
    shard's records since the shards were drawn: those it received, and those that were forgotten or corrected.
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
        """Return the storage of the checkpoints."""
        # Checkpoints of an earlier state may have been erased since.
        names = {name for shard in self.checkpoints for name in shard if name and self.folder.holds(name)}
        return Storage(len(names), self.folder.size(names), sum(m is not None for m in self.models))


@dataclass(frozen=True)
class SISA:
    """Forget by retraining the affected shards, each from its last checkpoint that had not seen the record.

    Records are dealt to shards and, inside a shard, to slices. A shard's model is trained on its first slice, then on
    its first two, and so on, with a checkpoint (weights and optimiser) after each. The shards predict together.

    Parameters
    ----------
    learner
        Fits models; with more than one slice it must be able to continue from one.
    effort
        Epochs or trees of one shard's model. Epochs are spread so that a shard costs as much as that many plain epochs
        on it: each of R slices trains 2E/(R+1) of them. Trees are spread evenly.
    shards, slices
        Their numbers; 5 and 10 in the paper.
    unit
        Whether all records of a person share a shard and slice (the default), or each record is dealt alone.
    likelihood
        How likely each person (or record) is to ask for erasure, on any scale; 0 for those not listed. The likeliest
        share the last shards and slices, so that requests affect little.
    aggregate
        How the predictions of the shards are combined.
    redraw
        The share of a shard's records that may be forgotten or corrected before all shards are drawn anew and trained
        from the beginning, 0.2 by default. A person who chooses requests by looking at the model learns who shares a
        shard, and could empty a guessed shard; a new draw makes that knowledge worthless. 0 draws anew at every forget,
        which costs a training and needs no assumption about requests. None never does, as in the paper.
    folder
        Where checkpoints are kept; by default a temporary folder. A workspace keeps them among its own files instead.
    jobs
        Shards to train at the same time; by default one per core if that pays.
    """

    repair: ClassVar[str] = "the shards that held them were trained again from the last checkpoint without them"
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
        check_learner(self.learner)
        whole = {"effort": 1, "shards": 1, "slices": 1} | ({} if self.jobs is None else {"jobs": 1})
        check_settings(self, whole=whole)
        if self.slices > 1 and not self.learner.warm_starts:
            raise ParameterError(
                f"{self.learner!r} cannot continue from a model, which slices need: use one that can, or slices=1"
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
        nothing_to_undo = trained.ids <= kept_ids(trained, retained)
        return trained if nothing_to_undo else self.update(trained, retained, rng)

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

    @property
    def assumes_requests_apart(self) -> bool:
        """Whether a request chosen by looking at the model could depend on who shares a shard."""
        # Drawn anew each time, the shards depend on the people who are left and on fresh randomness alone.
        return self.redraw != 0

    @property
    def caveats(self) -> tuple[str, ...]:
        """What narrows every claim of this method, whoever is forgotten."""
        return () if self.likelihood is None else (_ORDERED,)

    def save(self, model: Model, path: Path) -> None:
        """Write the models of all shards into one file."""
        mine = own(model, Ensemble)
        contents = [written_bytes(partial(self.learner.save, each), beside=path) for each in mine.models]
        sizes = [len(content) for content in contents]
        write_model(path, _FORMAT, mine.schema, b"".join(contents), effort=self.effort, sizes=sizes)

    def load(self, path: Path) -> Ensemble:
        """Read the models of all shards back."""
        models = []
        for content in read_model(path, _FORMAT).parts():
            with lent_as_file(content) as inner:
                models.append(self.learner.load(inner))
        return Ensemble(tuple(models), self.aggregate)

    def parts(self, trained: Trained) -> Mapping[str, Part]:
        """Return the checkpoints, and how records are dealt to shards."""
        memory = _memory(trained)
        if self.likelihood is not None:
            raise ParameterError(
                "a workspace cannot keep likelihoods, which name people and would outlive their erasure: use SISA "
                "without them"
            )
        dealing = {
            "key": memory.sharding.key.hex(),
            "dealt": memory.dealt,
            "lost": memory.lost,
            "checkpoints": [[name is not None for name in shard] for shard in memory.checkpoints],
        }
        parts = {"dealing": Part(dealing, lambda path: _write_text(path, json.dumps(dealing)))}
        for shard, names in enumerate(memory.checkpoints):
            for part, name in enumerate(names):
                if name is not None:
                    copy = partial(shutil.copyfile, memory.folder.path / name)
                    parts[f"checkpoint {shard}-{part}"] = Part(name, copy)
        return parts

    def restore(self, served: Path, parts: Mapping[str, Path], kept: KeptState) -> Trained:
        """Return the trained model from its files; the checkpoints are copied, and stay as they are."""
        folder, data = CheckpointFolder(None), kept.data
        dealing = json.loads(parts["dealing"].read_text(encoding="utf-8"))
        sharding = Sharding(bytes.fromhex(dealing["key"]), self.shards, self.slices, self.unit)
        checkpoints: list[tuple[str | None, ...]] = []
        for shard, exists in enumerate(dealing["checkpoints"]):
            names = folder.new_names(shard, range(self.slices))
            for part, name in enumerate(names):
                if exists[part]:
                    shutil.copyfile(parts[f"checkpoint {shard}-{part}"], folder.path / name)
                    checkpoint("a file of the method was copied")
            checkpoints.append(tuple(name if there else None for name, there in zip(names, exists, strict=True)))
        last = [names[-1] for names in checkpoints]
        models = tuple(None if name is None else self.learner.load(folder.path / name) for name in last)
        places = dict(zip(data.ids.tolist(), sharding.places(data, None).tolist(), strict=True))
        counts = tuple(dealing["dealt"]), tuple(dealing["lost"])
        return self._trained(Memory(sharding, places, _marks(data), folder, tuple(checkpoints), models, *counts), data)

    def _is_due(self, memory: Memory) -> bool:
        """Tell whether a shard has lost enough since the shards were drawn to draw them anew."""
        each = zip(memory.lost, memory.dealt, strict=True)
        return self.redraw is not None and any(lost and lost >= self.redraw * dealt for lost, dealt in each)

    def _drawn_anew(self, memory: Memory, data: Dataset, rng: Randomness) -> Trained:
        """Train everything from the beginning on new shards, then erase the checkpoints of the old ones."""
        trained = self._train_all(memory.folder, data, rng)
        try:
            memory.folder.erase(_names(memory))
        except BaseException:
            # These would be forgotten, and no later request would delete them.
            memory.folder.erase(_names(_memory(trained)))
            raise
        return trained

    def _retrain(self, memory: Memory, data: Dataset, first: Mapping[int, int], rng: Randomness) -> Trained:
        """Train these shards again, each from its first changed slice, then erase the checkpoints they replace."""
        known = memory.sharding.places(data, self.likelihood)
        places = np.array([memory.places.get(n, p) for n, p in zip(data.ids.tolist(), known.tolist(), strict=True)])
        plan = Plan.of(self.effort, self.slices, accumulates=accumulates(self.learner))
        work = {s: self._shard(memory, data, places, s, part) for s, part in sorted(first.items())}
        train, shards = partial(train_shard, self.learner, plan, work, memory.folder.path, rng), list(work)
        checkpoints, models = list(memory.checkpoints), list(memory.models)
        try:
            for position, written in LocalProcesses(self._jobs(data)).map(train, shards):
                shard = shards[position]
                checkpoints[shard] = (*checkpoints[shard][: work[shard].begin], *written)
                models[shard] = self.learner.load(memory.folder.path / written[-1]) if written[-1] else None
            stale = (name for shard in work for name in memory.checkpoints[shard][work[shard].begin :])
            memory.folder.erase(name for name in stale if name is not None)
        except BaseException:
            # These would be forgotten, and no later request would delete them.
            memory.folder.erase(name for shard in work.values() for name in shard.names)
            raise
        newcomers = places[~np.isin(data.ids, list(memory.places))]
        new = replace(
            memory,
            places=dict(zip(data.ids.tolist(), places.tolist(), strict=True)),
            marks=_marks(data),
            checkpoints=tuple(checkpoints),
            models=tuple(models),
            dealt=_plus(memory.dealt, newcomers // self.slices),
        )
        return self._trained(new, data)

    def _shard(self, memory: Memory, data: Dataset, places: Places, shard: int, part: int) -> Shard:
        """Gather what retraining a shard needs; if a checkpoint is missing, begin at an earlier one."""
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
        caveats = (*data.schema.caveats, *self.caveats)
        claim = assuming(Exact(caveats=caveats), REQUESTS_APART, needed=self.assumes_requests_apart)
        ids = data.id_set
        model = Ensemble(models, self.aggregate)
        return Trained(model, data.schema, ids, ids, Released(), claim, memory)

    def _jobs(self, data: Dataset) -> int:
        if self.jobs is not None:
            return self.jobs
        in_process = getattr(self.learner, "in_process", False)
        small = len(data) * self.effort < _WORTH_PROCESSES
        return 1 if in_process or small else os.cpu_count() or 1


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _names(memory: Memory) -> list[str]:
    return [name for shard in memory.checkpoints for name in shard if name is not None]


def _plus(counts: tuple[int, ...], shards: Places) -> tuple[int, ...]:
    """Return the counts, each increased by the number of times its shard occurs."""
    return tuple((np.array(counts) + np.bincount(shards, minlength=len(counts))).tolist())


def _marks(data: Dataset) -> dict[RecordId, int]:
    """Return a number for each record that changes with its values."""
    rows = zip(data.ids.tolist(), data.X, data.y.tolist(), strict=True)
    return {name: hash((row.tobytes(), label)) for name, row, label in rows}


def _memory(trained: Trained) -> Memory:
    if not isinstance(trained.memory, Memory):
        raise ParameterError("this model was not trained by SISA: forget with the method that trained it")
    return trained.memory
