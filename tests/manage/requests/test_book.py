"""Erasure requests: every step and no other, one deadline, one open request a person, and never a personal value."""

import hashlib
import itertools
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from eupg.errors import ParameterError, RequestRefused, UnknownRequest
from eupg.manage.requests.book import Receipt, State, Step

ALICE, BOB = "a1" * 16, "b0" * 16
ALLOWED = {
    ("received", "verified"),
    ("received", "accepted"),
    ("received", "rejected"),
    ("received", "cancelled"),
    ("verified", "accepted"),
    ("verified", "rejected"),
    ("verified", "cancelled"),
    ("accepted", "processing"),
    ("accepted", "cancelled"),
    ("processing", "completed"),
    ("processing", "failed"),
    ("failed", "processing"),
    ("completed", "certified"),
}
CLOSED = {State.REJECTED, State.CANCELLED, State.COMPLETED, State.CERTIFIED}


@pytest.mark.parametrize(("state", "target"), [*itertools.product(State, list(State)[1:])])
def test_steps_on_the_list_are_taken_and_no_others(book, state, target, received_in):
    request = received_in(state)
    before = book.history(request.id)
    if (state, target) in ALLOWED:
        assert book.advance(request.id, target, reason="because").state is target
        assert book.get(request.id).state is target
        assert [entry.kind for entry in book.history(request.id)] == [e.kind for e in before] + [f"request.{target}"]
    else:
        with pytest.raises(RequestRefused, match=f"{request.id} is '{state}' and cannot become '{target}'"):
            book.advance(request.id, target, reason="because")
        assert book.get(request.id) == request
        assert book.history(request.id) == before
    book.verify()


def test_refusal_says_what_is_allowed(book, received_in):
    request = received_in(State.PROCESSING)
    with pytest.raises(RequestRefused, match="from here it can become 'completed' or 'failed'"):
        book.advance(request.id, State.CANCELLED)
    done = received_in(State.CERTIFIED, BOB)
    with pytest.raises(RequestRefused, match="it is closed and takes no further step"):
        book.advance(done.id, State.PROCESSING)


def test_identity_is_remembered_whether_it_was_verified(book):
    checked, unchecked = (book.receive("person", digest).request for digest in (ALICE, BOB))
    book.advance(checked.id, State.VERIFIED)
    accepted = book.advance_many([Step(checked.id, State.ACCEPTED), Step(unchecked.id, State.ACCEPTED)])
    assert [request.verified for request in accepted] == [True, False]


def test_request_is_told_as_it_was_received(book, ledger, clock):
    ledger.append("note", {})
    request = book.receive("record", ALICE, channel="web form").request
    assert (request.unit, request.digest, request.channel) == ("record", ALICE, "web form")
    assert (request.first, request.last) == (2, 2)
    assert datetime.fromisoformat(request.received_at) == clock.now
    assert (request.state, request.verified, request.extended, request.reason) == (State.RECEIVED, False, False, None)
    assert request == book.get(request.id)
    assert len(request.id) == 18


@pytest.mark.parametrize("state", State)
def test_repeated_request_joins_the_open_one_and_follows_a_closed_one(book, ledger, state, received_in):
    first = received_in(state)
    again = book.receive("person", ALICE, channel="letter")
    assert again.repeated == (state not in CLOSED)
    assert (again.request.id == first.id) == (state not in CLOSED)
    assert again.request.state is (State.RECEIVED if state in CLOSED else state)
    assert len(book.find("person", ALICE)) == (2 if state in CLOSED else 1)
    if again.repeated:
        latest = book.history(first.id)[-1]
        assert (latest.kind, latest.number) == ("request.repeated", ledger.head().number)
        assert latest.body == {"request": first.id, "channel": "letter"}
        assert again.request.last == latest.number
    book.verify()


def test_person_and_record_with_the_same_digest_are_two_requests(book):
    person, record = book.receive("person", ALICE), book.receive("record", ALICE)
    assert not record.repeated
    assert book.find("record", ALICE) == [record.request]
    assert book.find("person", ALICE) == [person.request]


def test_duplicates_inside_one_batch_are_recognised(book):
    one, two, three = book.receive_many([Receipt("person", ALICE), Receipt("person", BOB), Receipt("person", ALICE)])
    assert [each.repeated for each in (one, two, three)] == [False, False, True]
    assert one.request == three.request
    assert book.status().open == 2
    book.verify()


def test_batch_of_steps_is_taken_as_a_whole_or_not_at_all(book, ledger):
    one, two = (book.receive("person", digest).request for digest in (ALICE, BOB))
    before = ledger.head()
    with pytest.raises(RequestRefused, match=two.id):
        book.advance_many([Step(one.id, State.ACCEPTED), Step(two.id, State.COMPLETED)])
    assert ledger.head() == before
    assert book.get(one.id) == one


def test_request_may_take_several_steps_in_one_batch(book):
    request = book.receive("person", ALICE).request
    taken = book.advance_many([Step(request.id, State.ACCEPTED), Step(request.id, State.PROCESSING)])
    assert [each.state for each in taken] == [State.PROCESSING, State.PROCESSING]
    with pytest.raises(RequestRefused, match="is 'failed' and cannot become 'completed'"):
        book.advance_many([Step(request.id, State.FAILED, "no space"), Step(request.id, State.COMPLETED)])
    assert book.get(request.id).state is State.PROCESSING
    book.verify()


