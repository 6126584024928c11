"""``eupg decide``: decide one erasure request."""

from __future__ import annotations

from typing import Annotated

from eupg.cli.command import command
from eupg.cli.options import Json, Workspace, option
from eupg.cli.request import request_values, request_words
from eupg.cli.terminal import Terminal
from eupg.cli.workspace import opened
from eupg.errors import ParameterError


@command('eupg decide --workspace ws --request REQUEST-ID --reject "not our customer"')
def decide(
    workspace: Workspace,
    request: Annotated[str, option("--request ID", "The request to decide.")],
    verified: Annotated[bool, option("--verified", "Note that the identity of the requester was checked.")] = False,
    accept: Annotated[bool, option("--accept", "Accept it; eupg forget then honours it.")] = False,
    reject: Annotated[str | None, option("--reject REASON", "Reject it, with a reason that names nobody.")] = None,
    cancel: Annotated[str | None, option("--cancel REASON", "Cancel it, with a reason that names nobody.")] = None,
    extend: Annotated[
        str | None, option("--extend REASON", "Extend the deadline, with a reason that names nobody.")
    ] = None,
    months: Annotated[int, option("--months N", "Months to extend by, 1 or 2.")] = 2,
    as_json: Json = False,
) -> int:
    """Verify, accept, reject, cancel or extend a request."""
    from eupg.manage.requests.states import State

    terminal = Terminal(as_json=as_json)
    steps = {
        "--verified": verified,
        "--accept": accept,
        "--reject": reject is not None,
        "--cancel": cancel is not None,
        "--extend": extend is not None,
    }
    passed = [step for step, is_passed in steps.items() if is_passed]
    if len(passed) != 1:
        raise ParameterError(
            f"expected one of {', '.join(steps)}, got {' and '.join(passed) or 'none of them'}: pass exactly one"
        )
    with opened(workspace, terminal) as manager:
        if accept:
            decided = manager.accept(request)
        elif verified:
            decided = manager.advance(request, State.VERIFIED)
        elif reject is not None:
            decided = manager.advance(request, State.REJECTED, reason=reject)
        elif cancel is not None:
            decided = manager.advance(request, State.CANCELLED, reason=cancel)
        else:
            decided = manager.extend(request, months=months, reason=extend or "")
    terminal.show(request_words(decided), request_values(decided))
    return 1 if accept and decided.state == "rejected" else 0
