"""``eupg limit``: the most privacy budget that a workspace may spend."""

from __future__ import annotations

from typing import Annotated

from eupg.cli.command import command
from eupg.cli.options import Json, Workspace, option
from eupg.cli.status import budget_words
from eupg.cli.terminal import Terminal
from eupg.cli.workspace import opened


@command("eupg limit --workspace ws --epsilon 3 --delta 3e-5")
def limit(
    workspace: Workspace,
    epsilon: Annotated[float, option("--epsilon E", "The most ε that all releases together may spend.")],
    delta: Annotated[float, option("--delta D", "The most δ that all releases together may spend.")] = 0.0,
    as_json: Json = False,
) -> int:
    """Limit the privacy budget of all releases together; renew refuses to exceed it."""
    terminal = Terminal(as_json=as_json)
    with opened(workspace, terminal) as manager:
        manager.limit_budget(epsilon=epsilon, delta=delta)
        budget = manager.status().budget
    terminal.show("\n".join(budget_words(budget)), budget.to_json())
    return 0
