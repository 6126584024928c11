"""Whether a ledger still says what was written: every entry computed again, and the chain followed from its start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Row
from sqlalchemy.exc import DBAPIError

from eupg.errors import LedgerCorrupt
from eupg.manage.events import Head, digest_of
from eupg.manage.transaction import Snapshot

_NEXT = "compare with a backup, and with the heads in issued certificates"


def check_chain(snapshot: Snapshot, head: Head | None = None) -> None:
    """Follow the chain from its start; raise at the first entry that is not what was written.

    Parameters
    ----------
    snapshot
        The ledger at one moment.
    head
        A head noted earlier: its entry must be there, with its digest.
    """
    number, previous = 0, snapshot.genesis()
    noted = previous if head is not None and head.number == 0 else None
    for row in _rows(snapshot):
        number += 1
        _check_entry(row, number, previous)
        previous = row.digest
        if head is not None and head.number == number:
            noted = previous
    if head is not None and noted != head.digest:
        _refuse_head(head, number, noted)


def check_file(connection: Connection) -> None:
    """Let SQLite compare its tables with their indexes and its pages with each other."""
    found = [str(line) for (line,) in connection.exec_driver_sql("PRAGMA integrity_check(3)")]
    if found != ["ok"]:
        raise LedgerCorrupt(f"the ledger's file is damaged, though its entries are whole: {'; '.join(found)}; {_NEXT}")


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
    # Somewhere in this page is an entry that SQLite cannot give out: go on one by one, to name it.
    try:
        return snapshot.page(after, size=1)
    except DBAPIError:
        raise LedgerCorrupt(f"entry {(after or 0) + 1} cannot be read: {cause.orig}; {_NEXT}") from cause


def _check_entry(row: Row[Any], number: int, previous: str) -> None:
    if row.number != number:
        what = f"entry {number} is missing: entry {row.number} stands in its place"
    elif not all(isinstance(value, str) for value in tuple(row)[1:]):
        what = f"entry {number} was changed: a value of it is no text any more"
    elif row.previous != previous:
        what = f"entry {number} does not follow entry {number - 1}: it was tied to {row.previous!r}, not {previous!r}"
    elif (digest := digest_of(row.number, row.at, row.kind, row.body, row.previous)) != row.digest:
        what = f"entry {number} was changed: its content has digest {digest!r}, it was written with {row.digest!r}"
    else:
        return
    raise LedgerCorrupt(f"{what}; {_NEXT}")


def _refuse_head(head: Head, last: int, found: str | None) -> None:
    if head.number > last:
        what = f"the ledger ends at entry {last}, but entry {head.number} was written: the end was cut off"
    else:
        what = (
            f"entry {head.number} has digest {found!r}, not {head.digest!r} as noted: it was rewritten, or is another's"
        )
    raise LedgerCorrupt(f"{what}; restore the ledger from a backup")
