"""The ledger's tables, and the steps that bring older databases up to date.

Each step and the note that it was done are one transaction: a step that fails leaves the schema unchanged. A step that
was ever released is never edited; a change is a new step at the end.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TypeAlias

from sqlalchemy import Connection, inspect, text

from eupg.errors import LedgerCorrupt, LedgerMissing, LedgerUnavailable
from eupg.manage.ledger.database import Database

Migration: TypeAlias = Callable[[Connection], None]

_REFUSAL = "the ledger is append-only: entries are never changed or deleted"

# INSERT OR REPLACE deletes without firing the trigger for deletion, so inserting at a taken place is guarded too.
_SQLITE_GUARDS = {
    f"{table}_{name}": f"CREATE TRIGGER {table}_{name} BEFORE {when} BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
    for table, name, when in (
        ("entries", "unchanged", "UPDATE ON entries"),
        ("entries", "undeleted", "DELETE ON entries"),
        (
            "entries",
            "at_the_end",
            "INSERT ON entries WHEN EXISTS (SELECT 1 FROM entries WHERE number >= NEW.number)",
        ),
        ("ledger", "unchanged", "UPDATE ON ledger"),
        ("ledger", "undeleted", "DELETE ON ledger"),
        ("ledger", "alone", "INSERT ON ledger WHEN EXISTS (SELECT 1 FROM ledger)"),
    )
}
_POSTGRESQL_BODY = f"BEGIN RAISE EXCEPTION '{_REFUSAL}'; END"
_POSTGRESQL_GUARDS = {
    f"{table}_append_only": f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
    "FOR EACH STATEMENT EXECUTE FUNCTION append_only()"
    for table in ("entries", "ledger")
}


def create_entries(connection: Connection) -> None:
    """Make the table of entries, the ledger's random id, and the guards that refuse changes to both."""
    sqlite = connection.dialect.name == "sqlite"
    number, words = ("INTEGER", "TEXT") if sqlite else ("BIGINT", 'TEXT COLLATE "C"')
    connection.exec_driver_sql(f"CREATE TABLE ledger (id {words} PRIMARY KEY)")
    connection.execute(text("INSERT INTO ledger (id) VALUES (:id)"), {"id": secrets.token_hex(16)})
    connection.exec_driver_sql(
        f"CREATE TABLE entries (number {number} PRIMARY KEY, at {words} NOT NULL, kind {words} NOT NULL, "
        f"body {words} NOT NULL, previous {words} NOT NULL, digest {words} NOT NULL)"
    )
    if not sqlite:
        connection.exec_driver_sql(
            f"CREATE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS $${_POSTGRESQL_BODY}$$"
        )
    for guard in (_SQLITE_GUARDS if sqlite else _POSTGRESQL_GUARDS).values():
        connection.exec_driver_sql(guard)


def create_requests(connection: Connection) -> None:
    """Make the index of erasure requests, with at most one open request per person or record."""
    sqlite = connection.dialect.name == "sqlite"
    number, words = ("INTEGER", "TEXT") if sqlite else ("BIGINT", 'TEXT COLLATE "C"')
    connection.exec_driver_sql(
        f"CREATE TABLE requests (id {words} PRIMARY KEY, unit {words} NOT NULL, digest {words} NOT NULL, "
        f"channel {words}, state {words} NOT NULL, verified BOOLEAN NOT NULL, extended BOOLEAN NOT NULL, "
        f"received_at {words} NOT NULL, due {words} NOT NULL, reason {words}, "
        f"first {number} NOT NULL, last {number} NOT NULL)"
    )
    connection.exec_driver_sql("CREATE INDEX requests_by_state ON requests (state, due)")
    connection.exec_driver_sql("CREATE INDEX requests_by_digest ON requests (unit, digest)")
    connection.exec_driver_sql(
        "CREATE UNIQUE INDEX requests_open_once ON requests (unit, digest) "
        "WHERE state IN ('received', 'verified', 'accepted', 'processing', 'failed')"
    )


