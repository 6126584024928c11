"""Where models are made: the changes of a workspace that train, each from whole state to whole state."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from eupg.data.dataset import Dataset, RecordId
from eupg.errors import DataError, PrivacyError, WorkspaceState
from eupg.forget.eupg import EUPG
from eupg.forget.lottery import Lottery
from eupg.forget.released import HistoryElsewhere
from eupg.forget.scored_base import base_of
from eupg.forget.unlearner import Trained
from eupg.guarantees import Involvement, NoGuarantee, claim_for_person, guarantee_from_json
from eupg.learn.learner import Model
from eupg.manage.atomic import remove_files, storage_error
from eupg.manage.current import Current, Event, digest_of_all
from eupg.manage.description import describe
from eupg.manage.events import Json
from eupg.manage.forgetting import Erasure, measured, twins_of
from eupg.manage.request_states import Request
from eupg.manage.roll import Roll, Rows
from eupg.manage.store import Digest
from eupg.manage.training import Base, held_apart, make_base
from eupg.manage.workspace import Workspace
from eupg.rng import Randomness
from eupg.watch import Watch


@dataclass(frozen=True)
class Forgotten:
    """What one run of forgetting did.

    Parameters
    ----------
    requests
        The requests that were honoured.
    records
        How many records were erased.
    trained
        Whether a model was trained.
    seconds
        How long it took.
    failed
        Requests that could not be honoured, and why; they can be tried again.
    """

    requests: tuple[str, ...] = ()
    records: int = 0
    trained: bool = False
    seconds: float = 0.0
    failed: Mapping[str, DataError] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Trial:
    """What it would be to honour some requests: the records that go, the model after that, and who was left in."""

    requests: tuple[Request, ...]
    erasure: Erasure
    going: Rows
    after: Trained | None
    failed: Mapping[str, DataError] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _First:
    """A served model on a new base: its file, who is exposed and who is drawn, and what was done to make it."""

    served: Digest
    exposed: Rows
    drawn: Rows
    events: tuple[Event, ...]


@dataclass(frozen=True)
class Workshop:
    """Trains models for a workspace.

    Parameters
    ----------
    space
        The workspace; hold its lock.
    method
        How to train.
    rng
        Where protection draws from.
    watch
        Told of every step.
    """

    space: Workspace
    method: EUPG
    rng: Randomness
    watch: Watch

    def train(self, records: Dataset, hold_out: float | Dataset, not_covered: Sequence[str] = ()) -> None:
        """Make the first release, base model and served model."""
        if self.space.trained:
            raise WorkspaceState(
                f"{self.space.folder} holds a trained model: add new records with add, release anew with renew, or use "
                "another folder"
            )
        data, held = held_apart(records, hold_out, self.rng.stage("hold out").generator())
        base = make_base(self.method, data, self.rng, self.watch)
        self.space.agree(records.schema, describe(self.method), not_covered)
        roll = Roll.empty().plus(data, self.space.key, held_out=False).plus(held, self.space.key, held_out=True)
        digest = self.keep(base.model)
        base = base.kept_as(digest)
        first = self._first(digest, base, data, None)
        new = Current(
            number=1,
            records=self.space.records.write(data),
            held_out=self.space.records.write(held),
            base=digest,
            served=first.served,
            roll=self._note(roll.released(base.groups).exposing(first.exposed, drawn=first.drawn)),
            releases=(base.release,),
            events=first.events,
        )
        self.space.switch(new)
        self.space.remember(new, data, held)

    def renew(self) -> None:
        """Make a second release of the records that are left, and a new base model."""
        current = self.space.current()
        (data, held), roll = self.space.read(current), self.space.roll(current)
        self._check_together(current, data, roll)
        base = make_base(self.method, data, self.rng, self.watch)
        digest = self.keep(base.model)
        base = base.kept_as(digest)
        # Who was drawn stays drawn: a second draw would show further people raw.
        first = self._first(digest, base, data, self._lottery(data, roll))
        new = current.followed_by(
            first.events,
            base=digest,
            served=first.served,
            releases=(*current.releases, base.release),
            roll=self._note(roll.released(base.groups).exposing(first.exposed, drawn=first.drawn)),
        )
        self.space.switch(new)
        self.space.remember(new, data, held)

    def _check_together(self, current: Current, data: Dataset, roll: Roll) -> None:
        """Refuse a release after which nothing would be claimed for people who were in one before."""
        claims = [guarantee_from_json(release.claim) for release in current.releases]
        claims.append(self.method.mechanism.guarantee(data.schema))
        someone = Involvement(released=(1,) * len(claims))
        twice = int((roll.training & (roll.groups >= 0).any(axis=0)).sum())
        if twice and isinstance(claim_for_person(someone, claims), NoGuarantee):
            raise PrivacyError(
                f"{twice} records were released before, and two such releases can be intersected: nothing could be "
                "claimed for their people; use differential privacy, whose budgets add up"
            )

    def add(self, records: Dataset) -> None:
        """Take in new records and fine-tune the base model with them; those of people held out stay apart, too."""
        current, files = self.space.current(), self.space.records
        data, held = self.space.read(current)
        # Everything is joined once, so that an id that is taken anywhere is found before anything is written.
        data.plus(held).plus(records)
        apart = np.isin(records.subjects, held.subjects)
        new, new_held = records.select(~apart), records.select(apart)
        roll = self.space.roll(current)
        trained = self._trained(current, data, roll, newcomers=new)
        everyone = data.plus(new)
        after = self.watch("finetune", lambda: self.method.update(trained, everyone, self.rng))
        served = self._serve(after, current.base)
        roll = roll.plus(new, self.space.key, held_out=False).plus(new_held, self.space.key, held_out=True)
        about: dict[str, Json] = {"records": len(new), "held_out": len(new_held)}
        tuned: dict[str, Json] = {"served": served, "effort": self.method.finetune, "records": len(after.ids)}
        switched = current.followed_by(
            (Event("add", about), Event("finetune", tuned), Event("deploy", {"served": served})),
            records=files.append(current.records, new),
            held_out=files.append(current.held_out, new_held),
            served=served,
            roll=self._note(roll.exposing(_among(everyone, after.ids), drawn=_drawn(everyone, after.lottery))),
        )
        self.space.switch(switched)
        self.space.remember(switched, everyone, held.plus(new_held))

    def forget(self, current: Current, waiting: Sequence[Request]) -> tuple[Forgotten, Dataset]:
        """Answer the requests: fine-tune the base model again only if the served one saw a record that goes."""
        started = time.perf_counter()
        files, roll = self.space.records, self.space.roll(current)
        data, held = self.space.read(current)
        base = self.load(current.base)
        asked = Erasure.of(roll, waiting).part(data, held_out=False)
        # Files are written anew while the model is trained; leaving the block waits for them, whatever happens.
        with ThreadPoolExecutor(1) as beside:
            left = beside.submit(files.without, current.records, ids=data.ids[asked]) if asked.any() else None
            trial = self._honour(current, roll, data, base, waiting)
        erasure, going, after = trial.erasure, trial.going, trial.after
        held_going = erasure.part(held, held_out=True)
        seen = roll.part(roll.exposed, held_out=False)
        forgotten, retained, apart = data.select(going), data.select(~going), held.select(~held_going)
        changes: dict[str, Any] = {}
        about: dict[str, Json] = {"records": len(forgotten), "retained": len(retained), "trained": False}
        about |= {"base": current.base, "release": current.releases[-1].digest}
        events: list[Event] = []
        model, chosen, drawn = None, seen[~going], roll.part(roll.drawn, held_out=False)[~going]
        if after is not None:
            model, chosen, drawn = after.model, _among(retained, after.ids), _drawn(retained, after.lottery)
            changes["served"] = served = self._serve(after, current.base)
            about |= {"trained": True, "drawn": int((chosen & ~seen[~going]).sum())}
            events.append(Event("deploy", {"served": served}))
        rewritten = None if left is None else left.result()
        if rewritten is not None and trial.failed:
            # Not everybody goes who asked: what was written without all of them is not what is left.
            for digest in rewritten.written:
                files.files.delete(digest)
            rewritten = files.without(current.records, ids=forgotten.ids) if going.any() else None
        if rewritten is not None:
            changes["records"] = rewritten.manifest
        if held_going.any():
            changes["held_out"] = files.without(current.held_out, ids=held.select(held_going).ids).manifest
        twins = twins_of(forgotten, retained)
        found = measured(model or self.load(current.served), base, forgotten, apart, twins)
        changes["roll"] = self._note(roll.without(erasure.gone).exposing(chosen, drawn=drawn))
        about["served"] = str(changes.get("served", current.served))
        about["retained_digest"] = digest_of_all(changes.get("records", current.records))
        about["elapsed_ms"] = round(1000 * (time.perf_counter() - started), 1)
        new = current.followed_by(
            (Event("forget", about), *events, Event("measure", found)),
            erasure.answers(current, data.schema, twins, of_method=self.method.caveats),
            **changes,
        )
        self.space.switch(new)
        self.space.remember(new, retained, apart)
        honoured = tuple(r.id for r in trial.requests)
        done = Forgotten(honoured, int(erasure.gone.sum()), model is not None, failed=trial.failed)
        return done, forgotten

    def _honour(self, current: Current, roll: Roll, data: Dataset, base: Model, waiting: Sequence[Request]) -> _Trial:
        """Train without the people who asked; those without whom no model can be trained are left in, and named.

        All together first. Where that cannot be trained, halves are tried, and so on: a few trainings more tell which
        of many requests is to blame. Nothing is written on the way.
        """
        honoured: tuple[Request, ...] = ()
        best: _Trial | None = None
        failed: dict[str, DataError] = {}
        parts = [tuple(waiting)]
        while parts:
            part = parts.pop()
            try:
                best = self._try(current, roll, data, base, (*honoured, *part))
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

    def _try(self, current: Current, roll: Roll, data: Dataset, base: Model, requests: tuple[Request, ...]) -> _Trial:
        """Return the model without the people who asked; none where the served one never saw them."""
        erasure = Erasure.of(roll, requests)
        going = erasure.part(data, held_out=False)
        if not (going & roll.part(roll.exposed, held_out=False)).any():
            return _Trial(requests, erasure, going, None)
        # From the base model whose digest was just verified, never from the served one.
        trained, retained = self._trained(current, data, roll, base), data.select(~going)
        after = self.watch("forget", lambda: self.method.forget(trained, retained, self.rng))
        return _Trial(requests, erasure, going, after)

    def keep(self, model: Model) -> Digest:
        """Take a model into the store."""
        path = self.space.scratch / secrets.token_hex(8)
        try:
            self.method.learner.save(model, path)
        except OSError as error:
            raise storage_error(f"cannot save the new model as {path}", error, "what was served still is") from error
        digest = self.space.store.put(path)
        remove_files(self.space.scratch, [path.name])
        return digest

    def load(self, digest: Digest) -> Model:
        """Load a model whose bytes were checked against its digest."""
        return self.method.learner.load(self.space.store.path(digest))

    def _first(self, digest: Digest, base: Base, data: Dataset, lottery: Lottery | None) -> _First:
        """Fine-tune a new base model; who may be seen raw is drawn unless it was before."""
        claim = guarantee_from_json(base.release.claim)
        # The roll knows who was in which release, earlier ones included.
        history = HistoryElsewhere()
        trained = self.watch(
            "finetune",
            lambda: self.method.resume(base.model, claim, data, self.rng, lottery=lottery, released=history),
        )
        served = self._serve(trained, digest)
        release: dict[str, Json] = {"release": base.release.digest, "claim": dict(base.release.claim)}
        events = (
            Event("protect", {**release, "records": len(data)}),
            Event("pretrain", {"base": digest, "effort": self.method.pretrain}),
            Event("finetune", {"served": served, "effort": self.method.finetune, "records": len(trained.ids)}),
            Event("deploy", {"served": served}),
        )
        return _First(served, _among(data, trained.ids), _drawn(data, trained.lottery), events)

    def _serve(self, trained: Trained, base: Digest) -> Digest:
        """Take the model to be served into the store, unless it is the base model itself."""
        return base if trained.model is base_of(trained.memory) else self.keep(trained.model)

    def _note(self, roll: Roll) -> Digest:
        return self.space.store.put(roll.to_bytes())

    def _lottery(self, data: Dataset, roll: Roll, newcomers: Dataset | None = None) -> Lottery | None:
        """Return who may be seen raw, as far as it was decided; people who come back keep their decision."""
        lottery = self.method.lottery(self.rng)
        if lottery is None:
            return None
        decided = roll.part(roll.drawn, held_out=False)
        drawn, passed = (set(np.unique(data.subjects[rows]).tolist()) for rows in (decided, ~decided))
        if newcomers is not None:
            people = np.setdiff1d(newcomers.subjects, data.subjects).tolist()
            for name, before in zip(people, roll.decisions(people, self.space.key), strict=True):
                if before is not None:
                    (drawn if before else passed).add(name)
        return lottery.keeping(drawn=drawn, passed=passed)

    def _trained(
        self,
        current: Current,
        data: Dataset,
        roll: Roll,
        base: Model | None = None,
        *,
        newcomers: Dataset | None = None,
    ) -> Trained:
        """Return the served state as the method knows it; the served model itself is not needed to leave it."""
        base = self.load(current.base) if base is None else base
        seen = roll.part(roll.exposed, held_out=False)
        ids = data.id_set if seen.all() else data.select(seen).id_set
        claim = guarantee_from_json(current.releases[-1].claim)
        lottery = self._lottery(data, roll, newcomers)
        return Trained(base, data.schema, ids, data.id_set, HistoryElsewhere(), claim, base, lottery)


def _drawn(data: Dataset, lottery: Lottery | None) -> Rows:
    return np.ones(len(data), dtype=bool) if lottery is None else lottery.drawn(data)


def _among(data: Dataset, ids: frozenset[RecordId]) -> Rows:
    """Tell for each record whether its id is among these."""
    if ids is data.id_set or not ids:
        return np.full(len(data), bool(ids))
    return np.fromiter((name in ids for name in data.ids.tolist()), dtype=bool, count=len(data))
