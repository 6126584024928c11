"""The service's database: a ledger with its requests, and beside it the tables that only the service needs.

Everything is written inside a transaction of the ledger, so an act and its consequences are on disk together or not at
all. The ledger holds no personal value; the tables hold sealed identifiers, and hashes of keys and sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    insert,
    inspect,
    select,
)

from eupg.errors import LedgerUnavailable
from eupg.files import make_folder
from eupg.manage.ledger.events import Entry, Json
from eupg.manage.ledger.ledger import Ledger, utc_now
from eupg.manage.ledger.transaction import ENTRIES, Clock, Snapshot, Transaction, entry_of
from eupg.manage.requests.book import RequestBook
from eupg.manage.requests.states import Request
from eupg.service.access import Actor

# The name of the worker's lease.
WORKER = "worker"
_META = MetaData()

# What the service knows about a request besides its state. ``sealed`` is empty once the request is closed.
CASES = Table(
    "cases",
    _META,
    Column("request", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("person", Text, nullable=False),
    Column("sealed", LargeBinary),
    Column("source", Text, nullable=False),
    Column("approved_by", Text),
    Column("tries", Integer, nullable=False, default=0),
    Column("not_before", Text),
    Index("cases_by_owner", "owner", "request"),
    Index("cases_by_person", "person"),
)
# One row per request and workspace.
PARTS = Table(
    "parts",
    _META,
    Column("request", Text, primary_key=True),
    Column("workspace", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("workspace_request", Text),
    Column("reason", Text),
    Column("certificate", Text),
    Index("parts_by_workspace", "workspace", "state"),
)
DOCUMENTS = Table(
    "documents",
    _META,
    Column("digest", Text, primary_key=True),
    Column("request", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Index("documents_by_request", "request", "kind"),
)
# Which ledger entries are about a request, in order.
TRAIL = Table(
    "trail",
    _META,
    Column("request", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True),
)
IDEMPOTENCY = Table(
    "idempotency",
    _META,
    Column("owner", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("request", Text, nullable=False),
)
ACCOUNTS = Table(
    "accounts",
    _META,
    Column("id", Text, primary_key=True),
    Column("provider", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Index("accounts_by_subject", "provider", "subject", unique=True),
)
API_KEYS = Table(
    "api_keys",
    _META,
    Column("id", Text, primary_key=True),
    Column("account", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("expires_at", Text, nullable=False),
    Column("revoked_at", Text),
)
SESSIONS = Table(
    "sessions",
    _META,
    Column("hash", Text, primary_key=True),
    Column("account", Text),
    Column("roles", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("seen_at", Float, nullable=False),
    Index("sessions_by_account", "account"),
)
LEASES = Table(
    "leases",
    _META,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("until", Float, nullable=False),
)
# Where to tell about changes of a request, and the messages that wait to be sent.
SUBSCRIPTIONS = Table(
    "subscriptions",
    _META,
    Column("request", Text, primary_key=True),
    Column("url", Text, primary_key=True),
    Column("format", Text, nullable=False),
    Column("reference", Text),
    Column("secret", LargeBinary, nullable=False),
)
MESSAGES = Table(
    "messages",
    _META,
    Column("id", Text, primary_key=True),
    Column("request", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("next_at", Float, nullable=False),
    Column("error", Text),
    Index("messages_waiting", "state", "next_at"),
)
# Tokens by hash: links to confirm a submission, with its sealed content, links to the status of a request, and signed
# messages that count once.
TOKENS = Table(
    "tokens",
    _META,
    Column("hash", Text, primary_key=True),
    Column("purpose", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("sealed", LargeBinary),
    Column("expires_at", Float, nullable=False),
    Index("tokens_by_expiry", "expires_at"),
)


# Every workspace that a worker has ever found.
WORKSPACES = Table("workspaces", _META, Column("name", Text, primary_key=True))


def _first_tables(connection: Connection) -> None:
    _META.create_all(connection)
    # For pages of requests: by receipt, and by deadline.
    connection.exec_driver_sql("CREATE INDEX requests_by_first ON requests (first)")
    connection.exec_driver_sql("CREATE INDEX requests_by_due ON requests (due, first)")


def _known_workspaces(connection: Connection) -> None:
    WORKSPACES.create(connection, checkfirst=True)


# A step that was ever released is never edited; a change is a new step at the end.
_STEPS: tuple[Callable[[Connection], None], ...] = (_first_tables, _known_workspaces)


@dataclass(frozen=True)
class Act:
    """Something that somebody did, as the ledger notes it."""

    name: str
    actor: Actor
    request: str | None = None
    details: Mapping[str, Json] | None = None

    @property
    def event(self) -> tuple[str, dict[str, Json]]:
        """The kind and body of the entry."""
        body: dict[str, Json] = {"actor": self.actor.id}
        body |= {} if self.actor.key is None else {"key": self.actor.key}
        body |= {} if self.request is None else {"request": self.request}
        return f"act.{self.name}", body | dict(self.details or {})


class ServiceDatabase:
    """The ledger of the service, its requests, and its tables."""

    def __init__(self, place: str | Path, *, clock: Clock = utc_now) -> None:
        if isinstance(place, Path):
            make_folder(place.parent)
        self.now = clock
        self.ledger = Ledger(place, clock=clock)
        self.book = RequestBook(self.ledger)
        self._migrate()

    def _migrate(self) -> None:
        with self.ledger.snapshot() as snapshot:
            version = _version(snapshot.connection)
        if version > len(_STEPS):
            raise LedgerUnavailable(
                f"{self.ledger.name} was written by a newer version of the service: update eupg to open it"
            )
        for number, step in enumerate(_STEPS[version:], start=version + 1):
            with self.ledger.transaction() as transaction:
                connection = transaction.connection
                # Another process may have been faster.
                if _version(connection) >= number:
                    continue
                step(connection)
                if number == 1:
                    connection.exec_driver_sql("CREATE TABLE service_version (version INTEGER PRIMARY KEY)")
                connection.exec_driver_sql(f"INSERT INTO service_version (version) VALUES ({number})")

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Write everything in this block together or not at all."""
        with self.ledger.transaction() as transaction:
            yield transaction

    @contextmanager
    def reading(self) -> Iterator[Snapshot]:
        """Read everything in this block as of one moment."""
        with self.ledger.snapshot() as snapshot:
            yield snapshot

    def note(self, transaction: Transaction, acts: Iterable[Act]) -> list[Entry]:
        """Note acts in the ledger, and in the trail of their requests."""
        acts = list(acts)
        entries = transaction.append_many(act.event for act in acts)
        rows = [
            {"request": act.request, "number": entry.number}
            for act, entry in zip(acts, entries, strict=True)
            if act.request is not None
        ]
        if rows:
            transaction.connection.execute(insert(TRAIL), rows)
        return entries

    def follow(self, transaction: Transaction, requests: Iterable[Request]) -> None:
        """Add the newest entry of each request to its trail."""
        rows = [{"request": request.id, "number": request.last} for request in requests]
        if rows:
            transaction.connection.execute(insert(TRAIL), rows)

    def trail(self, request: str) -> list[Entry]:
        """Return the ledger entries about a request, in order."""
        query = (
            select(ENTRIES).join(TRAIL, TRAIL.c.number == ENTRIES.c.number).where(TRAIL.c.request == request)
        ).order_by(ENTRIES.c.number)
        with self.reading() as snapshot:
            return [entry_of(row) for row in snapshot.connection.execute(query)]

    def close(self) -> None:
        """Release the database."""
        self.ledger.close()


def _version(connection: Connection) -> int:
    if not inspect(connection).has_table("service_version"):
        return 0
    return int(connection.exec_driver_sql("SELECT coalesce(max(version), 0) FROM service_version").scalar_one())
