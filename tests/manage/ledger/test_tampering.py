"""Whoever changes the database by hand, guards dropped, is found out, and the entry is named."""

import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from eupg.errors import LedgerCorrupt, LedgerUnavailable
from eupg.manage.ledger import migrations
from eupg.manage.ledger.events import digest_of
from eupg.manage.ledger.ledger import Ledger
from eupg.manage.requests.book import RequestBook

COUNT = 6
FIELDS = ("at", "kind", "body", "previous", "digest")
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=80)


def written(places):
    """Return a ledger with some entries and no guards, and its head."""
    url = places.new()
    with Ledger(url) as ledger:
        ledger.append_many([("note", {"i": i, "words": "some text"}) for i in range(COUNT)])
        head = ledger.head()
    places.drop_guards(url)
    return url, head


@pytest.fixture(scope="module")
def unguarded(places):
    url, _ = written(places)
    with Ledger(url) as ledger:
        yield url, ledger


@pytest.fixture
def fresh(places):
    return written(places)


def verify(url, head=None):
    with Ledger(url) as ledger:
        ledger.verify(head)


@given(number=st.integers(1, COUNT), field=st.sampled_from(FIELDS), value=TEXT)
def test_any_changed_field_is_found_and_its_entry_named(places, unguarded, number, field, value):
    check_change(places, unguarded, number, field, lambda old: value)


@given(
    number=st.integers(1, COUNT), field=st.sampled_from(FIELDS), place=st.integers(0, 200), letter=st.integers(32, 126)
)
def test_any_changed_letter_is_found_and_its_entry_named(places, unguarded, number, field, place, letter):
    def change(old):
        place_there = place % len(old)
        return old[:place_there] + chr(letter) + old[place_there + 1 :]

    check_change(places, unguarded, number, field, change)


def check_change(places, unguarded, number, field, change):
    url, ledger = unguarded
    ((old,),) = places.sql(url, f"SELECT {field} FROM entries WHERE number = {number}")
    value = change(old)
    assume(value != old)
    update = f"UPDATE entries SET {field} = :value WHERE number = {number}"
    places.sql(url, update, value=value)
    try:
        with pytest.raises(LedgerCorrupt, match=rf"^entry {number} (was changed|does not follow entry {number - 1})"):
            ledger.verify()
    finally:
        places.sql(url, update, value=old)


@given(number=st.integers(1, COUNT), value=st.integers(-100, 100).filter(lambda n: not 1 <= n <= COUNT))
def test_changed_number_is_found(places, unguarded, number, value):
    url, ledger = unguarded
    places.sql(url, f"UPDATE entries SET number = {value} WHERE number = {number}")
    try:
        with pytest.raises(LedgerCorrupt, match=r"^entry \d+ is missing"):
            ledger.verify()
    finally:
        places.sql(url, f"UPDATE entries SET number = {number} WHERE number = {value}")


def test_escaped_character_written_plainly_is_found(places):
    url = places.new()
    with Ledger(url) as ledger:
        ledger.append("note", {"name": "Ā"})
    places.drop_guards(url)
    places.sql(url, "UPDATE entries SET body = :body", body='{"name":"Ā"}')
    with pytest.raises(LedgerCorrupt, match="entry 1 was changed"):
        verify(url)


def test_swapped_entries_are_found(places, fresh):
    swap = ("number = -1 WHERE number = 2", "number = 2 WHERE number = 3", "number = 3 WHERE number = -1")
    places.sql(fresh[0], *(f"UPDATE entries SET {step}" for step in swap))
    with pytest.raises(LedgerCorrupt, match=r"^entry 2 does not follow entry 1"):
        verify(fresh[0])


def test_deleted_entry_is_found(places, fresh):
    places.sql(fresh[0], "DELETE FROM entries WHERE number = 3")
    with pytest.raises(LedgerCorrupt, match=r"^entry 3 is missing: entry 4 stands in its place"):
        verify(fresh[0])


def test_deleted_entry_is_found_though_the_others_moved_up(places, fresh):
    moves = (f"UPDATE entries SET number = {n - 1} WHERE number = {n}" for n in range(4, COUNT + 1))
    places.sql(fresh[0], "DELETE FROM entries WHERE number = 3", *moves)
    with pytest.raises(LedgerCorrupt, match=r"^entry 3 does not follow entry 2"):
        verify(fresh[0])


