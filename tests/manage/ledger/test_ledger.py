"""The ledger: a chain that can be computed by hand, plain bodies, all or nothing, and nothing is ever changed."""

import hashlib
import itertools
import math
import os
import stat
import threading
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import DBAPIError

from eupg.errors import LedgerBusy, LedgerCorrupt, LedgerUnavailable, ParameterError
from eupg.manage.ledger.events import Head, canonical, digest_of
from eupg.manage.ledger.ledger import Ledger

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
PLAIN = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT
)
JSON = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3))
BODIES = st.dictionaries(TEXT, JSON, max_size=4)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_chain_is_what_a_hand_computes(places, url, clock):
    with Ledger(url, clock=clock) as ledger:
        ledger.append("first.event", {"b": "ü", "a": [1, 2.5, None, True]})
        clock.advance(seconds=1.5)
        second = ledger.append("second", {})
    ((name,),) = places.sql(url, "SELECT id FROM ledger")
    start = sha256(f"eupg-ledger-1:{name}")
    one = sha256(
        '[1,"2027-01-15T12:00:00.000000+00:00","first.event",{"a":[1,2.5,null,true],"b":"\\u00fc"},"' + start + '"]'
    )
    two = sha256('[2,"2027-01-15T12:00:01.500000+00:00","second",{},"' + one + '"]')
    stored = places.sql(url, "SELECT number, previous, digest FROM entries ORDER BY number")
    assert [tuple(row) for row in stored] == [(1, start, one), (2, one, two)]
    assert (second.previous, second.digest) == (one, two)


@pytest.fixture(scope="module")
def shared(places):
    with places.open() as ledger:
        yield ledger


@given(body=BODIES)
def test_any_plain_body_comes_back_as_it_was(shared, body):
    before = shared.head().number
    entry = shared.append("note", body)
    assert list(shared.entries(after=before)) == [entry]
    assert entry.body == body
    shared.verify(shared.head())


@given(body=BODIES)
def test_order_of_keys_does_not_matter(body):
    assert canonical(body) == canonical(dict(reversed(body.items())))


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, (1,), {1}, b"x", {1: "x"}, datetime(2027, 1, 1), np.int64(3), 2**53 + 1, "\ud800"],
    ids=repr,
)
def test_what_is_not_plain_json_is_refused_and_nothing_is_written(ledger, value):
    with pytest.raises(ParameterError, match=r"body\.value"):
        ledger.append_many([("note", {}), ("note", {"value": value})])
    assert ledger.head().number == 0


def test_body_that_holds_itself_is_refused(ledger):
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(ParameterError, match="more than 20 deep"):
        ledger.append("note", {"loop": loop})


@pytest.mark.parametrize("body", [None, [], "text"])
def test_body_is_a_mapping(ledger, body):
    with pytest.raises(ParameterError, match="must be a mapping"):
        ledger.append("note", body)


@pytest.mark.parametrize("kind", ["", "Note", "a b", "a..b", "a.", "x" * 101, 3, "a\n"])
def test_kind_is_small_letter_words(ledger, kind):
    with pytest.raises(ParameterError, match="joined by points"):
        ledger.append(kind, {})


def test_entries_are_found_by_number_and_kind(ledger):
    ledger.append_many([(kind, {"i": i}) for i, kind in enumerate(itertools.islice(itertools.cycle("abc"), 9))])
    assert [entry.number for entry in ledger.entries(after=6)] == [7, 8, 9]
    assert [entry.number for entry in ledger.entries(kinds=["a", "c"], after=1)] == [3, 4, 6, 7, 9]
    assert not list(ledger.entries(kinds=[]))


def test_more_entries_than_a_page_come_in_order(ledger):
    ledger.append_many([("note", {"i": i}) for i in range(4500)])
    assert [entry.body["i"] for entry in ledger.entries()] == list(range(4500))


def test_empty_batch_writes_nothing(ledger):
    assert ledger.append_many([]) == []
    assert ledger.head().number == 0


def test_ledger_is_found_again_when_it_is_opened_again(url):
    with Ledger(url) as first:
        entry, head = first.append("note", {}), first.head()
    with Ledger(url) as second:
        assert list(second.entries()) == [entry]
        second.verify(head)
        assert second.append("note", {}).previous == entry.digest


def test_head_of_an_empty_ledger_is_its_own(places):
    with places.open() as one, places.open() as other:
        one.append("note", {})
        one.verify(Head(0, one.entries().__next__().previous))
        with pytest.raises(LedgerCorrupt, match="entry 0 has digest"):
            one.verify(other.head())


def test_times_are_kept_in_utc(url, clock):
    clock.now = datetime(2027, 6, 1, 1, 30, tzinfo=timezone(timedelta(hours=2)))
    with Ledger(url, clock=clock) as ledger:
        assert ledger.append("note", {}).at == "2027-05-31T23:30:00.000000+00:00"


def test_clock_without_a_zone_is_refused(places):
    with (
        places.open(clock=lambda: datetime(2027, 1, 1)) as ledger,
        pytest.raises(ParameterError, match="needs its zone"),
    ):
        ledger.append("note", {})


