"""Where models are made: the changes of a workspace that train, each from whole state to whole state."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from eupg.data.dataset import Dataset
from eupg.errors import PrivacyError, WorkspaceState
from eupg.forget.eupg import EUPG
from eupg.forget.released import Released
from eupg.forget.unlearner import Trained
from eupg.learn.learner import Model
from eupg.manage.atomic import remove_files, storage_error
from eupg.manage.current import Current, Event
from eupg.manage.description import describe
from eupg.manage.events import Json
from eupg.manage.forgetting import Erasure, claim_after, measured
from eupg.manage.request_states import Request
from eupg.manage.roll import Roll
from eupg.manage.store import Digest
from eupg.manage.training import Base, Watch, held_apart, make_base
from eupg.manage.workspace import Workspace
from eupg.protect.guarantee import NoGuarantee, guarantee_from_json
from eupg.rng import Randomness


@dataclass(frozen=True)
class Forgotten:
    """What one run of forgetting did: the requests it answered, the records erased, whether a model was trained."""

    requests: tuple[str, ...] = ()
    records: int = 0
    trained: bool = False
    seconds: float = 0.0


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

    def train(self, records: Dataset, hold_out: float | Dataset) -> None:
        """Make the first release, base model and served model."""
        if self.space.trained:
            raise WorkspaceState(
                f"{self.space.folder} holds a trained model: add new records with add, release anew with renew, or use "
                "another folder"
            )
        data, held = held_apart(records, hold_out, self.rng.stage("hold out").generator())
        base = make_base(self.method, data, self.rng, self.watch)
        self.space.agree(records.schema, describe(self.method))
        roll = Roll.empty().plus(data, self.space.key, held_out=False).plus(held, self.space.key, held_out=True)
        start = Current(
            number=0,
            records=self.space.records.write(data),
            held_out=self.space.records.write(held),
            base=self.keep(base.model),
            served="",
            roll=self.space.store.put(roll.released(base.groups).to_bytes()),
            releases=(base.release,),
        )
        served, events = self._first(start, base, data)
        self.space.switch(replace(start, number=1, served=served, events=events))

    def renew(self) -> None:
        """Make a second release of the records that are left, and a new base model."""
        current = self.space.current()
        data, roll = self.space.records.read(current.records), self.space.roll(current)
        self._check_together(current, data, roll)
        base = make_base(self.method, data, self.rng, self.watch)
        releases = (*current.releases, base.release)
        start = replace(current, base=self.keep(base.model), releases=releases)
        served, events = self._first(start, base, data)
        rolled = self.space.store.put(roll.released(base.groups).to_bytes())
        new = current.followed_by(events, base=start.base, served=served, releases=releases, roll=rolled)
        self.space.switch(new)

    def _check_together(self, current: Current, data: Dataset, roll: Roll) -> None:
        """Refuse a release after which nothing would be claimed for people who were in one before."""
        promised = self.method.mechanism.guarantee(data.schema)
        together = (*current.releases, replace(current.releases[-1], claim=promised.to_json()))
        twice = int((roll.training & (roll.groups >= 0).any(axis=0)).sum())
        if twice and isinstance(claim_after([1] * len(together), together, ()), NoGuarantee):
            raise PrivacyError(
                f"{twice} records were released before, and two such releases can be intersected: nothing could be "
                "claimed for their people; use differential privacy, whose budgets add up"
            )

    def add(self, records: Dataset) -> None:
        """Take in new records and fine-tune the base model with them; those of people held out stay apart, too."""
        current, files = self.space.current(), self.space.records
        data, held = files.read(current.records), files.read(current.held_out)
        # Everything is joined once, so that an id that is taken anywhere is found before anything is written.
        data.plus(held).plus(records)
        apart = np.isin(records.subjects, held.subjects)
        new, new_held = records.select(~apart), records.select(apart)
        roll = self.space.roll(current).plus(new, self.space.key, held_out=False)
        roll = roll.plus(new_held, self.space.key, held_out=True)
        served, event = self._finetune(current, self.load(current.base), data.plus(new))
        about: dict[str, Json] = {"records": len(new), "held_out": len(new_held)}
        self.space.switch(
            current.followed_by(
                (Event("add", about), event, Event("deploy", {"served": served})),
                records=files.append(current.records, new),
                held_out=files.append(current.held_out, new_held),
                served=served,
                roll=self.space.store.put(roll.to_bytes()),
            )
        )

    def forget(self, current: Current, waiting: Sequence[Request]) -> tuple[Forgotten, Dataset]:
        """Fine-tune the base model on the records that are left, and answer the requests; return who went, too."""
        files, roll = self.space.records, self.space.roll(current)
        erasure = Erasure.of(roll, waiting)
        data, held = files.read(current.records), files.read(current.held_out)
        going, held_going = erasure.part(data, held_out=False), erasure.part(held, held_out=True)
        forgotten, retained = data.select(going), data.select(~going)
        base = self.load(current.base)
        changes: dict[str, object] = {}
        events: list[Event] = []
        model = base
        if going.any():
            # From the base model whose digest was just verified, never from the served one.
            trained = _trained(base, current, data)
            after = self.watch("forget", lambda: self.method.forget(trained, retained, self.rng))
            model, served = after.model, self.keep(after.model)
            changes |= {"served": served, "records": files.without(current.records, ids=forgotten.ids).manifest}
            events.append(Event("forget", {"served": served, "records": int(going.sum()), "retained": len(retained)}))
            events.append(Event("deploy", {"served": served}))
        if held_going.any():
            gone = held.select(held_going)
            changes["held_out"] = files.without(current.held_out, ids=gone.ids).manifest
        events.append(Event("measure", measured(model, base, forgotten, retained, held.select(~held_going))))
        changes["roll"] = self.space.store.put(roll.without(erasure.gone).to_bytes())
        answers = erasure.answers(current, data.schema.caveats)
        self.space.switch(current.followed_by(tuple(events), answers, **changes))
        done = Forgotten(tuple(r.id for r in waiting), int(erasure.gone.sum()), bool(going.any()))
        return done, forgotten

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

    def _first(self, current: Current, base: Base, data: Dataset) -> tuple[Digest, tuple[Event, ...]]:
        """Fine-tune a new base model, and say everything that was done since the records were protected."""
        served, event = self._finetune(current, base.model, data)
        about: dict[str, Json] = {
            "release": base.release.digest,
            "claim": dict(base.release.claim),
            "records": len(data),
        }
        pretrain = Event("pretrain", {"base": current.base, "effort": self.method.pretrain})
        return served, (Event("protect", about), pretrain, event, Event("deploy", {"served": served}))

    def _finetune(self, current: Current, base: Model, data: Dataset) -> tuple[Digest, Event]:
        claim = guarantee_from_json(current.releases[-1].claim)
        model = self.watch("finetune", lambda: self.method.resume(base, claim, data, self.rng).model)
        served = self.keep(model)
        return served, Event("finetune", {"served": served, "effort": self.method.finetune, "records": len(data)})


def _trained(base: Model, current: Current, data: Dataset) -> Trained:
    ids = frozenset(data.ids.tolist())
    claim = guarantee_from_json(current.releases[-1].claim)
    return Trained(base, data.schema, ids, ids, Released(), claim, base)
