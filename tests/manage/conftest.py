"""Ledgers to test with: the same tests over SQLite and over PostgreSQL, each on a database of its own."""

import os
import subprocess
import sys
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import create_engine, text

from eupg.manage.ledger.ledger import Ledger
from eupg.manage.requests.book import RequestBook, State

POSTGRES = os.environ.get("EUPG_TEST_POSTGRES")

WAYS = {
    State.RECEIVED: [],
    State.VERIFIED: [State.VERIFIED],
    State.ACCEPTED: [State.ACCEPTED],
    State.REJECTED: [State.REJECTED],
    State.CANCELLED: [State.CANCELLED],
    State.PROCESSING: [State.ACCEPTED, State.PROCESSING],
    State.FAILED: [State.ACCEPTED, State.PROCESSING, State.FAILED],
    State.COMPLETED: [State.ACCEPTED, State.PROCESSING, State.COMPLETED],
    State.CERTIFIED: [State.ACCEPTED, State.PROCESSING, State.COMPLETED, State.CERTIFIED],
}


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = datetime(2027, 1, 15, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **span) -> None:
        self.now += timedelta(**span)


class Places:
    """Empty databases of one kind, and what somebody can do to them who does not use the library."""

    def __init__(self, kind, folder) -> None:
        self.kind, self._folder = kind, folder
        self._schemas: list[str] = []

    def new(self) -> str:
        name = f"ledger_{uuid.uuid4().hex}"
        if self.kind == "sqlite":
            return f"sqlite:///{self._folder}/{name}.db"
        self.sql(POSTGRES, f"CREATE SCHEMA {name}")
        self._schemas.append(name)
        return f"{POSTGRES}&options=-csearch_path%3D{name}"

    def open(self, **options) -> Ledger:
        return Ledger(self.new(), **options)

    def sql(self, url, *statements, **values):
        """Run statements behind the ledger's back, and return what the last one found."""
        engine = create_engine(url)
        try:
            with engine.begin() as connection:
                results = [connection.execute(text(statement), values) for statement in statements]
                return results[-1].fetchall() if results[-1].returns_rows else []
        finally:
            engine.dispose()

    def drop_guards(self, url) -> None:
        """Take away the triggers that refuse changes."""
        if self.kind == "sqlite":
            names = self.sql(url, "SELECT name FROM sqlite_master WHERE type = 'trigger'")
            self.sql(url, *(f"DROP TRIGGER {name}" for (name,) in names))
        else:
            self.sql(url, "DROP FUNCTION append_only() CASCADE")

    def start(self, code, *arguments, **environment) -> subprocess.Popen:
        """Start another process."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
        return subprocess.Popen(command, env=os.environ | environment, text=True, **pipes)

    def finish(self, *processes) -> list[str]:
        """Let waiting processes go at the same moment; return what each of them printed."""
        for process in processes:
            assert process.stdout.readline() == "ready\n", process.communicate()[1]
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        printed = []
        for process in processes:
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
            printed.append(out)
        return printed

    def remove(self) -> None:
        if self._schemas:
            self.sql(POSTGRES, *(f"DROP SCHEMA {name} CASCADE" for name in self._schemas))


KINDS = [
    "sqlite",
    pytest.param(
        "postgresql",
        marks=pytest.mark.skipif(not POSTGRES, reason="EUPG_TEST_POSTGRES is not set: see .ci/postgres"),
    ),
]


@pytest.fixture(scope="module", params=KINDS)
def places(request, tmp_path_factory):
    made = Places(request.param, tmp_path_factory.mktemp("ledgers"))
    yield made
    made.remove()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Databases in files, for what only SQLite does."""
    return Places("sqlite", tmp_path_factory.mktemp("files"))


@pytest.fixture
def url(places):
    return places.new()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def ledger(url, clock):
    with Ledger(url, clock=clock) as opened:
        yield opened


@pytest.fixture
def book(ledger):
    return RequestBook(ledger)


@pytest.fixture
def received_in(book):
    """Make a request and take it to a state."""

    def receive(state, digest="a1" * 16):
        request = book.receive("person", digest).request
        for step in WAYS[state]:
            request = book.advance(request.id, step, reason="because")
        assert request.state is state
        return request

    return receive
