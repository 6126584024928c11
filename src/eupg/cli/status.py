"""``eupg status``: what is served, and what waits."""

from __future__ import annotations

import typer

from eupg.cli.command import add_command
from eupg.cli.options import Json, Workspace
from eupg.cli.terminal import Terminal, counted
from eupg.cli.workspace import opened


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, status, example="eupg status --workspace ws")


def status(workspace: Workspace, as_json: Json = False) -> int:
    """Show what is served and what is waiting."""
    terminal = Terminal(as_json=as_json)
    with opened(workspace, terminal) as manager:
        state = manager.status()
    requests = state.requests
    whose = f" of {counted(state.people, 'person', 'people')}" if state.names_people else ""
    lines = [
        f"Serves model {state.served[:12]}… since {state.since[:16].replace('T', ' ')} UTC; release {state.releases}.",
        f"{counted(state.records, 'record')}{whose} in training, {counted(state.held_out, 'record')} held out.",
        f"Running now: {state.running or 'nothing'}.",
        "Requests: "
        + (", ".join(f"{n:,} {name}" for name, n in requests.counts.items() if n) or "none")
        + f". Open: {requests.open:,}, overdue: {requests.overdue:,}, next due: {requests.next_due or '–'}.",
    ]
    lines += [f"  {w['request']} is {w['state']}, due {w['due']}" for w in state.waiting]
    if requests.open > len(state.waiting):
        lines.append(f"  and {requests.open - len(state.waiting):,} more")
    terminal.show("\n".join(lines), state.to_json())
    return 0
