"""``eupg recover``: a workspace after a crash."""

from __future__ import annotations

from dataclasses import asdict

from eupg.cli.command import command
from eupg.cli.options import Json, Workspace
from eupg.cli.terminal import Terminal, counted
from eupg.cli.workspace import opened


@command("eupg recover --workspace ws")
def recover(workspace: Workspace, as_json: Json = False) -> int:
    """Bring a workspace back to a consistent state after a crash."""
    terminal = Terminal(as_json=as_json)
    with opened(workspace, terminal) as manager:
        done = manager.recover()
    change = "An interrupted change was completed." if done.settled else "No change was interrupted."
    deleted, waiting = counted(len(done.deleted), "stray file"), counted(len(done.waiting), "interrupted request")
    terminal.show(f"{change} {deleted} deleted; {waiting} back in the queue.", asdict(done))
    return 0