def index_kinds(connection: Connection) -> None:
    """Make an index by kind, which finds the newest entry of a kind at once in a long ledger."""
    connection.exec_driver_sql("CREATE INDEX entries_by_kind ON entries (kind, number)")


def index_bodies(connection: Connection) -> None:
    """Make indexes by the request and by the reference that a body names, which find the entries of one at once."""
    for field in ("request", "reference"):
        named, value = body_field(field, sqlite=connection.dialect.name == "sqlite")
        connection.exec_driver_sql(f"CREATE INDEX entries_by_{field} ON entries (({value})) WHERE {named}")


def allow_batches(connection: Connection) -> None:
    """Let one entry hold the same event of many requests: an earlier version would not see what it says of them."""


def body_field(field: str, *, sqlite: bool) -> tuple[str, str]:
    """Return, in SQL, whether a body names a request or a reference, and which.

    Bodies are canonical, so the name occurs in them in exactly one form, and ids have one length.
    """
    length = {"request": 18, "reference": 32}[field]
    mark = f'"{field}":"'
    place = f"{'instr' if sqlite else 'strpos'}(body, '{mark}')"
    return f"{place} > 0", f"substr(body, {place} + {len(mark)}, {length})"


MIGRATIONS: tuple[Migration, ...] = (create_entries, create_requests, index_kinds, index_bodies, allow_batches)


def migrate(database: Database, migrations: tuple[Migration, ...] = MIGRATIONS, *, create: bool = True) -> None:
    """Bring a database to the newest schema; two processes may do this at the same moment.

    Raises :class:`LedgerMissing` if it holds no ledger and none may be made, and :class:`LedgerUnavailable` if a newer
    version of this library wrote it.
    """
    with database.reading() as connection:
        version = _version(connection)
    if version == 0 and not create:
        raise LedgerMissing(
            f"{database.name} holds no ledger: restore it from a backup; no new ledger is made in its place"
        )
    if version > len(migrations):
        raise LedgerUnavailable(
            f"{database.name} has schema version {version}, this version of eupg knows {len(migrations)}: "
            "update eupg to open it"
        )
    if database.read_only:
        return
    for number, step in enumerate(migrations[version:], start=version + 1):
        with database.writing() as connection:
            # Another process may have been faster.
            if _version(connection) >= number:
                continue
            step(connection)
            if number == 1:
                connection.exec_driver_sql("CREATE TABLE schema_version (version INTEGER PRIMARY KEY)")
            connection.execute(text("INSERT INTO schema_version (version) VALUES (:number)"), {"number": number})


def check_guards(connection: Connection) -> None:
    """Raise if a guard that refuses changes is missing, altered or switched off."""
    if connection.dialect.name == "sqlite":
        expected = _SQLITE_GUARDS
        triggers = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    else:
        expected = dict.fromkeys(_POSTGRESQL_GUARDS, _POSTGRESQL_BODY)
        # 58: before UPDATE (16), DELETE (8) or TRUNCATE (32), a statement at a time; 2 stands for "before".
        triggers = connection.exec_driver_sql(
            "SELECT t.tgname, p.prosrc FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid "
            "WHERE pg_table_is_visible(t.tgrelid) AND t.tgenabled IN ('O', 'A') AND t.tgtype = 58"
        )
    guards = {str(name): source for name, source in triggers}
    for name, source in expected.items():
        if guards.get(name) != source:
            raise LedgerCorrupt(
                f"the guard {name!r} that keeps entries from being changed is missing or was altered: find out who did "
                "that, compare the ledger with the heads in issued certificates, then restore it from a backup"
            )


def _version(connection: Connection) -> int:
    if not inspect(connection).has_table("schema_version"):
        return 0
    return int(connection.exec_driver_sql("SELECT coalesce(max(version), 0) FROM schema_version").scalar_one())
