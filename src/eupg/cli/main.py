"""Put the commands together, and turn what goes wrong into a sentence and an exit status."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from eupg import __version__
from eupg.certify.summary import readable
from eupg.cli import compare, demo, evidence, plan, predict, requests, training, webhook
from eupg.errors import EupgError, MissingFramework

# What the commands need, and the extra that brings it.
_EXTRAS = {
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
    "torch": "torch",
    "safetensors": "torch",
    "opacus": "dpsgd",
    "dp_accounting": "dpsgd",
    "matplotlib": "demo",
    "statsmodels": "demo",
}
_COMMANDS = (demo, plan, training, predict, requests, evidence, webhook, compare)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="eupg",
        description="Forget a person's data, with a stated guarantee.",
        epilog="The experiments behind docs/results.md have a command of their own, eupg-reproduction: see the folder "
        "reproduction/ of the source.",
    )
    parser.add_argument("--version", action="version", version=f"eupg {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in _COMMANDS:
        module.add_to(commands)
    options = parser.parse_args(arguments)
    # Everything goes to one console; with --json the story moves to standard error and leaves output to the JSON.
    console = Console(stderr=options.json, highlight=False)
    try:
        status: int = options.run(options, console)
        return status
    except (EupgError, ModuleNotFoundError) as error:
        package = (getattr(error, "name", None) or "").split(".")[0]
        if isinstance(error, ModuleNotFoundError) and not isinstance(error, MissingFramework):
            if package not in _EXTRAS:
                raise
            extra = "demo" if options.command == "demo" else _EXTRAS[package]
            message = f"needs {package}: pip install 'eupg[{extra}]'"
        else:
            message = str(error)
        console.print(f"[bold red]eupg:[/] {escape(chr(10).join(map(readable, message.split(chr(10)))))}")
        return 2
    except KeyboardInterrupt:
        console.print(
            "[bold red]eupg:[/] interrupted; in a workspace, the next change or eupg recover completes or undoes what "
            "was half done"
        )
        return 130
