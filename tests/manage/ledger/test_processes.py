"""Several processes at once, and processes that are killed: no gap, no half-written batch, one winner."""

import signal
import time

import pytest

from eupg.errors import LedgerUnavailable
from eupg.manage.ledger.database import Database
from eupg.manage.ledger.ledger import Ledger
from eupg.manage.ledger.migrations import create_entries, migrate
from eupg.manage.requests.book import Receipt, RequestBook, State, Step

WRITER = """
import sys
from eupg.manage.ledger.ledger import Ledger
with Ledger(sys.argv[1]) as ledger:
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range(200):
        ledger.append("note", {"writer": sys.argv[2], "i": i})
"""


@pytest.mark.parametrize("writers", [2, 8])
def test_processes_append_without_gap_or_loss(places, url, writers):
    places.finish(*(places.start(WRITER, url, name) for name in range(writers)))
    with Ledger(url) as ledger:
        ledger.verify()
        entries = list(ledger.entries())
    assert [entry.number for entry in entries] == list(range(1, 200 * writers + 1))
    for name in range(writers):
        own = [entry.body["i"] for entry in entries if entry.body["writer"] == str(name)]
        assert own == list(range(200)), "each writer's events keep their order"


OPENER = """
import sys
from eupg.manage.ledger.ledger import Ledger
print("ready", flush=True)
sys.stdin.readline()
with Ledger(sys.argv[1]) as ledger:
    ledger.append("note", {})
"""


def test_processes_open_a_new_ledger_at_the_same_moment(places, url):
    places.finish(*(places.start(OPENER, url) for _ in range(6)))
    with Ledger(url) as ledger:
        ledger.verify()
        assert ledger.head().number == 6
    assert places.sql(url, "SELECT version FROM schema_version ORDER BY version") == [(1,), (2,), (3,), (4,), (5,)]


RACER = """
import sys
from eupg.errors import RequestRefused
from eupg.manage.ledger.ledger import Ledger
from eupg.manage.requests.book import RequestBook, State
with Ledger(sys.argv[1]) as ledger:
    book, won = RequestBook(ledger), []
    print("ready", flush=True)
    sys.stdin.readline()
    for name in sys.argv[3].split():
        try:
            won.append(book.advance(name, State(sys.argv[2])).id)
        except RequestRefused:
            pass
print(*won)
"""


@pytest.mark.parametrize("state", [State.ACCEPTED, State.PROCESSING])
def test_of_two_processes_that_want_the_same_step_exactly_one_takes_it(places, url, state):
    with Ledger(url) as ledger:
        book = RequestBook(ledger)
        names = [each.request.id for each in book.receive_many(Receipt("person", f"{i:032x}") for i in range(60))]
        if state is State.PROCESSING:
            book.advance_many(Step(name, State.ACCEPTED) for name in names)
        won = places.finish(*(places.start(RACER, url, state, " ".join(names)) for _ in range(2)))
        assert sorted(" ".join(won).split()) == sorted(names)
        assert book.status().counts[state] == 60
        book.verify()


RECEIVER = """
import sys
from eupg.manage.ledger.ledger import Ledger
from eupg.manage.requests.book import RequestBook
with Ledger(sys.argv[1]) as ledger:
    book = RequestBook(ledger)
    print("ready", flush=True)
    sys.stdin.readline()
    print(*(book.receive("person", f"{i:032x}").repeated for i in range(60)))
"""


def test_two_processes_that_receive_the_same_make_one_request(places, url):
    with Ledger(url) as ledger:
        answers = places.finish(*(places.start(RECEIVER, url) for _ in range(2)))
        pairs = list(zip(*(answer.split() for answer in answers), strict=True))
        assert {tuple(sorted(pair)) for pair in pairs} == {("False", "True")}
        assert RequestBook(ledger).status().open == 60


BATCH = """
import sys
from eupg.manage.ledger.ledger import Ledger
with Ledger(sys.argv[1]) as ledger:
    ledger.append_many([("note", {"i": i}) for i in range(500)])
"""


