"""The index of requests: told by the events, compared with them, made again from them, and quick for very many."""

import time
from datetime import date

import pytest

from eupg.errors import LedgerCorrupt
from eupg.manage.requests.book import Receipt, RequestBook, State, Step

ALICE, BOB = "a1" * 16, "b0" * 16


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE requests SET state = 'cancelled'",
        "UPDATE requests SET due = '2030-01-01'",
        "UPDATE requests SET verified = NOT verified",
        "UPDATE requests SET extended = NOT extended",
        "UPDATE requests SET reason = 'x'",
        "UPDATE requests SET channel = 'x'",
        "UPDATE requests SET digest = 'x'",
        "UPDATE requests SET unit = 'record'",
        "UPDATE requests SET received_at = 'x'",
        "UPDATE requests SET first = 7",
        "UPDATE requests SET last = 7",
        "UPDATE requests SET state = 'nonsense'",
        "DELETE FROM requests",
    ],
)
def test_index_that_disagrees_with_the_events_is_named_and_made_again(places, url, book, change, received_in):
    request = received_in(State.VERIFIED)
    places.sql(url, change)
    with pytest.raises(LedgerCorrupt, match=f"request {request.id}.*rebuild"):
        book.verify()
    assert book.rebuild() == 1
    book.verify()
    assert book.get(request.id) == request


def test_request_without_events_is_named(places, url, book):
    book.receive("person", ALICE)
    copied = "channel, state, verified, extended, received_at, due, reason, first, last"
    places.sql(url, f"INSERT INTO requests SELECT 'r-x', unit, 'x', {copied} FROM requests")
    with pytest.raises(LedgerCorrupt, match="request r-x is in the index, but has no event"):
        book.verify()


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("request.completed", {}),
        ("request.accepted", {"request": "r-unknown"}),
        ("request.received", {"unit": "person", "digest": BOB, "due": "2027-02-15"}),
        ("request.received", {"request": "r-2", "unit": "person", "digest": ALICE, "due": "2027-02-15"}),
        ("request.received", {"request": "r-2", "unit": "person", "digest": BOB, "due": "soon"}),
        ("request.received", {"request": "r-2"}),
        ("request.extended", {"due": "2027-02-30"}),
    ],
)
def test_event_that_the_book_would_not_have_written_is_named(book, ledger, kind, body):
    request = book.receive("person", ALICE).request
    ledger.append(kind, {"request": request.id} | body)
    with pytest.raises(LedgerCorrupt, match=rf"^entry 2 \({kind}\) cannot have come from the request book"):
        book.verify()


def test_ten_thousand_requests_are_taken_in_one_batch(book, ledger):
    started = time.perf_counter()
    received = book.receive_many(Receipt("person", f"{i:032x}") for i in range(10_000))
    accepted = book.advance_many(Step(each.request.id, State.ACCEPTED) for each in received)
    assert time.perf_counter() - started < 30
    assert book.status().counts[State.ACCEPTED] == len({request.id for request in accepted}) == 10_000
    assert all(each.repeated for each in book.receive_many(Receipt("person", f"{i:032x}") for i in range(10_000)))
    book.verify()
    ledger.verify()


def test_request_is_durable_in_under_20_ms(files):
    with files.open() as ledger:
        book, times = RequestBook(ledger), []
        for i in range(51):
            started = time.perf_counter()
            book.receive("person", f"{i:032x}")
            times.append(time.perf_counter() - started)
    # The middle one: other tests may hold the disk at times.
    assert sorted(times)[25] < 0.020


def test_status_of_a_hundred_thousand_requests_takes_under_a_second(places, url, book):
    numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)"
    state = "CASE i % 4 WHEN 0 THEN 'received' WHEN 1 THEN 'processing' WHEN 2 THEN 'failed' ELSE 'certified' END"
    due = "CASE WHEN i <= 1000 THEN '2027-01-14' WHEN i < 50000 THEN '2027-01-15' ELSE '2027-02-01' END"
    values = f"'r-' || i, 'person', 'd' || i, NULL, {state}, true, false, 'now', {due}, NULL, i, i"
    places.sql(url, f"INSERT INTO requests {numbers} SELECT {values} FROM n")
    started = time.perf_counter()
    status = book.status()
    assert time.perf_counter() - started < 1
    assert (status.open, status.overdue, status.next_due) == (75_000, 750, date(2027, 1, 15))
