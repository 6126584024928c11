"""The database of the ledger: one writer at a time, on disk before a write returns, in SQLite and in PostgreSQL.

The two differ in how they admit a single writer, give a reader a consistent view, and report errors. All of that is
here, so the rest of the ledger does not depend on which one it is.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import time
from collections.abc import Iterator, Sequence
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
from eupg.files import sync_folder
from eupg.killpoint import checkpoint

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, "55P03"}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, "XX001", "XX002", "42P01", "42703"}
_ASK_AGAIN_S = 0.002
# Of SQLite, as many as threads usually ask at once stay open: opening a connection costs more than a look-up.
_OPEN_CONNECTIONS = 40
# "eupg" in ASCII: keeps our advisory lock apart from those of other programs on the same server.
_LOCK_SPACE = 0x65757067


class Database:
    """A SQLite file or a PostgreSQL schema, opened for many readers and one writer at a time.

    ``place`` is the path of a SQLite file, or a URL (``sqlite:///…`` or ``postgresql://…``) with user, password and
    schema. A writer waits ``timeout_s`` for another one.
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
        """Open a transaction in which everything is read as of one moment; it blocks nobody."""
        with self._translated(), self._alive().connect() as connection:
            options = {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
            with connection.execution_options(**options).begin():
                yield connection

    def close(self) -> None:
        """Close all connections."""
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
            # Nobody can write here, so no journal is needed.
            opened = partial(sqlite3.connect, place, uri=True, check_same_thread=False)
            engine = create_engine(
                url, creator=opened, hide_parameters=True, pool_size=_OPEN_CONNECTIONS, max_overflow=-1
            )
        else:
            _create_file(url)
            options = {"timeout": self._timeout_s}
            engine = create_engine(
                url, connect_args=options, hide_parameters=True, pool_size=_OPEN_CONNECTIONS, max_overflow=-1
            )

        @event.listens_for(engine, "connect")
        def prepare(connection: sqlite3.Connection, _: object) -> None:
            # The driver's own transactions do not include CREATE TABLE, and cannot begin with a write lock.
            connection.isolation_level = None
            if self.read_only:
                return
            self._journal(connection)
            # What is deleted is overwritten with zeros, not left in free pages.
            for pragma in ("synchronous=FULL", "fullfsync=ON", "checkpoint_fullfsync=ON", "secure_delete=ON"):
                connection.execute(f"PRAGMA {pragma}")

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            if connection.get_execution_options().get("writes"):
                self._begin_writing(connection)
            else:
                connection.exec_driver_sql("BEGIN")

        return engine

    def _begin_writing(self, connection: Connection) -> None:
        """Wait for the writer's place.

        SQLite itself asks less and less often, up to a tenth of a second apart, so that among busy writers whoever has
        waited longest is served last. Here everybody asks equally often.
        """
        driver: Any = connection.connection.dbapi_connection
        end = time.monotonic() + self._timeout_s
        driver.execute("PRAGMA busy_timeout=0")
        try:
            while True:
                try:
                    driver.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode & 0xFF not in _BUSY or time.monotonic() > end:
                        break
                time.sleep(random.uniform(0.5, 1.5) * _ASK_AGAIN_S)
        finally:
            driver.execute(f"PRAGMA busy_timeout={int(self._timeout_s * 1000)}")
        # For the error, in the form in which all others come.
        driver.execute("PRAGMA busy_timeout=0")
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    def _journal(self, connection: sqlite3.Connection) -> None:
        # Turning on the journal does not wait for another process that does the same: wait here.
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
            # SQLite may quote an undecodable name from a damaged file, and the driver cannot read the message.
            raise LedgerCorrupt(f"{self.name}: the database is damaged; restore it from a backup") from error

    def _plain(self, error: DBAPIError) -> EupgError:
        cause: Any = error.orig
        code = getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorcode", None)
        code = code & 0xFF if isinstance(code, int) else code
        report = f"{self.name}: {str(cause).strip()}"
        if code in _BUSY:
            return LedgerBusy(
                f"{report}: another writer has held the ledger for {self._timeout_s:g} s; "
                "wait for it to finish, or pass a longer timeout_s"
            )
        if isinstance(error, IntegrityError):
            return LedgerCorrupt(f"{report}: the stored entries contradict each other; verify() tells where")
        if code in _DAMAGED or "decode to UTF-8" in report:
            return LedgerCorrupt(f"{report}: the database is damaged; verify() tells where, restore it from a backup")
        return LedgerUnavailable(
            f"{report}: the ledger was not written; check space, permissions and the server, then try again"
        )


def insert_rows(connection: Connection, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows into a table, values in the order of the columns; they are handed to the driver as they are."""
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    places = ", ".join([mark] * len(columns))
    connection.exec_driver_sql(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", list(rows))


def among(connection: Connection, column: str, name: str) -> str:
    """Return, in SQL, whether a column holds one of the values of a list that is bound to this name."""
    if connection.dialect.name == "sqlite":
        return f"{column} IN (SELECT value FROM json_each(:{name}))"
    return f"{column} = ANY(:{name})"


def listed(connection: Connection, values: Sequence[str]) -> str | list[str]:
    """Return a list of texts in the form in which :func:`among` expects it: one value, however long the list is."""
    return json.dumps(list(values)) if connection.dialect.name == "sqlite" else list(values)


def _url(place: str | Path | URL) -> URL:
    if isinstance(place, Path) or (isinstance(place, str) and "://" not in place):
        return URL.create("sqlite", database=str(place))
    try:
        url = make_url(place)
    except ArgumentError:
        # The text is not repeated: it may contain a password.
        raise ParameterError("the ledger's URL cannot be read: write sqlite:///path or postgresql://…") from None
    if url.get_backend_name() == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() != "sqlite":
        raise ParameterError(f"a ledger is kept in SQLite or PostgreSQL, got {url.get_backend_name()!r}")
    return url


def _postgresql(url: URL) -> Engine:
    try:
        # Prepared statements are planned without their values, and would compare 5,000 digests one by one.
        options = {"prepare_threshold": None}
        return create_engine(url, connect_args=options, hide_parameters=True, max_overflow=-1, pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise MissingFramework(f"a ledger in PostgreSQL needs {error.name}: pip install 'psycopg[binary]'") from error


def _is_read_only(url: URL) -> bool:
    """Return whether a ledger is in a folder that cannot be written, and no entry of it is only in its journal."""
    if not url.database:
        return False
    path = Path(url.database)
    journal = path.with_name(f"{path.name}-wal")
    whole = not journal.exists() or journal.stat().st_size == 0
    return path.is_file() and whole and not os.access(path.parent, os.W_OK)


def _create_file(url: URL) -> None:
    """Make the SQLite file readable to its owner alone; its journal inherits that."""
    if not url.database or url.database == ":memory:" or url.query:
        raise ParameterError("a ledger outlives its process: pass the path of a file, without options")
    path = Path(url.database)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        sync_folder(path.parent, f"{path} is made, but may not survive a power failure")
    except FileExistsError:
        pass
    except OSError as error:
        raise LedgerUnavailable(
            f"{path}: the ledger cannot be created ({error.strerror or error}): choose a folder that exists and can be "
            "written"
        ) from error
