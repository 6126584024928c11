"""``eupg batching``: when ``eupg forget --due`` honours requests."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from eupg.cli.command import command
from eupg.cli.options import Json, Workspace, option
from eupg.cli.status import batch_words
from eupg.cli.terminal import Terminal
from eupg.cli.workspace import opened
from eupg.errors import ParameterError

_UNUSED = "; 0 leaves this rule out)."


@command("eupg batching --workspace ws --people 100 --days 7 --before-deadline 5")
def batching(
    workspace: Workspace,
    people: Annotated[int | None, option("--people N", f"When N people wait (default 100{_UNUSED}")] = None,
    days: Annotated[
        int | None, option("--days N", f"When the oldest request has waited N days (default 7{_UNUSED}")
    ] = None,
    before_deadline: Annotated[
        int | None, option("--before-deadline N", f"When a deadline is N days away (default 5{_UNUSED}")
    ] = None,
    off: Annotated[bool, option("--off", "Give the policy up; then everything that waits is due.")] = False,
    as_json: Json = False,
) -> int:
    """Set when eupg forget --due honours requests: as soon as one of the rules says so."""
    from eupg.manage.batching import BatchPolicy

    terminal = Terminal(as_json=as_json)
    passed = {"people": people, "days": days, "before_deadline_days": before_deadline}
    rules = {name: number or None for name, number in passed.items() if number is not None}
    if off and rules:
        raise ParameterError("expected --off or rules, got both: --off takes no rules; leave one of them out")
    with opened(workspace, terminal) as manager:
        manager.set_batching(None if off else BatchPolicy(**rules))
        state = manager.status()
    values = {"batching": state.batching and asdict(state.batching), "next_batch": state.to_json()["next_batch"]}
    terminal.show("\n".join(batch_words(state) or ["No batching: everything that waits is due."]), values)
    return 0
