"""What the commands that work on a workspace share: the manager behind them, and the names of its steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from eupg.cli.terminal import Terminal
from eupg.errors import WrongState

if TYPE_CHECKING:
    from eupg.forget.durable import Durable
    from eupg.manage.manager import Manager
    from eupg.rng import Randomness

_STAGES = {
    "protect": "protect: make the release",
    "pretrain": "pretrain on the release alone",
    "finetune": "finetune on the records",
    "forget": "forget: remove the records from the model",
    "audit": "audit: train reference models, attack",
}


def require_workspace(folder: Path) -> None:
    """Refuse a folder that is not a workspace."""
    # A workspace that lost its settings is one, and is told what it lost.
    if not any((folder / name).is_file() for name in ("workspace.toml", "current.json")):
        raise WrongState(f"{folder} is not a workspace: make one with eupg train")


@contextmanager
def opened(
    workspace: Path,
    terminal: Terminal,
    method: Durable | None = None,
    *,
    rng: Randomness | None = None,
    ledger: str | None = None,
) -> Iterator[Manager]:
    """Open the workspace; a folder that is none is only made where a method says what for."""
    from eupg.cli.progress import shown
    from eupg.manage.manager import Manager

    if method is None:
        require_workspace(workspace)
    with shown(terminal.console, _STAGES) as progress:
        manager = Manager(workspace, method, rng=rng, ledger=ledger, progress=progress)
        try:
            yield manager
        finally:
            manager.close()
