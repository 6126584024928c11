"""``eupg renew``: a second release."""

from __future__ import annotations

import typer

from eupg.cli.command import add_command
from eupg.cli.options import Json, Workspace
from eupg.cli.terminal import Terminal, counted
from eupg.cli.workspace import opened


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, renew, example="eupg renew --workspace ws")


def renew(workspace: Workspace, as_json: Json = False) -> int:
    """Make a second release of the records that are left."""
    terminal = Terminal(as_json=as_json)
    with opened(workspace, terminal) as manager:
        manager.renew()
        status = manager.status()
    words = (
        f"Release {status.releases} made of {counted(status.records, 'record')}; for those in several, claims add up."
    )
    terminal.show(words, status.to_json())
    return 0
