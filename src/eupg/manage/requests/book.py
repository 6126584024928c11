"""The book of erasure requests: which ones wait for an answer, and until when.

Everything in it follows from events in the ledger. A step is checked in the same transaction in which it is written, so
of two processes that take the same step, one succeeds and the other is refused.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo

from eupg.errors import LedgerCorrupt, ParameterError, RequestRefused, UnknownRequest
from eupg.manage.ledger.events import Entry, Json
from eupg.manage.ledger.ledger import Ledger
from eupg.manage.ledger.transaction import Snapshot, Transaction, aware
from eupg.manage.requests import index
from eupg.manage.requests.batches import BATCH_KINDS, Group, batch_event, each_event, event_about, requests_in
from eupg.manage.requests.index import RequestCounts
from eupg.manage.requests.states import (
    DEFERRED,
    EXTENDED,
    KINDS,
    RECEIVED,
    REISSUED,
    REPEATED,
    UNDECIDED,
    Receipt,
    Request,
    State,
    Step,
    apply,
    check_extension,
    check_reason,
    check_step,
    fold,
    months_after,
    request_of,
    step_all,
)
from eupg.validation import is_whole


@dataclass(frozen=True)
class Received:
    """The request that a receipt led to.

    ``repeated`` is true where an earlier request for the same person or record is still open: that one is returned,
    and the ledger notes that it was asked for again.
    """

    request: Request
    repeated: bool


class RequestBook:
    """Erasure requests with their states and deadlines; days are counted in the time zone ``zone``.

    The same event of ``many`` requests or more is one entry of the ledger; by default each has its own.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Ledger(folder.name + "/ledger.db") as ledger:
    ...     book = RequestBook(ledger)
    ...     request = book.receive("person", "5e" * 16, channel="letter").request
    ...     print(book.advance(request.id, State.ACCEPTED).state, book.receive("person", "5e" * 16).repeated)
    accepted True
    >>> folder.cleanup()
    """

    def __init__(self, ledger: Ledger, *, zone: tzinfo = UTC, many: int | None = None) -> None:
        self._ledger = ledger
        self._zone = zone
        self._many = many

    def receive(self, unit: str, digest: str, *, channel: str | None = None) -> Received:
        """Receive a request; it is on disk when this returns. See :class:`Receipt` for the parameters."""
        return self.receive_many([Receipt(unit, digest, channel)])[0]

    def receive_many(self, receipts: Iterable[Receipt]) -> list[Received]:
        """Receive many requests in one transaction, all or none; return them in the same order."""
        asked = list(receipts)
        with self._ledger.transaction() as transaction:
            earlier = index.open_for(transaction.connection, asked)
            due = months_after(self._day(transaction.now), 1)
            if not earlier and self._is_many(asked) and len({(r.unit, r.digest) for r in asked}) == len(asked):
                return [Received(request, False) for request in self._receive_together(transaction, asked, due)]
            standing = {key: request.id for key, request in earlier.items()}
            events: list[tuple[str, dict[str, Json]]] = []
            for receipt in asked:
                key = receipt.unit, receipt.digest
                body: dict[str, Json] = {} if receipt.channel is None else {"channel": receipt.channel}
                if key in standing:
                    events.append((REPEATED, body | {"request": standing[key]}))
                    continue
                standing[key] = f"r-{secrets.token_hex(8)}"
                body |= {"request": standing[key], "unit": str(receipt.unit), "digest": receipt.digest}
                body["due"] = due.isoformat()
                events.append((RECEIVED, body))
            now = self._append(transaction, events)
        return [Received(request, kind == REPEATED) for request, (kind, _) in zip(now, events, strict=True)]

    def _receive_together(self, transaction: Transaction, receipts: Sequence[Receipt], due: date) -> list[Request]:
        """Receive many requests in one entry; nobody among them has another that is open."""
        names = [f"r-{token}" for token in _tokens(len(receipts))]
        groups: dict[tuple[str, str | None], list[int]] = {}
        for i, receipt in enumerate(receipts):
            groups.setdefault((receipt.unit, receipt.channel), []).append(i)
        listed = []
        for (unit, channel), members in groups.items():
            shared: dict[str, Json] = {"unit": str(unit), "due": due.isoformat()}
            shared |= {} if channel is None else {"channel": channel}
            listed.append(Group([names[i] for i in members], shared, [receipts[i].digest for i in members]))
        (entry,) = transaction.append_many([batch_event(State.RECEIVED, listed)])
        same = {"state": State.RECEIVED, "verified": False, "extended": False, "received_at": entry.at, "due": due}
        same |= {"reason": None, "first": entry.number, "last": entry.number}
        requests = [
            request_of({"id": name, "unit": r.unit, "digest": r.digest, "channel": r.channel, **same})
            for name, r in zip(names, receipts, strict=True)
        ]
        index.add(transaction.connection, requests)
        return requests

    def advance(
        self, request: str, state: State, *, reason: str | None = None, details: Mapping[str, Json] | None = None
    ) -> Request:
        """Take a request to its next state, or refuse. See :class:`Step` for the parameters."""
        return self.advance_many([Step(request, state, reason, details)])[0]

    def advance_all(self, requests: Sequence[Request], state: State, *, reason: str | None = None) -> list[Request]:
        """Take requests, as they were read in the same transaction, to the same state; if one is refused, none is."""
        known = {request.id: request for request in requests}
        if not self._is_many(requests) or len(known) < len(requests):
            return self.advance_many((Step(request.id, state, reason) for request in requests), known=known)
        shared = Step(requests[0].id, state, reason)
        with self._ledger.transaction() as transaction:
            # Refuses before anything is written.
            now = step_all(requests, state, number=transaction.head().number + 1, reason=reason)
            body: dict[str, Json] = {} if shared.reason is None else {"reason": shared.reason}
            self._step_together(transaction, state, [Group(list(known), body)], reason)
        return now

    def complete(self, answers: Sequence[tuple[Sequence[str], Mapping[str, Json]]]) -> None:
        """Complete requests that are being carried out; those who are answered alike are listed together.

        Each answer consists of the ids of requests, and of what is noted for each of them.
        """
        names = [name for requests, _ in answers for name in requests]
        with self._ledger.transaction() as transaction:
            if self._is_many(names) and len(set(names)) == len(names):
                groups = [Group(requests, {"details": dict(details)}) for requests, details in answers]
                self._step_together(transaction, State.COMPLETED, groups, None)
            else:
                steps = (Step(n, State.COMPLETED, None, details) for requests, details in answers for n in requests)
                self.advance_many(steps)

    def _step_together(
        self, transaction: Transaction, state: State, groups: Sequence[Group], reason: str | None
    ) -> None:
        """Take requests to the same state in one entry; if one of them cannot take it, undo all and say which."""
        names = [name for group in groups for name in group.requests]
        (entry,) = transaction.append_many([batch_event(state, groups)])
        if index.step(transaction.connection, names, state, number=entry.number, reason=reason) == len(names):
            return
        for name, request in self._known(transaction, names).items():
            if request.last != entry.number:
                check_step(name, request.state, state)
        raise LedgerCorrupt("the index of requests does not hold what was written to it: run verify")

    def _is_many(self, requests: Sequence[object]) -> bool:
        return self._many is not None and len(requests) >= self._many

    def advance_many(self, steps: Iterable[Step], *, known: Mapping[str, Request] | None = None) -> list[Request]:
        """Take many requests to their next states in one transaction; if one step is refused, none is taken.

        ``known`` holds the requests as they were read in the same transaction; they are not looked up again.
        """
        events: list[tuple[str, dict[str, Json]]] = []
        for step in steps:
            body: dict[str, Json] = {"request": step.request}
            body |= {} if step.reason is None else {"reason": step.reason}
            body |= {} if step.details is None else {"details": dict(step.details)}
            events.append((f"request.{step.state}", body))
        if not events:
            return []
        with self._ledger.transaction() as transaction:
            return self._append(transaction, events, known)

    def defer_many(self, requests: Iterable[str], *, reason: str) -> list[Request]:
        """Note that requests are decided later, and why; their state does not change."""
        check_reason(reason)
        with self._ledger.transaction() as transaction:
            return self._append(transaction, [(DEFERRED, {"request": name, "reason": reason}) for name in requests])

    def deferred(self) -> list[Request]:
        """Return the requests that were deferred and are still to be decided."""
        with self._ledger.snapshot() as snapshot:
            undecided = index.REQUESTS.c.state.in_([state.value for state in UNDECIDED])
            if not index.select_requests(snapshot.connection, undecided, at_most=1):
                return []
            names = dict.fromkeys(str(entry.body["request"]) for entry in snapshot.entries(kinds=[DEFERRED]))
            return [r for r in self._known(snapshot, list(names)).values() if r.state in UNDECIDED]

    def reissue(self, request: str, *, certificate: str) -> Request:
        """Note that a further certificate was issued for a request, by the certificate's digest."""
        with self._ledger.transaction() as transaction:
            return self._append(transaction, [(REISSUED, {"request": request, "certificate": certificate})])[0]

    def extend(self, request: str, *, months: int, reason: str) -> Request:
        """Extend a deadline, once, by one or two months counted from the end of the first (Art. 12(3) GDPR).

        The person who asked must be told the reason. It stays in the ledger for good, so it must not contain a personal
        value. A request that is closed, overdue, or was extended before is refused.
        """
        if not is_whole(months) or months not in (1, 2):
            raise ParameterError(f"months must be 1 or 2, got {months!r}")
        check_reason(reason)
        with self._ledger.transaction() as transaction:
            known = self.get(request)
            check_extension(known)
            if self._day(transaction.now) > known.due:
                raise RequestRefused(
                    f"request {request} was due on {known.due}: a deadline is extended before it has passed; "
                    "answer the request now"
                )
            day = self._day(datetime.fromisoformat(known.received_at))
            due = months_after(day, 1 + months).isoformat()
            return self._append(transaction, [(EXTENDED, {"request": request, "due": due, "reason": reason})])[0]

    def get(self, request: str) -> Request:
        """Return a request by its id."""
        with self._ledger.snapshot() as snapshot:
            return self._known(snapshot, [request])[request]

    def get_many(self, requests: Iterable[str]) -> dict[str, Request]:
        """Return requests by their ids."""
        with self._ledger.snapshot() as snapshot:
            return self._known(snapshot, list(requests))

    def find(self, unit: str, digest: str) -> list[Request]:
        """Return all requests for a person or record, open or closed, in the order of their receipt."""
        about = index.REQUESTS.c.unit == unit, index.REQUESTS.c.digest == digest
        with self._ledger.snapshot() as snapshot:
            return sorted(index.select_requests(snapshot.connection, *about), key=lambda request: request.first)

    def open_requests(self, *, at_most: int | None = None) -> list[Request]:
        """Return the requests that still wait for an answer, the most urgent first."""
        with self._ledger.snapshot() as snapshot:
            return index.select_requests(snapshot.connection, index.is_open(), at_most=at_most)

    def processing(self) -> list[Request]:
        """Return the requests that are being carried out."""
        with self._ledger.snapshot() as snapshot:
            return index.select_requests(snapshot.connection, index.REQUESTS.c.state == State.PROCESSING.value)

    def overdue(self, now: datetime | None = None) -> list[Request]:
        """Return all requests that should have been answered before today, the oldest deadline first."""
        with self._ledger.snapshot() as snapshot:
            return index.select_requests(snapshot.connection, index.is_overdue(self._day(now or self._ledger.now())))

    def status(self, now: datetime | None = None) -> RequestCounts:
        """Count requests by state, and those that are overdue; return the next deadline too."""
        with self._ledger.snapshot() as snapshot:
            return index.count_requests(snapshot.connection, self._day(now or self._ledger.now()))

    def history(self, request: str) -> list[Entry]:
        """Return the events of a request, in order."""
        with self._ledger.snapshot() as snapshot:
            known = self._known(snapshot, [request])[request]
            own = snapshot.naming("request", request, KINDS)
            together = snapshot.mentioning(request, BATCH_KINDS, known.first, known.last)
            return sorted(own + [event_about(entry, request) for entry in together], key=lambda entry: entry.number)

    def completed_last(self) -> str | None:
        """Return the id of a request that was completed last."""
        kinds = f"request.{State.COMPLETED}", f"requests.{State.COMPLETED}"
        with self._ledger.snapshot() as snapshot:
            entries = [entry for kind in kinds if (entry := snapshot.last(kind)) is not None]
        return None if not entries else requests_in(max(entries, key=lambda entry: entry.number))[-1]

    def in_states(self, requests: Sequence[str], states: Sequence[State]) -> list[Request]:
        """Return those of the named requests that are in one of these states."""
        with self._ledger.snapshot() as snapshot:
            return index.in_states(snapshot.connection, requests, states)

    def verify(self) -> None:
        """Fold all events and compare the index with them; :meth:`Ledger.verify` checks the events themselves."""
        with self._ledger.snapshot() as snapshot:
            index.compare(snapshot.connection, fold(_events(snapshot)))

    def rebuild(self) -> int:
        """Make the index again from the events, and return the number of requests."""
        with self._ledger.transaction() as transaction:
            requests = fold(_events(transaction))
            index.clear(transaction.connection)
            index.add(transaction.connection, requests.values())
            return len(requests)

    def _day(self, moment: datetime) -> date:
        return aware(moment).astimezone(self._zone).date()

    def _known(self, snapshot: Snapshot, names: list[str]) -> dict[str, Request]:
        known = index.by_id(snapshot.connection, names)
        for name in names:
            if name not in known:
                raise UnknownRequest(f"there is no request {name!r} in {self._ledger.name}: check the id")
        return known

    def _append(
        self,
        transaction: Transaction,
        events: Sequence[tuple[str, Mapping[str, Json]]],
        known: Mapping[str, Request] | None = None,
    ) -> list[Request]:
        """Append events and update the index; return the request of each event as it is after all of them.

        An event that its request cannot take is refused, which undoes the transaction.
        """
        names = [str(body["request"]) for _, body in events]
        received = {str(body["request"]) for kind, body in events if kind == RECEIVED}
        if known is None:
            known = self._known(transaction, [name for name in names if name not in received])
        now: dict[str, Request] = {}
        for entry in transaction.append_many(events):
            name = str(entry.body["request"])
            now[name] = apply(entry, now.get(name, known.get(name)))
        index.add(transaction.connection, (now[name] for name in now if name in received))
        index.change(transaction.connection, (now[name] for name in now if name not in received))
        return [now[name] for name in names]


def _events(snapshot: Snapshot) -> Iterator[Entry]:
    """Yield the events of all requests, in order."""
    for entry in snapshot.entries(kinds=KINDS | BATCH_KINDS):
        try:
            yield from each_event(entry)
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerCorrupt(
                f"entry {entry.number} ({entry.kind}) cannot have come from the request book: {error}"
            ) from error


def _tokens(number: int) -> list[str]:
    """Return random tokens of 16 hexadecimal digits."""
    digits = secrets.token_hex(8 * number)
    return [digits[i : i + 16] for i in range(0, 16 * number, 16)]
