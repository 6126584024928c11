"""A workspace on disk: where its files lie, and how a change becomes whole again after a crash.

New files are written beside the live ones; replacing the pointer ``current.json`` is the change; then ``settle``
deletes what the pointer gave up and brings the ledger up to date. A crash before the pointer leaves stray files, one
after it work that ``settle`` repeats; ``recover`` sees to both.

The ledger knows every pointer before it is live (``prepare``) and once it has settled (``current``), the settings in
``workspace.toml`` (``settings``) and a check value of each key (``keys``). What lies in the folder is compared with
these before it is used. The pointer is replaced inside a write transaction of the ledger, and only if it still is what
this change began from: of two processes that both believe to hold the lock, one succeeds and the other is told.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import tomli_w
from sqlalchemy import make_url

from eupg.certify.keys import SigningKey, check_value, digest_key
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.errors import (
    ChangeOvertaken,
    ChangeUnsettled,
    EupgError,
    KeyFileError,
    LockHeld,
    ParameterError,
    StoreCorrupt,
    WorkspaceDamaged,
    WorkspaceState,
)
from eupg.manage.atomic import list_folder, make_folder, read_if_there, remove_partials, write_atomically
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
from eupg.manage.transaction import Clock, Snapshot

T = TypeVar("T")
_FORMAT = "eupg-workspace-1"
_PREPARED, _SETTLED, _SETTINGS, _KEYS = "prepare", "current", "settings", "keys"
# Long enough for a look at the status, too short to queue behind a training.
_PATIENCE_S = 2.0
# How long a reader waits for a change that is just taking effect: files are deleted and the ledger is written then.
_SETTLING_S = 30.0
_POLL_S = 0.02


class _Standing(Enum):
    """How the ledger knows a pointer: announced, or live with everything done that follows from it."""

    PREPARED = "prepared"
    SETTLED = "settled"


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
        self._known_pointer: tuple[bytes, Current] | None = None
        self._known_settings: bytes | None = None
        self._lock: WorkspaceLock | None = None
        self._owner: int | None = None
        self._took_effect = False

    @property
    def in_use(self) -> bool:
        """Whether the folder holds a model or records, so that its keys and its ledger must exist."""
        folders = (self.folder / "store", self.folder / "records")
        return self.trained or any(folder.is_dir() and list_folder(folder) for folder in folders)

    @property
    def _depends_on_keys(self) -> bool:
        """Whether something was ever written with the keys, here or in the ledger."""
        return self.in_use or self._last(_SETTLED) is not None

    @cached_property
    def key(self) -> bytes:
        """The secret of keyed digests; the one that the ledger knows."""
        path = self.folder / "keys" / "digest.key"
        key = digest_key(path, create=not self._depends_on_keys)
        known = self._check_key(path, "digest_key", check_value(key))
        if not known and self.trained:
            # Made by an earlier version, and not adopted yet: the records tell whether it is the right key.
            self._check_index(key)
        return key

    @cached_property
    def signing(self) -> SigningKey:
        """The key certificates are signed with; the one that the ledger knows."""
        path = self.folder / "keys" / "signing.key"
        signing = SigningKey.create_or_load(path, create=not self._depends_on_keys)
        self._check_key(path, "signing_key", signing.public.raw.hex())
        return signing

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger; a workspace that is in use is refused without it."""
        if self.in_use and read_if_there(self.folder / "workspace.toml") is None:
            # It may name the place of the ledger.
            raise _settings_missing()
        return Ledger(self._elsewhere or self.folder / "ledger.db", clock=self._clock, create=not self.in_use)

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
        content: dict[str, Any] = {"format": _FORMAT, "method": json.dumps(method)}
        content |= {"schema": schema.to_toml(), "not_covered": list(not_covered)}
        if self._elsewhere:
            if make_url(self._elsewhere).password is not None:
                raise ParameterError(
                    "the ledger's address holds a password: put it into ~/.pgpass or PGPASSFILE instead"
                )
            content["ledger"] = self._elsewhere
        settings = tomli_w.dumps(content, multiline_strings=True).encode()
        self.check_lock()
        # Keys are made now, so that the public half can be handed out before the first certificate.
        _ = self.key, self.signing
        with self.ledger.transaction() as transaction:
            if self.trained or transaction.last(_SETTLED) is not None:
                raise _overtaken()
            self._note_identity(settings)
            write_atomically(self.folder / "workspace.toml", settings)
        for name in ("schema", "records"):
            self.__dict__.pop(name, None)

    @contextmanager
    def changing(self, doing: str) -> Iterator[None]:
        """Hold the lock while something changes; begin from a whole state, and return to one if it fails."""
        with self.locked(doing):
            self._took_effect = False
            self.recover()
            self._adopt()
            try:
                yield
            except Exception as error:
                if not self._took_effect and not isinstance(error, ChangeOvertaken) and not self.holds_lock:
                    # Whatever failed, files that another process took away say: that is why.
                    raise self._lost_lock() from error
                # Where even that fails, on a full disk say, the next change begins with it.
                with suppress(Exception):
                    self.recover()
                raise

    @contextmanager
    def locked(self, doing: str) -> Iterator[None]:
        """Hold the lock; wait for another owner for a moment, and not for a training."""
        with WorkspaceLock(self.folder / "lock", doing=doing, timeout_s=_PATIENCE_S) as lock:
            self._lock, self._owner = lock, threading.get_ident()
            try:
                yield
            finally:
                self._lock, self._owner = None, None

    def check_lock(self) -> None:
        """Raise unless this thread still holds the lock that others see."""
        if not self.holds_lock:
            raise self._lost_lock()

    def _lost_lock(self) -> ChangeOvertaken:
        return ChangeOvertaken(
            f"the lock file of {self.folder} was removed or replaced while a change was under way, so another process "
            "may have changed the workspace: this change did not happen; find out what removes the file, then run the "
            "command again"
        )

    @property
    def holds_lock(self) -> bool:
        """Whether this thread holds the lock that others see."""
        return self._lock is not None and self._owner == threading.get_ident() and self._lock.is_held()

    def current(self) -> Current:
        """Return what is live, once the ledger is found to know it and the settings it was made with."""
        content = self._pointer()
        if content is None:
            if read_if_there(self.folder / "workspace.toml") is not None and self._last(_SETTLED) is not None:
                raise WorkspaceDamaged(
                    "current.json is missing, and the ledger knows of a trained model: restore it from a backup"
                )
            raise WorkspaceState(f"{self.folder} holds no trained model: run train first")
        self.check_settings()
        if self._known_pointer is None or self._known_pointer[0] != content:
            current = Current.from_bytes(content)
            if self._standing(content) is None:
                # Perhaps replaced between the two looks.
                again = self._pointer()
                if again == content:
                    raise _unknown_pointer()
                return self.current()
            self._known_pointer = (content, current)
        current = self._known_pointer[1]
        # Somebody may have been forgotten by another process: they do not stay in the memory of this one.
        self._at_hand = {m: data for m, data in self._at_hand.items() if m in (current.records, current.held_out)}
        return current

    def consistently(self, look: Callable[[], T]) -> T:
        """Look at several parts of the workspace as they belong together, also while another process changes it.

        A change deletes files that were live a moment before. Where a look fails and the workspace has changed
        meanwhile, or a change is just taking effect, it is repeated; a fault that stays is raised.
        """
        until = time.monotonic() + _SETTLING_S
        while True:
            before = self._mark()
            try:
                return look()
            except EupgError:
                changed = self._mark() != before
                if not changed and not self._taking_effect() and self._mark() == before:
                    raise
                if time.monotonic() > until:
                    raise
            time.sleep(_POLL_S)

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
        """Replace the pointer, then settle what follows from it.

        Raises
        ------
        ChangeOvertaken
            If the lock was lost, or another process has changed the workspace: then nothing is replaced.
        StoreCorrupt
            If a file that would be live was removed since it was written: then nothing is replaced.
        ChangeUnsettled
            If the pointer was replaced, but what follows from it could not be done: ``recover`` does it.
        """
        checkpoint("before the pointer")
        content = new.to_bytes()
        self.check_lock()
        with self.ledger.transaction() as transaction:
            self._check_follows(transaction, new)
            transaction.append_many([(_PREPARED, {"change": new.number, "digest": _digest(content)})])
        checkpoint("prepared")
        try:
            self._replace_pointer(new, content)
        except EupgError as error:
            # The disk or the database may fail after the pointer was replaced, too.
            if self._pointer() != content:
                raise
            self._took_effect = True
            raise _unsettled(error) from error
        try:
            self.settle(new)
        except EupgError as error:
            raise _unsettled(error) from error

    def _replace_pointer(self, new: Current, content: bytes) -> None:
        """Make a change live, unless another one came first."""
        # No other writer of the ledger is let in here, so what is checked still holds when the pointer is replaced.
        with self.ledger.transaction() as transaction:
            self.check_lock()
            self._check_follows(transaction, new)
            prepared = transaction.last(_PREPARED)
            if prepared is None or prepared.body["digest"] != _digest(content):
                raise _overtaken()
            self._check_written(new)
            write_atomically(self.folder / "current.json", content)
            self._took_effect = True

    def _check_written(self, new: Current) -> None:
        """Raise unless every file that is to be live is there: whoever removes lock files may remove others."""
        parts = ((self.store, new.live_files), (self.records.files, new.live_records))
        missing = sorted(digest for store, digests in parts for digest in digests if digest not in store)
        if missing:
            raise StoreCorrupt(
                f"{len(missing)} files of this change were removed while it was being prepared, first {missing[0]}: "
                "this change did not happen; find out what removes them, then run the command again"
            )

    def _check_follows(self, snapshot: Snapshot, new: Current) -> None:
        """Raise unless the pointer still is the settled one that a change began from."""
        noted, content = snapshot.last(_SETTLED), self._pointer()
        number = 0 if noted is None else int(str(noted.body["change"]))
        same = content is None if noted is None else content is not None and noted.body["digest"] == _digest(content)
        if number != new.number - 1 or not same:
            raise _overtaken()

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
            known = self.book.get_many(a.request for a in current.answered)
            # A recovery by somebody else, while the lock file was gone, lets them wait again: they are taken up first.
            waiting = [name for name, r in known.items() if r.state in (State.ACCEPTED, State.FAILED)]
            self.book.advance_many(Step(name, State.PROCESSING) for name in waiting)
            self.book.advance_many(
                Step(a.request, State.COMPLETED, None, {**a.details, **change}) for a in current.answered
            )
            transaction.append_many([(_SETTLED, {**change, "digest": _digest(current.to_bytes())})])
        checkpoint("after the ledger followed")

    def recover(self) -> Recovered:
        """Bring the workspace back to a whole state after a crash; changes nothing in a whole one. Holds no lock."""
        self.check_lock()
        pointer = self._pointer()
        current = None if pointer is None else Current.from_bytes(pointer)
        unsettled = pointer is not None and self._standing(pointer) is _Standing.PREPARED
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
        noted, found = self._last(_SETTLED), self._pointer()
        if noted is None and found is None:
            return
        if noted is None or found is None or noted.body["digest"] != _digest(found):
            raise _unknown_pointer()

    def check_settings(self) -> bytes:
        """Compare ``workspace.toml`` with what the ledger noted when it was written, and return its content."""
        content = read_if_there(self.folder / "workspace.toml")
        if content is None:
            raise _settings_missing()
        if content != self._known_settings:
            self._check_settings(content)
            self._known_settings = content
        return content

    def _standing(self, pointer: bytes) -> _Standing | None:
        """Return how the ledger knows a pointer; None where it does not."""
        with self.ledger.snapshot() as snapshot:
            noted, prepared = snapshot.last(_SETTLED), snapshot.last(_PREPARED)
        digest, number = _digest(pointer), 0 if noted is None else int(str(noted.body["change"]))
        if noted is not None and noted.body["digest"] == digest:
            return _Standing.SETTLED
        if prepared is not None:
            following = prepared.body["change"] == number + 1 and prepared.body["digest"] == digest
            return _Standing.PREPARED if following else None
        # Versions before this one did not announce a pointer: one that follows on the settled one was interrupted. One
        # that follows on nothing may as well belong to a ledger that was lost.
        follows = noted is not None and Current.from_bytes(pointer).number == number + 1
        return _Standing.PREPARED if follows else None

    def _mark(self) -> tuple[bytes | None, int]:
        """Return what changes with every change of the workspace."""
        return self._pointer(), self._settled()

    def _taking_effect(self) -> bool:
        """Tell whether a change of another process is between replacing the pointer and settling it."""
        pointer = self._pointer()
        if pointer is None or self._standing(pointer) is not _Standing.PREPARED:
            return False
        try:
            with WorkspaceLock(self.folder / "lock", shared=True):
                return False
        except LockHeld:
            return True

    def _note_identity(self, settings: bytes) -> None:
        """Write into the ledger by what the keys and the settings of this workspace are recognised."""
        keys: dict[str, Json] = {
            "digest_key": check_value(self.key),
            "signing_key": self.signing.public.raw.hex(),
        }
        noted = self._last(_KEYS)
        events: list[tuple[str, dict[str, Json]]] = [(_KEYS, keys)] if noted is None or noted.body != keys else []
        self.ledger.append_many([*events, (_SETTINGS, {"digest": _digest(settings)})])

    def _adopt(self) -> None:
        """Note the keys and settings of a workspace that an earlier version made, once they are found to fit it."""
        if not self.trained or self._last(_KEYS) is not None:
            return
        self.check_people()
        content = read_if_there(self.folder / "workspace.toml")
        if content is not None:
            self._note_identity(content)

    def check_people(self) -> None:
        """Compute the index of people and records again from the records, and compare it with the stored one."""
        self._check_index(self.key)

    def _check_index(self, key: bytes) -> None:
        current = self.current()
        data, held = self.read(current)
        if not self.roll(current).is_index_of(data, held, key):
            raise WorkspaceDamaged(
                "the index of people does not fit the records and the digest key: requests would miss their person; "
                "restore keys, store and records from one backup"
            )

    def _check_key(self, path: Path, name: str, value: str) -> bool:
        """Compare a key with its check value; return whether the ledger has one that counts."""
        noted = self._last(_KEYS) if self._depends_on_keys else None
        if noted is not None and noted.body[name] != value:
            raise KeyFileError(
                f"{path} is not the key that this workspace was made with: restore it from a backup, together with the "
                "ledger and the records it belongs to"
            )
        return noted is not None

    def _check_settings(self, content: bytes) -> None:
        noted = self._last(_SETTINGS) if self.trained else None
        if noted is not None and noted.body["digest"] != _digest(content):
            raise WorkspaceDamaged(
                "workspace.toml is not what the ledger noted: method, schema and what is not covered are fixed at the "
                "first training; restore the file from a backup, or train another workspace"
            )

    def close(self) -> None:
        """Let go of the database, and of records in memory."""
        self._at_hand = {}
        if "ledger" in self.__dict__:
            self.ledger.close()

    def _collect(self, files: set[str], records: set[str], stray: tuple[Deleted, ...]) -> tuple[Deleted, ...]:
        """Delete whatever nothing points at, and note it."""
        self.check_lock()
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
        noted = self._last(_SETTLED)
        return 0 if noted is None else int(str(noted.body["change"]))

    def _last(self, kind: str) -> Entry | None:
        with self.ledger.snapshot() as snapshot:
            return snapshot.last(kind)

    def _pointer(self) -> bytes | None:
        return read_if_there(self.folder / "current.json")

    @property
    def _settings(self) -> dict[str, Any]:
        return _read_settings(read_if_there(self.folder / "workspace.toml"))

    def _known(self) -> dict[str, Any]:
        """Return the settings, once the ledger is found to know them."""
        content = self.check_settings() if self.trained else read_if_there(self.folder / "workspace.toml")
        settings = _read_settings(content)
        if not settings.keys() >= {"schema", "method"}:
            raise WorkspaceState(f"{self.folder} is not a workspace yet: run train first")
        return settings


