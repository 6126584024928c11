"""``eupg audit``: attack the served model, and say how exposed those who stay are."""

from __future__ import annotations

from typing import Annotated

import typer

from eupg.cli.command import add_command
from eupg.cli.options import Json, References, Workspace
from eupg.cli.terminal import Terminal
from eupg.cli.workspace import opened


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, audit, example="eupg audit --workspace ws --references 16")


def audit(
    workspace: Workspace,
    references: References = 8,
    sample: Annotated[int, typer.Option("--sample", metavar="N", help="Number of records to ask about.")] = 2000,
    as_json: Json = False,
) -> int:
    """Attack the served model to measure how exposed people are."""
    terminal = Terminal(as_json=as_json)
    with opened(workspace, terminal) as manager:
        report = manager.audit(references=references, sample=sample)
    terminal.show(report.sentence(), report.to_json())
    return 0
