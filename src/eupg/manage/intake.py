"""Requests come in: by person or by record, one or ten thousand, noted by keyed digest before anything else happens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from eupg.errors import EupgError, LockHeld, RequestRefused
from eupg.manage.killpoint import checkpoint
from eupg.manage.lock import WorkspaceLock
from eupg.manage.request_states import UNDECIDED, Receipt, Request, State, Step
from eupg.manage.roll import person_digest, record_digest
from eupg.manage.workspace import Workspace

_UNDER_WAY = "the records are being changed right now: this is decided once that has settled"


def receive(
    space: Workspace, subjects: Iterable[str], records: Iterable[str], *, channel: str | None = None
) -> list[Request]:
    """Take requests, people first, then records, in one transaction; they are on disk when this returns."""
    receipts = [Receipt("person", person_digest(space.key, str(s)), channel) for s in subjects]
    receipts += [Receipt("record", record_digest(space.key, str(r)), channel) for r in records]
    received = [r.request for r in space.book.receive_many(receipts)]
    checkpoint("requests received")
    return received


def accept(space: Workspace, requests: Sequence[Request]) -> list[Request]:
    """Accept requests that wait; those about nobody here are rejected, and say so.

    While another process changes the records, somebody unknown may be just coming in: such a request is deferred.
    """
    waiting = list({r.id: r for r in requests if r.state in UNDECIDED}.values())
    # Inside a transaction of the ledger the pointer is not replaced: what is found here holds until it ends.
    with space.ledger.transaction():
        roll = space.roll(space.current())
        # Where no column names people, each record counts as one, and who asks by a person's name would seem unknown.
        nameless = space.schema.subject is None and roll.nameless
        known: list[Request] = []
        unknown: list[Request] = []
        for request, rows in roll.asked_for(waiting):
            if nameless and request.unit == "person" and not len(rows):
                raise RequestRefused(
                    "no column names people here, so a request by a person's name finds nobody: ask by record, or "
                    "train anew with the column that names the person"
                )
            (unknown if roll.gone[rows].all() else known).append(request)
        now = space.book.advance_many(Step(r.id, State.ACCEPTED) for r in known) + _without_records(space, unknown)
    checkpoint("requests accepted")
    decided = {r.id: r for r in now}
    return [decided.get(r.id, r) for r in requests]


def _without_records(space: Workspace, requests: Sequence[Request]) -> list[Request]:
    """Reject requests about somebody who is not here, unless they may be coming in at this moment."""
    if not requests:
        return []
    with _settled(space) as settled:
        if not settled:
            return space.book.defer_many([r.id for r in requests], reason=_UNDER_WAY)
        return space.book.advance_many(
            Step(r.id, State.REJECTED, f"no record of this {r.unit} is held here") for r in requests
        )


@contextmanager
def changing(space: Workspace, doing: str) -> Iterator[None]:
    """Change a workspace, and decide the requests that have to wait for that, whether the change succeeds or not."""
    try:
        with space.changing(doing):
            decide_deferred(space)
            yield
    finally:
        # After the lock was released: until then requests are deferred. What cannot be decided now, since another
        # change has begun or the disk is full, is decided with the next change.
        with suppress(EupgError):
            decide_deferred(space)


def decide_deferred(space: Workspace) -> None:
    """Decide the requests that came while the records were being changed."""
    # Whoever found the lock held before it was released has noted so by the time this transaction begins.
    with space.ledger.transaction():
        deferred = space.book.deferred()
        if deferred and space.trained:
            accept(space, deferred)


@contextmanager
def _settled(space: Workspace) -> Iterator[bool]:
    """Tell whether no other process changes the records, and keep it so meanwhile."""
    with ExitStack() as stack:
        settled = True
        if not space.holds_lock:
            try:
                stack.enter_context(WorkspaceLock(space.folder / "lock", shared=True))
            except LockHeld:
                settled = False
        yield settled
