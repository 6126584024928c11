"""``eupg webhook``: JSON in, JSON out, for an erasure system that already exists."""

from __future__ import annotations

import json
import sys
from typing import Annotated

from eupg.cli.command import command
from eupg.cli.options import Json, Workspace, option
from eupg.cli.terminal import Terminal
from eupg.cli.workspace import opened
from eupg.errors import ParameterError


@command("eupg webhook --workspace ws --person external_id < message.json")
def webhook(
    workspace: Workspace,
    person: Annotated[
        str, option("--person KEY", "The identity in the message that names the person.")
    ] = "external_id",
    as_json: Json = False,
) -> int:
    """Answer one message of an erasure system: JSON in, JSON out.

    The messages and their answers are listed in docs/howto/webhook.md.
    """
    from eupg.manage.integrations.webhook import handle

    try:
        payload = json.loads(sys.stdin.read())
    except (ValueError, RecursionError) as error:
        problem = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ParameterError(
            f"expected one JSON message on standard input ({problem}): see docs/howto/webhook.md"
        ) from error
    with opened(workspace, Terminal(as_json=as_json)) as manager:
        answer = handle(manager, payload, person=person)
    sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")
    return 1 if "error" in answer else 0
