"""What the commands that work on a workspace share: their options, the manager behind them, and how they print."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from eupg.certify.summary import readable
from eupg.cli.progress import steps

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


def add_command(commands: Any, name: str, text: str, run: Any, *, workspace: bool = True) -> argparse.ArgumentParser:
    """Add a command with the options that all of them have."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    if workspace:
        parser.add_argument("--workspace", type=Path, required=True, metavar="DIR", help="the workspace")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=run)
    return parser


@contextmanager
def opened(
    options: argparse.Namespace,
    console: Console,
    method: EUPG | None = None,
    *,
    rng: Randomness | None = None,
    ledger: str | None = None,
) -> Iterator[Manager]:
    """Open the workspace; a folder that is none is only made where a method says what for."""
    from eupg.errors import WorkspaceState
    from eupg.manage.manager import Manager

    # A workspace that lost its settings is one, and is told what it lost.
    if method is None and not any((options.workspace / name).is_file() for name in ("workspace.toml", "current.json")):
        raise WorkspaceState(f"{options.workspace} is not a workspace: make one with eupg train")
    with steps(console, _STAGES) as watch:
        manager = Manager(options.workspace, method, rng=rng, ledger=ledger, watch=watch)
        try:
            yield manager
        finally:
            manager.close()


def show(options: argparse.Namespace, console: Console, words: str, values: Any, *, wrap: bool = True) -> None:
    """Print words for a person, or values for a program."""
    if options.json:
        sys.stdout.write(json.dumps(values, indent=2, ensure_ascii=False) + "\n")
    else:
        # What others wrote, such as a reason, may hold bytes that a terminal would obey.
        console.print("\n".join(map(readable, words.split("\n"))), markup=False, soft_wrap=not wrap)


def counted(number: int, one: str, many: str | None = None) -> str:
    """Write a number with its noun, in the singular or the plural.

    Examples
    --------
    >>> counted(1, "record"), counted(1200, "record"), counted(2, "person", "people")
    ('1 record', '1,200 records', '2 people')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"
