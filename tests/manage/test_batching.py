"""Batches: who waits for whom, when a batch is due and why, and that nobody waits beyond their deadline."""

import json
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eupg import EUPG, Manager, Seeded
from eupg.cli import main
from eupg.errors import ParameterError, WrongState
from eupg.learn import SklearnLearner
from eupg.manage import BatchPolicy
from eupg.manage.batching import BatchDue, ForgetQueue
from eupg.manage.requests.states import Request, State, months_after
from eupg.manage.storage.subjects import SubjectIndex, person_digest
from eupg.manage.trainer import Trainer
from eupg.protect import ProbabilisticKAnonymity
from people import people

METHOD = EUPG(ProbabilisticKAnonymity(10), SklearnLearner(), 2, 1, exposure=0.2)
DATA = people(300)
KEY = b"k" * 32
START = datetime(2027, 1, 1, 9, tzinfo=UTC)
INDEX = SubjectIndex.empty().plus(DATA, KEY, held_out=False)
PEOPLE = sorted(set(DATA.subjects.tolist()))[:8]
SEEN = PEOPLE[:6]
INDEX = INDEX.exposing(np.isin(DATA.subjects, SEEN))


def asked(person=0, *, after=timedelta(), months=1, state=State.ACCEPTED):
    """Return a request that one of the people made some time after the start; the last two are unexposed."""
    received = START + after
    due, digest = months_after(received.date(), months), person_digest(KEY, PEOPLE[person])
    about = f"r-{person}", "person", digest, None, state, False, months > 1
    return Request(*about, received.isoformat(timespec="microseconds"), due, None, person, person)


def why(policy, waiting, people, now):
    due = policy.due(waiting, people, now)
    return due and due.why


def days(number):
    return timedelta(days=number)


def queue(policy, now, *waiting):
    return ForgetQueue(waiting, INDEX, policy, now)


class TestPolicy:
    def test_enough_people_are_due_now(self):
        policy, waiting = BatchPolicy(3, None, None), [asked(0), asked(1), asked(2)]
        assert policy.due(waiting[:2], 2, START) == BatchDue(None, "fewer than 3 people wait", 2)
        assert policy.due(waiting, 3, START + days(1)) == BatchDue(START + days(1), "3 people wait", 3)

    def test_oldest_request_waits_so_many_days(self):
        policy, waiting = BatchPolicy(None, 7, None), [asked(1, after=days(2)), asked(0)]
        coming = BatchDue(START + days(7), "the oldest request has then waited 7 days", 2)
        assert policy.due(waiting, 2, START + days(7) - timedelta(microseconds=1)) == coming
        assert not coming.reached(START + days(7) - timedelta(microseconds=1))
        due = policy.due(waiting, 2, START + days(7))
        assert due == BatchDue(START + days(7), "the oldest request has waited 7 days", 2)
        assert due.reached(START + days(7))
        late = policy.due(waiting, 2, START + days(9.5))
        assert late == BatchDue(START + days(7), "the oldest request has waited 9 days", 2)

    @pytest.mark.parametrize(
        ("now", "why"),
        [
            (datetime(2027, 1, 26, 23, 59, tzinfo=UTC), "the deadline of 2027-02-01 is then 5 days away"),
            (datetime(2027, 1, 27, tzinfo=UTC), "the deadline of 2027-02-01 is 5 days away"),
            (datetime(2027, 1, 31, 12, tzinfo=UTC), "the deadline of 2027-02-01 is 1 day away"),
            (datetime(2027, 2, 2, tzinfo=UTC), "the deadline of 2027-02-01 has passed"),
        ],
    )
    def test_deadline_comes_near(self, now, why):
        due = BatchPolicy(None, None, 5).due([asked(0), asked(1, months=3)], 2, now)
        assert due == BatchDue(datetime(2027, 1, 27, tzinfo=UTC), why, 2)

    def test_an_extended_deadline_is_the_one_that_counts(self):
        due = BatchPolicy(None, None, 5).due([asked(0, months=3)], 1, START)
        assert due == BatchDue(datetime(2027, 3, 27, tzinfo=UTC), "the deadline of 2027-04-01 is then 5 days away", 1)

    def test_first_rule_to_apply_counts(self):
        policy, now = BatchPolicy(2, 7, 5), START + days(6)
        old, urgent, young = asked(0), replace(asked(1), due=date(2027, 1, 10)), asked(2, after=days(6))
        assert why(policy, [old, young], 2, now) == "2 people wait"
        assert why(policy, [old], 1, now) == "the oldest request has then waited 7 days"
        assert why(policy, [young, urgent], 1, now) == "the deadline of 2027-01-10 is 3 days away"
        # It was due before enough people waited.
        assert why(policy, [old, young], 2, START + days(8)) == "the oldest request has waited 8 days"

    def test_nothing_is_due_where_nobody_waits(self):
        assert BatchPolicy().due([], 0, START) is None

    def test_words(self):
        assert str(BatchPolicy(1, 1, None)) == "1 person waits, or the oldest request has waited 1 day"
        assert (
            str(BatchPolicy())
            == "100 people wait, or the oldest request has waited 7 days, or a deadline is 5 days away"
        )
        assert str(BatchDue(None, "fewer than 3 people wait", 1)) == "1 person, not due yet (fewer than 3 people wait)"

    @pytest.mark.parametrize("rules", [(None, None, None), (0, 7, 5), (100, -1, 5), (100, 7, 1.5), (True, 7, 5)])
    def test_rules_must_make_sense(self, rules):
        with pytest.raises(ParameterError, match="at least"):
            BatchPolicy(*rules)

    def test_no_rule_goes_beyond_the_last_deadline(self):
        with pytest.raises(ParameterError, match="days may be at most 90, got 91"):
            BatchPolicy(days=91)


