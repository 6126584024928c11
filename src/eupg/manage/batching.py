"""When to forget: the batching policy of a workspace, and which of the requests that wait are due under it.

One erasure at a time costs a training each, and reveals most to someone who holds the models from before and after. So
people on whom the served model was fitted wait for each other, as long as their deadlines allow. Erasing anybody else
changes no model, so they need not wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime, time, timedelta
from functools import cached_property
from typing import Any

import numpy as np

from eupg.errors import ParameterError
from eupg.manage.ledger.transaction import Snapshot
from eupg.manage.requests.states import Request, State
from eupg.manage.storage.subjects import SubjectIndex
from eupg.manage.storage.workspace import Workspace
from eupg.validation import check_whole

BATCHING = "batching"
_READY = (State.ACCEPTED, State.FAILED)
# Every deadline is within three months of the receipt.
_MOST_DAYS = 90


@dataclass(frozen=True)
class BatchDue:
    """When the next batch is due, and why.

    ``when`` is None where no rule names a moment, as long as too few people wait. ``people`` counts those who wait and
    on whose records the served model was fitted.
    """

    when: datetime | None
    why: str
    people: int

    def __str__(self) -> str:
        moment = "not due yet" if self.when is None else f"due {self.when:%Y-%m-%d %H:%M} UTC"
        return f"{_counted(self.people, 'person', 'people')}, {moment} ({self.why})"

    def reached(self, now: datetime) -> bool:
        """Return whether the batch is due now."""
        return self.when is not None and self.when <= now

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self) | {"when": None if self.when is None else self.when.isoformat()}


@dataclass(frozen=True)
class BatchPolicy:
    """When to forget the people who wait: as soon as one of these rules says so; None leaves a rule out.

    Without the rule about deadlines, a request may pass its deadline. With it, none does that was accepted in time,
    provided that ``eupg forget --due`` runs every day and succeeds.

    Parameters
    ----------
    people
        When so many people wait.
    days
        When the oldest request has waited so many days since its receipt.
    before_deadline_days
        When a deadline, extended or not, is so many days away. Days are counted in UTC.

    Examples
    --------
    >>> print(BatchPolicy(people=50, days=None))
    50 people wait, or a deadline is 5 days away
    """

    people: int | None = 100
    days: int | None = 7
    before_deadline_days: int | None = 5

    def __post_init__(self) -> None:
        rules = {field.name: getattr(self, field.name) for field in fields(self)}
        if all(number is None for number in rules.values()):
            raise ParameterError(f"expected at least one of {', '.join(rules)}, got None for each: set one")
        for name, number in rules.items():
            if number is not None:
                object.__setattr__(self, name, check_whole(name, number, at_least=1))
                if name != "people" and number > _MOST_DAYS:
                    raise ParameterError(
                        f"{name} may be at most {_MOST_DAYS}, got {number}: no deadline is further away; lower it"
                    )

    def __str__(self) -> str:
        rules = [
            self.people and _waiting(self.people),
            self.days and _waited(self.days),
            self.before_deadline_days and f"a deadline is {_days(self.before_deadline_days)} away",
        ]
        return ", or ".join(rule for rule in rules if isinstance(rule, str))

    def due(self, waiting: Sequence[Request], people: int, now: datetime) -> BatchDue | None:
        """Return when these requests of so many people are due together, and why; None if there are none."""
        if not waiting:
            return None
        rules: list[tuple[datetime, str]] = []
        if self.people is not None and people >= self.people:
            rules.append((now, _waiting(people)))
        if self.days is not None:
            received = min(datetime.fromisoformat(request.received_at) for request in waiting)
            when = received + timedelta(days=self.days)
            rules.append((when, _waited((max(when, now) - received).days, then=when > now)))
        if self.before_deadline_days is not None:
            deadline = min(request.due for request in waiting)
            when = datetime.combine(deadline - timedelta(days=self.before_deadline_days), time(), UTC)
            left = (deadline - max(when, now).astimezone(UTC).date()).days
            away = f"is {'then ' if when > now else ''}{_days(left)} away" if left >= 0 else "has passed"
            rules.append((when, f"the deadline of {deadline} {away}"))
        if not rules:
            return BatchDue(None, f"fewer than {_waiting(self.people or 0)}", people)
        return BatchDue(*min(rules, key=lambda rule: rule[0]), people)


@dataclass(frozen=True, eq=False)
class ForgetQueue:
    """The requests that can be honoured, the people they are about, and the policy, at one moment."""

    waiting: tuple[Request, ...]
    index: SubjectIndex
    policy: BatchPolicy | None
    now: datetime

    @classmethod
    def of(cls, space: Workspace) -> ForgetQueue:
        """Look at a workspace."""
        with space.ledger.snapshot() as snapshot:
            waiting = tuple(request for request in space.book.open_requests() if request.state in _READY)
            index = space.index(space.state()) if waiting else SubjectIndex.empty()
            return cls(waiting, index, policy_in(snapshot), space.ledger.now())

    @cached_property
    def exposed(self) -> tuple[Request, ...]:
        """Requests about records that the served model was fitted on."""
        rows, which = self.index.rows_asked_for(self.waiting)
        fitted = self.index.exposed_at(rows) & ~self.index.gone_at(rows)
        return tuple(self.waiting[i] for i in np.unique(which[fitted]).tolist())

    @property
    def unexposed(self) -> tuple[Request, ...]:
        """The other requests: honouring them changes no model."""
        exposed = {request.id for request in self.exposed}
        return tuple(request for request in self.waiting if request.id not in exposed)

    @property
    def due(self) -> tuple[Request, ...]:
        """The exposed requests that are due.

        Those that failed before join every batch. If only they are due, they are tried again without the others:
        otherwise one that keeps failing would have everybody else erased in small batches.
        """
        failed = self._in(State.FAILED)
        for batch, decisive in ((self.exposed, self._in(State.ACCEPTED)), (failed, failed)):
            due = self._due(decisive)
            if self.policy is None or (due is not None and due.reached(self.now)):
                return batch
        return ()

    @property
    def next_batch(self) -> BatchDue | None:
        """When the next batch is due; None where nobody waits for one, or no policy is set."""
        batches = [due for state in _READY if (due := self._due(self._in(state))) is not None]
        if not batches:
            return None
        first = min(batches, key=lambda due: due.when or datetime.max.replace(tzinfo=UTC))
        return replace(first, people=self._count(self.exposed))

    def _in(self, state: State) -> tuple[Request, ...]:
        return tuple(request for request in self.exposed if request.state is state)

    def _due(self, requests: Sequence[Request]) -> BatchDue | None:
        return None if self.policy is None else self.policy.due(requests, self._count(requests), self.now)

    def _count(self, requests: Sequence[Request]) -> int:
        rows, _ = self.index.rows_asked_for(requests)
        return self.index.count_people(rows[self.index.exposed_at(rows) & ~self.index.gone_at(rows)])


def policy_in(snapshot: Snapshot) -> BatchPolicy | None:
    """Return the newest policy in a ledger; None if there is none, or it was given up."""
    entry = snapshot.last(BATCHING)
    rules: Any = {} if entry is None else entry.body
    return BatchPolicy(**rules) if rules else None


def _counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _days(number: int) -> str:
    return _counted(number, "day", "days")


def _waiting(people: int) -> str:
    return _counted(people, "person waits", "people wait")


def _waited(days: int, *, then: bool = False) -> str:
    return f"the oldest request has {'then ' if then else ''}waited {_days(days)}"