@pytest.mark.parametrize(("boundary", "left"), [(1, 0), (2, 500)], ids=["before commit", "after commit"])
def test_process_killed_at_the_commit_leaves_all_or_nothing(places, url, boundary, left):
    with Ledger(url) as ledger:
        process = places.start(BATCH, url, EUPG_KILL_AT=str(boundary))
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
        ledger.verify()
        assert ledger.head().number == left


BATCHES = """
import sys
from eupg.manage.ledger.ledger import Ledger
with Ledger(sys.argv[1]) as ledger:
    while True:
        entry = ledger.append_many([("note", {"i": i}) for i in range(300)])[-1]
        print(entry.number, flush=True)
"""


@pytest.mark.parametrize("delay_s", [0.0, 0.011, 0.023, 0.041])
def test_process_killed_at_any_moment_leaves_whole_batches_and_all_that_it_was_told_of(places, url, delay_s):
    with Ledger(url) as ledger:
        process = places.start(BATCHES, url)
        told = int(process.stdout.readline())
        time.sleep(delay_s)
        process.kill()
        told = max([told, *map(int, process.communicate()[0].split())])
        ledger.append("after", {})
        ledger.verify()
        before = ledger.head().number - 1
        assert before % 300 == 0
        assert before >= told


FORK = """
import os, sys
from eupg.manage.ledger.ledger import Ledger
with Ledger(sys.argv[1]) as ledger:
    ledger.append("parent", {})
    child = os.fork()
    if not child:
        for i in range(50):
            ledger.append("child", {"i": i})
        os._exit(0)
    for i in range(50):
        ledger.append("parent", {"i": i})
    assert os.waitpid(child, 0)[1] == 0
    ledger.verify()
    assert ledger.head().number == 101
"""


def test_forked_process_opens_connections_of_its_own(places, url):
    process = places.start(FORK, url)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said


def tables(places, url):
    if places.kind == "sqlite":
        found = places.sql(url, "SELECT name FROM sqlite_master WHERE type = 'table'")
    else:
        found = places.sql(url, "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    return {name for (name,) in found}


def test_migration_that_fails_half_way_leaves_the_old_schema(places, url):
    def broken(connection):
        connection.exec_driver_sql("CREATE TABLE half (a INTEGER)")
        connection.exec_driver_sql("INSERT INTO half VALUES (1)")
        raise ZeroDivisionError

    database = Database(url, timeout_s=5)
    with pytest.raises(ZeroDivisionError):
        migrate(database, (create_entries, broken))
    database.close()
    assert tables(places, url) == {"ledger", "entries", "schema_version"}
    assert places.sql(url, "SELECT version FROM schema_version") == [(1,)]


def test_first_migration_that_fails_leaves_nothing(places, url):
    def broken(connection):
        create_entries(connection)
        raise ZeroDivisionError

    database = Database(url, timeout_s=5)
    with pytest.raises(ZeroDivisionError):
        migrate(database, (broken,))
    database.close()
    assert tables(places, url) == set()


def test_older_database_keeps_its_entries_when_it_is_opened(places, url):
    database = Database(url, timeout_s=5)
    migrate(database, (create_entries,))
    database.close()
    at, start = "2027-01-01T00:00:00.000000+00:00", "0" * 64
    places.sql(url, "INSERT INTO entries VALUES (1, :at, 'note', '{}', :start, :start)", at=at, start=start)
    with Ledger(url) as ledger:
        assert [entry.kind for entry in ledger.entries()] == ["note"]
        assert RequestBook(ledger).status().open == 0


def test_database_of_a_newer_version_is_refused(places, url):
    Ledger(url).close()
    places.sql(url, "INSERT INTO schema_version VALUES (99)")
    with pytest.raises(LedgerUnavailable, match="schema version 99, this version of eupg knows 5: update eupg"):
        Ledger(url)
