"""How requests come in: by person or by record, one or ten thousand, noted by keyed digest before anything else."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from eupg.errors import EupgError, NobodyNamed
from eupg.killpoint import checkpoint
from eupg.manage.requests.states import UNDECIDED, Receipt, Request, State
from eupg.manage.storage import change
from eupg.manage.storage.subjects import person_digests, record_digests
from eupg.manage.storage.workspace import Workspace
from eupg.progress import SILENT, Logged

_IN_PROGRESS = "the records are being changed right now: this is decided once that has settled"


# So many requests are one transaction at most; between two, other writers are let in.
_AT_ONCE = 2000
_LET_OTHERS_IN_S = 0.01
# A writer waits for others this share of the time that the last write took.
_PATIENCE = 0.5


@dataclass(eq=False)
class _Call:
    """What one thread asks for, and what became of it."""

    receipts: list[Receipt]
    accept: bool
    result: list[Request] | None = None
    error: BaseException | None = None
    called: threading.Event = field(default_factory=threading.Event)

    @property
    def done(self) -> bool:
        return self.result is not None or self.error is not None


class Intake:
    """Takes in requests, those of several threads in one transaction.

    The disk is asked once for all who wait: one of the waiting threads writes for the others, and then leaves that to
    the next. Where threads ask again and again, the writer first waits for those who were just answered, for a fraction
    of the time that a write takes: otherwise two halves would take turns. Every request is on disk when its call
    returns.
    """

    def __init__(self, space: Workspace) -> None:
        self._space = space
        self._guard = threading.Lock()
        self._arrived = threading.Condition(self._guard)
        self._waiting: list[_Call] = []
        self._writing = False
        # How many calls were there at once a moment ago, and how long the writer waits for as many again.
        self._expected = 1
        self._patience_s = 0.0

    def take_in(
        self, subjects: Iterable[str], records: Iterable[str], *, channel: str | None, accept: bool
    ) -> list[Request]:
        """Receive requests, people first, then records, and decide on them with ``accept``.

        Up to two thousand are taken in together or not at all. More are taken in in parts of that size, so that others
        who write are let in between; if one part fails, those before it stay.
        """
        key = self._space.key
        receipts = [Receipt("person", digest, channel) for digest in person_digests(key, map(str, subjects))]
        receipts += [Receipt("record", digest, channel) for digest in record_digests(key, map(str, records))]
        taken: list[Request] = []
        for start in range(0, max(1, len(receipts)), _AT_ONCE):
            if start:
                time.sleep(_LET_OTHERS_IN_S)
            taken += self._together(_Call(receipts[start : start + _AT_ONCE], accept))
        return taken

    def _together(self, call: _Call) -> list[Request]:
        if self._space.ledger.in_transaction:
            # Whoever holds one decides when it ends.
            return self._take_in([call])[0]
        with self._guard:
            self._waiting.append(call)
            self._arrived.notify_all()
            writes, self._writing = not self._writing, True
        if not writes:
            call.called.wait()
        if not call.done:
            self._write_for_all()
        if call.error is not None:
            raise call.error
        return call.result or []

    def _write_for_all(self) -> None:
        """Write for all who wait, and name the next who does."""
        with self._guard:
            self._arrived.wait_for(lambda: len(self._waiting) >= self._expected, self._patience_s)
            calls: list[_Call] = []
            size = 0
            while self._waiting and (not calls or size + len(self._waiting[0].receipts) <= _AT_ONCE):
                calls.append(self._waiting.pop(0))
                size += len(calls[-1].receipts)
        started = time.perf_counter()
        try:
            self._answer(calls)
        finally:
            with self._guard:
                self._expected = len(calls) + len(self._waiting)
                self._patience_s = min(_PATIENCE * (time.perf_counter() - started), _LET_OTHERS_IN_S)
                following = self._waiting[0] if self._waiting else None
                self._writing = following is not None
            for call in calls:
                call.called.set()
            if following is not None:
                following.called.set()

    def _answer(self, calls: list[_Call]) -> None:
        try:
            for call, result in zip(calls, self._take_in(calls), strict=True):
                call.result = result
        except BaseException as error:
            if len(calls) == 1 or not isinstance(error, Exception):
                for call in calls:
                    call.error = error
                return
            # One of them was refused, and all were undone: each alone, so that only that one is.
            for call in calls:
                self._answer([call])

    def _take_in(self, calls: list[_Call]) -> list[list[Request]]:
        """Receive the requests of some calls in one transaction, and decide on those that are to be decided."""
        space = self._space
        space.state()
        with space.ledger.transaction():
            received = [r.request for r in space.book.receive_many(r for call in calls for r in call.receipts)]
            checkpoint("requests received")
            ends = list(accumulate(len(call.receipts) for call in calls))
            parts = [received[end - len(call.receipts) : end] for call, end in zip(calls, ends, strict=True)]
            decided = accept(space, [r for call, part in zip(calls, parts, strict=True) if call.accept for r in part])
            now = {request.id: request for request in decided}
            return [[now.get(r.id, r) for r in part] for part in parts]


def accept(space: Workspace, requests: Sequence[Request]) -> list[Request]:
    """Accept requests that wait; those about nobody here are rejected with that reason.

    While another process changes the records, it may be adding somebody who is unknown here: such a request is
    deferred.
    """
    waiting = list({r.id: r for r in requests if r.state in UNDECIDED}.values())
    if not waiting:
        return list(requests)
    # The pointer is not replaced inside a transaction of the ledger: what is found here holds until it ends.
    with space.ledger.transaction():
        index = space.index(space.state())
        # Where no column names people, each record counts as one, and a person's name would find nobody.
        nameless = space.schema.subject is None and index.nameless
        known: list[Request] = []
        unknown: list[Request] = []
        rows, which = index.rows_asked_for(waiting)
        ever = np.bincount(which, minlength=len(waiting)).tolist()
        held = np.bincount(which[~index.gone_at(rows)], minlength=len(waiting)).tolist()
        for request, once, here in zip(waiting, ever, held, strict=True):
            if nameless and request.unit == "person" and not once:
                raise NobodyNamed(
                    "no column names people here, so a request by a person's name finds nobody: ask by record, or "
                    "train a new workspace with the column that names the person"
                )
            (known if here else unknown).append(request)
        decided = space.book.advance_all(known, State.ACCEPTED)
        decided += _reject_unknown(space, unknown)
    checkpoint("requests accepted")
    now = {r.id: r for r in decided}
    return [now.get(r.id, r) for r in requests]


def not_held(unit: str) -> str:
    """Return the reason for which a request about nobody here is rejected."""
    return f"no record of this {unit} is held here"


def _reject_unknown(space: Workspace, requests: Sequence[Request]) -> list[Request]:
    """Reject requests about somebody who is not here, unless a change in progress may be adding them."""
    if not requests:
        return []
    with space.at_rest() as resting:
        if not resting:
            return space.book.defer_many([r.id for r in requests], reason=_IN_PROGRESS)
        units = sorted({r.unit for r in requests})
        parts = [[r for r in requests if r.unit == unit] for unit in units]
        rejected = [
            space.book.advance_all(part, State.REJECTED, reason=not_held(unit))
            for unit, part in zip(units, parts, strict=True)
        ]
        return [request for part in rejected for request in part]


@contextmanager
def changing(space: Workspace, doing: str) -> Iterator[None]:
    """Change a workspace, and decide the requests that wait for that, whether the change succeeds or not."""
    try:
        with Logged(SILENT).step(f"change of the workspace ({doing})"), change.changing(space, doing):
            decide_deferred(space)
            yield
    finally:
        # After the lock was released: until then requests are deferred. If they cannot be decided now, because another
        # change has begun or the disk is full, they are decided with the next change.
        with suppress(EupgError):
            decide_deferred(space)


def decide_deferred(space: Workspace) -> None:
    """Decide the requests that came while the records were being changed."""
    # A process that found the lock held before it was released has noted so by the time this transaction begins.
    with space.ledger.transaction():
        deferred = space.book.deferred()
        if deferred and space.trained:
            accept(space, deferred)
