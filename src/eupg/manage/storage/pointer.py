"""The pointer ``current.json``: the file whose replacement is a change, compared with what the ledger knows about it.

The ledger notes every pointer before it is live (``prepare``), and again once everything that follows from it is done
(``current``). The pointer is replaced inside a write transaction of the ledger, and only if it is still the one that
the change began from. So of two processes that both believe they hold the lock, one succeeds and the other is told.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from eupg.errors import ChangeOvertaken, WorkspaceDamaged
from eupg.files import read_if_present, write_atomically
from eupg.manage.ledger.transaction import Snapshot, Transaction
from eupg.manage.storage.state import WorkspaceState

_PREPARED, SETTLED = "prepare", "current"


class PointerStage(Enum):
    """How far the change behind a pointer has come: announced, or everything done that follows from it."""

    PREPARED = "prepared"
    SETTLED = "settled"


@dataclass(frozen=True)
class Pointer:
    """The file that names everything that is live."""

    path: Path

    def read(self) -> bytes | None:
        """Return its content, or None where nothing is trained."""
        return read_if_present(self.path)

    def stage(self, content: bytes, snapshot: Snapshot) -> PointerStage | None:
        """Return how far the change behind a pointer has come; None if the ledger does not know the pointer."""
        settled, prepared = snapshot.last(SETTLED), snapshot.last(_PREPARED)
        digest, following = _digest(content), settled_number(snapshot) + 1
        if settled is not None and settled.body["digest"] == digest:
            return PointerStage.SETTLED
        if prepared is not None:
            known = prepared.body["change"] == following and prepared.body["digest"] == digest
        else:
            # The first versions did not announce a pointer: one that follows the settled one was interrupted. One
            # that follows nothing may belong to a ledger that was lost.
            known = settled is not None and WorkspaceState.from_bytes(content).number == following
        return PointerStage.PREPARED if known else None

    def check(self, snapshot: Snapshot) -> None:
        """Raise unless the pointer is the one that settled last."""
        settled, content = snapshot.last(SETTLED), self.read()
        noted = None if settled is None else settled.body["digest"]
        if noted != (None if content is None else _digest(content)):
            raise unknown_pointer()

    def prepare(self, number: int, content: bytes, transaction: Transaction) -> None:
        """Announce the pointer of the change of this number to the ledger."""
        self._check_follows(number, transaction)
        transaction.append_many([(_PREPARED, {"change": number, "digest": _digest(content)})])

    def check_prepared(self, number: int, content: bytes, snapshot: Snapshot) -> None:
        """Raise if another change came first."""
        self._check_follows(number, snapshot)
        prepared = snapshot.last(_PREPARED)
        if prepared is None or prepared.body["digest"] != _digest(content):
            raise overtaken()

    def write(self, content: bytes) -> None:
        """Replace the pointer: this is the change."""
        write_atomically(self.path, content)

    def _check_follows(self, number: int, snapshot: Snapshot) -> None:
        """Raise unless the pointer is still the settled one that a change began from."""
        if settled_number(snapshot) != number - 1:
            raise overtaken()
        try:
            self.check(snapshot)
        except WorkspaceDamaged:
            raise overtaken() from None


def settled_number(snapshot: Snapshot) -> int:
    """Return the number of the change that settled last; 0 before the first."""
    settled = snapshot.last(SETTLED)
    return 0 if settled is None else int(str(settled.body["change"]))


def note_settled(state: WorkspaceState, transaction: Transaction, content: bytes | None = None) -> None:
    """Note that everything is done that follows from a change, whose pointer may have this content."""
    digest = _digest(state.to_bytes() if content is None else content)
    transaction.append_many([(SETTLED, {"change": state.number, "digest": digest})])


def overtaken() -> ChangeOvertaken:
    """Return the error of a change that another one came before."""
    return ChangeOvertaken(
        "another process has changed the workspace while this change was being prepared: this change did not happen; "
        "run the command again"
    )


def unknown_pointer() -> WorkspaceDamaged:
    """Return the error of a pointer that the ledger does not know."""
    return WorkspaceDamaged(
        "current.json is not what the ledger last noted: it was changed, or a change was interrupted; run recover, and "
        "if this stays, restore it from a backup"
    )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