def insert(places, url, number, previous, body="{}"):
    """Insert an entry whose own digest is right."""
    at, kind = "2027-01-01T00:00:00.000000+00:00", "note"
    values = {"at": at, "kind": kind, "body": body, "previous": previous}
    digest = digest_of(number, at, kind, body, previous)
    into = f"INSERT INTO entries VALUES ({number}, :at, :kind, :body, :previous, :digest)"
    places.sql(url, into, digest=digest, **values)
    return digest


def test_inserted_entry_is_found(places, fresh):
    url = fresh[0]
    ((previous,),) = places.sql(url, "SELECT digest FROM entries WHERE number = 2")
    moves = (f"UPDATE entries SET number = {n + 1} WHERE number = {n}" for n in range(COUNT, 2, -1))
    places.sql(url, *moves)
    insert(places, url, 3, previous)
    with pytest.raises(LedgerCorrupt, match=r"^entry 4 does not follow entry 3"):
        verify(url)


def test_entry_before_the_first_is_found(places, fresh):
    insert(places, fresh[0], 0, "0" * 64)
    with pytest.raises(LedgerCorrupt, match=r"^entry 1 is missing: entry 0 stands in its place"):
        verify(fresh[0])


def test_forged_entry_with_a_right_digest_is_found_behind_it(places, fresh):
    url = fresh[0]
    ((previous,),) = places.sql(url, "SELECT previous FROM entries WHERE number = 3")
    places.sql(url, "DELETE FROM entries WHERE number = 3")
    insert(places, url, 3, previous, '{"i":9}')
    with pytest.raises(LedgerCorrupt, match=r"^entry 4 does not follow entry 3"):
        verify(url)


def guard_again(places, url):
    """Leave nothing but the entries to be found wrong."""
    if places.kind == "sqlite":
        places.sql(url, *migrations._SQLITE_GUARDS.values())
    else:
        body = migrations._POSTGRESQL_BODY
        function = f"CREATE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS $${body}$$"
        places.sql(url, function, *migrations._POSTGRESQL_GUARDS.values())


def test_cut_off_end_is_found_through_a_head_and_not_without(places, fresh):
    url, head = fresh
    places.sql(url, f"DELETE FROM entries WHERE number > {COUNT - 2}")
    guard_again(places, url)
    verify(url)
    with pytest.raises(LedgerCorrupt, match=f"ends at entry {COUNT - 2}, but entry {COUNT} was written"):
        verify(url, head)


def test_emptied_ledger_is_found_through_a_head(places, fresh):
    url, head = fresh
    places.sql(url, "DELETE FROM entries")
    with pytest.raises(LedgerCorrupt, match=f"ends at entry 0, but entry {COUNT} was written"):
        verify(url, head)


def test_end_that_was_written_anew_is_found_through_a_head_and_not_without(places, fresh):
    url, head = fresh
    places.sql(url, f"DELETE FROM entries WHERE number = {COUNT}")
    guard_again(places, url)
    with Ledger(url) as ledger:
        ledger.append_many([("note", {"forged": True})] * 3)
    verify(url)
    with pytest.raises(LedgerCorrupt, match=f"^entry {COUNT} has digest"):
        verify(url, head)


def test_entries_of_another_ledger_are_found(places, fresh):
    places.sql(fresh[0], "UPDATE ledger SET id = 'another'")
    with pytest.raises(LedgerCorrupt, match=r"^entry 1 does not follow entry 0"):
        verify(fresh[0])


def test_missing_guard_is_found(places, fresh):
    with pytest.raises(LedgerCorrupt, match=r"the guard 'entries_.*' that keeps entries from being changed is missing"):
        verify(fresh[0])
    guard_again(places, fresh[0])
    verify(*fresh)


def test_guard_that_does_nothing_is_found(places, fresh):
    url = fresh[0]
    guard_again(places, url)
    if places.kind == "sqlite":
        name = "entries_undeleted"
        idle = f"CREATE TRIGGER {name} BEFORE DELETE ON entries BEGIN SELECT 1; END"
        places.sql(url, f"DROP TRIGGER {name}", idle)
    else:
        name = "entries_append_only"
        places.sql(url, f"ALTER TABLE entries DISABLE TRIGGER {name}")
    with pytest.raises(LedgerCorrupt, match=f"'{name}'"):
        verify(url)


