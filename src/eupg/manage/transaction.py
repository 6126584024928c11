"""What can be done with the ledger inside one database transaction: look at one moment of it, or append to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from sqlalchemy import BigInteger, Column, Connection, MetaData, Row, Select, Table, Text, insert, select

from eupg.errors import LedgerCorrupt, ParameterError
from eupg.manage.events import Entry, Head, Json, canonical, check_kind, digest_of, genesis

Clock: TypeAlias = Callable[[], datetime]

ENTRIES = Table(
    "entries",
    MetaData(),
    Column("number", BigInteger, primary_key=True),
    *(Column(name, Text) for name in ("at", "kind", "body", "previous", "digest")),
)
_NEWEST = select(ENTRIES.c.number, ENTRIES.c.at, ENTRIES.c.digest).order_by(ENTRIES.c.number.desc()).limit(1)
_PAGE = 2000


class Snapshot:
    """The ledger as it was at one moment.

    Parameters
    ----------
    connection
        The database, inside a transaction.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def head(self) -> Head:
        """Return the number and digest of the last entry."""
        row = self.connection.execute(_NEWEST).first()
        return Head(row.number, row.digest) if row else Head(0, self.genesis())

    def not_before(self, moment: datetime) -> datetime:
        """Return the moment, or that of the newest entry if the clock has been set back behind it."""
        row = self.connection.execute(_NEWEST).first()
        try:
            newest = None if row is None else aware(datetime.fromisoformat(row.at))
        except (TypeError, ValueError, ParameterError):
            # A damaged entry says nothing about the time; verify() names it.
            newest = None
        return aware(moment) if newest is None else max(aware(moment), newest)

    def genesis(self) -> str:
        """Return what the first entry is tied to."""
        return genesis(str(self.connection.exec_driver_sql("SELECT id FROM ledger").scalar()))

    def page(self, after: int | None, kinds: Collection[str] | None = None, *, size: int = _PAGE) -> list[Row[Any]]:
        """Return the next rows behind a number, as they are stored; all from the first where it is None."""
        query: Select[Any] = select(ENTRIES).order_by(ENTRIES.c.number).limit(size)
        if after is not None:
            query = query.where(ENTRIES.c.number > after)
        if kinds is not None:
            query = query.where(ENTRIES.c.kind.in_(list(kinds)))
        return list(self.connection.execute(query))

    def last(self, kind: str) -> Entry | None:
        """Return the newest entry of a kind."""
        query = select(ENTRIES).where(ENTRIES.c.kind == kind).order_by(ENTRIES.c.number.desc()).limit(1)
        row = self.connection.execute(query).first()
        return None if row is None else entry_of(row)

    def entries(self, after: int = 0, kinds: Collection[str] | None = None) -> Iterator[Entry]:
        """Go through the entries behind a number, in order."""
        while page := self.page(after, kinds):
            yield from map(entry_of, page)
            after = page[-1].number


class Transaction(Snapshot):
    """Several entries that are written together or not at all.

    Parameters
    ----------
    connection
        The database, inside a transaction that no other writer can overlap.
    now
        What the clock says. All entries carry this time, or that of the newest entry if the clock was set back:
        deadlines are counted from it, and time in a ledger never runs backwards.
    """

    def __init__(self, connection: Connection, now: datetime) -> None:
        super().__init__(connection)
        self.now = self.not_before(now)

    def append_many(self, events: Iterable[tuple[str, Mapping[str, Json]]]) -> list[Entry]:
        """Append events at the end; they are durable when the transaction ends."""
        prepared = [(check_kind(kind), canonical(body)) for kind, body in events]
        if not prepared:
            return []
        head, at = self.head(), self.now.isoformat(timespec="microseconds")
        number, previous = head.number, head.digest
        rows, entries = [], []
        for kind, body in prepared:
            number += 1
            digest = digest_of(number, at, kind, body, previous)
            entries.append(Entry(number, at, kind, json.loads(body), previous, digest))
            rows.append((number, at, kind, body, previous, digest))
            previous = digest
        self.connection.execute(insert(ENTRIES), [dict(zip(ENTRIES.c.keys(), row, strict=True)) for row in rows])
        return entries


def aware(moment: datetime) -> datetime:
    """Return a moment in UTC; a time without its zone could be any of 38 moments, so it is refused."""
    if moment.tzinfo is None:
        raise ParameterError(f"a time needs its zone, got {moment!r}: use datetime.now(UTC)")
    return moment.astimezone(UTC)


def entry_of(row: Row[Any]) -> Entry:
    """Read an entry from its row."""
    try:
        body = json.loads(row.body)
    except (TypeError, ValueError) as error:
        raise LedgerCorrupt(f"entry {row.number} is damaged: its body is not JSON ({error}); run verify()") from error
    return Entry(row.number, row.at, row.kind, body, row.previous, row.digest)
