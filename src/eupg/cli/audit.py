"""``eupg audit``: attack the served model, to measure how exposed people are."""

from __future__ import annotations

from typing import Annotated

from eupg.cli.command import command
from eupg.cli.options import Json, References, Workspace, option
from eupg.cli.terminal import Terminal
from eupg.cli.workspace import opened


@command("eupg audit --workspace ws --references 16")
def audit(
    workspace: Workspace,
    references: References = 8,
    sample: Annotated[int, option("--sample N", "Number of records to attack.")] = 2000,
    as_json: Json = False,
) -> int:
    """Attack the served model to measure how exposed people are."""
    terminal = Terminal(as_json=as_json)
    with opened(workspace, terminal) as manager:
        report = manager.audit(references=references, sample=sample)
    terminal.show(str(report), report.to_json())
    return 0
