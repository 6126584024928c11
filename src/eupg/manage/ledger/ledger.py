"""The ledger: what happened, in order, in a form in which no change goes unnoticed.

Every entry holds the digest of the entry before, so changing one breaks the chain after it. A chain cannot show that
its end was cut off; for that, keep the :class:`~eupg.manage.ledger.events.Head` elsewhere, as certificates do, and pass
it to :meth:`Ledger.verify`. The ledger does not know what its events mean.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from sqlalchemy import URL, Connection, Row
from sqlalchemy.exc import DBAPIError

from eupg.errors import LedgerCorrupt
from eupg.manage.ledger.database import Database
from eupg.manage.ledger.events import Entry, Head, Json, digest_of
from eupg.manage.ledger.migrations import check_guards, migrate
from eupg.manage.ledger.transaction import Clock, Snapshot, Transaction, entry_of

_NEXT = "compare with a backup, and with the heads in issued certificates"


def utc_now() -> datetime:
    """Return the time of this machine."""
    return datetime.now(UTC)


class Ledger:
    """Append-only, hash-chained events in SQLite or PostgreSQL.

    Parameters
    ----------
    place
        The path of a SQLite file, or a URL: ``sqlite:///…`` or ``postgresql://…``.
    clock, timeout_s
        Returns the time; and how long a writer waits for others before it raises :class:`~eupg.errors.LedgerBusy`.
    create
        Whether to make a ledger where there is none. Pass False where one must exist: an empty ledger in place of a
        lost one would acknowledge requests and know nothing of the earlier ones.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Ledger(folder.name + "/ledger.db") as ledger:
    ...     entry = ledger.append("model.deployed", {"model": "4f1c"})
    ...     ledger.verify(ledger.head())
    >>> entry.number, entry.kind
    (1, 'model.deployed')
    >>> folder.cleanup()
    """

    def __init__(
        self, place: str | Path | URL, *, clock: Clock = utc_now, create: bool = True, timeout_s: float = 30.0
    ) -> None:
        self._database = Database(place, create=create, timeout_s=timeout_s)
        self._clock = clock
        self._open = threading.local()
        try:
            migrate(self._database, create=create)
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The address of the ledger, without a password."""
        return self._database.name

    def now(self) -> datetime:
        """Return the time that an entry written now would have."""
        with self.snapshot() as snapshot:
            return snapshot.not_before(self._clock())

    def append(self, kind: str, body: Mapping[str, Json]) -> Entry:
        """Append one event, and return it once it is on disk.

        The kind consists of lower-case words joined by points. The body is plain JSON, without personal values: use
        keyed digests.
        """
        return self.append_many([(kind, body)])[0]

    def append_many(self, events: Iterable[tuple[str, Mapping[str, Json]]]) -> list[Entry]:
        """Append events in one transaction: all are on disk when this returns, or none if it raises."""
        with self.transaction() as transaction:
            return transaction.append_many(events)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Write everything in this block together or not at all, with no other writer in between.

        Blocks may be nested: everything that this thread appends joins the outermost block, and an inner block that
        fails is undone as a whole.
        """
        outer: Transaction | None = getattr(self._open, "transaction", None)
        if outer is not None:
            with outer.nested():
                yield outer
            return
        with self._database.writing() as connection:
            self._open.transaction = transaction = Transaction(connection, self._clock())
            try:
                yield transaction
            finally:
                self._open.transaction = None

    @property
    def in_transaction(self) -> bool:
        """Whether this thread is inside a transaction."""
        return getattr(self._open, "transaction", None) is not None

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Read several things as of one moment; inside a transaction, its own writes are seen."""
        outer: Transaction | None = getattr(self._open, "transaction", None)
        if outer is not None:
            yield outer
            return
        with self._database.reading() as connection:
            yield Snapshot(connection)

    def entries(self, after: int = 0, kinds: Collection[str] | None = None) -> Iterator[Entry]:
        """Yield the entries after a number, in order, including those that are appended meanwhile."""
        while True:
            with self.snapshot() as snapshot:
                page = snapshot.page(after, kinds)
            if not page:
                return
            yield from map(entry_of, page)
            after = page[-1].number

    def head(self) -> Head:
        """Return the number and digest of the last entry, to be kept where the ledger's owner cannot change it."""
        with self.snapshot() as snapshot:
            return snapshot.head()

    def verify(self, head: Head | None = None) -> None:
        """Check every entry, the chain, and the guards against changes; raise at the first entry that is wrong.

        Without a head noted earlier, for instance in a certificate, entries missing at the end are not noticed, nor a
        ledger that was rewritten from some entry on.
        """
        with self.snapshot() as snapshot:
            _check_chain(snapshot, head)
            check_guards(snapshot.connection)
            if self._database.is_sqlite:
                _check_file(snapshot.connection)

    def close(self) -> None:
        """Release the database; a closed ledger opens again when it is used."""
        self._database.close()