def test_block_is_written_as_a_whole_or_not_at_all(ledger):
    with suppress(ZeroDivisionError), ledger.transaction():
        ledger.append("note", {})
        assert ledger.head().number == 1
        raise ZeroDivisionError
    assert ledger.head().number == 0


def test_inner_block_that_fails_is_undone_alone(ledger):
    with ledger.transaction():
        ledger.append("outer", {})
        with suppress(ZeroDivisionError), ledger.transaction():
            ledger.append("inner", {})
            raise ZeroDivisionError
        ledger.append("outer", {})
    assert [entry.kind for entry in ledger.entries()] == ["outer", "outer"]
    ledger.verify()


def test_second_writer_waits_no_longer_than_it_was_told(ledger, url):
    with Ledger(url, timeout_s=0.2) as other, ledger.transaction():
        with pytest.raises(LedgerBusy, match=r"for 0.2 s; wait for it to finish"):
            other.append("note", {})
        assert other.head().number == 0, "readers are not held up"


def test_threads_share_a_ledger(ledger):
    threads = [
        threading.Thread(target=lambda: [ledger.append("note", {"i": i}) for i in range(25)], daemon=True)
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.head().number == 200
    ledger.verify()


CHANGES = {
    "sqlite": (
        "UPDATE entries SET kind = 'x'",
        "DELETE FROM entries",
        "INSERT OR REPLACE INTO entries SELECT number, at, 'x', body, previous, digest FROM entries",
        "UPDATE ledger SET id = 'x'",
        "DELETE FROM ledger",
        "INSERT INTO ledger VALUES ('x')",
    ),
    "postgresql": (
        "UPDATE entries SET kind = 'x'",
        "DELETE FROM entries",
        "TRUNCATE entries",
        "INSERT INTO entries SELECT * FROM entries ON CONFLICT (number) DO UPDATE SET kind = 'x'",
        "UPDATE ledger SET id = 'x'",
        "DELETE FROM ledger",
    ),
}


def test_database_refuses_to_change_entries(places, ledger, url):
    ledger.append("note", {})
    for change in CHANGES[places.kind]:
        with pytest.raises(DBAPIError, match="append-only"):
            places.sql(url, change)
    ledger.verify(ledger.head())


def test_every_commit_is_synced_and_deleted_values_are_overwritten(places, url):
    if places.kind == "sqlite":
        questions = {"PRAGMA journal_mode": "wal", "PRAGMA synchronous": 2, "PRAGMA secure_delete": 1}
    else:
        url, questions = f"{url}%20-csynchronous_commit%3Doff", {"SHOW synchronous_commit": "on"}
    with Ledger(url) as ledger, ledger.transaction() as transaction:
        for question, answer in questions.items():
            assert transaction.connection.exec_driver_sql(question).scalar() == answer


def test_files_are_for_their_owner_alone(tmp_path):
    old = os.umask(0)
    try:
        with Ledger(tmp_path / "ledger.db") as ledger:
            ledger.append("note", {})
            assert len(list(tmp_path.iterdir())) == 3
            assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}
    finally:
        os.umask(old)


def test_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(LedgerUnavailable, match=r"nowhere/ledger.db: the ledger cannot be created \(No such file"):
        Ledger(tmp_path / "nowhere" / "ledger.db")


@pytest.mark.parametrize("place", [":memory:", "sqlite://", "sqlite:///:memory:", "sqlite:///x.db?mode=memory", ""])
def test_ledger_in_memory_is_refused(place):
    with pytest.raises(ParameterError, match="outlives its process"):
        Ledger(place)


@pytest.mark.parametrize("place", ["mysql://host/db", "://", "oracle://x"])
def test_other_databases_are_refused(place):
    with pytest.raises(ParameterError, match=r"(?i)sqlite"):
        Ledger(place)


def test_password_appears_in_no_message(tmp_path):
    with pytest.raises(LedgerUnavailable) as caught:
        Ledger(f"postgresql://somebody:topsecret@/db?host={tmp_path}")
    assert "topsecret" not in str(caught.value)
    assert "somebody" in str(caught.value)


@pytest.mark.parametrize("timeout_s", [0, -1, math.nan, 1e6])
def test_waiting_time_is_positive_and_ends(tmp_path, timeout_s):
    with pytest.raises(ParameterError, match="timeout_s must be above 0"):
        Ledger(tmp_path / "ledger.db", timeout_s=timeout_s)


def test_path_may_hold_any_character(tmp_path):
    path = tmp_path / "a?b#c%20d ü.db"
    with Ledger(Path(path)) as ledger:
        ledger.append("note", {})
    assert path.stat().st_size


def test_digest_tells_all_five_values_apart():
    values = (1, "at", "kind", '{"a":1}', "0" * 64)
    changed = [(2, *values[1:])] + [(*values[:i], values[i] + " ", *values[i + 1 :]) for i in range(1, 5)]
    assert len({digest_of(*each) for each in [values, *changed]}) == 6
