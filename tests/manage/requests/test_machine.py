"""The request book against a model of it: a dictionary, a list of allowed steps, and another calendar."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from eupg.errors import RequestRefused
from eupg.manage.requests.book import Receipt, RequestBook, State, Step

NEXT = {
    "received": {"verified", "accepted", "rejected", "cancelled"},
    "verified": {"accepted", "rejected", "cancelled"},
    "accepted": {"processing", "cancelled"},
    "processing": {"completed", "failed"},
    "failed": {"processing"},
    "completed": {"certified"},
}
OPEN = {"received", "verified", "accepted", "processing", "failed"}
SUBJECTS = st.tuples(st.sampled_from(["person", "record"]), st.sampled_from(["0" * 32, "1" * 32, "2" * 32]))
GOALS = st.sampled_from([state for state in State if state is not State.RECEIVED])


class Book(RuleBasedStateMachine):
    """Does the same to the book and to a dictionary.

    Requests are drawn in the order they came: their names are random, and a draw must mean the same when repeated.
    """

    def __init__(self, places) -> None:
        super().__init__()
        self.now = datetime(2027, 1, 29, 20, tzinfo=UTC)
        self.ledger = places.open(clock=lambda: self.now)
        self.book = RequestBook(self.ledger)
        self.model: dict[str, dict[str, Any]] = {}
        self.events = 0

    def teardown(self) -> None:
        self.ledger.verify(self.ledger.head())
        told = {name: self.book.get(name) for name in self.model}
        self.book.rebuild()
        assert told == {name: self.book.get(name) for name in self.model}
        self.ledger.close()

    @rule(subjects=st.lists(SUBJECTS, max_size=4))
    def receive(self, subjects):
        answers = self.book.receive_many(Receipt(*subject) for subject in subjects)
        for subject, answer in zip(subjects, answers, strict=True):
            standing = [n for n, m in self.model.items() if m["subject"] == subject and m["state"] in OPEN]
            assert answer.repeated == bool(standing)
            if standing:
                assert [answer.request.id] == standing
            else:
                day = pd.Timestamp(self.now.date())
                due = (day + pd.DateOffset(months=1)).date()
                new = {"subject": subject, "state": "received", "verified": False, "extended": False}
                self.model[answer.request.id] = new | {"due": due, "day": day, "reason": None}
        self.events += len(subjects)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), goals=st.lists(GOALS, min_size=1, max_size=3), reason=st.sampled_from(["a", "b"]))
    def advance(self, data, goals, reason):
        names = [data.draw(st.sampled_from(list(self.model))) for _ in goals]
        states = {name: self.model[name]["state"] for name in names}
        legal = True
        for name, goal in zip(names, goals, strict=True):
            legal = legal and goal in NEXT.get(states[name], ())
            states[name] = goal
        steps = [Step(name, goal, reason) for name, goal in zip(names, goals, strict=True)]
        try:
            self.book.advance_many(steps)
        except RequestRefused:
            assert not legal
            return
        assert legal
        for name, goal in zip(names, goals, strict=True):
            self.model[name] |= {"state": str(goal), "reason": reason}
            self.model[name]["verified"] |= goal == "verified"
        self.events += len(steps)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), months=st.sampled_from([1, 2]))
    def extend(self, data, months):
        name = data.draw(st.sampled_from(list(self.model)))
        model = self.model[name]
        legal = model["state"] in OPEN and not model["extended"] and self.now.date() <= model["due"]
        try:
            self.book.extend(name, months=months, reason="long")
        except RequestRefused:
            assert not legal
            return
        assert legal
        due = (model["day"] + pd.DateOffset(months=1 + months)).date()
        model |= {"extended": True, "due": due, "reason": "long"}
        self.events += 1

    @rule(hours=st.integers(1, 24 * 40))
    def wait(self, hours):
        self.now += timedelta(hours=hours)

    @invariant()
    def book_says_what_the_model_says(self):
        self.book.verify()
        assert self.ledger.head().number == self.events
        for name, model in self.model.items():
            request = self.book.get(name)
            assert (request.unit, request.digest) == model["subject"]
            for field in ("state", "verified", "extended", "due", "reason"):
                assert getattr(request, field) == model[field]
        waiting = {name for name, model in self.model.items() if model["state"] in OPEN}
        late = {name for name in waiting if self.model[name]["due"] < self.now.date()}
        status = self.book.status()
        assert {state: n for state, n in status.counts.items() if n} == Counter(m["state"] for m in self.model.values())
        assert (status.open, status.overdue) == (len(waiting), len(late))
        assert status.next_due == min((self.model[name]["due"] for name in waiting - late), default=None)
        assert {request.id for request in self.book.open_requests()} == waiting
        assert {request.id for request in self.book.overdue()} == late


def test_book_and_model_never_differ(places):
    run_state_machine_as_test(lambda: Book(places), settings=settings(max_examples=25, stateful_step_count=15))
