"""One entry for many requests says of each what an entry of its own would say."""

import pytest

from eupg.errors import LedgerCorrupt, RequestRefused, UnknownRequest
from eupg.manage.requests.book import RequestBook
from eupg.manage.requests.states import Receipt, State
from eupg.manage.storage.state import AnsweredAlike, answers_from_bytes, answers_to_bytes

DIGESTS = [f"{i:032x}" for i in range(6)]
RECEIPTS = [Receipt("person" if i % 2 else "record", d, "letter" if i < 3 else None) for i, d in enumerate(DIGESTS)]


@pytest.fixture
def together(ledger):
    return RequestBook(ledger, many=3)


def carried_out(book):
    """Take six requests from their receipt to the end, one of them by another way, and return them in order."""
    received = [each.request for each in book.receive_many(RECEIPTS)]
    book.advance_all(received[:1], State.REJECTED, reason="unknown")
    waiting = book.advance_all(received[1:], State.ACCEPTED)
    taken = book.advance_all(waiting, State.PROCESSING)
    failed = book.advance_all(taken, State.FAILED, reason="interrupted")
    taken = book.advance_all(failed, State.PROCESSING)
    names = [request.id for request in taken]
    book.complete([(names[:2], {"records": 2}), (names[2:], {"records": 5, "change": 7})])
    return [book.get(request.id) for request in received]


def about(request):
    """Return what does not depend on ids and on the number of entries."""
    return {k: v for k, v in vars(request).items() if k not in ("id", "first", "last")}


def told(book, request):
    return [(e.kind, e.at, {k: v for k, v in e.body.items() if k != "request"}) for e in book.history(request.id)]


def test_requests_and_their_histories_are_those_of_single_entries(places, clock, together, ledger):
    with places.open(clock=clock) as other:
        apart = RequestBook(other)
        one_by_one, at_once = carried_out(apart), carried_out(together)
        assert [about(r) for r in at_once] == [about(r) for r in one_by_one]
        assert [told(together, r) for r in at_once] == [told(apart, r) for r in one_by_one]
        assert ledger.head().number == 1 + 1 + 5 < other.head().number
    assert all(e.body["request"] == r.id for r in at_once for e in together.history(r.id))
    assert together.completed_last() == at_once[-1].id
    assert [r.state for r in at_once] == [State.REJECTED] + [State.COMPLETED] * 5


def test_index_follows_from_the_events(together, ledger, places, url):
    requests = carried_out(together)
    ledger.verify(ledger.head())
    together.verify()
    assert together.rebuild() == 6
    assert [together.get(r.id) for r in requests] == requests
    places.sql(url, f"UPDATE requests SET state = 'accepted' WHERE id = '{requests[4].id}'")
    with pytest.raises(LedgerCorrupt, match=f"request {requests[4].id}.*rebuild"):
        together.verify()


def test_somebody_who_has_asked_before_is_not_received_twice(together):
    first = together.receive(RECEIPTS[4].unit, RECEIPTS[4].digest).request
    answers = together.receive_many(RECEIPTS)
    assert [each.repeated for each in answers] == [False] * 4 + [True, False]
    assert answers[4].request.id == first.id
    twice = together.receive_many([Receipt("person", "f" * 32)] * 4)
    assert [each.repeated for each in twice] == [False, True, True, True]
    together.verify()


def test_step_that_one_of_many_cannot_take_is_refused_for_all(together, ledger):
    requests = [each.request for each in together.receive_many(RECEIPTS)]
    accepted = together.advance_all(requests[:5], State.ACCEPTED)
    head = ledger.head()
    with pytest.raises(RequestRefused, match=f"request {requests[5].id} is 'received' and cannot become 'processing'"):
        together.advance_all([*accepted, requests[5]], State.PROCESSING)
    names = [request.id for request in accepted]
    with pytest.raises(RequestRefused, match=f"request {names[0]} is 'accepted' and cannot become 'completed'"):
        together.complete([(names, {})])
    # Read before, and changed since: the database refuses what these values would allow.
    together.advance(names[2], State.CANCELLED)
    with pytest.raises(RequestRefused, match=f"request {names[2]} is 'cancelled'"):
        together.advance_all(accepted, State.PROCESSING)
    with pytest.raises(UnknownRequest, match="r-unknown"):
        together.complete([(["r-unknown", "r-other", "r-third"], {})])
    assert ledger.head().number == head.number + 1
    assert {together.get(name).state for name in names} == {State.ACCEPTED, State.CANCELLED}
    together.verify()
    # What follows is tied to the entry that stayed.
    together.advance(names[0], State.PROCESSING)
    ledger.verify(ledger.head())


@pytest.mark.parametrize(
    "group",
    [
        {"requests": "r-1"},
        {"unit": "person", "due": "2027-02-15"},
        {"requests": ["r-1", "r-2"], "digests": DIGESTS[:1], "unit": "person", "due": "2027-02-15"},
        {"requests": ["r-1"], "digests": DIGESTS[:1], "unit": "person", "due": "soon"},
    ],
)
def test_batch_that_the_book_would_not_have_written_is_named(together, ledger, group):
    ledger.append("requests.received", {"groups": [group]})
    with pytest.raises(LedgerCorrupt, match=r"^entry 1 \(request.*received\) cannot have come from the request book"):
        together.verify()


def test_answers_of_an_earlier_version_are_read():
    alike = (AnsweredAlike(("r-1", "r-2"), {"records": 2}), AnsweredAlike(("r-3",), {}))
    assert answers_from_bytes(answers_to_bytes(alike)) == alike
    earlier = b'[{"request": "r-1", "details": {"records": 2}}, {"request": "r-3", "details": {}}]'
    assert answers_from_bytes(earlier) == (AnsweredAlike(("r-1",), {"records": 2}), alike[1])