def test_step_and_other_events_can_be_one_transaction(book, ledger, received_in):
    request = received_in(State.PROCESSING)
    with ledger.transaction():
        done = ledger.append("model.deployed", {"model": "4f1c"})
        book.advance(request.id, State.COMPLETED, details={"deployed": done.number})
        assert book.get(request.id).state is State.COMPLETED
    assert book.history(request.id)[-1].body == {"request": request.id, "details": {"deployed": done.number}}
    book.verify()


def test_failed_request_can_be_tried_again(book, received_in):
    request = received_in(State.FAILED)
    assert book.get(request.id).reason == "because"
    for state in (State.PROCESSING, State.COMPLETED, State.CERTIFIED):
        request = book.advance(request.id, state)
    assert (request.state, request.reason) == (State.CERTIFIED, "because")


@pytest.mark.parametrize("state", [State.REJECTED, State.FAILED])
def test_rejecting_and_failing_need_a_reason(state):
    with pytest.raises(ParameterError, match=f"is {state} only with a reason"):
        Step("r-1", state)


@pytest.mark.parametrize("reason", ["", "  ", "x" * 501, 3])
def test_reason_is_a_short_text(book, reason):
    with pytest.raises(ParameterError, match="reason"):
        Step("r-1", State.REJECTED, reason)
    request = book.receive("person", ALICE).request
    with pytest.raises(ParameterError, match="reason"):
        book.extend(request.id, months=1, reason=reason)


def test_longest_reason_is_kept(book):
    request = book.receive("person", ALICE).request
    assert book.advance(request.id, State.REJECTED, reason="ß" * 500).reason == "ß" * 500


@pytest.mark.parametrize("state", [State.RECEIVED, "accepted", None])
def test_step_leads_to_a_state(state):
    with pytest.raises(ParameterError, match="state must be a State other than RECEIVED"):
        Step("r-1", state)


def test_unknown_request_is_named(book):
    for ask in (book.get, book.history, lambda name: book.advance(name, State.ACCEPTED)):
        with pytest.raises(UnknownRequest, match=r"no request 'r-%_'"):
            ask("r-%_")


def test_history_holds_the_events_of_one_request_alone(book, ledger, received_in):
    requests = [received_in(State.PROCESSING, digest) for digest in (ALICE, BOB)]
    ledger.append("note", {"request": requests[0].id})
    book.receive("person", ALICE)
    kinds = [entry.kind.removeprefix("request.") for entry in book.history(requests[0].id)]
    assert kinds == ["received", "accepted", "processing", "repeated"]


def test_status_counts_and_tells_what_is_urgent(book, clock, received_in):
    assert book.status().next_due is None
    for i, state in enumerate(State):
        received_in(state, f"{i:032x}")
        clock.advance(days=1)
    status = book.status(datetime(2027, 2, 17, tzinfo=UTC))
    assert status.counts == dict.fromkeys(State, 1)
    assert (status.open, status.overdue) == (5, 2), "received and verified, due on the 15th and 16th"
    assert status.next_due == date(2027, 2, 17)
    assert [request.state for request in book.open_requests()] == [s for s in State if s not in CLOSED]
    assert len(book.overdue(datetime(2027, 2, 17, tzinfo=UTC))) == 2


CANARY = "canary-Zoë-19840213"


def test_no_personal_value_reaches_the_database(places, url, book, ledger):
    digest = hashlib.blake2b(CANARY.encode(), key=b"k" * 32, digest_size=32).hexdigest()
    for _ in range(2):
        request = book.receive("person", digest, channel="letter").request
    for state in (State.VERIFIED, State.ACCEPTED, State.PROCESSING, State.FAILED):
        book.advance(request.id, state, reason="no space")
    book.extend(request.id, months=1, reason="no space")
    if places.kind == "sqlite":
        folder, name = url.removeprefix("sqlite:///").rsplit("/", 1)
        files = sorted(Path(folder).glob(f"{name}*"))
        assert [file.name.removeprefix(name) for file in files] == ["", "-shm", "-wal"]
        content = b"".join(file.read_bytes() for file in files)
    else:
        rows = [places.sql(url, f"SELECT t::text FROM {table} t") for table in ("entries", "requests", "ledger")]
        content = str(rows).encode()
    assert digest.encode() in content
    for trace in (CANARY.encode(), b"canary", b"19840213"):
        assert trace not in content


@pytest.mark.parametrize("digest", [CANARY, "125024", "", "A1" * 16, "a1" * 65, None, ALICE + "\n"])
def test_what_is_no_digest_is_refused_without_repeating_it(book, ledger, digest):
    with pytest.raises(ParameterError, match="digest must be 32 to 128 digits 0-9 and a-f") as caught:
        book.receive("person", digest)
    assert not digest or digest not in str(caught.value)
    assert ledger.head().number == 0


@pytest.mark.parametrize("channel", ["zoe@example.org", "", "+49 30 12345", "x" * 41])
def test_channel_is_a_word_and_no_address(channel):
    with pytest.raises(ParameterError, match="channel must be up to 40 letters a-z"):
        Receipt("person", ALICE, channel)


def test_unit_is_a_person_or_a_record():
    with pytest.raises(ParameterError, match="unit must be 'person' or 'record', got 'row'"):
        Receipt("row", ALICE)
