"""The ledger: what happened, in order, in a form in which no change goes unnoticed.

Every entry holds the digest of the entry before, so changing one breaks the chain behind it. A chain cannot show that
its end was cut off; for that, keep the :class:`~eupg.manage.events.Head` somewhere else (certificates do) and give it
to :meth:`Ledger.verify`. The ledger does not know what its events mean.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from sqlalchemy import URL

from eupg.manage.chain import check_chain, check_file
from eupg.manage.database import Database
from eupg.manage.events import Entry, Head, Json
from eupg.manage.migrations import check_guards, migrate
from eupg.manage.transaction import Clock, Snapshot, Transaction, entry_of


def utc_now() -> datetime:
    """Return the time of this machine's clock."""
    return datetime.now(UTC)


class Ledger:
    """Append-only, hash-chained events in SQLite or PostgreSQL.

    Parameters
    ----------
    place
        A path of a SQLite file (made if it is not there), or a URL: ``sqlite:///…`` or ``postgresql://…``.
    clock
        Tells the time; replace it in tests.
    create
        Whether to make a ledger where there is none. Pass False where one must exist: an empty ledger in the place of
        a lost one would acknowledge requests and know nothing of those before.
    timeout_s
        How long a writer waits for other writers before it gives up with :class:`~eupg.errors.LedgerBusy`.

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
        """Where the ledger lives, without a password."""
        return self._database.name

    def now(self) -> datetime:
        """Return the time that an entry written now would carry."""
        with self.snapshot() as snapshot:
            return snapshot.not_before(self._clock())

    def append(self, kind: str, body: Mapping[str, Json]) -> Entry:
        """Append one event and return it once it is on disk.

        Parameters
        ----------
        kind
            What happened: small-letter words joined by points.
        body
            The particulars, as plain JSON. Never a personal value: give keyed digests.
        """
        return self.append_many([(kind, body)])[0]

    def append_many(self, events: Iterable[tuple[str, Mapping[str, Json]]]) -> list[Entry]:
        """Append events in one transaction: all are on disk when it returns, or none if it raises."""
        with self.transaction() as transaction:
            return transaction.append_many(events)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Write everything in this block together or not at all, with no other writer in between.

        Blocks may be nested: everything appended to this ledger by this thread, also through a
        :class:`~eupg.manage.requests.RequestBook`, joins the outermost block, and an inner block that fails is undone
        as a whole.
        """
        outer: Transaction | None = getattr(self._open, "transaction", None)
        if outer is not None:
            with outer.connection.begin_nested():
                yield outer
            return
        with self._database.writing() as connection:
            self._open.transaction = transaction = Transaction(connection, self._clock())
            try:
                yield transaction
            finally:
                self._open.transaction = None

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Read several things that belong to one moment; inside a transaction, its own writes are seen."""
        outer: Transaction | None = getattr(self._open, "transaction", None)
        if outer is not None:
            yield outer
            return
        with self._database.reading() as connection:
            yield Snapshot(connection)

    def entries(self, after: int = 0, kinds: Collection[str] | None = None) -> Iterator[Entry]:
        """Go through the entries behind a number, in order, also those that are appended meanwhile.

        Parameters
        ----------
        after
            Skip entries up to this number.
        kinds
            Only entries of these kinds.
        """
        while True:
            with self.snapshot() as snapshot:
                page = snapshot.page(after, kinds)
            if not page:
                return
            yield from map(entry_of, page)
            after = page[-1].number

    def head(self) -> Head:
        """Return the number and digest of the last entry, to be kept where this ledger's owner cannot change it."""
        with self.snapshot() as snapshot:
            return snapshot.head()

    def verify(self, head: Head | None = None) -> None:
        """Check every entry, the chain, and the guards against changes; return nothing or raise.

        Parameters
        ----------
        head
            A head noted earlier, for instance in a certificate. Without one, entries missing at the end cannot be
            seen, nor a ledger that was written anew from some entry on.

        Raises
        ------
        LedgerCorrupt
            Naming the first entry that is wrong, and what is wrong with it.
        """
        with self.snapshot() as snapshot:
            check_chain(snapshot, head)
            check_guards(snapshot.connection)
            if self._database.is_sqlite:
                check_file(snapshot.connection)

    def close(self) -> None:
        """Let go of the database; a closed ledger opens again by itself if it is used."""
        self._database.close()
