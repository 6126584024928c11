"""The database under the ledger: one writer at a time, on disk before it returns, in SQLite and in PostgreSQL.

The two differ in how a writer is let in alone, how a reader gets one consistent view, and how they say what went
wrong. All of that is here, so that nothing above needs to know which one it is.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError

from eupg.errors import (
    EupgError,
    LedgerBusy,
    LedgerCorrupt,
    LedgerMissing,
    LedgerUnavailable,
    MissingFramework,
    ParameterError,
)
from eupg.manage.killpoint import checkpoint

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, "55P03"}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, "XX001", "XX002", "42P01", "42703"}
# "eupg" in ASCII: keeps our advisory lock apart from those of other programs on the same server.
_LOCK_SPACE = 0x65757067


class Database:
    """A SQLite file or a PostgreSQL schema, opened for many readers and one writer at a time.

    Parameters
    ----------
    place
        A path of a SQLite file, or a URL (``sqlite:///…`` or ``postgresql://…``). A PostgreSQL user, password and
        schema are part of the URL.
    create
        Whether to make a SQLite file where there is none.
    timeout_s
        How long a writer waits for the writer before it.
    """

    def __init__(self, place: str | Path | URL, *, create: bool = True, timeout_s: float) -> None:
        if not 0 < timeout_s <= 3600:
            raise ParameterError(f"timeout_s must be above 0 and at most 3600 seconds, got {timeout_s!r}")
        url = _url(place)
        self.name = url.render_as_string(hide_password=True)
        self.is_sqlite = url.get_backend_name() == "sqlite"
        self._timeout_s = timeout_s
        self.read_only = self.is_sqlite and _is_read_only(url)
        if self.is_sqlite and not create and not Path(url.database or "").is_file():
            raise LedgerMissing(f"{self.name} is missing: restore it from a backup; no new ledger is made in its place")
        self._engine = self._sqlite(url) if self.is_sqlite else _postgresql(url)
        self._process = os.getpid()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that no other writer can overlap; it is on disk once this block ends without error."""
        with self._translated(), self._alive().connect() as connection:
            # READ COMMITTED: what is read after the lock was obtained is what the writer before has left.
            options = {} if self.is_sqlite else {"isolation_level": "READ COMMITTED"}
            with connection.execution_options(writes=True, **options).begin():
                if not self.is_sqlite:
                    connection.exec_driver_sql(f"SET LOCAL lock_timeout = {int(self._timeout_s * 1000)}")
                    connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
                    connection.exec_driver_sql(
                        f"SELECT pg_advisory_xact_lock({_LOCK_SPACE}, hashtext(current_schema()::text))"
                    )
                yield connection
                checkpoint("ledger: before commit")
        checkpoint("ledger: after commit")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction in which everything read belongs to one moment; it holds up nobody."""
        with self._translated(), self._alive().connect() as connection:
            options = {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
            with connection.execution_options(**options).begin():
                yield connection

    def close(self) -> None:
        """Let go of all connections."""
        self._alive().dispose()

    def _alive(self) -> Engine:
        # A connection that two processes share after a fork corrupts its database: the child opens its own.
        if os.getpid() != self._process:
            self._engine.dispose(close=False)
            self._process = os.getpid()
        return self._engine

    def _sqlite(self, url: URL) -> Engine:
        if self.read_only:
            place = f"{Path(url.database or '').absolute().as_uri()}?immutable=1"
            # Nobody can write here, so nothing changes while it is read, and no journal is needed.
            opened = partial(sqlite3.connect, place, uri=True, check_same_thread=False)
            engine = create_engine(url, creator=opened, hide_parameters=True, max_overflow=-1)
        else:
            _create_file(url)
            options = {"timeout": self._timeout_s}
            engine = create_engine(url, connect_args=options, hide_parameters=True, max_overflow=-1)

        @event.listens_for(engine, "connect")
        def prepare(connection: sqlite3.Connection, _: object) -> None:
            # The driver's own transactions would leave out CREATE TABLE, and cannot begin with a write lock.
            connection.isolation_level = None
            if self.read_only:
                return
            self._journal(connection)
            for pragma in ("synchronous=FULL", "fullfsync=ON", "checkpoint_fullfsync=ON"):
                connection.execute(f"PRAGMA {pragma}")

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            writes = connection.get_execution_options().get("writes")
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

        return engine

    def _journal(self, connection: sqlite3.Connection) -> None:
        # Turning the journal on does not wait for others who do the same at the same moment: wait here.
        end = time.monotonic() + self._timeout_s
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in _BUSY or time.monotonic() > end:
                    raise
                time.sleep(0.01)
        if mode != "wal":
            raise LedgerUnavailable(
                f"{self.name}: SQLite's write-ahead log cannot be used here (it says {mode!r}): "
                "keep the ledger on a local disk, or use PostgreSQL"
            )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise self._plain(error) from error
        except UnicodeDecodeError as error:
            # Of a damaged file SQLite quotes a name that is no text, and the driver cannot even read the message.
            raise LedgerCorrupt(f"{self.name}: the database is damaged; restore it from a backup") from error

    def _plain(self, error: DBAPIError) -> EupgError:
        cause: Any = error.orig
        code = getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorcode", None)
        code = code & 0xFF if isinstance(code, int) else code
        said = f"{self.name}: {str(cause).strip()}"
        if code in _BUSY:
            return LedgerBusy(
                f"{said}: another writer has held the ledger for {self._timeout_s:g} s; "
                "wait for it to finish, or give a longer timeout_s"
            )
        if isinstance(error, IntegrityError):
            return LedgerCorrupt(f"{said}: what is stored contradicts itself; verify() names where")
        if code in _DAMAGED or "decode to UTF-8" in said:
            return LedgerCorrupt(f"{said}: the database is damaged; verify() names where, restore it from a backup")
        return LedgerUnavailable(
            f"{said}: the ledger was not written; check space, permissions and the server, then try again"
        )


def _url(place: str | Path | URL) -> URL:
    if isinstance(place, Path) or (isinstance(place, str) and "://" not in place):
        return URL.create("sqlite", database=str(place))
    try:
        url = make_url(place)
    except ArgumentError:
        # The text is not repeated: it may hold a password.
        raise ParameterError("the ledger's URL cannot be read: write sqlite:///path or postgresql://…") from None
    if url.get_backend_name() == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() != "sqlite":
        raise ParameterError(f"a ledger lives in SQLite or PostgreSQL, not in {url.get_backend_name()!r}")
    return url


def _postgresql(url: URL) -> Engine:
    try:
        # Prepared statements are planned without their values: a list of 5,000 digests is then compared one by one.
        options = {"prepare_threshold": None}
        return create_engine(url, connect_args=options, hide_parameters=True, max_overflow=-1, pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise MissingFramework(f"a ledger in PostgreSQL needs {error.name}: pip install 'psycopg[binary]'") from error


def _is_read_only(url: URL) -> bool:
    """Tell whether a ledger lies where nothing can be written, and nothing of it is in its journal alone."""
    if not url.database:
        return False
    path = Path(url.database)
    journal = path.with_name(f"{path.name}-wal")
    # An empty journal, or none: everything is in the file itself.
    whole = not journal.exists() or journal.stat().st_size == 0
    return path.is_file() and whole and not os.access(path.parent, os.W_OK)


def _create_file(url: URL) -> None:
    """Make the SQLite file readable to its owner alone; its journal inherits that."""
    if not url.database or url.database == ":memory:" or url.query:
        raise ParameterError("a ledger outlives its process: give the path of a file, without options")
    path = Path(url.database)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except FileExistsError:
        pass
    except OSError as error:
        raise LedgerUnavailable(
            f"{path}: the ledger cannot be created ({error.strerror}): choose a folder that exists and can be written"
        ) from error
