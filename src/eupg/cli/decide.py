"""``eupg decide``: what becomes of one erasure request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from eupg.cli.command import add_command
from eupg.cli.options import Json, Workspace
from eupg.cli.request import request_values, request_words
from eupg.cli.terminal import Terminal
from eupg.cli.workspace import opened
from eupg.errors import ParameterError

if TYPE_CHECKING:
    from eupg.manage.manager import Manager
    from eupg.manage.request_states import Request


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, decide, example='eupg decide --workspace ws --request REQUEST-ID --reject "not our customer"')


def decide(
    workspace: Workspace,
    request: Annotated[str, typer.Option("--request", metavar="ID", help="The request to decide.")],
    verified: Annotated[
        bool, typer.Option("--verified", help="Note that the identity of the requester was checked.")
    ] = False,
    accept: Annotated[bool, typer.Option("--accept", help="Accept it; eupg forget then honours it.")] = False,
    reject: Annotated[
        str | None, typer.Option("--reject", metavar="REASON", help="Reject it, and say why; nothing personal.")
    ] = None,
    cancel: Annotated[
        str | None, typer.Option("--cancel", metavar="REASON", help="Cancel it, and say why; nothing personal.")
    ] = None,
    extend: Annotated[
        str | None,
        typer.Option("--extend", metavar="REASON", help="Extend the deadline, and say why; nothing personal."),
    ] = None,
    months: Annotated[int, typer.Option("--months", metavar="N", help="Months to extend by, 1 or 2.")] = 2,
    as_json: Json = False,
) -> int:
    """Verify, accept, reject, cancel or extend a request."""
    terminal = Terminal(as_json=as_json)
    steps = {
        "--verified": verified,
        "--accept": accept,
        "--reject": reject is not None,
        "--cancel": cancel is not None,
        "--extend": extend is not None,
    }
    chosen = [option for option, passed in steps.items() if passed]
    if len(chosen) != 1:
        raise ParameterError(
            f"expected one of {', '.join(steps)}, got {' and '.join(chosen) or 'none of them'}: pass exactly one"
        )
    with opened(workspace, terminal) as manager:
        decided = _step(manager, request, chosen[0], reason=reject or cancel or extend or "", months=months)
    terminal.show(request_words(decided), request_values(decided))
    return 1 if accept and decided.state == "rejected" else 0


def _step(manager: Manager, request: str, step: str, *, reason: str, months: int) -> Request:
    from eupg.manage.request_states import State

    if step == "--accept":
        return manager.accept(request)
    if step == "--extend":
        return manager.extend(request, months=months, reason=reason)
    if step == "--verified":
        return manager.advance(request, State.VERIFIED)
    return manager.advance(request, State.REJECTED if step == "--reject" else State.CANCELLED, reason=reason)
