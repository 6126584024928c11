"""Requests come in: by person or by record, one or ten thousand, noted by keyed digest before anything else happens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from eupg.errors import RequestRefused
from eupg.manage.killpoint import checkpoint
from eupg.manage.request_states import Receipt, Request, State, Step
from eupg.manage.roll import person_digest, record_digest
from eupg.manage.workspace import Workspace


def receive(
    space: Workspace, subjects: Iterable[str], records: Iterable[str], *, channel: str | None = None
) -> list[Request]:
    """Take requests, people first, then records, in one transaction; they are on disk when this returns."""
    receipts = [Receipt("person", person_digest(space.key, str(s)), channel) for s in subjects]
    receipts += [Receipt("record", record_digest(space.key, str(r)), channel) for r in records]
    received = [r.request for r in space.book.receive_many(receipts)]
    checkpoint("requests received")
    return received


def accept(space: Workspace, requests: Sequence[Request]) -> list[Request]:
    """Accept requests that wait; those about nobody here are rejected, and say so."""
    roll = space.roll(space.current())
    waiting = {r.id: r for r in requests if r.state in (State.RECEIVED, State.VERIFIED)}
    # Where no column names people, each record counts as one, and who asks by a person's name would seem unknown.
    nameless = space.schema.subject is None and roll.count_people(np.ones_like(roll.gone)) == len(roll.gone)
    steps = []
    for request, rows in roll.asked_for(list(waiting.values())):
        known = not roll.gone[rows].all()
        if nameless and request.unit == "person" and not len(rows):
            raise RequestRefused(
                "no column names people here, so a request by a person's name finds nobody: ask by record, or train "
                "anew with the column that names the person"
            )
        why = None if known else f"no record of this {request.unit} is held here"
        steps.append(Step(request.id, State.ACCEPTED if known else State.REJECTED, why))
    now = {r.id: r for r in space.book.advance_many(steps)}
    checkpoint("requests accepted")
    return [now.get(r.id, r) for r in requests]
