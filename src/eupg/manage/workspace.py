"""A workspace on disk: where its files lie, and how a change becomes whole again after a crash.

New files are written beside the live ones; replacing the pointer ``current.json`` is the change; then ``settle``
deletes what the pointer gave up and brings the ledger up to date. A crash before the pointer leaves stray files, one
after it work that ``settle`` repeats; ``recover`` sees to both.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import tomli_w
from sqlalchemy import make_url

from eupg.certify.keys import SigningKey, digest_key
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.errors import ParameterError, WorkspaceDamaged, WorkspaceState
from eupg.manage.atomic import make_folder, read_if_there, remove_partials, write_atomically
from eupg.manage.current import Current
from eupg.manage.events import Entry, Json
from eupg.manage.killpoint import checkpoint
from eupg.manage.ledger import Ledger, utc_now
from eupg.manage.lock import WorkspaceLock
from eupg.manage.records import Manifest, RecordFiles
from eupg.manage.request_states import State, Step
from eupg.manage.requests import RequestBook
from eupg.manage.roll import Roll
from eupg.manage.store import Deleted, Store
from eupg.manage.transaction import Clock

_SETTLED = "current"
# Long enough for a look at the status, too short to queue behind a training.
_PATIENCE_S = 2.0


@dataclass(frozen=True)
class Recovered:
    """What a recovery did: stray files deleted, whether an interrupted change was completed, and who waits again."""

    deleted: tuple[Deleted, ...]
    settled: bool
    waiting: tuple[str, ...]


class Workspace:
    """The folder of one model: records, models, ledger and keys.

    Parameters
    ----------
    folder
        Made if it is not there, for its owner alone.
    ledger
        A database URL without a password, where the ledger is not to be a SQLite file in the folder.
    clock
        Tells the time.
    """

    def __init__(self, folder: str | Path, *, ledger: str | None = None, clock: Clock = utc_now) -> None:
        self.folder = Path(folder)
        make_folder(self.folder)
        settings = self._settings
        self._elsewhere: str | None = ledger or settings.get("ledger")
        self._clock = clock
        self._at_hand: dict[Manifest, Dataset] = {}
        self._known_roll: tuple[str, Roll] | None = None

    @cached_property
    def key(self) -> bytes:
        """The secret of keyed digests."""
        return digest_key(self.folder / "keys" / "digest.key")

    @cached_property
    def signing(self) -> SigningKey:
        """The key certificates are signed with."""
        return SigningKey.create_or_load(self.folder / "keys" / "signing.key")

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger."""
        return Ledger(self._elsewhere or self.folder / "ledger.db", clock=self._clock)

    @cached_property
    def book(self) -> RequestBook:
        """The requests in the ledger."""
        return RequestBook(self.ledger)

    @cached_property
    def store(self) -> Store:
        """Model files and the roll."""
        return Store(self.folder / "store")

    @cached_property
    def scratch(self) -> Path:
        """Where learners save a model before the store takes it."""
        make_folder(self.folder / "scratch")
        return self.folder / "scratch"

    @cached_property
    def schema(self) -> Schema:
        """What the columns mean."""
        return Schema.from_toml(str(self._known()["schema"]))

    @cached_property
    def records(self) -> RecordFiles:
        """The records."""
        return RecordFiles(self.folder / "records", self.schema)

    @property
    def method(self) -> Any:
        """The description of the method."""
        return json.loads(self._known()["method"])

    @property
    def not_covered(self) -> list[str]:
        """Sentences, agreed at the start, on what no claim of this workspace covers."""
        return [str(sentence) for sentence in self._known().get("not_covered", [])]

    def agree(self, schema: Schema, method: Json, not_covered: Sequence[str] = ()) -> None:
        """Write down, once, what the workspace is about."""
        # Made now, so that the public half can be handed out before the first certificate.
        _ = self.signing
        content: dict[str, Any] = {"format": "eupg-workspace-1", "method": json.dumps(method)}
        content |= {"schema": schema.to_toml(), "not_covered": list(not_covered)}
        if self._elsewhere:
            if make_url(self._elsewhere).password is not None:
                raise ParameterError(
                    "the ledger's address holds a password: put it into ~/.pgpass or PGPASSFILE instead"
                )
            content["ledger"] = self._elsewhere
        write_atomically(self.folder / "workspace.toml", tomli_w.dumps(content, multiline_strings=True).encode())
        for name in ("schema", "records"):
            self.__dict__.pop(name, None)

    @contextmanager
    def changing(self, doing: str) -> Iterator[None]:
        """Hold the lock while something changes; begin from a whole state, and return to one if it fails."""
        with self.locked(doing):
            self.recover()
            try:
                yield
            except Exception:
                # Where even that fails, on a full disk say, the next change begins with it.
                with suppress(Exception):
                    self.recover()
                raise

    def locked(self, doing: str) -> WorkspaceLock:
        """Return the lock, which waits for a moment and not for a training."""
        return WorkspaceLock(self.folder / "lock", doing=doing, timeout_s=_PATIENCE_S)

    def current(self) -> Current:
        """Return what is live."""
        found = self._pointer()
        if found is None:
            raise WorkspaceState(f"{self.folder} holds no trained model: run train first")
        current = Current.from_bytes(found)
        # Somebody may have been forgotten by another process: they do not stay in the memory of this one.
        self._at_hand = {m: data for m, data in self._at_hand.items() if m in (current.records, current.held_out)}
        return current

    @property
    def trained(self) -> bool:
        """Whether there is a model."""
        return self._pointer() is not None

    def roll(self, current: Current) -> Roll:
        """Return the roll of everyone taken in; what a digest names never changes, so the last one is kept at hand."""
        if self._known_roll is None or self._known_roll[0] != current.roll:
            self._known_roll = (current.roll, Roll.from_bytes(self.store.read(current.roll)))
        return self._known_roll[1]

    def read(self, current: Current) -> tuple[Dataset, Dataset]:
        """Return the records in training and those held out; they stay in memory, and nothing else does."""
        for part in (current.records, current.held_out):
            self._at_hand[part] = self._at_hand[part] if part in self._at_hand else self.records.read(part)
        return self._at_hand[current.records], self._at_hand[current.held_out]

    def remember(self, new: Current, data: Dataset, held: Dataset) -> None:
        """Keep in memory what is live now, and nothing of what was before."""
        self._at_hand = {new.records: data, new.held_out: held}

    def switch(self, new: Current) -> None:
        """Replace the pointer, then settle what follows from it."""
        checkpoint("before the pointer")
        write_atomically(self.folder / "current.json", new.to_bytes())
        self.settle(new)

    def settle(self, current: Current) -> None:
        """Delete what the pointer gave up, check that it is gone, and bring the ledger up to date; can be repeated."""
        gone = {True: self.records.files, False: self.store}
        for given in current.given_up:
            if given.digest in gone[given.records]:
                gone[given.records].delete(given.digest)
        checkpoint("before the ledger follows")
        with self.ledger.transaction() as transaction:
            if current.number <= self._settled():
                return
            change: dict[str, Json] = {"change": current.number}
            transaction.append_many((event.kind, {**event.body, **change}) for event in current.events)
            transaction.append_many(
                ("delete", {"what": given.what, "digest": given.digest, **change}) for given in current.given_up
            )
            self.book.advance_many(
                Step(a.request, State.COMPLETED, None, {**a.details, **change}) for a in current.answered
            )
            transaction.append_many([(_SETTLED, {**change, "digest": _digest(current.to_bytes())})])
        checkpoint("after the ledger followed")

    def recover(self) -> Recovered:
        """Bring the workspace back to a whole state after a crash; changes nothing in a whole one. Holds no lock."""
        pointer, settled = self._pointer(), self._settled()
        current = None if pointer is None else Current.from_bytes(pointer)
        unsettled = current is not None and current.number == settled + 1
        if not unsettled:
            # A pointer that was lost or put back must not decide which files are strays.
            self.check_pointer()
        for folder in (self.folder, self.folder / "keys"):
            if folder.is_dir():
                remove_partials(folder)
        stray = tuple(Store(self.scratch).collect(()))
        if current is not None and unsettled:
            self.settle(current)
        live = (current.live_files, current.live_records) if current is not None else (set[str](), set[str]())
        return Recovered(self._collect(*live, stray), unsettled, self._release_requests())

    def check_pointer(self) -> None:
        """Compare the pointer with the ledger's last word about it."""
        noted, found = self._last_word(), self._pointer()
        if noted is None and found is None:
            return
        if noted is None or found is None or noted.body["digest"] != _digest(found):
            why = (
                "it was changed, or a change was interrupted; run recover, and if this stays, restore it from a backup"
            )
            raise WorkspaceDamaged(f"current.json is not what the ledger last noted: {why}")

    def close(self) -> None:
        """Let go of the database, and of records in memory."""
        self._at_hand = {}
        if "ledger" in self.__dict__:
            self.ledger.close()

    def _collect(self, files: set[str], records: set[str], stray: tuple[Deleted, ...]) -> tuple[Deleted, ...]:
        """Delete whatever nothing points at, and note it."""
        found = [*stray, *self.store.collect(files)]
        if (self.folder / "records").is_dir():
            found += Store(self.folder / "records").collect(records)
        if found:
            self.ledger.append_many([("delete", {"what": "unfinished file", "digest": d.digest}) for d in found])
        return tuple(found)

    def _release_requests(self) -> tuple[str, ...]:
        """Let requests that were being processed wait again: whoever did it is gone."""
        stuck = [r.id for r in self.book.open_requests() if r.state is State.PROCESSING]
        if stuck:
            self.book.advance_many(Step(name, State.FAILED, "interrupted before it was done") for name in stuck)
        return tuple(stuck)

    def _settled(self) -> int:
        noted = self._last_word()
        return 0 if noted is None else int(str(noted.body["change"]))

    def _last_word(self) -> Entry | None:
        with self.ledger.snapshot() as snapshot:
            return snapshot.last(_SETTLED)

    def _pointer(self) -> bytes | None:
        return read_if_there(self.folder / "current.json")

    @property
    def _settings(self) -> dict[str, Any]:
        content = read_if_there(self.folder / "workspace.toml")
        try:
            return tomllib.loads(content.decode()) if content is not None else {}
        except ValueError as error:
            raise WorkspaceDamaged(f"workspace.toml cannot be read ({error}): restore it from a backup") from error

    def _known(self) -> dict[str, Any]:
        settings = self._settings
        if "schema" not in settings or "method" not in settings:
            raise WorkspaceState(f"{self.folder} is no workspace yet: run train first")
        return settings


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
