"""A lease: one worker at a time, and a number that shuts out one that was taken for dead.

A worker that pauses for longer than its lease may wake up while another one works. Every transaction in which it would
note something checks that its number is still the newest, so what it believes no longer counts.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import insert, select, update

from eupg.errors import LeaseLost
from eupg.manage.ledger.transaction import Transaction
from eupg.service.database import LEASES, ServiceDatabase

_log = logging.getLogger("eupg.service.worker")


class Lease:
    """The right to work, until it ends or is renewed."""

    def __init__(
        self, database: ServiceDatabase, name: str, *, seconds: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._database, self._name, self._seconds, self._clock = database, name, seconds, clock
        self._holder, self.token = secrets.token_hex(8), 0

    def take(self) -> bool:
        """Take the lease if nobody else holds it, or renew it; a new holder gets a higher number."""
        with self._database.writing() as transaction:
            connection, now = transaction.connection, self._clock()
            row = connection.execute(select(LEASES).where(LEASES.c.name == self._name)).first()
            values = {"holder": self._holder, "until": now + self._seconds}
            if row is None:
                self.token = 1
                connection.execute(insert(LEASES), [values | {"name": self._name, "token": 1}])
                return True
            mine = row.holder == self._holder and row.token == self.token
            if not mine and row.until > now:
                return False
            self.token = row.token if mine else row.token + 1
            change = update(LEASES).where(LEASES.c.name == self._name)
            connection.execute(change.values(**values, token=self.token))
            return True

    def release(self) -> None:
        """Let the next worker begin at once."""
        with self._database.writing() as transaction:
            mine = (LEASES.c.name == self._name) & (LEASES.c.holder == self._holder) & (LEASES.c.token == self.token)
            transaction.connection.execute(update(LEASES).where(mine).values(until=self._clock()))

    def check(self, transaction: Transaction) -> None:
        """Raise unless this is still the newest holder; called in every transaction of a worker."""
        row = transaction.connection.execute(select(LEASES).where(LEASES.c.name == self._name)).first()
        if row is None or row.holder != self._holder or row.token != self.token:
            raise LeaseLost("another worker has taken over: this one notes nothing, and begins anew")

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Open a transaction that counts only while the lease is held."""
        with self._database.writing() as transaction:
            self.check(transaction)
            yield transaction

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew the lease in a second thread while the block runs."""
        stop = threading.Event()

        def renew() -> None:
            while not stop.wait(self._seconds / 3):
                try:
                    if not self.take():
                        return
                except Exception as error:
                    _log.warning("the lease was not renewed", extra={"error": type(error).__name__})

        thread = threading.Thread(target=renew, name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
