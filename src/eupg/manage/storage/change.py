"""How a workspace changes, and becomes whole again after a crash.

New files are written beside the live ones; replacing the pointer is the change; then :func:`settle` deletes the files
that the pointer gave up and brings the ledger up to date. A crash before the pointer is replaced leaves stray files. A
crash after it leaves work that :func:`settle` repeats. :func:`recover` handles both.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from eupg.errors import ChangeOvertaken, ChangeUnsettled, EupgError, StoreCorrupt
from eupg.files import list_folder, remove_partials, storage_error
from eupg.killpoint import checkpoint
from eupg.manage.ledger.events import Json
from eupg.manage.requests.states import State
from eupg.manage.storage.pointer import PointerStage, note_settled, settled_number
from eupg.manage.storage.state import AnsweredAlike, WorkspaceState, answers_from_bytes
from eupg.manage.storage.store import Deleted, Store
from eupg.manage.storage.workspace import Workspace
from eupg.temporary import temporary_files_in


@dataclass(frozen=True)
class Recovered:
    """What a recovery did: the stray files it deleted, whether it completed a change, and which requests wait again."""

    deleted: tuple[Deleted, ...]
    settled: bool
    waiting: tuple[str, ...]


@contextmanager
def changing(space: Workspace, doing: str) -> Iterator[None]:
    """Hold the lock during a change; begin from a whole state, and return to one if the change fails."""
    with space.locked(doing):
        space.took_effect = False
        recover(space)
        space.adopt()
        try:
            with temporary_files_in(space.scratch):
                yield
        except Exception as error:
            if not space.took_effect and not isinstance(error, ChangeOvertaken):
                try:
                    space.check_lock()
                except ChangeOvertaken as lost:
                    # Whatever failed: the reason is that another process removed files.
                    raise lost from error
            # If even that fails, on a full disk for instance, the next change begins with it.
            with suppress(Exception):
                recover(space)
            raise


def switch(space: Workspace, state: WorkspaceState, answered: tuple[AnsweredAlike, ...] | None = None) -> None:
    """Replace the pointer, then settle what follows from it; ``answered`` is what the file of answers holds.

    If the lock was lost, another process has changed the workspace, or a file that would be live was removed, nothing
    is replaced. :class:`ChangeUnsettled` means that the pointer was replaced, and ``recover`` does what follows from
    it.
    """
    checkpoint("before the pointer")
    content = state.to_bytes()
    space.check_lock()
    # The method has handed over its files. What it left may have seen people who count as forgotten in a moment.
    _clear(space.scratch)
    with space.ledger.transaction() as transaction:
        space.pointer.prepare(state.number, content, transaction)
    checkpoint("prepared")
    try:
        # No other writer of the ledger is let in here, so the checks still hold when the pointer is replaced.
        with space.ledger.transaction() as transaction:
            space.check_lock()
            space.pointer.check_prepared(state.number, content, transaction)
            _check_written(space, state)
            space.pointer.write(content)
            space.took_effect = True
    except EupgError as error:
        # The disk or the database may also fail after the pointer was replaced.
        if space.pointer.read() != content:
            raise
        space.took_effect = True
        raise _unsettled(error) from error
    try:
        if answered is None:
            settle(space, state)
        else:
            settle(space, state, answered=answered)
    except EupgError as error:
        raise _unsettled(error) from error


def _check_written(space: Workspace, state: WorkspaceState) -> None:
    """Raise unless every file that is to be live exists: a process that removes lock files may remove others."""
    parts = ((space.store, state.live_files), (space.records.files, state.live_records))
    missing = sorted(digest for store, digests in parts for digest in digests - store.names())
    if missing:
        raise StoreCorrupt(
            f"{len(missing)} files of this change were removed while it was being prepared, first {missing[0]}: "
            "this change did not happen; find out what removes them, then run the command again"
        )


def settle(
    space: Workspace,
    state: WorkspaceState,
    content: bytes | None = None,
    *,
    answered: tuple[AnsweredAlike, ...] | None = None,
) -> None:
    """Delete the files that the pointer gave up, check that they are gone, and update the ledger; can be repeated.

    ``content`` is that of the pointer, which an earlier version may have written in another form. ``answered`` is what
    the file of answers holds; it is read where that is not given.
    """
    if answered is None:
        answered = tuple(AnsweredAlike((answer.request,), answer.details) for answer in state.answered)
        if state.answers is not None:
            answered += answers_from_bytes(space.store.read(state.answers))
    # In their order: what held people's values comes first.
    for records, files in groupby(state.given_up, key=lambda file: file.records):
        store = space.records.files if records else space.store
        store.delete_all([file.digest for file in files])
    checkpoint("before the ledger follows")
    with space.ledger.transaction() as transaction:
        if state.number <= settled_number(transaction):
            return
        change: dict[str, Json] = {"change": state.number}
        transaction.append_many((event.kind, {**event.body, **change}) for event in state.events)
        transaction.append_many(
            ("delete", {"what": file.what, "digest": file.digest, **change}) for file in state.given_up
        )
        names = [name for answer in answered for name in answer.requests]
        # If another process recovered while the lock file was gone, they wait again: they are taken up first.
        waiting = space.book.in_states(names, (State.ACCEPTED, State.FAILED))
        space.book.advance_all(waiting, State.PROCESSING)
        space.book.complete([(answer.requests, {**answer.details, **change}) for answer in answered])
        note_settled(state, transaction, content)
    checkpoint("after the ledger followed")


def recover(space: Workspace) -> Recovered:
    """Make the workspace whole after a crash; one that is whole stays as it is. The caller holds the lock."""
    space.check_lock()
    content = space.pointer.read()
    state = None if content is None else WorkspaceState.from_bytes(content)
    with space.ledger.snapshot() as snapshot:
        stage = None if content is None else space.pointer.stage(content, snapshot)
    unsettled = stage is PointerStage.PREPARED
    if not unsettled:
        # A pointer that was lost or put back must not decide which files are strays.
        space.check_pointer()
    for folder in (space.folder, space.folder / "keys"):
        if folder.is_dir():
            remove_partials(folder)
    stray = _clear(space.scratch)
    if state is not None and unsettled:
        settle(space, state, content)
    return Recovered(_collect(space, state, stray), unsettled, _release_requests(space))


def _clear(folder: Path) -> list[Deleted]:
    """Delete every file in a folder of temporary files, and the folders in it."""
    deleted = []
    for entry in list_folder(folder):
        if entry.is_dir(follow_symlinks=False):
            deleted += _clear(Path(entry.path))
            checkpoint("before a temporary folder is removed")
            try:
                os.rmdir(entry.path)
            except OSError as error:
                raise storage_error(f"cannot remove {entry.path}", error, "it is still there") from error
    return deleted + Store(folder).collect(())


def _collect(space: Workspace, state: WorkspaceState | None, stray: list[Deleted]) -> tuple[Deleted, ...]:
    """Delete every file that nothing points at, and note it."""
    space.check_lock()
    deleted = [*stray, *space.store.collect(() if state is None else state.live_files)]
    if (space.folder / "records").is_dir():
        deleted += Store(space.folder / "records").collect(() if state is None else state.live_records)
    if deleted:
        space.ledger.append_many([("delete", {"what": "unfinished file", "digest": d.digest}) for d in deleted])
    return tuple(deleted)


def _release_requests(space: Workspace) -> tuple[str, ...]:
    """Let requests wait again that were being processed: the process that did so has ended."""
    if not space.book.processing():
        return ()
    with space.ledger.transaction():
        stuck = space.book.processing()
        space.book.advance_all(stuck, State.FAILED, reason="interrupted before it was done")
    return tuple(request.id for request in stuck)


def _unsettled(error: EupgError) -> ChangeUnsettled:
    return ChangeUnsettled(
        f"the change took effect, but old files could not be deleted or the ledger could not be written ({error}): "
        "run recover to complete it"
    )
