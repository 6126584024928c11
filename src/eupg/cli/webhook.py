"""``eupg webhook``: JSON in, JSON out, for an erasure system that already exists."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from eupg.cli.command import add_command
from eupg.cli.options import Json, Workspace
from eupg.cli.terminal import Terminal
from eupg.cli.workspace import opened
from eupg.errors import ParameterError


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, webhook, example="eupg webhook --workspace ws --person external_id < message.json")


def webhook(
    workspace: Workspace,
    person: Annotated[
        str, typer.Option("--person", metavar="KEY", help="Which identity in the message names the person.")
    ] = "external_id",
    as_json: Json = False,
) -> int:
    """Answer one message of an erasure system: JSON in, JSON out."""
    from eupg.manage.webhook import handle

    try:
        payload = json.loads(sys.stdin.read())
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ParameterError(
            f"expected one JSON message on standard input ({why}): see docs/architecture.md"
        ) from error
    with opened(workspace, Terminal(as_json=as_json)) as manager:
        answer = handle(manager, payload, person=person)
    sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")
    return 1 if "error" in answer else 0
