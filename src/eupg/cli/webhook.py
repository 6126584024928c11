"""``eupg webhook``: JSON in, JSON out, for an erasure system that already exists."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from rich.console import Console

from eupg.cli.workspace import add_command, opened
from eupg.errors import ParameterError


def add_to(commands: Any) -> None:
    """Add the command."""
    webhook = add_command(commands, "webhook", "answer one message of an erasure system: JSON in, JSON out", _webhook)
    webhook.add_argument(
        "--person", default="external_id", metavar="KEY", help="which of the message's identities names the person"
    )


def _webhook(options: argparse.Namespace, console: Console) -> int:
    from eupg.manage.webhook import handle

    try:
        payload = json.loads(sys.stdin.read())
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ParameterError(
            f"expected one JSON message on standard input ({why}): see docs/architecture.md"
        ) from error
    with opened(options, console) as manager:
        answer = handle(manager, payload, person=options.person)
    sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")
    return 1 if "error" in answer else 0
