"""``eupg export``: what a workspace hands over to an auditor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eupg.cli.command import add_command
from eupg.cli.options import Json, Workspace
from eupg.cli.terminal import Terminal
from eupg.cli.workspace import opened


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, export, example="eupg export --workspace ws --out handover")


def export(
    workspace: Workspace,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="An empty folder, or a new one.")],
    as_json: Json = False,
) -> int:
    """Write ledger, model, schema and public key to a folder."""
    from eupg.manage import export as exporting

    terminal = Terminal(as_json=as_json)
    with opened(workspace, terminal) as manager:
        written = exporting.export(manager.space, out)
    lines = [str(path) for path in written]
    terminal.show("\n".join(lines), lines)
    return 0
