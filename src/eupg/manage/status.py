"""What a workspace says about itself: what is served, since when, from how many records, and who waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from eupg.errors import LockHeld
from eupg.guarantees import guarantee_from_json
from eupg.guarantees.wording import NO_PERSON
from eupg.manage.lock import Owner, WorkspaceLock, read_owner
from eupg.manage.request_index import Status
from eupg.manage.workspace import Workspace


@dataclass(frozen=True)
class WorkspaceStatus:
    """A workspace at one moment.

    Parameters
    ----------
    served, since
        Digest of the served model, and when it was deployed.
    releases
        How many releases were made.
    records, people, held_out
        Records and people in training, and records held out.
    names_people
        Whether it is known which records belong to one person; otherwise each record was counted as one.
    exposed
        People whose records the served model was fitted on directly; 0 where that is nobody.
    claim
        What will hold for a record of the last release once it is forgotten, in words.
    requests
        Requests by state, the open and overdue ones, and the next deadline.
    waiting
        Ids of open requests with their state and deadline, the most urgent first.
    running
        What is being done right now, if anything.
    """

    served: str
    since: str
    releases: int
    records: int
    people: int
    held_out: int
    exposed: int
    claim: str
    requests: Status
    waiting: tuple[Mapping[str, str], ...]
    running: str | None
    names_people: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        counts = {str(state): number for state, number in self.requests.counts.items()}
        due = self.requests.next_due
        requests = asdict(self.requests) | {"counts": counts, "next_due": None if due is None else due.isoformat()}
        return asdict(self) | {"requests": requests, "waiting": [dict(w) for w in self.waiting]}


_SHOWN = 20


def status_of(space: Workspace) -> WorkspaceStatus:
    """Look at a workspace without changing it."""
    current = space.current()
    roll = space.roll(current)
    with space.ledger.snapshot() as snapshot:
        deployed = snapshot.last("deploy")
    requests = space.book.status()
    waiting = space.book.open_requests(at_most=_SHOWN)
    claim = guarantee_from_json(current.releases[-1].claim)
    if space.schema.subject is None and roll.nameless:
        claim = claim.narrowed(NO_PERSON)
    return WorkspaceStatus(
        served=current.served,
        since=deployed.at if deployed is not None else "",
        releases=len(current.releases),
        records=int(roll.training.sum()),
        people=roll.count_people(roll.training),
        held_out=int((roll.held_out & ~roll.gone).sum()),
        exposed=roll.count_people(roll.exposed & roll.training),
        claim=claim.sentence(),
        requests=requests,
        waiting=tuple({"request": r.id, "state": str(r.state), "due": r.due.isoformat()} for r in waiting),
        running=running(space),
        names_people=space.schema.subject is not None or roll.count_people(np.ones_like(roll.gone)) < len(roll.gone),
    )


def running(space: Workspace) -> str | None:
    """Return what the owner of the lock is doing; the lock is tried, since a file alone does not tell who lives."""
    path = space.folder / "lock"
    try:
        with WorkspaceLock(path, shared=True):
            return None
    except LockHeld:
        owner: Owner | None = read_owner(path)
        return owner.doing if owner is not None else "something"
