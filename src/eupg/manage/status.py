"""The status of a workspace: what is served, since when, from how many records, and which requests wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eupg.guarantees import guarantee_from_json
from eupg.guarantees.wording import NO_PERSON
from eupg.manage.batching import BatchDue, BatchPolicy, ForgetQueue, policy_in
from eupg.manage.budget import WorkspaceBudget
from eupg.manage.quality import QUALITY, Quality
from eupg.manage.requests.index import RequestCounts
from eupg.manage.storage.lock import read_owner
from eupg.manage.storage.workspace import Workspace

_SHOWN = 20


@dataclass(frozen=True)
class WorkspaceStatus:
    """A workspace at one moment.

    Parameters
    ----------
    served, since, releases
        The digest of the served model, when it was deployed, and how many releases were made.
    records, people, held_out
        The number of records and people in training, and of records held out.
    exposed
        The number of people whose records the served model was fitted on directly.
    claim
        What will hold for a record of the last release once it is forgotten, in words.
    budget
        The privacy budget that each release and all releases have spent, and the limit.
    requests, waiting
        The number of requests by state, and the open ones with their state and deadline, the most urgent first.
    running
        What another process is doing right now, if anything.
    quality
        How well the served model does on people held out; None where too few are held out, or an earlier version
        trained it.
    method
        The name of the method.
    names_people
        Whether it is known which records belong to one person; otherwise each record counts as a person.
    batching, next_batch
        When batches are due, if a policy is set; and when the next one is, if somebody waits for it.
    """

    served: str
    since: str
    releases: int
    records: int
    people: int
    held_out: int
    exposed: int
    claim: str
    budget: WorkspaceBudget
    requests: RequestCounts
    waiting: tuple[Mapping[str, str], ...]
    running: str | None
    quality: Quality | None = None
    method: str = "EUPG"
    names_people: bool = True
    batching: BatchPolicy | None = None
    next_batch: BatchDue | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        counts = {str(state): number for state, number in self.requests.counts.items()}
        due = self.requests.next_due
        requests = asdict(self.requests) | {"counts": counts, "next_due": None if due is None else due.isoformat()}
        batch = None if self.next_batch is None else self.next_batch.to_json()
        return asdict(self) | {
            "requests": requests,
            "waiting": [dict(w) for w in self.waiting],
            "next_batch": batch,
        }


def read_status(folder: Path) -> WorkspaceStatus:
    """Look at the workspace in a folder, without loading anything that trains."""
    space = Workspace(folder)
    try:
        return space.consistently(lambda: status_of(space))
    finally:
        space.close()


def status_of(space: Workspace) -> WorkspaceStatus:
    """Look at a workspace without changing it."""
    state = space.state()
    index = space.index(state)
    counts = index.counts()
    with space.ledger.snapshot() as snapshot:
        deployed, noted = snapshot.last("deploy"), snapshot.last(QUALITY)
        budget = WorkspaceBudget.of([guarantee_from_json(release.claim) for release in state.releases], snapshot)
        batching = policy_in(snapshot)
    requests = space.book.status()
    waiting = space.book.open_requests(at_most=_SHOWN)
    claim = guarantee_from_json(state.claim)
    if space.schema.subject is None and index.nameless:
        claim = claim.narrowed(NO_PERSON)
    return WorkspaceStatus(
        served=state.served,
        since=deployed.at if deployed is not None else "",
        releases=len(state.releases),
        records=counts.training,
        people=counts.people,
        held_out=counts.held_out,
        exposed=counts.exposed_people,
        claim=claim.sentence(),
        budget=budget,
        requests=requests,
        waiting=tuple({"request": r.id, "state": str(r.state), "due": r.due.isoformat()} for r in waiting),
        running=_running(space),
        quality=None if noted is None or noted.body["served"] != state.served else Quality.from_json(noted.body),
        method=_method_name(space.settings.method),
        names_people=space.schema.subject is not None or index.names_people,
        batching=batching,
        next_batch=None if batching is None else ForgetQueue.of(space).next_batch,
    )


def _method_name(description: Any) -> str:
    """Return the name of a method's class; of one of your own, what its ``repr`` begins with."""
    return str(description.get("class") or str(description.get("opaque")).partition("(")[0])


def _running(space: Workspace) -> str | None:
    """Return what the owner of the lock is doing; the lock file alone does not tell whether its owner lives."""
    with space.at_rest() as resting:
        if resting:
            return None
    owner = read_owner(space.folder / "lock")
    return owner.doing if owner is not None else "something"
