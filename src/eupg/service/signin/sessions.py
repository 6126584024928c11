"""Sessions of people who signed in with a browser; a cookie holds a token, and the database its hash."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, insert, select, update

from eupg.service.access import Actor, ServiceRole, permissions_of
from eupg.service.database import ACCOUNTS, SESSIONS, Act, ServiceDatabase
from eupg.service.settings import SessionSettings

# Noting every call would make each read a write.
_NOTED_EVERY_S = 60.0


@dataclass(frozen=True)
class Session:
    """A sign-in that is still valid."""

    token: str
    actor: Actor


class Sessions:
    """Begins, finds and ends sessions.

    A token is drawn when somebody signs in and never taken from the browser, so nobody can plant one. A session ends
    after a time without use, after its lifetime, at sign-out, or when the same account signs in anew in that browser.
    """

    def __init__(
        self, database: ServiceDatabase, settings: SessionSettings, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._database, self._settings, self._clock = database, settings, clock

    def begin(self, account: str, name: str, roles: Sequence[ServiceRole], *, replaced: str | None = None) -> Session:
        """Sign somebody in under a new token; the session of the token that it replaces ends."""
        token, now = secrets.token_urlsafe(32), self._clock()
        actor = Actor(account, name, permissions_of(roles), tuple(roles))
        with self._database.writing() as transaction:
            old = [] if replaced is None else [SESSIONS.c.hash == _hash(replaced)]
            oldest = now - self._settings.lifetime_s
            transaction.connection.execute(delete(SESSIONS).where(SESSIONS.c.created_at < oldest))
            for condition in old:
                transaction.connection.execute(delete(SESSIONS).where(condition))
            row = {"hash": _hash(token), "account": account, "roles": json.dumps(list(roles)), "state": "{}"}
            transaction.connection.execute(insert(SESSIONS), [row | {"created_at": now, "seen_at": now}])
            self._database.note(transaction, [Act("signed-in", actor, details={"roles": list(roles)})])
        return Session(token, actor)

    def find(self, token: str) -> Session | None:
        """Return the session of a token; None if there is none, or it has ended."""
        wanted = select(SESSIONS, ACCOUNTS.c.name).join(ACCOUNTS, ACCOUNTS.c.id == SESSIONS.c.account)
        with self._database.reading() as snapshot:
            row = snapshot.connection.execute(wanted.where(SESSIONS.c.hash == _hash(token))).first()
        now = self._clock()
        if row is None or now > row.seen_at + self._settings.idle_s or now > row.created_at + self._settings.lifetime_s:
            return None
        if now > row.seen_at + _NOTED_EVERY_S:
            with self._database.writing() as transaction:
                seen = update(SESSIONS).where(SESSIONS.c.hash == row.hash).values(seen_at=now)
                transaction.connection.execute(seen)
        roles = tuple(ServiceRole(role) for role in json.loads(row.roles))
        return Session(token, Actor(row.account, row.name, permissions_of(roles), roles))

    def end(self, token: str) -> None:
        """Sign out."""
        with self._database.writing() as transaction:
            transaction.connection.execute(delete(SESSIONS).where(SESSIONS.c.hash == _hash(token)))


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
