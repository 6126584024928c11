"""The audit trail: the service's ledger, page by page, and whether its chain is whole."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select

from eupg.errors import ParameterError
from eupg.manage.ledger.events import Entry, Head
from eupg.manage.ledger.transaction import ENTRIES, entry_of
from eupg.service.access import Actor, Permission
from eupg.service.database import ServiceDatabase

_MOST_PER_PAGE = 500


@dataclass(frozen=True)
class TrailPage:
    """Entries of the ledger, in order; ``next_after`` is where the next page begins, if there is one."""

    entries: tuple[Entry, ...]
    head: Head
    next_after: int | None


@dataclass(frozen=True)
class TrailWindow:
    """Entries of the ledger, the newest first, and whether there are others on either side."""

    entries: tuple[Entry, ...]
    head: Head
    more_before: bool
    more_after: bool


@dataclass(frozen=True)
class AuditTrail:
    """Reads and checks the ledger."""

    database: ServiceDatabase

    def page(self, actor: Actor, *, after: int = 0, limit: int = 100, kind: str | None = None) -> TrailPage:
        """Return entries after a number; ``kind`` may be the beginning of a kind, such as ``act.``."""
        actor.require(Permission.AUDIT)
        if not 1 <= limit <= _MOST_PER_PAGE or not 0 <= after < 2**62:
            raise ParameterError(f"limit must be 1 to {_MOST_PER_PAGE}, and after a number from 0 on")
        query = select(ENTRIES).where(ENTRIES.c.number > after)
        if kind is not None:
            query = query.where(ENTRIES.c.kind.startswith(kind, autoescape=True))
        with self.database.reading() as snapshot:
            rows = snapshot.connection.execute(query.order_by(ENTRIES.c.number).limit(limit + 1)).all()
            head = snapshot.head()
        entries = tuple(entry_of(row) for row in rows[:limit])
        return TrailPage(entries, head, entries[-1].number if len(rows) > limit else None)

    def window(
        self,
        actor: Actor,
        *,
        before: int | None = None,
        after: int | None = None,
        limit: int = 50,
        kind: str | None = None,
    ) -> TrailWindow:
        """Return the newest entries, or those next to a number; ``kind`` as for :meth:`page`."""
        actor.require(Permission.AUDIT)
        forwards = before is None and after is not None
        query = select(ENTRIES)
        if kind is not None:
            query = query.where(ENTRIES.c.kind.startswith(kind, autoescape=True))
        if before is not None:
            query = query.where(ENTRIES.c.number < before)
        elif after is not None:
            query = query.where(ENTRIES.c.number > after)
        query = query.order_by(ENTRIES.c.number if forwards else ENTRIES.c.number.desc()).limit(limit + 1)
        with self.database.reading() as snapshot:
            rows = snapshot.connection.execute(query).all()
            head = snapshot.head()
        more = len(rows) > limit
        entries = tuple(entry_of(row) for row in rows[:limit])
        if forwards:
            return TrailWindow(entries[::-1], head, more_before=True, more_after=more)
        return TrailWindow(entries, head, more_before=more, more_after=before is not None)

    def verify(self, actor: Actor) -> Head:
        """Check every entry, and that the requests agree with them; raise if anything was changed."""
        actor.require(Permission.AUDIT)
        head = self.database.ledger.head()
        self.database.ledger.verify(head)
        self.database.book.verify()
        return head
