"""A workspace on disk: one folder with the records, the models, the ledger and the keys of one model.

What is in the folder is compared with the ledger before it is used: the pointer, the settings and the keys.
:mod:`eupg.manage.storage.change` changes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from eupg.data.schema import Schema
from eupg.errors import ChangeOvertaken, EupgError, LockHeld, WorkspaceDamaged, WrongState
from eupg.files import list_folder, make_folder, read_if_present, write_atomically
from eupg.manage.ledger.events import Json
from eupg.manage.ledger.ledger import Ledger, utc_now
from eupg.manage.ledger.transaction import Clock
from eupg.manage.requests.book import RequestBook
from eupg.manage.storage.identity import check_key, check_settings, knows_keys, note_identity
from eupg.manage.storage.lock import WorkspaceLock
from eupg.manage.storage.pointer import Pointer, PointerStage, overtaken, settled_number, unknown_pointer
from eupg.manage.storage.settings import Settings
from eupg.manage.storage.state import WorkspaceState
from eupg.manage.storage.store import Digest, Store
from eupg.manage.storage.subjects import SubjectIndex

if TYPE_CHECKING:
    from eupg.certify.keys import SigningKey
    from eupg.data.dataset import Dataset
    from eupg.manage.storage.records import Manifest, RecordFiles
    from eupg.manage.storage.sketches import Sketch

T = TypeVar("T")
# Long enough for a look at the status, too short to queue behind a training.
_PATIENCE_S = 2.0
# How long a reader waits for a change that is taking effect: files are deleted and the ledger is written then.
_SETTLING_S = 30.0
_POLL_S = 0.02
# The same event of so many requests is one entry of the ledger.
_MANY_REQUESTS = 256


class Workspace:
    """The folder of one model: records, models, ledger and keys. It is made if it does not exist, for its owner alone.

    ``ledger`` is a database URL without a password, if the ledger is not to be a SQLite file in the folder.
    """

    def __init__(self, folder: str | Path, *, ledger: str | None = None, clock: Clock = utc_now) -> None:
        self.folder = Path(folder)
        make_folder(self.folder)
        self.pointer = Pointer(self.folder / "current.json")
        content = self._settings_file()
        self._ledger_url = ledger or (None if content is None else Settings.from_bytes(content).ledger)
        self._clock = clock
        self._records_in_memory: dict[Manifest, Dataset] = {}
        self._sketches_in_memory: dict[Digest, Sketch] = {}
        self._last_index: tuple[Digest, SubjectIndex] | None = None
        self._last_state: tuple[bytes, WorkspaceState] | None = None
        self._checked_settings: bytes | None = None
        self._lock: WorkspaceLock | None = None
        self.took_effect = False
        """Whether the change in progress has replaced the pointer."""

    @property
    def trained(self) -> bool:
        """Whether there is a model."""
        return self.pointer.read() is not None

    @property
    def in_use(self) -> bool:
        """Whether the folder holds a model or records, so that its keys and its ledger must exist."""
        folders = (self.folder / "store", self.folder / "records")
        return self.trained or any(folder.is_dir() and list_folder(folder) for folder in folders)

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger; without it, a workspace that is in use is refused."""
        if self.in_use and self._settings_file() is None:
            # They may name the place of the ledger.
            raise _settings_missing()
        return Ledger(self._ledger_url or self.folder / "ledger.db", clock=self._clock, create=not self.in_use)

    @cached_property
    def book(self) -> RequestBook:
        """The requests in the ledger."""
        return RequestBook(self.ledger, many=_MANY_REQUESTS)

    @cached_property
    def store(self) -> Store:
        """The files of the models and of the subject index."""
        return Store(self.folder / "store")

    @cached_property
    def records(self) -> RecordFiles:
        """The files of the records."""
        # Here and below, not at the top: a look at the status reads no record, and signs nothing.
        from eupg.manage.storage.records import RecordFiles

        return RecordFiles(self.folder / "records", self.schema)

    @cached_property
    def scratch(self) -> Path:
        """Where learners save a model before the store takes it."""
        make_folder(self.folder / "scratch")
        return self.folder / "scratch"

    @cached_property
    def key(self) -> bytes:
        """The secret key of the digests of ids; the one that the ledger knows."""
        from eupg.certify.keys import digest_key

        path, depends = self.folder / "keys" / "digest.key", self._depends_on_keys
        key = digest_key(path, create=not depends)
        if depends and not self._knows_key(path, key) and self.trained:
            # An earlier version made the workspace and noted no key: the records tell whether this is the right one.
            self._check_index(key)
        return key

    @cached_property
    def signing(self) -> SigningKey:
        """The key that certificates are signed with; the one that the ledger knows."""
        from eupg.certify.keys import SigningKey

        path, depends = self.folder / "keys" / "signing.key", self._depends_on_keys
        signing = SigningKey.create_or_load(path, create=not depends)
        if depends:
            self._knows_key(path, signing)
        return signing

    def _knows_key(self, path: Path, key: bytes | SigningKey) -> bool:
        """Return whether the ledger knows the keys; refuse one that is not the noted one."""
        with self.ledger.snapshot() as snapshot:
            check_key(snapshot, path, key)
            return knows_keys(snapshot)

    @property
    def _depends_on_keys(self) -> bool:
        """Whether something was ever written with the keys, here or in the ledger."""
        return self.in_use or self._settled() > 0

    @cached_property
    def settings(self) -> Settings:
        """The settings, once the ledger is found to know them."""
        content = self.check_settings() if self.trained else self._settings_file()
        if content is None:
            raise WrongState(f"{self.folder} is not a workspace yet: run train first")
        return Settings.from_bytes(content)

    @property
    def schema(self) -> Schema:
        """What the columns mean."""
        return self.settings.schema

    def agree(self, schema: Schema, method: Json, not_covered: tuple[str, ...] = ()) -> None:
        """Write the settings, once."""
        content = Settings(schema, method, not_covered, self._ledger_url).to_bytes()
        self.check_lock()
        # Keys are made now, so that the public half can be handed out before the first certificate.
        key, signing = self.key, self.signing
        with self.ledger.transaction() as transaction:
            if self.trained or settled_number(transaction):
                raise overtaken()
            note_identity(transaction, key=key, signing=signing, settings=content)
            write_atomically(self.folder / "workspace.toml", content)
        for name in ("settings", "records"):
            self.__dict__.pop(name, None)

    def adopt(self) -> None:
        """Note the keys and settings of a workspace that an earlier version made, once they are found to fit it."""
        with self.ledger.snapshot() as snapshot:
            known = knows_keys(snapshot)
        content = self._settings_file()
        if known or not self.trained or content is None:
            return
        self.check_index()
        with self.ledger.transaction() as transaction:
            note_identity(transaction, key=self.key, signing=self.signing, settings=content)

    def check_settings(self) -> bytes:
        """Compare ``workspace.toml`` with what the ledger noted when it was written, and return its content."""
        content = self._settings_file()
        if content is None:
            raise _settings_missing()
        if content != self._checked_settings:
            if self.trained:
                with self.ledger.snapshot() as snapshot:
                    check_settings(snapshot, content)
            self._checked_settings = content
        return content

    def check_pointer(self) -> None:
        """Compare the pointer with what the ledger last noted about it."""
        with self.ledger.snapshot() as snapshot:
            self.pointer.check(snapshot)

    def check_index(self) -> None:
        """Compute the index of people and records again from the records, and compare it with the stored one."""
        self._check_index(self.key)

    def _check_index(self, key: bytes) -> None:
        state = self.state()
        data, held_out = self.read(state)
        index = self.index(state)
        whole = index.is_index_of(data, held_out, key) and self._sketches_fit(state, index)
        if not whole:
            raise WorkspaceDamaged(
                "the index of people does not fit the records and the digest key: requests would miss their person; "
                "restore keys, store and records from one backup"
            )

    def _sketches_fit(self, state: WorkspaceState, index: SubjectIndex) -> bool:
        """Return whether the sketches are those of the record files, and the index knows which rows are where."""
        slots = index.slots
        for manifest, held_out in ((state.records, False), (state.held_out, True)):
            if not self.records.check_sketches(manifest, state.sidecars):
                return False
            files = [digest for digest in manifest if digest in state.sidecars]
            placed = [(state.sidecars[d][0], self.records.read_sketch(state.sidecars[d][1]).rows) for d in files]
            if any((slots[rows] != slot).any() for slot, rows in placed):
                return False
            if state.sketched:
                rows = np.sort(np.concatenate([np.empty(0, np.uint32), *(rows for _, rows in placed)]))
                if not np.array_equal(rows, index.rows_left(held_out=held_out)):
                    return False
        return True

    def state(self) -> WorkspaceState:
        """Return what is live, once the ledger is found to know it and the settings it was made with."""
        content = self.pointer.read()
        if content is None:
            if self._settings_file() is not None and self._settled():
                raise WorkspaceDamaged(
                    "current.json is missing, and the ledger knows of a trained model: restore it from a backup"
                )
            raise WrongState(f"{self.folder} holds no trained model: run train first")
        self.check_settings()
        if self._last_state is None or self._last_state[0] != content:
            state = WorkspaceState.from_bytes(content)
            with self.ledger.snapshot() as snapshot:
                known = self.pointer.stage(content, snapshot) is not None
            if not known:
                # It may have been replaced between the two looks.
                if self.pointer.read() == content:
                    raise unknown_pointer()
                return self.state()
            self._last_state = (content, state)
        state = self._last_state[1]
        # People whom another process has forgotten do not stay in the memory of this one.
        live = (state.records, state.held_out)
        self._records_in_memory = {part: data for part, data in self._records_in_memory.items() if part in live}
        if self._sketches_in_memory.keys() - state.sketches:
            self._sketches_in_memory = {d: s for d, s in self._sketches_in_memory.items() if d in state.sketches}
        return state

    def index(self, state: WorkspaceState) -> SubjectIndex:
        """Return the index of everyone ever taken in; a digest always names the same one, so the last stays loaded."""
        if self._last_index is None or self._last_index[0] != state.index:
            columns = None if state.columns is None else self.store.place(state.columns)
            index = SubjectIndex.from_files(self.store.read(state.index), columns)
            self._last_index = (state.index, index)
        return self._last_index[1]

    def remember_index(self, digest: Digest, index: SubjectIndex) -> None:
        """Keep an index that was just stored."""
        self._last_index = (digest, index)

    def sketches(self, manifest: Manifest, state: WorkspaceState) -> dict[Digest, Sketch]:
        """Return the sketches of these record files; those of live files stay in memory."""
        wanted = {digest: state.sidecars[digest][1] for digest in manifest}
        known = self._sketches_in_memory
        self._sketches_in_memory = {
            sketch: known[sketch] if sketch in known else self.records.read_sketch(sketch) for sketch in wanted.values()
        }
        return {digest: self._sketches_in_memory[sketch] for digest, sketch in wanted.items()}

    def read(self, state: WorkspaceState) -> tuple[Dataset, Dataset]:
        """Return the records in training and those held out; they stay in memory, and nothing else does."""
        return self._read(state.records), self._read(state.held_out)

    def read_held_out(self, state: WorkspaceState) -> Dataset:
        """Return the records held out alone."""
        return self._read(state.held_out)

    def _read(self, manifest: Manifest) -> Dataset:
        if manifest not in self._records_in_memory:
            self._records_in_memory[manifest] = self.records.read(manifest)
        return self._records_in_memory[manifest]

    def remember(self, state: WorkspaceState, data: Dataset, held_out: Dataset) -> None:
        """Keep the live records in memory, and nothing of the earlier ones."""
        self._records_in_memory = {state.records: data, state.held_out: held_out}

    @contextmanager
    def locked(self, doing: str) -> Iterator[None]:
        """Hold the lock; wait a moment for another owner, but not for a training."""
        with WorkspaceLock(self.folder / "lock", doing=doing, timeout_s=_PATIENCE_S) as lock:
            self._lock = lock
            try:
                yield
            finally:
                self._lock = None

    @property
    def holds_lock(self) -> bool:
        """Whether this thread holds the lock that others see."""
        return self._lock is not None and self._lock.is_held()

    def check_lock(self) -> None:
        """Raise unless this thread still holds the lock that others see."""
        if not self.holds_lock:
            raise ChangeOvertaken(
                f"the lock file of {self.folder} was removed or replaced while a change was in progress, so another "
                "process may have changed the workspace: this change did not happen; find out what removes the file, "
                "then run the command again"
            )

    @contextmanager
    def at_rest(self) -> Iterator[bool]:
        """Return whether nobody else changes the workspace; while the block runs, nobody can begin to."""
        with ExitStack() as stack:
            resting = True
            if not self.holds_lock:
                try:
                    stack.enter_context(WorkspaceLock(self.folder / "lock", shared=True))
                except LockHeld:
                    resting = False
            yield resting

    def consistently(self, look: Callable[[], T]) -> T:
        """Look at several parts of the workspace that belong together, also while another process changes it.

        A change deletes files that were live a moment before. If a look fails and the workspace has changed meanwhile,
        or a change is taking effect, the look is repeated; an error that stays is raised.
        """
        until = time.monotonic() + _SETTLING_S
        while True:
            before = self._version()
            try:
                return look()
            except EupgError:
                changed = self._version() != before
                if not changed and not self._taking_effect() and self._version() == before:
                    raise
                if time.monotonic() > until:
                    raise
            time.sleep(_POLL_S)

    def _version(self) -> tuple[bytes | None, int]:
        """Return what differs after every change of the workspace."""
        return self.pointer.read(), self._settled()

    def _taking_effect(self) -> bool:
        """Return whether a change by another process has replaced the pointer and not settled yet."""
        content = self.pointer.read()
        with self.ledger.snapshot() as snapshot:
            if content is None or self.pointer.stage(content, snapshot) is not PointerStage.PREPARED:
                return False
        with self.at_rest() as resting:
            return not resting

    def _settled(self) -> int:
        with self.ledger.snapshot() as snapshot:
            return settled_number(snapshot)

    def _settings_file(self) -> bytes | None:
        return read_if_present(self.folder / "workspace.toml")

    def close(self) -> None:
        """Release the database, and the records in memory."""
        self._records_in_memory, self._sketches_in_memory = {}, {}
        if "ledger" in self.__dict__:
            self.ledger.close()


def _settings_missing() -> WorkspaceDamaged:
    return WorkspaceDamaged("workspace.toml is missing from a workspace that is in use: restore it from a backup")