class TestQueue:
    def test_unexposed_do_not_wait(self):
        waiting = queue(BatchPolicy(), START, asked(0), asked(6), asked(7, state=State.FAILED))
        assert [r.id for r in waiting.unexposed] == ["r-6", "r-7"]
        assert waiting.due == ()
        assert waiting.next_batch.people == 1

    def test_those_whom_another_request_has_erased_do_not_wait(self):
        gone = INDEX.without(np.isin(DATA.subjects, PEOPLE[:1]))
        waiting = ForgetQueue((asked(0), asked(1)), gone, BatchPolicy(), START)
        assert [r.id for r in waiting.unexposed] == ["r-0"]
        assert waiting.next_batch is not None
        assert waiting.next_batch.people == 1

    def test_one_that_keeps_failing_does_not_hurry_the_others(self):
        failed, young = asked(0, state=State.FAILED), asked(1, after=days(8))
        assert queue(BatchPolicy(), START + days(8), failed, young).due == (failed,)
        assert queue(BatchPolicy(), START + days(15), failed, young).due == (failed, young)

    def test_an_interrupted_batch_is_still_due(self):
        batch = [asked(n, state=State.FAILED) for n in range(3)]
        assert queue(BatchPolicy(3, None, None), START, *batch).due == tuple(batch)

    def test_people_are_counted_not_requests(self):
        people = INDEX.people.copy()
        rows = [int(np.flatnonzero(DATA.subjects == name)[0]) for name in SEEN[:2]]
        people[rows[1]] = people[rows[0]]
        index = SubjectIndex.of(INDEX.records, people, INDEX.flags, INDEX.groups)
        records = [
            replace(asked(n), unit="record", digest=index.records[row].tobytes().hex()) for n, row in enumerate(rows)
        ]
        waiting = ForgetQueue(tuple(records), index, BatchPolicy(2, None, None), START)
        assert waiting.next_batch == BatchDue(None, "fewer than 2 people wait", 1)

    def test_everything_is_due_without_a_policy(self):
        waiting = queue(None, START, asked(0), asked(1, state=State.FAILED), asked(6))
        assert [r.id for r in waiting.due] == ["r-0", "r-1"]
        assert waiting.next_batch is None


REQUESTS = st.tuples(
    st.integers(0, 60 * 24),  # The hour of the receipt.
    st.integers(0, 30),  # How many days later it is accepted, if that is before the last day.
    st.integers(1, 3),  # Months to the deadline.
    st.booleans(),  # Whether it fails and goes on failing.
)
RULES = st.none() | st.integers(1, 90)


