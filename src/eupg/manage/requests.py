"""The book of erasure requests: who waits for an answer, and until when.

Everything in it is told by events in the ledger. What is allowed is checked in the same transaction in which it is
written, so of two processes that want to take the same step, one does and the other is told so.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo

from sqlalchemy import select

from eupg.errors import ParameterError, RequestRefused, UnknownRequest
from eupg.manage import request_index as index
from eupg.manage.events import Entry, Json
from eupg.manage.ledger import Ledger
from eupg.manage.request_index import Status
from eupg.manage.request_states import (
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
    check_undecided,
    fold,
    months_after,
)
from eupg.manage.transaction import ENTRIES, Snapshot, Transaction, aware, entry_of
from eupg.validation import is_whole


@dataclass(frozen=True)
class Received:
    """What became of a receipt.

    Parameters
    ----------
    request
        The request that now stands for it.
    repeated
        True where an earlier request for the same person or record is still open: that one stands, and the ledger
        notes that it was asked for again.
    """

    request: Request
    repeated: bool


class RequestBook:
    """Erasure requests, each taken through its states, with its deadline.

    Parameters
    ----------
    ledger
        Where the events are written.
    zone
        The time zone in which days are counted: a request belongs to the day it has there.

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

    def __init__(self, ledger: Ledger, *, zone: tzinfo = UTC) -> None:
        self._ledger = ledger
        self._zone = zone

    def receive(self, unit: str, digest: str, *, channel: str | None = None) -> Received:
        """Take a request; it is on disk when this returns. See :class:`Receipt` for the parameters."""
        return self.receive_many([Receipt(unit, digest, channel)])[0]

    def receive_many(self, receipts: Iterable[Receipt]) -> list[Received]:
        """Take many requests in one transaction: all or none, answered in their order."""
        asked = list(receipts)
        with self._ledger.transaction() as transaction:
            earlier = index.open_for(transaction.connection, asked)
            standing = {key: request.id for key, request in earlier.items()}
            due = months_after(self._day(transaction.now), 1).isoformat()
            events: list[tuple[str, dict[str, Json]]] = []
            for receipt in asked:
                key = receipt.unit, receipt.digest
                body: dict[str, Json] = {} if receipt.channel is None else {"channel": receipt.channel}
                if key in standing:
                    events.append((REPEATED, body | {"request": standing[key]}))
                    continue
                standing[key] = f"r-{secrets.token_hex(8)}"
                body |= {"request": standing[key], "unit": str(receipt.unit), "digest": receipt.digest, "due": due}
                events.append((RECEIVED, body))
            now = self._note(transaction, events, {request.id: request for request in earlier.values()})
        return [Received(now[str(body["request"])], kind == REPEATED) for kind, body in events]

    def advance(
        self, request: str, state: State, *, reason: str | None = None, details: Mapping[str, Json] | None = None
    ) -> Request:
        """Take a request to its next state. See :class:`Step` for the parameters.

        Raises
        ------
        RequestRefused
            If the request cannot go there from where it is.
        """
        return self.advance_many([Step(request, state, reason, details)])[0]

    def advance_many(self, steps: Iterable[Step]) -> list[Request]:
        """Take many requests to their next states in one transaction: all or, if one step is not allowed, none."""
        taken = list(steps)
        with self._ledger.transaction() as transaction:
            known = self._known(transaction, [step.request for step in taken])
            states = {name: request.state for name, request in known.items()}
            events: list[tuple[str, dict[str, Json]]] = []
            for step in taken:
                check_step(step.request, states[step.request], step.state)
                states[step.request] = step.state
                body: dict[str, Json] = {"request": step.request}
                body |= {} if step.reason is None else {"reason": step.reason}
                body |= {} if step.details is None else {"details": dict(step.details)}
                events.append((f"request.{step.state}", body))
            now = self._note(transaction, events, known)
        return [now[step.request] for step in taken]

    def defer_many(self, requests: Iterable[str], *, reason: str) -> list[Request]:
        """Note that requests are decided later, and why; they stay as they are."""
        check_reason(reason)
        return self._note_each([(name, DEFERRED, {"reason": reason}) for name in requests], check_undecided)

    def deferred(self) -> list[Request]:
        """Return the requests that were deferred and are still to be decided."""
        with self._ledger.snapshot() as snapshot:
            names = dict.fromkeys(str(entry.body["request"]) for entry in snapshot.entries(kinds=[DEFERRED]))
            return [r for r in self._known(snapshot, list(names)).values() if r.state in UNDECIDED]

    def reissue(self, request: str, *, certificate: str) -> Request:
        """Note that a further certificate was issued for a request, by the certificate's digest."""
        return self._note_each([(request, REISSUED, {"certificate": certificate})])[0]

    def _note_each(
        self, events: list[tuple[str, str, dict[str, Json]]], check: Callable[[Request], None] | None = None
    ) -> list[Request]:
        with self._ledger.transaction() as transaction:
            known = self._known(transaction, [name for name, _, _ in events])
            if check is not None:
                for request in known.values():
                    check(request)
            now = self._note(transaction, [(kind, {"request": name, **body}) for name, kind, body in events], known)
        return [now[name] for name, _, _ in events]

    def extend(self, request: str, *, months: int, reason: str) -> Request:
        """Extend a deadline, once, by one or two months counted from the end of the first (Art. 12(3) GDPR).

        Parameters
        ----------
        request
            The request's id.
        months
            1 or 2.
        reason
            Why, in up to 500 characters; whoever asked is to be told. It stays in the ledger for good, so it must not
            hold a personal value.

        Raises
        ------
        RequestRefused
            If the request is answered, was extended before, or is overdue.
        """
        if not is_whole(months) or months not in (1, 2):
            raise ParameterError(f"a deadline is extended by 1 or 2 months, got {months!r}")
        check_reason(reason)
        with self._ledger.transaction() as transaction:
            known = self._known(transaction, [request])
            check_extension(known[request])
            if self._day(transaction.now) > known[request].due:
                raise RequestRefused(
                    f"request {request} was due on {known[request].due}: a deadline is extended before it has passed; "
                    "answer the request now"
                )
            day = self._day(datetime.fromisoformat(known[request].received_at))
            due = months_after(day, 1 + months).isoformat()
            body: dict[str, Json] = {"request": request, "due": due, "reason": reason}
            return self._note(transaction, [(EXTENDED, body)], known)[request]

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
        """Return the requests that still wait for an answer, the most urgent first; all, or the first few."""
        with self._ledger.snapshot() as snapshot:
            return index.select_requests(snapshot.connection, index.is_open(), at_most=at_most)

    def overdue(self, now: datetime | None = None) -> list[Request]:
        """Return all requests that should have been answered before today, the oldest deadline first."""
        with self._ledger.snapshot() as snapshot:
            return index.select_requests(snapshot.connection, index.is_overdue(self._day(now or self._ledger.now())))

    def status(self, now: datetime | None = None) -> Status:
        """Count requests by state, and tell how many are overdue and what is due next."""
        with self._ledger.snapshot() as snapshot:
            return index.count_requests(snapshot.connection, self._day(now or self._ledger.now()))

    def history(self, request: str) -> list[Entry]:
        """Return the events of a request, in order."""
        with self._ledger.snapshot() as snapshot:
            known = self._known(snapshot, [request])[request]
            # Bodies are canonical, so the id stands in them in exactly this form.
            found = select(ENTRIES).where(
                ENTRIES.c.number.between(known.first, known.last),
                ENTRIES.c.kind.in_(KINDS),
                ENTRIES.c.body.contains(f'"request":"{request}"', autoescape=True),
            )
            entries = map(entry_of, snapshot.connection.execute(found.order_by(ENTRIES.c.number)))
            return [entry for entry in entries if entry.body.get("request") == request]

    def verify(self) -> None:
        """Fold all events and compare the index with them; return nothing or raise.

        The events themselves are checked by :meth:`Ledger.verify`.

        Raises
        ------
        LedgerCorrupt
            Naming the request on which the index and the events disagree, or an event that no request could have.
        """
        with self._ledger.snapshot() as snapshot:
            index.compare(snapshot.connection, fold(snapshot.entries(kinds=KINDS)))

    def rebuild(self) -> int:
        """Make the index again from the events, and return the number of requests."""
        with self._ledger.transaction() as transaction:
            told = fold(transaction.entries(kinds=KINDS))
            index.clear(transaction.connection)
            index.add(transaction.connection, told.values())
            return len(told)

    def _day(self, moment: datetime) -> date:
        return aware(moment).astimezone(self._zone).date()

    def _known(self, snapshot: Snapshot, names: list[str]) -> dict[str, Request]:
        known = index.by_id(snapshot.connection, names)
        for name in names:
            if name not in known:
                raise UnknownRequest(f"there is no request {name!r} in {self._ledger.name}: check the id")
        return known

    def _note(
        self, transaction: Transaction, events: list[tuple[str, dict[str, Json]]], known: Mapping[str, Request]
    ) -> dict[str, Request]:
        """Append events and bring the index up to them; return every request concerned as it is now."""
        now: dict[str, Request] = {}
        for entry in transaction.append_many(events):
            name = str(entry.body["request"])
            now[name] = apply(entry, now.get(name, known.get(name)))
        index.add(transaction.connection, (request for name, request in now.items() if name not in known))
        index.change(transaction.connection, (request for name, request in now.items() if name in known))
        return now
