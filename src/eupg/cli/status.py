"""``eupg status``: the served model, and the requests that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eupg.cli.command import command
from eupg.cli.options import Json, Workspace
from eupg.cli.terminal import Terminal, counted
from eupg.cli.workspace import require_workspace

if TYPE_CHECKING:
    from eupg.manage.budget import WorkspaceBudget
    from eupg.manage.status import WorkspaceStatus


@command("eupg status --workspace ws")
def status(workspace: Workspace, as_json: Json = False) -> int:
    """Show the served model and the requests that wait."""
    # Not through the manager, which loads all that trains and audits.
    from eupg.manage.status import read_status

    terminal = Terminal(as_json=as_json)
    require_workspace(workspace)
    state = read_status(workspace)
    requests = state.requests
    people = f" of {counted(state.people, 'person', 'people')}" if state.names_people else ""
    lines = [
        f"Serves model {state.served[:12]}… of {state.method} since {state.since[:16].replace('T', ' ')} UTC"
        + (f"; release {state.releases}." if state.releases else "."),
        f"{counted(state.records, 'record')}{people} in training, {counted(state.held_out, 'record')} held out.",
        *(() if state.quality is None else state.quality.lines),
        *budget_words(state.budget),
        f"Running now: {state.running or 'nothing'}.",
        "Requests: "
        + (", ".join(f"{n:,} {name}" for name, n in requests.counts.items() if n) or "none")
        + f". Open: {requests.open:,}, overdue: {requests.overdue:,}, next due: {requests.next_due or '–'}.",
    ]
    lines += [f"  {w['request']} is {w['state']}, due {w['due']}" for w in state.waiting]
    if requests.open > len(state.waiting):
        lines.append(f"  and {requests.open - len(state.waiting):,} more")
    lines += batch_words(state)
    terminal.show("\n".join(lines), state.to_json())
    return 0


def batch_words(state: WorkspaceStatus) -> list[str]:
    """Return a line on when batches are due; none where no policy is set."""
    if state.batching is None:
        return []
    return [f"Batches are due when {state.batching}. Next batch: {state.next_batch or 'nobody waits for one'}."]


def budget_words(budget: WorkspaceBudget) -> list[str]:
    """Return a line on the privacy budget; none where no release has one."""
    if not any(budget.releases):
        return []
    each = [f"release {i} {spent or 'without a budget'}" for i, spent in enumerate(budget.releases, 1)]
    together = [f"together {budget.total}"] if budget.total and len(each) > 1 else []
    limit = f"limit {budget.limit}" if budget.limit else "no limit"
    return [f"Privacy budget: {'; '.join([*each, *together, limit])}."]
