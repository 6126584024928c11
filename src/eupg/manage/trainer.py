"""The changes of a workspace that train a model, each from one whole state to the next."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from eupg.audit.duplicates import DuplicateReport
from eupg.data.dataset import Dataset, RecordId
from eupg.data.kind import DataKind
from eupg.errors import DataError, ParameterError, PrivacyError, WorkspaceDamaged, WrongState
from eupg.files import remove_files, storage_error
from eupg.forget.durable import Durable, KeptState, Part, forget_rows, subtracts
from eupg.forget.eupg import EUPG, Base
from eupg.forget.lottery import Lottery
from eupg.forget.released import HistoryElsewhere
from eupg.forget.retrain import Retrain
from eupg.forget.unlearner import Trained
from eupg.guarantees import (
    Exact,
    Guarantee,
    Involvement,
    KAnonymous,
    NoGuarantee,
    claim_for_person,
    guarantee_from_json,
)
from eupg.learn.learner import Model
from eupg.manage.budget import Spent, check_limit, limit_in
from eupg.manage.description import describe
from eupg.manage.forgetting import Erasure, enough_to_audit, measured, twins_among, twins_of
from eupg.manage.ledger.events import Json
from eupg.manage.quality import QUALITY, quality_of
from eupg.manage.requests.states import Request
from eupg.manage.storage.change import switch
from eupg.manage.storage.state import Answered, Event, ReleaseEntry, WorkspaceState, answers_to_bytes, digest_of_all
from eupg.manage.storage.store import Digest
from eupg.manage.storage.subjects import Rows, SubjectIndex, record_digests
from eupg.manage.storage.workspace import Workspace
from eupg.progress import Progress
from eupg.protect.kanonymity import constant_share
from eupg.protect.mechanism import Grouping
from eupg.rng import Randomness

# The twins of so many records are looked for one by one; of more, in one pass over all.
_FEW_ERASED = 64
# So many answers stand in the pointer, which is read with every prediction; more have a file of their own.
_FEW_ANSWERS = 16


@dataclass(frozen=True)
class Forgotten:
    """The result of one run of forgetting: the requests that were honoured, and how many records were erased.

    ``trained`` says whether a model was trained, ``seconds`` how long it took. ``failed`` holds the requests that could
    not be honoured, and why; they can be tried again. ``copies`` counts the exports of the model that was replaced:
    copies outside the workspace, which must be replaced too.
    """

    requests: tuple[str, ...] = ()
    records: int = 0
    trained: bool = False
    seconds: float = 0.0
    failed: Mapping[str, DataError] = field(default_factory=dict)
    copies: int = 0

    def plus(self, later: Forgotten) -> Forgotten:
        """Return the result of this run and a later one together."""
        return Forgotten(
            self.requests + later.requests,
            self.records + later.records,
            self.trained or later.trained,
            self.seconds + later.seconds,
            {**self.failed, **later.failed},
            self.copies + later.copies,
        )


@dataclass(frozen=True, eq=False)
class _Trial:
    """What honouring some requests leads to: the records that go, the model after that, and requests that failed.

    ``retained`` are the records that stay, and ``parts`` the files of the method before; no model was trained, and no
    record read, where the served model had seen nobody who goes.
    """

    requests: tuple[Request, ...]
    erasure: Erasure
    retained: Dataset | None
    after: Trained | None
    parts: Mapping[str, Part] = field(default_factory=dict)
    failed: Mapping[str, DataError] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Made:
    """A model that was trained from the beginning, and the base model behind it if the method makes one."""

    trained: Trained
    base: Base | None


@dataclass(frozen=True)
class Trainer:
    """Trains models for a workspace whose lock the caller holds."""

    space: Workspace
    method: Durable
    rng: Randomness
    progress: Progress

    def train(self, records: Dataset, hold_out: float | Dataset, not_covered: Sequence[str] = ()) -> None:
        """Train the first model, after a first release if the method makes one."""
        if self.space.trained:
            raise WrongState(
                f"{self.space.folder} holds a trained model: add new records with add, make another release with "
                "renew, or use another folder"
            )
        data, held_out = _held_apart(records, hold_out, self.rng.stage("hold out").generator())
        made = self._make(data)
        self.space.agree(records.schema, describe(self.method), tuple(not_covered))
        key, files = self.space.key, self.space.records
        index = SubjectIndex.empty().plus(data, key, held_out=False).plus(held_out, key, held_out=True)
        inside = files.write_sketched(data, np.arange(len(data)), first_slot=0)
        apart_rows = np.arange(len(data), len(data) + len(held_out))
        apart = files.write_sketched(held_out, apart_rows, first_slot=len(inside.manifest))
        index = index.placed({**inside.rows, **apart.rows})
        changes, events = self._deploy(made, data, index, ())
        quality = self._quality(changes["served"], made.trained.model, held_out, None)
        state = WorkspaceState(
            number=1,
            records=inside.manifest,
            held_out=apart.manifest,
            sidecars={**inside.sidecars, **apart.sidecars},
            events=(*events, *quality),
            **changes,
        )
        self._switch(state, data, held_out)

    def renew(self) -> None:
        """Make a second release of the records that are left, and a new base model."""
        if not isinstance(self.method, EUPG):
            raise WrongState(
                f"{type(self.method).__name__} makes no release, so there is none to renew: bring new records in with "
                "add"
            )
        state = self.space.state()
        (data, held_out), index = self.space.read(state), self.space.index(state)
        self._check_together(self.method, state, data, index)
        before = self.method.load(self.space.store.path(state.served))
        # Who was drawn stays drawn: a second draw would show further people raw.
        made = self._make(data, self._lottery(data, index))
        changes, events = self._deploy(made, data, index, state.releases)
        quality = self._quality(changes["served"], made.trained.model, held_out, before)
        self._switch(state.followed_by((*events, *quality), **changes), data, held_out)

    def _check_together(self, method: EUPG, state: WorkspaceState, data: Dataset, index: SubjectIndex) -> None:
        """Refuse a release after which nothing would be claimed for people who were in an earlier one."""
        claims = [*_claims(state.releases), method.mechanism.guarantee(data.schema)]
        with self.space.ledger.snapshot() as snapshot:
            check_limit(claims, limit_in(snapshot))
        person = Involvement(released=(1,) * len(claims))
        twice = int((index.training & (index.groups >= 0).any(axis=0)).sum())
        if twice and isinstance(claim_for_person(person, claims), NoGuarantee):
            raise PrivacyError(
                f"{twice} records were released before, and two such releases can be intersected: nothing could be "
                "claimed for their people; use differential privacy, whose budgets add up"
            )

    def _make(self, data: Dataset, lottery: Lottery | None = None) -> _Made:
        """Train a model from the beginning; who may be seen raw is drawn now, unless a lottery is given."""
        if not len(data):
            raise DataError("there is no record to train on: bring at least one")
        if isinstance(self.method, EUPG):
            base = self._base(self.method, data)
            with self.progress.step("finetune"):
                return _Made(self.method.resume(base, data, self.rng, lottery=lottery), base)
        with self.progress.step("train"):
            made = _Made(self.method.train(data, self.rng), None)
        if isinstance(made.trained.claim, NoGuarantee):
            raise PrivacyError(f"{self.method!r} claims nothing, so nothing could be certified: use another method")
        return made

    def _base(self, method: EUPG, data: Dataset) -> Base:
        """Make a release and a base model; refuse a mechanism whose claim could not be certified."""
        mechanism = method.mechanism
        claim = mechanism.guarantee(data.schema)
        if isinstance(claim, NoGuarantee):
            raise PrivacyError(f"{mechanism!r} claims nothing, so nothing could be certified: use one with a guarantee")
        if isinstance(claim, KAnonymous) and not isinstance(mechanism, Grouping):
            raise PrivacyError(
                f"{mechanism!r} claims k-anonymity and does not tell the groups, so nobody could learn among how many "
                "people they hide: give it the method protect_in_groups"
            )
        # The index knows who was in which release, earlier ones included.
        return method.base(data, self.rng, released=HistoryElsewhere(), progress=self.progress)

    def _deploy(
        self, made: _Made, data: Dataset, index: SubjectIndex, earlier: tuple[ReleaseEntry, ...]
    ) -> tuple[dict[str, Any], tuple[Event, ...]]:
        """Store a model that was trained from the beginning; return what changes, and the events."""
        trained, base = made.trained, made.base
        files, claim = self._keep(trained), trained.claim
        served, exposed = files["served"], len(trained.ids)
        events = [Event("train", {"served": served, "records": exposed})]
        # Where training itself is protected, or leaves a trace, the model is all that is released.
        digest = served
        if base is not None and isinstance(self.method, EUPG):
            digest = base.release_digest or files["parts"]["base"]
            protected: dict[str, Json] = {"release": digest, "claim": claim.to_json(), "records": len(data)}
            spent = Spent.of([*_claims(earlier), claim])
            events = [
                Event("protect", protected if spent is None else protected | {"spent": spent.to_json()}),
                Event("pretrain", {"base": files["parts"]["base"], "effort": self.method.pretrain}),
                Event("finetune", {"served": served, "effort": self.method.finetune, "records": exposed}),
            ]
        releases = earlier
        if not isinstance(claim, Exact):
            groups = None if base is None else base.groups
            constant = {} if groups is None else constant_share(data, groups)
            k = claim.k if isinstance(claim, KAnonymous) else None
            releases, index = (*earlier, ReleaseEntry(digest, claim.to_json(), k, constant)), index.released(groups)
        index = index.exposing(_among(data, trained.ids), drawn=_drawn(data, trained.lottery))
        changes = files | {"claim": claim.to_json(), "releases": releases} | self._store(index)
        return changes, (*events, Event("deploy", {"served": served}))

    def add(self, records: Dataset) -> None:
        """Take in new records and bring the model up to date; those of people held out are held out too."""
        files = self.space.records
        state, index = self._sketched(self.space.state())
        data, held_out = self.space.read(state)
        # Everything is joined once, so that an id that is taken anywhere is found before anything is written.
        data.plus(held_out).plus(records)
        apart = np.isin(records.subjects, held_out.subjects)
        new, new_held_out = records.select(~apart), records.select(apart)
        trained = self._restored(state, data, index, newcomers=new)
        before = self._served(state, trained)
        everyone = data.plus(new)
        with self.progress.step("finetune"):
            if subtracts(self.method) and trained.ids:
                after = self.method.add(trained, new)
            else:
                after = self.method.update(trained, everyone, self.rng)
        changes = self._keep(after, self.method.parts(trained), state)
        index = index.plus(new, self.space.key, held_out=False).plus(new_held_out, self.space.key, held_out=True)
        if state.releases and not isinstance(self.method, EUPG):
            # Without a release, whoever is trained on leaves what everyone leaves.
            index = index.joined()
        index = index.exposing(_among(everyone, after.ids), drawn=_drawn(everyone, after.lottery))
        first = len(index) - len(records)
        new_rows, apart_rows = np.arange(first, first + len(new)), np.arange(first + len(new), len(index))
        inside = files.append_sketched(state.records, new, new_rows, first_slot=state.next_slot)
        following_slot = state.next_slot + len(inside.manifest)
        outside = files.append_sketched(state.held_out, new_held_out, apart_rows, first_slot=following_slot)
        index = index.placed({**inside.rows, **outside.rows})
        served = changes["served"]
        held_out_now = held_out.plus(new_held_out)
        events = (
            Event("add", {"records": len(new), "held_out": len(new_held_out)}),
            Event("finetune", {"served": served, "effort": self._effort, "records": len(after.ids)}),
            Event("deploy", {"served": served}),
            *self._quality(served, after.model, held_out_now, before),
        )
        following = state.followed_by(
            events,
            records=(*state.records, *inside.manifest),
            held_out=(*state.held_out, *outside.manifest),
            sidecars={**state.sidecars, **inside.sidecars, **outside.sidecars},
            **self._store(index),
            **changes,
        )
        self._switch(following, everyone, held_out_now)

    def forget(self, state: WorkspaceState, waiting: Sequence[Request]) -> tuple[Forgotten, Dataset]:
        """Answer the requests; return what was done, and the forgotten records.

        A model is made only if the served one saw a record that goes. Otherwise no record is read but those in the
        files that hold the people who asked, and, where many leave at once, those that their twins are looked for in.
        """
        started = time.perf_counter()
        state, index = self._sketched(state)
        erasure = Erasure.of(index, waiting)
        # Files are rewritten while the model is trained; leaving the block waits for them in any case.
        with ThreadPoolExecutor(1) as beside:
            rewriting = beside.submit(self._rewrite, state, erasure) if erasure.touches_model else None
            trial = self._honour(state, index, waiting, erasure)
        erasure, after = trial.erasure, trial.after
        if rewriting is not None and trial.failed:
            # Some who asked stay: the files were written without them.
            for digest in rewriting.result()[1]:
                self.space.records.files.delete(digest)
            rewriting = None
        files, _, forgotten = self._rewrite(state, erasure) if rewriting is None else rewriting.result()
        changes: dict[str, Any] = {**files}
        left = index.without(erasure.gone)
        release = state.releases[-1].digest if state.releases else None
        about: dict[str, Json] = {"records": len(forgotten), "retained": index.counts().training - len(forgotten)}
        about |= {"trained": False, "base": state.base, "release": release, "how": self.method.repair}
        events: list[Event] = []
        retained = trial.retained
        if after is not None and retained is not None:
            seen = left.part(left.exposed, held_out=False)
            exposed, drawn = _among(retained, after.ids), _drawn(retained, after.lottery)
            left = left.exposing(exposed, drawn=drawn)
            changes |= self._keep(after, trial.parts, state)
            about |= {"trained": True, "drawn": int((exposed & ~seen).sum())}
            events.append(Event("deploy", {"served": changes["served"]}))
            apart = self._held_out(state, erasure)
            events += self._quality(changes["served"], after.model, apart, self.served_model(state.served))
        following_files = replace(state, **files)
        twins = self._twins(following_files, forgotten, retained)
        audited = enough_to_audit(forgotten)
        results = measured(
            (after.model if after is not None else self.served_model(state.served)) if audited else None,
            self.base_model(state) if audited else None,
            forgotten,
            self._held_out(state, erasure) if audited else None,
            twins,
        )
        changes |= self._store(left)
        about["served"] = str(changes.get("served", state.served))
        about["retained_digest"] = digest_of_all(following_files.records)
        about["elapsed_ms"] = round(1000 * (time.perf_counter() - started), 1)
        answered = erasure.answers(state, self.space.schema, twins, method=self.method)
        many = len(trial.requests) > _FEW_ANSWERS
        if many:
            changes["answers"] = self.space.store.put(answers_to_bytes(answered))
        noted = (Event("forget", about), *events, Event("measure", results))
        alone = () if many else tuple(Answered(name, answer.details) for answer in answered for name in answer.requests)
        following = state.followed_by(noted, alone, **changes)
        if many:
            switch(self.space, following, answered)
        else:
            switch(self.space, following)
        if retained is not None:
            self.space.remember(following, retained, self._held_out(state, erasure))
        honoured = tuple(r.id for r in trial.requests)
        done = Forgotten(honoured, len(erasure.gone), after is not None, failed=trial.failed)
        return done, forgotten

    def _sketched(self, state: WorkspaceState) -> tuple[WorkspaceState, SubjectIndex]:
        """Return the state in which every record file has a sketch, and the index that knows which rows are where.

        An earlier version made no sketches: they are made once.
        """
        index, files = self.space.index(state), self.space.records
        if state.sketched:
            return state, index
        inside = files.sketch(state.records, index.rows_left(held_out=False), first_slot=0)
        apart_rows, slot = index.rows_left(held_out=True), len(inside.manifest)
        apart = files.sketch(state.held_out, apart_rows, first_slot=slot)
        index = index.placed({**inside.rows, **apart.rows})
        return replace(state, sidecars={**inside.sidecars, **apart.sidecars}), index

    def _rewrite(self, state: WorkspaceState, erasure: Erasure) -> tuple[dict[str, Any], tuple[Digest, ...], Dataset]:
        """Write the files of those who leave without them.

        Return what changes in the state, the files that were written, and the records that left training. What leaves
        is compared with the index, by digest.
        """
        files, index, key = self.space.records, erasure.index, self.space.key
        changes: dict[str, Any] = {"sidecars": dict(state.sidecars)}
        written: list[Digest] = []
        forgotten: list[Dataset] = []
        parts = (("records", state.records, erasure.in_training), ("held_out", state.held_out, erasure.held_out))
        for name, manifest, rows in parts:
            slots = index.slots_at(rows)
            of_slots = {int(slot): rows[slots == slot] for slot in np.unique(slots)}
            here = {digest: state.sidecars[digest] for digest in manifest}
            erased = files.erase(manifest, here, of_slots)
            names = [bytes.fromhex(digest) for digest in record_digests(key, erased.forgotten.ids.tolist())]
            if not np.array_equal(erased.rows, rows) or names != index.records_at(rows):
                raise WorkspaceDamaged(
                    "the index of people does not fit the records: requests would miss their person; restore keys, "
                    "store and records from one backup"
                )
            changes[name] = erased.manifest
            changes["sidecars"] = {d: s for d, s in changes["sidecars"].items() if d not in here} | dict(
                erased.sidecars
            )
            written += erased.written
            forgotten.append(erased.forgotten)
        return changes, tuple(written), forgotten[0]

    def _twins(self, state: WorkspaceState, forgotten: Dataset, retained: Dataset | None) -> DuplicateReport | None:
        """Count the twins of the forgotten records: of a few by sketches of the files, of many with all records."""
        if len(forgotten) <= _FEW_ERASED and self.space.schema.kind is DataKind.TABLE:
            return twins_among(forgotten, self.space.sketches(state.records, state), self.space.records)
        return twins_of(forgotten, self.space.records.read(state.records) if retained is None else retained)

    def _held_out(self, state: WorkspaceState, erasure: Erasure) -> Dataset:
        """Return the records held out that are left."""
        held_out = self.space.read_held_out(state)
        return held_out.select(~erasure.part(held_out, held_out=True)) if len(erasure.held_out) else held_out

    def _honour(
        self, state: WorkspaceState, index: SubjectIndex, waiting: Sequence[Request], erasure: Erasure
    ) -> _Trial:
        """Train without the people who asked; name the requests after which no model can be trained.

        ``erasure`` is that of all requests.

        First all requests together. If no model can be trained, halves are tried, and so on: a few more trainings tell
        which of many requests is the reason. Nothing is written on the way.
        """
        if not erasure.touches_model:
            return _Trial(tuple(waiting), erasure, None, None)
        data, _ = self.space.read(state)
        honoured: tuple[Request, ...] = ()
        best: _Trial | None = None
        failed: dict[str, DataError] = {}
        parts = [tuple(waiting)]
        while parts:
            part = parts.pop()
            asked = (*honoured, *part)
            try:
                best = self._try(state, index, data, asked, erasure if len(asked) == len(waiting) else None)
                honoured = best.requests
            except DataError as error:
                if len(part) == 1:
                    failed[part[0].id] = error
                    continue
                half = len(part) // 2
                parts += [part[half:], part[:half]]
        if best is None:
            raise next(iter(failed.values()))
        return replace(best, failed=failed)

    def _try(
        self,
        state: WorkspaceState,
        index: SubjectIndex,
        data: Dataset,
        requests: tuple[Request, ...],
        erasure: Erasure | None,
    ) -> _Trial:
        """Train without the people who asked; no model is trained where the served one never saw them."""
        erasure = Erasure.of(index, requests) if erasure is None else erasure
        if not erasure.touches_model:
            return _Trial(requests, erasure, None, None)
        going = erasure.part(data, held_out=False)
        retained = data.select(~going)
        # From files whose digests were just verified. EUPG starts from the base model, never from the served one.
        trained = self._restored(state, data, index)
        parts = self.method.parts(trained)
        with self.progress.step("forget"):
            after = forget_rows(self.method, trained, data.select(going), retained, self.rng)
        return _Trial(requests, erasure, retained, after, parts)

    def base_model(self, state: WorkspaceState) -> Model | None:
        """Return the base model, checked against its digest; None if the method has none."""
        if state.base is None or not isinstance(self.method, EUPG):
            return None
        return self.method.learner.load(self.space.store.path(state.base))

    def served_model(self, digest: Digest) -> Model:
        """Return a served model, checked against its digest."""
        return self.method.load(self.space.store.path(digest))

    def _served(self, state: WorkspaceState, trained: Trained) -> Model:
        """Return the served model, which EUPG does not load with its files."""
        return self.served_model(state.served) if isinstance(self.method, EUPG) else trained.model

    def _keep(
        self, trained: Trained, before: Mapping[str, Part] = MappingProxyType({}), state: WorkspaceState | None = None
    ) -> dict[str, Any]:
        """Store the served model and the parts that changed; return their digests by the fields of a state."""
        parts, digests = self.method.parts(trained), {}
        for name, part in parts.items():
            same = state is not None and name in before and before[name].content is part.content
            digests[name] = state.parts[name] if same and state is not None else self._put(part.write)
        # The base model may be served as it is.
        served = next((digests[name] for name, part in parts.items() if part.content is trained.model), None)
        return {"served": served or self._put(lambda path: self.method.save(trained.model, path)), "parts": digests}

    def _put(self, write: Callable[[Path], None]) -> Digest:
        """Take a file into the store that this function writes."""
        path = self.space.scratch / secrets.token_hex(8)
        try:
            write(path)
        except OSError as error:
            raise storage_error(f"cannot save the new model as {path}", error, "the served model stays") from error
        digest = self.space.store.put(path)
        remove_files(self.space.scratch, [path.name])
        return digest

    def _quality(self, served: Digest, model: Model, held_out: Dataset, before: Model | None) -> tuple[Event, ...]:
        """Return the event that notes the quality of a model, if enough people are held out."""
        quality = quality_of(served, model, held_out, before)
        return () if quality is None else (Event(QUALITY, quality.to_json()),)

    @property
    def _effort(self) -> Json:
        return getattr(self.method, "finetune", getattr(self.method, "effort", None))

    def _store(self, index: SubjectIndex) -> dict[str, Any]:
        """Store the index; return its files by the fields of a state. The columns are written if much has changed."""
        store, changes = self.space.store, dict[str, Any]()
        if index.has_many_changes():
            changes["columns"] = store.put(index.to_parts())
            index = index.stored_in(store.place(changes["columns"]))
        changes["index"] = store.put(index.changes_to_bytes())
        self.space.remember_index(changes["index"], index)
        return changes

    def _switch(self, state: WorkspaceState, data: Dataset, held_out: Dataset) -> None:
        switch(self.space, state)
        self.space.remember(state, data, held_out)

    def _lottery(self, data: Dataset, index: SubjectIndex, newcomers: Dataset | None = None) -> Lottery | None:
        """Return who may be seen raw, where that was decided before; people who come back keep their decision."""
        lottery = self.method.lottery(self.rng) if isinstance(self.method, EUPG | Retrain) else None
        if lottery is None:
            return None
        drawn = index.part(index.drawn, held_out=False)
        decided = dict.fromkeys(data.subjects.tolist(), False)
        decided |= dict.fromkeys(data.subjects[drawn].tolist(), True)
        if newcomers is not None:
            people = np.setdiff1d(newcomers.subjects, data.subjects).tolist()
            before = zip(people, index.decisions(people, self.space.key), strict=True)
            decided |= {name: was for name, was in before if was is not None}
        return lottery.deciding(decided)

    def _restored(
        self, state: WorkspaceState, data: Dataset, index: SubjectIndex, *, newcomers: Dataset | None = None
    ) -> Trained:
        """Return the trained model from its files, each checked against its digest."""
        seen = index.part(index.exposed, held_out=False)
        ids = data.id_set if seen.all() else data.select(seen).id_set
        kept = KeptState(data, ids, guarantee_from_json(state.claim), self._lottery(data, index, newcomers))
        store = self.space.store
        parts = {name: store.path(digest) for name, digest in state.parts.items()}
        return self.method.restore(store.path(state.served), parts, kept)


def _held_apart(data: Dataset, hold_out: float | Dataset, rng: np.random.Generator) -> tuple[Dataset, Dataset]:
    """Return the records to train on, and those that no model sees: people drawn at random, or the given records."""
    if not isinstance(hold_out, Dataset):
        if not 0 <= hold_out < 1:
            raise ParameterError(f"hold_out is a share of people from 0 to below 1, got {hold_out!r}")
        people = np.unique(data.subjects)
        apart = np.isin(data.subjects, rng.permutation(people)[: int(hold_out * len(people))])
        return data.select(~apart), data.select(apart)
    if hold_out.schema != data.schema:
        raise DataError("the records to hold out have another schema: load them with the schema of the others")
    if np.isin(hold_out.ids, data.ids).any() or np.isin(hold_out.subjects, data.subjects).any():
        raise DataError("some people are among those to train on and those to hold out: keep them apart")
    return data, hold_out


def _claims(releases: Sequence[ReleaseEntry]) -> list[Guarantee]:
    return [guarantee_from_json(release.claim) for release in releases]


def _drawn(data: Dataset, lottery: Lottery | None) -> Rows:
    return np.ones(len(data), dtype=bool) if lottery is None else lottery.drawn(data)


def _among(data: Dataset, ids: Set[RecordId]) -> Rows:
    """Return for each record whether its id is among these."""
    if ids is data.id_set or not ids:
        return np.full(len(data), bool(ids))
    return np.fromiter((name in ids for name in data.ids.tolist()), dtype=bool, count=len(data))