@pytest.mark.parametrize("value", ["NULL", "CAST(body AS BLOB)", "CAST(x'7bff7d' AS TEXT)", "17", "'{'"])
def test_value_of_another_kind_is_found_and_named(files, value):
    url, _ = written(files)
    relax = "CREATE TABLE other (number INTEGER PRIMARY KEY, at, kind, body, previous, digest)"
    move = ("INSERT INTO other SELECT * FROM entries", "DROP TABLE entries", "ALTER TABLE other RENAME TO entries")
    files.sql(url, relax, *move, f"UPDATE entries SET body = {value} WHERE number = 4")
    with pytest.raises(LedgerCorrupt, match=r"^entry 4 (was changed|cannot be read)"):
        verify(url)


@pytest.fixture(scope="module")
def whole(files):
    """A closed ledger with requests: its path, entries, open requests and head."""
    url = files.new()
    with Ledger(url) as ledger:
        book = RequestBook(ledger)
        for i in range(12):
            book.receive("person", f"{i:032x}", channel="letter")
        told = list(ledger.entries()), book.open_requests(), ledger.head()
    path = Path(url.removeprefix("sqlite:///"))
    assert not path.with_name(path.name + "-wal").exists()
    return path, *told


@given(st.data())
@settings(max_examples=150)
def test_flipped_bit_anywhere_in_the_file_is_found_or_means_nothing(whole, tmp_path_factory, data):
    path, entries, requests, head = whole
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    folder = tmp_path_factory.mktemp("flipped")
    (folder / "ledger.db").write_bytes(content)
    try:
        with suppress(LedgerCorrupt, LedgerUnavailable), Ledger(folder / "ledger.db", timeout_s=1) as ledger:
            book = RequestBook(ledger)
            ledger.verify(head)
            book.verify()
            assert list(ledger.entries()) == entries
            assert book.open_requests() == requests
    finally:
        shutil.rmtree(folder)


def test_damaged_name_that_is_no_text_any_more_is_refused(whole, tmp_path):
    content = bytearray(whole[0].read_bytes())
    content[content.index(b"CREATE TABLE") + 8] ^= 0x80
    (tmp_path / "ledger.db").write_bytes(content)
    with pytest.raises(LedgerCorrupt, match="the database is damaged"):
        Ledger(tmp_path / "ledger.db")


def test_every_flipped_byte_inside_an_entry_is_named(whole, tmp_path):
    path, entries, _, _ = whole
    content = path.read_bytes()
    entry = entries[4]
    start = content.index(entry.digest.encode(), content.index(entry.previous.encode()))
    places_of_entry = range(content.index(entry.body["digest"].encode()), start + 64, 7)
    assert len(places_of_entry) > 10
    for place in places_of_entry:
        flipped = bytearray(content)
        flipped[place] ^= 0x01
        (tmp_path / "ledger.db").write_bytes(flipped)
        with (
            pytest.raises(LedgerCorrupt, match=r"^entry 5 (was changed|does not follow)"),
            Ledger(tmp_path / "ledger.db") as ledger,
        ):
            ledger.verify()


def test_flipped_byte_in_the_journal_is_found_through_a_head(files, tmp_path):
    """SQLite drops a journal from its first damaged page on: the end is cut off."""
    path = tmp_path / "ledger.db"
    with Ledger(path) as ledger:
        ledger.append("note", {"words": "first"})
        ledger.append("note", {"words": "marked"})
        head = ledger.head()
        copy = tmp_path / "copy.db"
        journal = bytearray((tmp_path / "ledger.db-wal").read_bytes())
        journal[journal.rindex(b"marked")] ^= 0x01
        shutil.copy(path, copy)
        (tmp_path / "copy.db-wal").write_bytes(journal)
    with pytest.raises(LedgerCorrupt, match="ends at entry 1, but entry 2 was written"):
        verify(copy, head)


def test_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "ledger.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(LedgerCorrupt, match="file is not a database"):
        Ledger(tmp_path / "ledger.db")
