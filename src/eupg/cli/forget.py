"""``eupg forget``: honour every accepted request."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from eupg.cli.command import add_command
from eupg.cli.options import Json, References, Workspace
from eupg.cli.terminal import Terminal, counted
from eupg.cli.workspace import opened


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, forget, example="eupg forget --workspace ws --audit")


def forget(
    workspace: Workspace,
    audit: Annotated[
        bool, typer.Option("--audit", help="Then attack the new model, also with the forgotten records.")
    ] = False,
    references: References = 8,
    as_json: Json = False,
) -> int:
    """Honour every accepted request."""
    terminal = Terminal(as_json=as_json)
    with opened(workspace, terminal) as manager:
        done = manager.forget()
        report = manager.audit(references=references) if audit and done.requests else None
    values = asdict(done) | {"failed": {name: str(why) for name, why in done.failed.items()}}
    if not done.requests:
        terminal.show("Nobody is waiting.", values)
        return 0
    how = "The base model was fine-tuned again" if done.trained else "The served model had not seen them"
    erased = f"{counted(len(done.requests), 'request')}, {counted(done.records, 'record')} erased"
    words = f"{erased} in {done.seconds:.2f} s. {how}."
    words += "\n" + "\n".join(done.requests[:20])
    for name, why in list(done.failed.items())[:20]:
        words += f"\n{name} could not be honoured and is still open: {why}"
    if report is not None:
        words += "\n" + report.sentence()
    terminal.show(words, values | ({"audit": report.to_json()} if report is not None else {}))
    return 1 if done.failed else 0