def last_days(policy, asks, hour):
    """Forget every day at an hour; return deadlines and the days on which requests were honoured that do not fail."""
    waiting = {}
    for number, (received, accepted, months, fails) in enumerate(asks):
        request = asked(number, after=timedelta(hours=received), months=months)
        # Decided before the last day begins: the run of that day may come at once.
        day = min(
            START + timedelta(hours=received) + days(accepted), datetime.combine(request.due, START.timetz()) - days(1)
        )
        waiting[number] = (replace(request, state=State.FAILED) if fails else request), day
    honoured = {}
    now = START.replace(hour=hour)
    while any(r.state is State.ACCEPTED for r, _ in waiting.values()):
        now += days(1)
        ready = {r: number for number, (r, accepted) in waiting.items() if accepted <= now}
        queued = queue(policy, now, *ready)
        for request in (*queued.unexposed, *queued.due):
            if request.state is State.ACCEPTED:
                honoured[ready[request]] = request.due, now.date()
                del waiting[ready[request]]
    return honoured.values()


@settings(max_examples=50, deadline=None)
@given(
    st.builds(BatchPolicy, people=RULES, days=RULES, before_deadline_days=st.integers(1, 90)),
    st.lists(REQUESTS, min_size=1, max_size=8),
    st.integers(0, 23),
)
def test_nobody_waits_beyond_the_deadline_if_forget_runs_every_day(policy, asks, hour):
    assert all(day <= due for due, day in last_days(policy, asks, hour))


def test_without_the_rule_about_deadlines_somebody_does():
    ((due, day),) = last_days(BatchPolicy(None, 60, None), [(0, 0, 1, False)], 3)
    assert day > due


@pytest.fixture
def manager(tmp_path, clock):
    clock.now, held_out = START, people(30, seed=5)
    held_out = replace(held_out, ids=np.char.add("h", held_out.ids), subjects=np.char.add("h", held_out.subjects))
    with closing(Manager(tmp_path / "ws", METHOD, rng=Seeded(3), clock=clock)) as opened:
        opened.train(DATA, hold_out=held_out)
        yield opened


def split(manager):
    """Return people whom the served model was fitted on, and others in training."""
    state = manager.space.state()
    data, _ = manager.space.read(state)
    index = manager.space.index(state)
    seen = set(data.subjects[index.part(index.exposed, held_out=False)].tolist())
    return sorted(seen), sorted(set(data.subjects.tolist()) - seen)


def runs(manager):
    return [entry.body["trained"] for entry in manager.space.ledger.entries(kinds=["forget"])]


def test_unexposed_go_at_once_and_the_exposed_together(manager, clock, monkeypatch):
    exposed, others = split(manager)
    manager.set_batching(BatchPolicy(people=3))
    free = manager.request_many(subjects=[others[0], "hp1", others[1]])
    first = manager.request_many(subjects=exposed[:2])
    with monkeypatch.context() as patched:
        patched.setattr(SklearnLearner, "fit", None)
        done = manager.forget(due_only=True)
        assert manager.forget(due_only=True).requests == ()
    assert (set(done.requests), done.trained) == ({r.id for r in free}, False)
    status = manager.status()
    assert status.next_batch == BatchDue(START + days(7), "the oldest request has then waited 7 days", 2)
    assert status.to_json()["next_batch"] == {
        "when": "2027-01-08T09:00:00+00:00",
        "why": "the oldest request has then waited 7 days",
        "people": 2,
    }
    last = manager.request_many(subjects=[exposed[2], others[2]])
    done = manager.forget(due_only=True)
    assert (set(done.requests), done.trained) == ({r.id for r in (*first, *last)}, True)
    assert done.seconds > 0
    # The unexposed one was not part of the batch.
    assert runs(manager) == [False, False, True]
    assert manager.status().next_batch is None
    assert manager.certify(first[0].id).body.claimed is not None
    manager.verify()


