"""The ledger inside one database transaction: read it as of one moment, or append to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Self, TypeAlias, cast

from sqlalchemy import BigInteger, Column, Connection, MetaData, Row, Select, Table, Text, select, text

from eupg.errors import LedgerCorrupt, ParameterError
from eupg.manage.ledger.database import insert_rows
from eupg.manage.ledger.events import Entry, Head, Json, canonical, check_kind, digest_of, genesis
from eupg.manage.ledger.migrations import body_field

Clock: TypeAlias = Callable[[], datetime]

ENTRIES = Table(
    "entries",
    MetaData(),
    Column("number", BigInteger, primary_key=True),
    *(Column(name, Text) for name in ("at", "kind", "body", "previous", "digest")),
)
_NEWEST = select(ENTRIES.c.number, ENTRIES.c.at, ENTRIES.c.digest).order_by(ENTRIES.c.number.desc()).limit(1)
_COLUMNS = ("number", "at", "kind", "body", "previous", "digest")
_PAGE = 2000


class Snapshot:
    """The ledger as of one moment; the connection is inside a database transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def head(self) -> Head:
        """Return the number and digest of the last entry."""
        row = self._newest()
        return Head(row.number, row.digest) if row else Head(0, self.genesis())

    def not_before(self, moment: datetime) -> datetime:
        """Return the moment, or that of the newest entry if the clock was set back."""
        return _not_before(self._newest(), moment)

    def _newest(self) -> Row[Any] | None:
        return cast("Row[Any] | None", self.connection.execute(_NEWEST).first())

    def genesis(self) -> str:
        """Return what the first entry is tied to."""
        return genesis(str(self.connection.exec_driver_sql("SELECT id FROM ledger").scalar()))

    def page(self, after: int | None, kinds: Collection[str] | None = None, *, size: int = _PAGE) -> list[Row[Any]]:
        """Return the next rows after a number, as they are stored; None begins with the first row."""
        query: Select[Any] = select(ENTRIES).order_by(ENTRIES.c.number).limit(size)
        if after is not None:
            query = query.where(ENTRIES.c.number > after)
        if kinds is not None:
            query = query.where(ENTRIES.c.kind.in_(list(kinds)))
        return list(self.connection.execute(query))

    def last(self, kind: str, *, before: int | None = None) -> Entry | None:
        """Return the newest entry of a kind, or the newest before a number."""
        query = select(ENTRIES).where(ENTRIES.c.kind == kind)
        query = query if before is None else query.where(ENTRIES.c.number < before)
        row = self.connection.execute(query.order_by(ENTRIES.c.number.desc()).limit(1)).first()
        return None if row is None else entry_of(row)

    def next(self, kind: str, after: int) -> Entry | None:
        """Return the first entry of a kind after a number."""
        query = select(ENTRIES).where(ENTRIES.c.kind == kind, ENTRIES.c.number > after)
        row = self.connection.execute(query.order_by(ENTRIES.c.number).limit(1)).first()
        return None if row is None else entry_of(row)

    def between(self, after: int, before: int | None, kinds: Collection[str]) -> list[Entry]:
        """Return the entries of some kinds between two numbers, both excluded."""
        query = select(ENTRIES).where(ENTRIES.c.kind.in_(list(kinds)), ENTRIES.c.number > after)
        query = query if before is None else query.where(ENTRIES.c.number < before)
        return [entry_of(row) for row in self.connection.execute(query.order_by(ENTRIES.c.number))]

    def naming(self, field: str, name: str, kinds: Collection[str]) -> list[Entry]:
        """Return the entries of some kinds whose body names a request, or a reference; an index finds them."""
        named, value = body_field(field, sqlite=self.connection.dialect.name == "sqlite")
        query = select(ENTRIES).where(text(named), text(f"{value} = :name")).order_by(ENTRIES.c.number)
        entries = [entry_of(row) for row in self.connection.execute(query, {"name": name}) if row.kind in kinds]
        return [entry for entry in entries if entry.body.get(field) == name]

    def mentioning(self, name: str, kinds: Collection[str], first: int, last: int) -> list[Entry]:
        """Return the entries of some kinds, from one number to another, in whose body a name occurs."""
        place = "instr" if self.connection.dialect.name == "sqlite" else "strpos"
        here = ENTRIES.c.kind.in_(list(kinds)), ENTRIES.c.number.between(first, last), text(f"{place}(body, :name) > 0")
        query = select(ENTRIES).where(*here).order_by(ENTRIES.c.number)
        return [entry_of(row) for row in self.connection.execute(query, {"name": name})]

    def entries(self, after: int = 0, kinds: Collection[str] | None = None) -> Iterator[Entry]:
        """Yield the entries after a number, in order."""
        while page := self.page(after, kinds):
            yield from map(entry_of, page)
            after = page[-1].number


class Transaction(Snapshot):
    """Several entries that are written together or not at all; no other writer can overlap.

    All entries carry the time of the clock, or that of the newest entry if the clock was set back: deadlines are
    counted from it, and time in a ledger never runs backwards.
    """

    def __init__(self, connection: Connection, now: datetime) -> None:
        super().__init__(connection)
        newest = self._newest()
        self.now = _not_before(newest, now)
        self._head = Head(newest.number, newest.digest) if newest else Head(0, self.genesis())

    def head(self) -> Head:
        """Return the number and digest of the last entry."""
        # Nobody else writes meanwhile, so it need not be read again.
        return self._head

    @contextmanager
    def nested(self) -> Iterator[Self]:
        """Undo everything in this block if it fails, and leave what was written before it."""
        head = self._head
        try:
            with self.connection.begin_nested():
                yield self
        except BaseException:
            self._head = head
            raise

    def append_many(self, events: Iterable[tuple[str, Mapping[str, Json]]]) -> list[Entry]:
        """Append events; they are on disk when the transaction ends."""
        prepared = [(check_kind(kind), canonical(body), {**body}) for kind, body in events]
        if not prepared:
            return []
        head, at = self.head(), self.now.isoformat(timespec="microseconds")
        previous, rows, entries = head.digest, [], []
        for number, (kind, body, given) in enumerate(prepared, start=head.number + 1):
            digest = digest_of(number, at, kind, body, previous)
            # The caller's own values, which the text was just made from.
            entries.append(Entry(number, at, kind, given, previous, digest))
            rows.append((number, at, kind, body, previous, digest))
            previous = digest
        insert_rows(self.connection, "entries", _COLUMNS, rows)
        self._head = Head(entries[-1].number, previous)
        return entries


def _not_before(newest: Row[Any] | None, moment: datetime) -> datetime:
    try:
        at = None if newest is None else aware(datetime.fromisoformat(newest.at))
    except (TypeError, ValueError, ParameterError):
        # A damaged entry says nothing about the time; verify() names it.
        at = None
    return aware(moment) if at is None else max(aware(moment), at)


def aware(moment: datetime) -> datetime:
    """Return a moment in UTC; a time without a zone is ambiguous, so it is refused."""
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
