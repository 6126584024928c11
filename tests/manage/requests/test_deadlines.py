"""Deadlines: a month after receipt where days are counted, extended once, in time, and for a reason."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eupg.errors import ParameterError, RequestRefused
from eupg.manage.requests.book import RequestBook
from eupg.manage.requests.states import State, months_after

ALICE, BOB = "a1" * 16, "b0" * 16
CLOSED = {State.REJECTED, State.CANCELLED, State.COMPLETED, State.CERTIFIED}


@given(st.dates(date(1999, 1, 1), date(2100, 1, 1)), st.integers(0, 30))
def test_months_are_counted_as_the_calendar_does(day, months):
    assert months_after(day, months) == (pd.Timestamp(day) + pd.DateOffset(months=months)).date()


@pytest.mark.parametrize(
    ("received", "zone", "due", "extended"),
    [
        ("2027-01-31T12:00:00+00:00", "UTC", "2027-02-28", "2027-04-30"),
        ("2028-01-31T12:00:00+00:00", "UTC", "2028-02-29", "2028-04-30"),
        ("2027-12-31T12:00:00+00:00", "UTC", "2028-01-31", "2028-03-31"),
        ("2027-01-31T23:30:00+00:00", "UTC", "2027-02-28", "2027-04-30"),
        ("2027-01-31T23:30:00+00:00", "Europe/Berlin", "2027-03-01", "2027-05-01"),
        ("2027-02-01T01:30:00+00:00", "America/New_York", "2027-02-28", "2027-04-30"),
        ("2027-03-28T22:30:00+00:00", "Europe/Berlin", "2027-04-29", "2027-06-29"),
    ],
)
def test_request_is_due_a_month_after_the_day_it_was_received_on(ledger, clock, received, zone, due, extended):
    clock.now = datetime.fromisoformat(received)
    book = RequestBook(ledger, zone=ZoneInfo(zone))
    request = book.receive("person", ALICE).request
    assert request.due.isoformat() == due
    assert book.extend(request.id, months=2, reason="many requests").due.isoformat() == extended
    book.verify()


def test_request_is_overdue_when_its_last_day_is_over_where_days_are_counted(ledger, clock):
    berlin = RequestBook(ledger, zone=ZoneInfo("Europe/Berlin"))
    request = berlin.receive("person", ALICE).request
    last = datetime(2027, 2, 15, 22, 59, tzinfo=UTC)
    assert berlin.overdue(last) == []
    assert berlin.overdue(last + timedelta(minutes=1)) == [request]
    assert RequestBook(ledger).overdue(last + timedelta(minutes=1)) == []
    clock.now = last + timedelta(days=1)
    assert berlin.overdue() == [request]
    berlin.advance(request.id, State.CANCELLED)
    assert berlin.overdue() == []


def test_deadline_is_extended_once_and_keeps_the_state(book, received_in):
    request = received_in(State.ACCEPTED)
    later = book.extend(request.id, months=1, reason="complex")
    assert (later.state, later.extended, later.reason) == (State.ACCEPTED, True, "complex")
    assert later.due == date(2027, 3, 15)
    with pytest.raises(RequestRefused, match="was extended already, to 2027-03-15"):
        book.extend(request.id, months=1, reason="again")
    book.verify()


def test_deadline_is_not_extended_after_it_has_passed(book, clock):
    on_time, late = (book.receive("person", digest).request for digest in (ALICE, BOB))
    clock.now = datetime(2027, 2, 15, 23, tzinfo=UTC)
    book.extend(on_time.id, months=2, reason="complex")
    clock.advance(hours=2)
    with pytest.raises(RequestRefused, match="was due on 2027-02-15: a deadline is extended before it has passed"):
        book.extend(late.id, months=2, reason="complex")


@pytest.mark.parametrize("state", State)
def test_only_an_open_request_is_extended(book, state, received_in):
    request = received_in(state)
    if state in CLOSED:
        with pytest.raises(RequestRefused, match=f"is '{state}' and cannot be extended"):
            book.extend(request.id, months=1, reason="complex")
    else:
        assert book.extend(request.id, months=1, reason="complex").extended


@pytest.mark.parametrize("months", [0, 3, True, 1.5])
def test_deadline_is_extended_by_one_or_two_months(book, months):
    request = book.receive("person", ALICE).request
    with pytest.raises(ParameterError, match="months must be 1 or 2"):
        book.extend(request.id, months=months, reason="complex")