def test_a_batch_is_due_after_some_days_and_before_an_extended_deadline(manager, clock):
    exposed, _ = split(manager)
    manager.set_batching(BatchPolicy(people=None, days=7, before_deadline_days=None))
    manager.request_erasure(subject=exposed[0])
    clock.now += days(6)
    assert not manager.forget(due_only=True).requests
    clock.now += days(1)
    assert manager.forget(due_only=True).trained
    manager.set_batching(BatchPolicy(people=None, days=None, before_deadline_days=5))
    request = manager.request_erasure(subject=exposed[1])
    manager.extend(request.id, months=2, reason="many requests")
    clock.now = datetime(2027, 4, 2, 23, tzinfo=UTC)
    assert not manager.forget(due_only=True).requests
    assert manager.status().next_batch.why == "the deadline of 2027-04-08 is then 5 days away"
    clock.now = datetime(2027, 4, 3, tzinfo=UTC)
    assert manager.forget(due_only=True).requests == (request.id,)


def test_plain_forget_and_no_policy_honour_everything(manager):
    exposed, others = split(manager)
    manager.set_batching(BatchPolicy())
    manager.request_many(subjects=[exposed[0], others[0]])
    assert len(manager.forget().requests) == 2
    assert runs(manager) == [True]
    manager.set_batching(None)
    assert (manager.status().batching, manager.status().next_batch) == (None, None)
    manager.request_many(subjects=[exposed[1], others[1]])
    assert len(manager.forget(due_only=True).requests) == 2


def test_policy_holds_for_whoever_opens_the_workspace_next(manager):
    manager.set_batching(BatchPolicy(people=50, days=None))
    with closing(Manager(manager.space.folder)) as other:
        assert other.status().batching == BatchPolicy(people=50, days=None)


def test_what_is_not_a_policy_is_refused(manager, tmp_path):
    with pytest.raises(ParameterError, match="expected a BatchPolicy or None, got 100"):
        manager.set_batching(100)
    with closing(Manager(tmp_path / "new", METHOD)) as untrained, pytest.raises(WrongState):
        untrained.set_batching(BatchPolicy())


def test_killed_between_the_two_runs_the_batch_is_still_due(manager, monkeypatch):
    exposed, others = split(manager)
    manager.set_batching(BatchPolicy(people=2, days=None))
    requests = manager.request_many(subjects=[*exposed[:2], others[0]])
    forget = Trainer.forget

    def killed(self, state, waiting):
        if len(waiting) > 1:
            raise KeyboardInterrupt
        return forget(self, state, waiting)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "forget", killed)
        with pytest.raises(KeyboardInterrupt):
            manager.forget(due_only=True)
    assert [manager.space.book.get(r.id).state for r in requests] == [State.PROCESSING] * 2 + [State.COMPLETED]
    assert set(manager.forget(due_only=True).requests) == {r.id for r in requests[:2]}
    manager.verify()


def test_command_line(manager, capsys):
    exposed, others = split(manager)
    folder = str(manager.space.folder)
    manager.close()

    def eupg(*arguments, status=0):
        assert main([arguments[0], "--workspace", folder, *arguments[1:]]) == status
        return " ".join(capsys.readouterr().out.split())

    rules = "Batches are due when 2 people wait, or a deadline is 5 days away. Next batch: "
    assert eupg("batching", "--people", "2", "--days", "0") == f"{rules}nobody waits for one."
    assert eupg("forget", "--due").startswith("No accepted request is waiting.")
    eupg("request", "--subject", exposed[0])
    eupg("request", "--subject", others[0])
    done = json.loads(eupg("forget", "--due", "--json"))
    assert (len(done["requests"]), done["trained"], done["next_batch"]["people"]) == (1, False, 1)
    waits = eupg("forget", "--due")
    assert waits.startswith(f"Nothing is due. {rules}1 person, due 20")
    assert "UTC (the deadline of 20" in waits
    assert f"{rules}1 person, due 20" in eupg("status")
    eupg("request", "--subject", exposed[1])
    honoured = eupg("forget", "--due")
    assert "2 requests, " in honoured
    assert f"{rules}nobody waits for one." in honoured
    assert "next_batch" not in json.loads(eupg("forget", "--json"))
    assert "expected --off or rules, got both" in eupg("batching", "--off", "--days", "3", status=2)
    assert "expected at least one of" in eupg(
        "batching", "--people", "0", "--days", "0", "--before-deadline", "0", status=2
    )
    assert eupg("batching", "--off") == "No batching: everything that waits is due."
    assert json.loads(eupg("status", "--json"))["batching"] is None
