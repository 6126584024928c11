"""The use cases around a request: what the API, the pages and the adapters all call.

Nothing here looks anybody up. Whether a person is held is found out by the worker, so an answer is the same, in words
and in time, for everybody.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from sqlalchemy import Connection, Select, and_, insert, or_, select, update

from eupg.errors import AccessDenied, ParameterError, RequestRefused, UnknownRequest
from eupg.manage.ledger.events import Entry, Json
from eupg.manage.ledger.transaction import Transaction
from eupg.manage.requests.index import REQUESTS, RequestCounts, is_open
from eupg.manage.requests.states import UNDECIDED, Receipt, Request, State, Step, check_reason, check_step
from eupg.service.access import Actor, Permission
from eupg.service.database import CASES, IDEMPOTENCY, PARTS, TRAIL, Act, ServiceDatabase
from eupg.service.disclosure import as_owner_sees, states_behind
from eupg.service.outbox import Outbox, Subscription
from eupg.service.sealing import Seal
from eupg.validation import check_whole

_ID = re.compile(r"r-?[0-9a-f]*$")
_KIND = re.compile(r"[a-z][a-z0-9_]{0,39}")
_IDEMPOTENCY_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_LONGEST_IDENTIFIER = 500
_MOST_IDENTIFIERS = 10
_MOST_PER_PAGE = 200
_CLOSED = tuple(state for state in State if not state.is_open)


@dataclass(frozen=True)
class NewRequest:
    """A request as it comes in.

    Parameters
    ----------
    identities
        How the person is named, by kind of identifier, such as ``{"subject": "125024"}``. Each workspace uses the kind
        that it names people by.
    channel
        How the request came, in lower-case letters, such as ``letter``; nothing personal.
    source
        Which part of the service took it: ``api``, ``form``, ``page`` or the name of an adapter.
    idempotency_key
        The caller's own name for this call. The same key with the same content returns the same request.
    subscriptions
        Where to tell about changes of the request.
    """

    identities: Mapping[str, str]
    channel: str | None = None
    source: str = "api"
    idempotency_key: str | None = None
    subscriptions: tuple[Subscription, ...] = ()

    def __post_init__(self) -> None:
        # No value is repeated in a message: it names a person.
        if not 1 <= len(self.identities) <= _MOST_IDENTIFIERS:
            raise ParameterError(f"a request needs 1 to {_MOST_IDENTIFIERS} identifiers, got {len(self.identities)}")
        for kind, value in self.identities.items():
            if not _KIND.fullmatch(kind):
                raise ParameterError("the kind of an identifier consists of up to 40 letters a-z, digits and _")
            if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST_IDENTIFIER:
                raise ParameterError(f"identifier {kind} must be a text of 1 to {_LONGEST_IDENTIFIER} characters")
            if not value.isprintable():
                raise ParameterError(f"identifier {kind} holds control characters or half a character: remove them")
        # Checks the channel.
        Receipt("person", "0" * 32, self.channel)
        if self.idempotency_key is not None and not _IDEMPOTENCY_KEY.fullmatch(self.idempotency_key):
            raise ParameterError("an idempotency key consists of 1 to 255 visible ASCII characters")


@dataclass(frozen=True)
class CasePart:
    """What became of a request in one workspace.

    ``state`` is ``waiting``, ``erased``, ``nothing held``, ``not searchable`` or ``failed``.
    """

    workspace: str
    state: str
    request: str | None = None
    reason: str | None = None
    certificate: str | None = None


@dataclass(frozen=True)
class Case:
    """A request, as the service knows it.

    Parameters
    ----------
    request
        Its id, state and deadline.
    owner
        The account that filed it.
    source
        Which part of the service took it.
    approved_by
        The account of the first of two people who accepted it, while it is open.
    parts
        What became of it in each workspace; empty for those who may not see it, and before the worker has begun.
    tries
        How often the worker tried.
    """

    request: Request
    owner: str
    source: str
    approved_by: str | None = None
    parts: tuple[CasePart, ...] = ()
    tries: int = 0

    @property
    def awaits_second_person(self) -> bool:
        """Whether one person has accepted it, and another one has to."""
        return self.approved_by is not None and self.request.state in UNDECIDED


@dataclass(frozen=True)
class Created:
    """A request that was created, or the earlier one that the same call had created."""

    case: Case
    replayed: bool


@dataclass(frozen=True)
class RequestSearch:
    """Which requests to list.

    ``text`` is the beginning of a request's id, or the whole identifier of a person. ``order`` is ``due`` for the most
    urgent first, or ``newest``.
    """

    states: tuple[State, ...] = ()
    open: bool | None = None
    overdue: bool = False
    channel: str | None = None
    owner: str | None = None
    text: str | None = None
    order: str = "newest"
    cursor: str | None = None
    limit: int = 50

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= _MOST_PER_PAGE:
            raise ParameterError(f"limit must be 1 to {_MOST_PER_PAGE}, got {self.limit}")
        if self.order not in ("newest", "due"):
            raise ParameterError(f"order must be 'newest' or 'due', got {self.order!r}")


@dataclass(frozen=True)
class Page:
    """One page of requests, and the cursor of the next page if there is one."""

    cases: tuple[Case, ...]
    next_cursor: str | None = None


@dataclass(frozen=True)
class Requests:
    """Everything that can be done with requests. Every method checks what the actor may do, and notes the act."""

    database: ServiceDatabase
    seal: Seal
    outbox: Outbox
    second_person: bool = False
    kinds: tuple[str, ...] = ("subject",)

    # Filing.

    def create(self, actor: Actor, new: NewRequest) -> Created:
        """File a request; it is on disk when this returns, and nobody has been looked up."""
        created = self.create_many([(actor, new)])[0]
        if isinstance(created, RequestRefused):
            raise created
        return created

    def create_many(self, asked: Sequence[tuple[Actor, NewRequest]]) -> list[Created | RequestRefused]:
        """File several requests in one transaction, each by its own actor; one that is refused leaves the others."""
        for actor, _ in asked:
            actor.require(Permission.CREATE)
        with self.database.writing() as transaction:
            earlier = self._earlier(transaction.connection, asked)
            # The first of several equal calls in one transaction files the request.
            first: dict[object, int] = {}
            for i, (actor, new) in enumerate(asked):
                key = self._call(actor, new)
                first.setdefault(i if key is None else key, i)
            fresh = [i for key, i in first.items() if key not in earlier]
            filed = dict(zip(fresh, self._file(transaction, [asked[i] for i in fresh]), strict=True))
            created: list[Created | RequestRefused] = []
            for i, (actor, new) in enumerate(asked):
                key = self._call(actor, new)
                if i in filed:
                    created.append(Created(_shown(actor, filed[i]), replayed=False))
                    continue
                fingerprint, case = earlier[key] if key in earlier else self._of_this_batch(asked, filed, first[key])
                same = fingerprint == self._fingerprint(new)
                refusal = RequestRefused("this idempotency key was used for another request: use a new key")
                created.append(Created(_shown(actor, case), replayed=True) if same else refusal)
            return created

    def _file(self, transaction: Transaction, asked: Sequence[tuple[Actor, NewRequest]]) -> list[Case]:
        """Note new requests: in the ledger, with their actors, and beside it, sealed, whom they are about."""
        if not asked:
            return []
        connection, people = transaction.connection, [self._person(new.identities) for _, new in asked]
        # The owner is part of the digest: whoever else asks for the same person learns nothing from this request.
        digests = [
            self.seal.digest("request", actor.id, about) for (actor, _), about in zip(asked, people, strict=True)
        ]
        received = self.database.book.receive_many(
            Receipt("person", digest, new.channel) for (_, new), digest in zip(asked, digests, strict=True)
        )
        entries = {(r.request.id, r.request.first) for r in received if not r.repeated}
        entries |= {(r.request.id, r.request.last) for r in received}
        connection.execute(insert(TRAIL), [{"request": name, "number": number} for name, number in sorted(entries)])
        acts, cases, calls = [], [], []
        for (actor, new), about, r in zip(asked, people, received, strict=True):
            name = r.request.id
            acts.append(Act("asked-again" if r.repeated else "filed", actor, name))
            if not r.repeated:
                sealed = self.seal.seal(new.identities, about=name)
                row = {"request": name, "owner": actor.id, "person": about, "sealed": sealed}
                cases.append(row | {"source": new.source, "tries": 0})
            if new.idempotency_key is not None:
                row = {"owner": actor.id, "key": self._key(new.idempotency_key), "request": name}
                calls.append(row | {"fingerprint": self._fingerprint(new)})
            self.outbox.subscribe(transaction, name, new.subscriptions)
        self.database.note(transaction, acts)
        for table, rows in ((CASES, cases), (IDEMPOTENCY, calls)):
            if rows:
                connection.execute(insert(table), rows)
        return [Case(r.request, actor.id, new.source) for (actor, new), r in zip(asked, received, strict=True)]

    def _call(self, actor: Actor, new: NewRequest) -> tuple[str, str] | None:
        return None if new.idempotency_key is None else (actor.id, self._key(new.idempotency_key))

    def _earlier(
        self, connection: Connection, asked: Sequence[tuple[Actor, NewRequest]]
    ) -> dict[object, tuple[str, Case]]:
        """Return the content and the request of calls that were made before, by owner and key."""
        calls = {call for actor, new in asked if (call := self._call(actor, new)) is not None}
        if not calls:
            return {}
        wanted = select(IDEMPOTENCY).where(IDEMPOTENCY.c.key.in_([key for _, key in calls]))
        rows = [row for row in connection.execute(wanted) if (row.owner, row.key) in calls]
        cases = self._cases(connection, [row.request for row in rows])
        return {(row.owner, row.key): (row.fingerprint, case) for row, case in zip(rows, cases, strict=True)}

    def _of_this_batch(
        self, asked: Sequence[tuple[Actor, NewRequest]], filed: Mapping[int, Case], first: int
    ) -> tuple[str, Case]:
        return self._fingerprint(asked[first][1]), filed[first]

    def _person(self, identities: Mapping[str, str]) -> str:
        return self.seal.digest("person", json.dumps(dict(identities), sort_keys=True))

    def _key(self, key: str) -> str:
        # Callers put names into keys.
        return self.seal.digest("idempotency", key)

    def _fingerprint(self, new: NewRequest) -> str:
        content = [dict(new.identities), new.channel, new.source, [s.url for s in new.subscriptions]]
        return self.seal.digest("content", json.dumps(content, sort_keys=True))

    # Reading.

    def by_key(self, actor: Actor, key: str) -> Case | None:
        """Return the actor's own request that was filed with an idempotency key."""
        actor.require(Permission.READ_OWN)
        wanted = select(IDEMPOTENCY.c.request).where(
            IDEMPOTENCY.c.owner == actor.id, IDEMPOTENCY.c.key == self._key(key)
        )
        with self.database.reading() as snapshot:
            name = snapshot.connection.execute(wanted).scalar()
            return None if name is None else self._visible(snapshot.connection, actor, name, Permission.READ)

    def read(self, actor: Actor, request: str) -> Case:
        """Return a request; its parts are for those who may read all requests."""
        actor.require(Permission.READ, Permission.READ_OWN)
        return self.visible(actor, request, Permission.READ)

    def visible(self, actor: Actor, request: str, by: Permission) -> Case:
        """Return a request to its owner, and to those with a permission; for use cases that have one of their own."""
        with self.database.reading() as snapshot:
            return self._visible(snapshot.connection, actor, request, by)

    def identities(self, actor: Actor, request: str) -> dict[str, str] | None:
        """Return how the person is named, for the one who verifies identities; None once the request is closed."""
        actor.require(Permission.IDENTITY)
        with self.database.writing() as transaction:
            self._visible(transaction.connection, actor, request, Permission.IDENTITY)
            sealed = transaction.connection.execute(
                select(CASES.c.sealed).where(CASES.c.request == request)
            ).scalar_one()
            # Looking is an act, too.
            self.database.note(transaction, [Act("identity-read", actor, request)])
        return None if sealed is None else self.seal.open(sealed, about=request)

    def history(self, actor: Actor, request: str) -> list[Entry]:
        """Return everything that the ledger notes about a request."""
        actor.require(Permission.READ, Permission.AUDIT)
        with self.database.reading() as snapshot:
            self._cases(snapshot.connection, [request])
        return self.database.trail(request)

    def search(self, actor: Actor, search: RequestSearch) -> Page:
        """Return one page of requests; of those who may only read their own, their own.

        Whoever searches the requests of others for a person learns who asked, which is noted like reading it.
        """
        actor.require(Permission.READ, Permission.READ_OWN)
        owner = search.owner if actor.may(Permission.READ) else actor.id
        if search.text and not _ID.match(search.text) and owner != actor.id:
            actor.require(Permission.IDENTITY)
        by_name = owner == actor.id or actor.may(Permission.IDENTITY)
        if search.states and not actor.may(Permission.READ):
            search = replace(search, states=states_behind(search.states))
            if not search.states:
                return Page((), None)
        newest = search.order == "newest"
        columns = REQUESTS.c.id, REQUESTS.c.due, REQUESTS.c.first
        query: Select[Any] = select(*columns)
        query = self._filtered(query, search, owner, by_name=by_name)
        if search.cursor is not None:
            query = query.where(_after(search.cursor, newest=newest))
        order = [REQUESTS.c.first.desc()] if newest else [REQUESTS.c.due, REQUESTS.c.first]
        with self.database.reading() as snapshot:
            rows = snapshot.connection.execute(query.order_by(*order).limit(search.limit + 1)).all()
            cases = self._cases(snapshot.connection, [row.id for row in rows[: search.limit]])
        if search.text and owner != actor.id:
            self._note_search(actor, search.text, [case.request.id for case in cases])
        more = len(rows) > search.limit
        shown = tuple(_shown(actor, case) for case in cases)
        last = rows[search.limit - 1] if more else None
        return Page(shown, None if last is None else _cursor(last.due, last.first, newest=newest))

    def _note_search(self, actor: Actor, text: str, found: Sequence[str]) -> None:
        """Note that requests were found by the name of the person, or that none was."""
        acts = [Act("identity-read", actor, name) for name in found if not name.startswith(text)]
        if not found and not _ID.match(text):
            acts = [Act("identity-read", actor)]
        if acts:
            with self.database.writing() as transaction:
                self.database.note(transaction, acts)

    def _filtered(self, query: Select[Any], search: RequestSearch, owner: str | None, *, by_name: bool) -> Select[Any]:
        if search.states:
            query = query.where(REQUESTS.c.state.in_([str(state) for state in search.states]))
        if search.open is not None:
            query = query.where(is_open() if search.open else REQUESTS.c.state.in_([str(s) for s in _CLOSED]))
        if search.overdue:
            query = query.where(is_open() & (REQUESTS.c.due < self.today().isoformat()))
        if search.channel is not None:
            query = query.where(REQUESTS.c.channel == search.channel)
        if owner is not None:
            query = query.join(CASES, CASES.c.request == REQUESTS.c.id).where(CASES.c.owner == owner)
        if search.text:
            # The end of the range is the next text after all that begin so, in the order of code points.
            begins = REQUESTS.c.id.between(search.text, search.text + "g")
            people = [self._person({kind: search.text}) for kind in self.kinds]
            named = select(CASES.c.request).where(CASES.c.person.in_(people))
            ways = [begins] if _ID.match(search.text) else []
            ways += [REQUESTS.c.id.in_(named)] if by_name else []
            query = query.where(or_(*ways))
        return query

    def counts(self, actor: Actor) -> RequestCounts:
        """Count all requests by state and deadline."""
        actor.require(Permission.READ)
        return self.database.book.status()

    def today(self) -> date:
        """Return the day by which deadlines are counted."""
        return self.database.now().date()

    # Deciding.

    def verify_identity(self, actor: Actor, request: str) -> Case:
        """Note that the identity of the person who asks was verified."""
        actor.require(Permission.DECIDE)
        return self._step(actor, request, Permission.DECIDE, "verified", Step(request, State.VERIFIED))

    def accept(self, actor: Actor, request: str) -> Case:
        """Accept a request, or be the first of the two people whom that needs."""
        actor.require(Permission.DECIDE)
        with self.database.writing() as transaction:
            connection = transaction.connection
            case = self._visible(connection, actor, request, Permission.DECIDE)
            if self.second_person and case.request.state in UNDECIDED and case.approved_by in (None, actor.id):
                if case.approved_by == actor.id:
                    raise RequestRefused(
                        f"request {request} was accepted by you before: another person has to accept it"
                    )
                self.database.note(transaction, [Act("accepted-first", actor, request)])
                connection.execute(update(CASES).where(CASES.c.request == request).values(approved_by=actor.id))
                return self._visible(connection, actor, request, Permission.DECIDE)
            return self._step(actor, request, Permission.DECIDE, "accepted", Step(request, State.ACCEPTED))

    def reject(self, actor: Actor, request: str, *, reason: str) -> Case:
        """Reject a request, for a reason that names nobody."""
        actor.require(Permission.DECIDE)
        return self._step(actor, request, Permission.DECIDE, "rejected", Step(request, State.REJECTED, reason))

    def extend(self, actor: Actor, request: str, *, months: int, reason: str) -> Case:
        """Extend the deadline of a request, once."""
        actor.require(Permission.DECIDE)
        check_reason(reason)
        with self.database.writing() as transaction:
            self._visible(transaction.connection, actor, request, Permission.DECIDE)
            self.database.note(transaction, [Act("extended", actor, request)])
            self.database.follow(transaction, [self.database.book.extend(request, months=months, reason=reason)])
            return self._visible(transaction.connection, actor, request, Permission.DECIDE)

    def cancel(self, actor: Actor, request: str, *, reason: str | None = None) -> Case:
        """Withdraw a request; only its owner can."""
        actor.require(Permission.READ_OWN, Permission.READ)
        with self.database.writing() as transaction:
            case = self._visible(transaction.connection, actor, request, Permission.READ)
            if case.owner != actor.id:
                raise AccessDenied("only the one who filed a request can cancel it: reject it with a reason instead")
            # By the state that the owner sees, so that the refusal says no more.
            check_step(request, case.request.state, State.CANCELLED)
            return self._step(actor, request, Permission.READ, "cancelled", Step(request, State.CANCELLED, reason))

    def retry(self, actor: Actor, request: str) -> Case:
        """Let the worker try a failed request again at once."""
        actor.require(Permission.RETRY)
        with self.database.writing() as transaction:
            case = self._visible(transaction.connection, actor, request, Permission.RETRY)
            if self.case(transaction.connection, request).request.state is not State.FAILED:
                raise RequestRefused(f"request {request} is '{case.request.state}': only a failed one is tried again")
            self.database.note(transaction, [Act("retried", actor, request)])
            again = update(CASES).where(CASES.c.request == request).values(tries=0, not_before=None)
            transaction.connection.execute(again)
            return self._visible(transaction.connection, actor, request, Permission.RETRY)

    def _step(self, actor: Actor, request: str, by: Permission, act: str, step: Step) -> Case:
        details: dict[str, Json] = {}
        with self.database.writing() as transaction:
            self._visible(transaction.connection, actor, request, by)
            self.database.note(transaction, [Act(act, actor, request, details)])
            now = self.database.book.advance_many([step])
            self.database.follow(transaction, now)
            if not now[0].state.is_open:
                self.close(transaction, [request])
            self.outbox.tell(transaction, now)
            return self._visible(transaction.connection, actor, request, by)

    def close(self, transaction: Transaction, requests: Collection[str]) -> None:
        """Delete the identifiers of requests that are closed; their digests stay."""
        done = update(CASES).where(CASES.c.request.in_(list(requests))).values(sealed=None, approved_by=None)
        transaction.connection.execute(done)

    # Shared.

    def case(self, connection: Connection, request: str) -> Case:
        """Return a request with its parts; for the worker, who may see all."""
        return self._cases(connection, [request])[0]

    def _visible(self, connection: Connection, actor: Actor, request: str, by: Permission) -> Case:
        """Return a request to its owner, and to those with the permission; for others it does not exist.

        The permission is that of the use case: one for something else does not open the requests of others.
        """
        case = self._cases(connection, [request])[0]
        if case.owner != actor.id and not actor.may(by):
            raise _unknown()
        return _shown(actor, case)

    def _cases(self, connection: Connection, names: Sequence[str]) -> list[Case]:
        rows = {r.request: r for r in connection.execute(select(CASES).where(CASES.c.request.in_(names)))}
        # Before the book is asked: its words say where the database is.
        if any(name not in rows for name in names):
            raise _unknown()
        requests = self.database.book.get_many(names) if names else {}
        parts: dict[str, list[CasePart]] = {}
        query = select(PARTS).where(PARTS.c.request.in_(names)).order_by(PARTS.c.request, PARTS.c.workspace)
        for row in connection.execute(query):
            part = CasePart(row.workspace, row.state, row.workspace_request, row.reason, row.certificate)
            parts.setdefault(row.request, []).append(part)
        return [
            Case(
                requests[name],
                rows[name].owner,
                rows[name].source,
                rows[name].approved_by,
                tuple(parts.get(name, ())),
                rows[name].tries,
            )
            for name in names
        ]


def _shown(actor: Actor, case: Case) -> Case:
    return case if actor.may(Permission.READ) else _without_parts(case)


def _without_parts(case: Case) -> Case:
    """Hide what would tell whether the person was held, and where."""
    return Case(as_owner_sees(case.request), case.owner, case.source, None, (), 0)


def _unknown() -> UnknownRequest:
    return UnknownRequest("there is no such request here: check the id")


def _cursor(due: str, first: int, *, newest: bool) -> str:
    content = json.dumps([first] if newest else [due, first], separators=(",", ":"))
    return base64.urlsafe_b64encode(content.encode()).decode().rstrip("=")


def _after(cursor: str, *, newest: bool) -> Any:
    """Select what follows a cursor."""
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if newest:
            (first,) = values
            return REQUESTS.c.first < _position(first)
        due, first = values
        day = date.fromisoformat(due).isoformat()
        return or_(REQUESTS.c.due > day, and_(REQUESTS.c.due == day, REQUESTS.c.first > _position(first)))
    except (ValueError, TypeError) as error:
        raise ParameterError("this cursor is not one that was given out for this order: begin without one") from error


def _position(value: object) -> int:
    number = check_whole("position", value, at_least=0)
    if number >= 2**62:
        raise ValueError("not a position")
    return number
