"""The table of erasure requests: an index over their events, to look up many requests at once.

All of it follows from the events. :class:`~eupg.manage.requests.book.RequestBook` writes it in the same transaction as
the events, compares it with them, and can rebuild it from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from functools import lru_cache
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    MetaData,
    Row,
    Table,
    Text,
    bindparam,
    case,
    delete,
    func,
    select,
    text,
    update,
)

from eupg.errors import LedgerCorrupt
from eupg.manage.ledger.database import among, insert_rows, listed
from eupg.manage.requests.states import OPEN, STEPS, Receipt, Request, State, request_of

REQUESTS = Table(
    "requests",
    MetaData(),
    Column("id", Text, primary_key=True),
    *(Column(name, Text) for name in ("unit", "digest", "channel", "state")),
    *(Column(name, Boolean) for name in ("verified", "extended")),
    *(Column(name, Text) for name in ("received_at", "due", "reason")),
    *(Column(name, BigInteger) for name in ("first", "last")),
)
_NAMES = tuple(field.name for field in fields(Request))
_LISTED = ", ".join(_NAMES)
_in_order = itemgetter(*_NAMES)
_CHANGING = ("state", "verified", "extended", "due", "reason", "last")
_UPDATE = (
    update(REQUESTS).where(REQUESTS.c.id == bindparam("key")).values({name: bindparam(name) for name in _CHANGING})
)
_STATES = {state.value: state for state in State}
_BEFORE = {state: [before.value for before in State if state in STEPS[before]] for state in State}


@dataclass(frozen=True)
class RequestCounts:
    """The number of requests in each state, and how urgent they are.

    ``open`` counts those that wait for an answer, ``overdue`` those of them that should have been answered before
    today. ``next_due`` is the first day, from today on, by which an open request must be answered.
    """

    counts: Mapping[State, int]
    open: int
    overdue: int
    next_due: date | None


def is_open() -> ColumnElement[bool]:
    """Select requests that still wait for an answer."""
    # Literal, not bound, so that the database can use its index over open requests.
    return REQUESTS.c.state.in_([bindparam(None, state.value, literal_execute=True) for state in OPEN])


def is_overdue(today: date) -> ColumnElement[bool]:
    """Select requests that should have been answered before this day."""
    return is_open() & (REQUESTS.c.due < today.isoformat())


def select_requests(connection: Connection, *where: ColumnElement[bool], at_most: int | None = None) -> list[Request]:
    """Return requests, in the order of their deadlines."""
    # Requests that were received in one entry have the same number.
    order = REQUESTS.c.due, REQUESTS.c.first, REQUESTS.c.id
    wanted = select(REQUESTS).where(*where).order_by(*order).limit(at_most)
    return [_request(row) for row in connection.execute(wanted)]


def by_id(connection: Connection, ids: Iterable[str]) -> dict[str, Request]:
    """Return those of the named requests that exist."""
    names = list(dict.fromkeys(ids))
    query = text(f"SELECT {_LISTED} FROM requests WHERE {among(connection, 'id', 'ids')}")
    rows = connection.execute(query, {"ids": listed(connection, names)}) if names else ()
    requests = {row[0]: _request(row) for row in rows}
    return {name: requests[name] for name in names if name in requests}


def in_states(connection: Connection, ids: Sequence[str], states: Sequence[State]) -> list[Request]:
    """Return those of the named requests that are in one of these states."""
    query = text(
        f"SELECT {_LISTED} FROM requests WHERE {among(connection, 'id', 'ids')} "
        f"AND {among(connection, 'state', 'states')} ORDER BY due, first, id"
    )
    named = {"ids": listed(connection, ids), "states": listed(connection, [state.value for state in states])}
    return [_request(row) for row in connection.execute(query, named)]


def open_for(connection: Connection, receipts: Sequence[Receipt]) -> dict[tuple[str, str], Request]:
    """Return the open requests for the same people and records, by unit and digest."""
    requests: dict[tuple[str, str], Request] = {}
    open_states = ", ".join(f"'{state.value}'" for state in OPEN)
    for unit in {receipt.unit for receipt in receipts}:
        digests = list(dict.fromkeys(receipt.digest for receipt in receipts if receipt.unit == unit))
        # The states are literal, so that the database can use its index over open requests.
        query = text(
            f"SELECT {_LISTED} FROM requests WHERE unit = :unit AND {among(connection, 'digest', 'digests')} "
            f"AND state IN ({open_states})"
        )
        rows = connection.execute(query, {"unit": unit, "digests": listed(connection, digests)})
        requests |= {(unit, request.digest): request for request in map(_request, rows)}
    return requests


def count_requests(connection: Connection, today: date) -> RequestCounts:
    """Count requests by state, and by the deadlines of the open ones."""
    day, due, state = today.isoformat(), REQUESTS.c.due, REQUESTS.c.state
    late = func.sum(case((due < day, 1), else_=0)).label("late")
    following = func.min(case((due >= day, due))).label("following")
    rows = connection.execute(select(state, func.count().label("all"), late, following).group_by(state))
    counts, overdue, days = dict.fromkeys(State, 0), 0, []
    for name, number, behind, ahead in rows:
        counts[State(name)] = number
        if State(name).is_open:
            overdue += int(behind)
            days += [date.fromisoformat(ahead)] if ahead else []
    waiting = sum(number for state, number in counts.items() if state.is_open)
    return RequestCounts(counts, waiting, overdue, min(days, default=None))


def add(connection: Connection, requests: Iterable[Request]) -> None:
    """Note new requests."""
    rows = [_in_order(_row(request)) for request in requests]
    if rows:
        insert_rows(connection, "requests", _NAMES, rows)


def change(connection: Connection, requests: Iterable[Request]) -> None:
    """Note the present state of known requests."""
    rows = [_changed(request) for request in requests]
    if rows:
        connection.execute(_UPDATE, rows)


def step(connection: Connection, ids: Sequence[str], state: State, *, number: int, reason: str | None) -> int:
    """Take all of these requests that can take it to their next state; return how many.

    ``number`` is that of the entry that says so; see :func:`~eupg.manage.requests.states.step_all`.
    """
    changes = {"state": state.value, "last": number} | ({} if reason is None else {"reason": reason})
    values = ", ".join([f"{name} = :{name}" for name in changes] + ["verified = TRUE"] * (state is State.VERIFIED))
    query = text(
        f"UPDATE requests SET {values} WHERE {among(connection, 'id', 'ids')} "
        f"AND {among(connection, 'state', 'states')}"
    )
    named = {"ids": listed(connection, ids), "states": listed(connection, _BEFORE[state])}
    return connection.execute(query, changes | named).rowcount


def clear(connection: Connection) -> None:
    """Empty the index."""
    connection.execute(delete(REQUESTS))


def compare(connection: Connection, requests: Mapping[str, Request]) -> None:
    """Raise at the first request on which the index and the events disagree."""
    rows = {row.id: row for row in connection.execute(select(REQUESTS))}
    repair = "the events are right: rebuild() makes the index again from them"
    for name, request in requests.items():
        if name not in rows:
            raise LedgerCorrupt(f"request {name} is missing from the index, but has events; {repair}")
        for column, value in _row(request).items():
            if (stored := getattr(rows[name], column)) != value:
                what = f"the index says {column} is {stored!r}, its events say {value!r} (latest: entry {request.last})"
                raise LedgerCorrupt(f"request {name}: {what}; {repair}")
    for name in rows.keys() - requests.keys():
        raise LedgerCorrupt(f"request {name} is in the index, but has no event; {repair}")


def _changed(request: Request) -> dict[str, Any]:
    return {
        "key": request.id,
        "state": request.state.value,
        "verified": request.verified,
        "extended": request.extended,
        "due": _written_day(request.due),
        "reason": request.reason,
        "last": request.last,
    }


# Thousands of requests share a few days.
_written_day = lru_cache(maxsize=256)(date.isoformat)
_read_day = lru_cache(maxsize=256)(date.fromisoformat)


def _row(request: Request) -> dict[str, Any]:
    return {**vars(request), "state": request.state.value, "due": _written_day(request.due)}


def _request(row: Row[Any]) -> Request:
    # The columns stand in the order of the fields.
    values: dict[str, Any] = dict(zip(_NAMES, row, strict=True))
    try:
        values["state"], values["due"] = _STATES[values["state"]], _read_day(values["due"])
    except (TypeError, ValueError, KeyError) as error:
        raise LedgerCorrupt(
            f"request {values['id']} is damaged in the index ({error}): rebuild() makes it again"
        ) from error
    values["verified"], values["extended"] = bool(values["verified"]), bool(values["extended"])
    return request_of(values)
