"""``eupg recover``: a workspace after a crash."""

from __future__ import annotations

from dataclasses import asdict

import typer

from eupg.cli.command import add_command
from eupg.cli.options import Json, Workspace
from eupg.cli.terminal import Terminal, counted
from eupg.cli.workspace import opened


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, recover, example="eupg recover --workspace ws")


def recover(workspace: Workspace, as_json: Json = False) -> int:
    """Bring a workspace back to a consistent state after a crash."""
    terminal = Terminal(as_json=as_json)
    with opened(workspace, terminal) as manager:
        done = manager.recover()
    lines = ["An interrupted change was completed." if done.settled else "No change was interrupted."]
    deleted = counted(len(done.deleted), "stray file")
    lines.append(f"{deleted} deleted; {counted(len(done.waiting), 'interrupted request')} back in the queue.")
    terminal.show(" ".join(lines), asdict(done))
    return 0
