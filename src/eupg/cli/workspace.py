"""What the commands that work on a workspace share: the manager behind them, and the names of its steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from eupg.cli.terminal import Terminal
from eupg.errors import WorkspaceState

if TYPE_CHECKING:
    from eupg.forget.eupg import EUPG
    from eupg.manage.manager import Manager
    from eupg.rng import Randomness

_STAGES = {
    "protect": "protect: make the release",
    "pretrain": "pretrain on the release alone",
    "finetune": "finetune on the records",
    "forget": "forget: back to the base model, finetune on what is left",
    "audit": "audit: train reference models, attack",
}


@contextmanager
def opened(
    workspace: Path,
    terminal: Terminal,
    method: EUPG | None = None,
    *,
    rng: Randomness | None = None,
    ledger: str | None = None,
) -> Iterator[Manager]:
    """Open the workspace; a folder that is none is only made where a method says what for."""
    from eupg.cli.progress import steps
    from eupg.manage.manager import Manager

    # A workspace that lost its settings is one, and is told what it lost.
    if method is None and not any((workspace / name).is_file() for name in ("workspace.toml", "current.json")):
        raise WorkspaceState(f"{workspace} is not a workspace: make one with eupg train")
    with steps(terminal.console, _STAGES) as watch:
        manager = Manager(workspace, method, rng=rng, ledger=ledger, watch=watch)
        try:
            yield manager
        finally:
            manager.close()