def _read_settings(content: bytes | None) -> dict[str, Any]:
    if content is None:
        return {}
    try:
        settings = tomllib.loads(content.decode())
    except ValueError as error:
        raise WorkspaceDamaged(f"workspace.toml cannot be read ({error}): restore it from a backup") from error
    if settings.get("format") != _FORMAT:
        raise WorkspaceDamaged(
            f"workspace.toml has the format {settings.get('format')!r}, expected {_FORMAT!r}: open the workspace with "
            "the version of eupg that made it, or update eupg"
        )
    return settings


def _settings_missing() -> WorkspaceDamaged:
    return WorkspaceDamaged("workspace.toml is missing from a workspace that is in use: restore it from a backup")


def _unsettled(error: EupgError) -> ChangeUnsettled:
    return ChangeUnsettled(
        f"the change took effect, but old files could not be deleted or the ledger not be written ({error}): "
        "run recover to complete it"
    )


def _overtaken() -> ChangeOvertaken:
    return ChangeOvertaken(
        "another process has changed the workspace while this change was being prepared: this change did not happen; "
        "run the command again"
    )


def _unknown_pointer() -> WorkspaceDamaged:
    return WorkspaceDamaged(
        "current.json is not what the ledger last noted: it was changed, or a change was interrupted; run recover, and "
        "if this stays, restore it from a backup"
    )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