def _check_chain(snapshot: Snapshot, head: Head | None = None) -> None:
    """Follow the chain from its start; raise at the first entry that is not what was written.

    The entry of a head noted earlier must be there, with its digest.
    """
    number, previous = 0, snapshot.genesis()
    reached = previous if head is not None and head.number == 0 else None
    for row in _rows(snapshot):
        number += 1
        _check_entry(row, number, previous)
        previous = row.digest
        if head is not None and head.number == number:
            reached = previous
    if head is not None and reached != head.digest:
        _refuse_head(head, number, reached)


def _check_file(connection: Connection) -> None:
    """Let SQLite compare its tables with their indexes and its pages with each other."""
    results = [str(line) for (line,) in connection.exec_driver_sql("PRAGMA integrity_check(3)")]
    if results != ["ok"]:
        raise LedgerCorrupt(f"the ledger's file is damaged, its entries are whole: {'; '.join(results)}; {_NEXT}")


def _rows(snapshot: Snapshot) -> Iterator[Row[Any]]:
    # From the very first row, not from number 1: an entry numbered 0 or -5 would be a forgery too.
    after: int | None = None
    while page := _page(snapshot, after):
        yield from page
        after = page[-1].number


def _page(snapshot: Snapshot, after: int | None) -> list[Row[Any]]:
    try:
        return snapshot.page(after)
    except DBAPIError as error:
        if snapshot.connection.dialect.name != "sqlite":
            raise
        cause = error
    # One entry of this page cannot be read: continue one by one, to name it.
    try:
        return snapshot.page(after, size=1)
    except DBAPIError:
        raise LedgerCorrupt(f"entry {(after or 0) + 1} cannot be read: {cause.orig}; {_NEXT}") from cause


def _check_entry(row: Row[Any], number: int, previous: str) -> None:
    if row.number != number:
        what = f"entry {number} is missing: entry {row.number} stands in its place"
    elif not all(isinstance(value, str) for value in tuple(row)[1:]):
        what = f"entry {number} was changed: one of its values is not text any more"
    elif row.previous != previous:
        what = f"entry {number} does not follow entry {number - 1}: it was tied to {row.previous!r}, not {previous!r}"
    elif (digest := digest_of(row.number, row.at, row.kind, row.body, row.previous)) != row.digest:
        what = f"entry {number} was changed: its content has digest {digest!r}, it was written with {row.digest!r}"
    else:
        return
    raise LedgerCorrupt(f"{what}; {_NEXT}")


def _refuse_head(head: Head, last: int, digest: str | None) -> None:
    if head.number > last:
        what = f"the ledger ends at entry {last}, but entry {head.number} was written: the end was cut off"
    else:
        what = f"entry {head.number} has digest {digest!r}, not {head.digest!r} as noted: it was rewritten or replaced"
    raise LedgerCorrupt(f"{what}; restore the ledger from a backup")
