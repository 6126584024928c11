"""Put the commands together, and turn wrong use into a sentence and an exit status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from typer.main import get_command

from eupg import __version__
from eupg.cli import (
    add,
    audit,
    certify,
    compare,
    decide,
    demo,
    export,
    forget,
    plan,
    predict,
    recover,
    renew,
    request,
    status,
    train,
    verify,
    webhook,
)
from eupg.cli.command import example_text
from eupg.cli.terminal import complain

# In the order of the help: a first look, then the life of a workspace.
_COMMANDS = (
    *(demo, compare, plan, train, predict, add, renew),
    *(request, decide, forget, status, recover, audit, certify, verify, export, webhook),
)
_EXPERIMENTS = (
    "The experiments behind docs/results.md have a command of their own, eupg-reproduction: see the folder "
    "reproduction/ of the source."
)
# The base of the errors of wrong use. Typer does not export it, and its home differs between versions of Typer.
_WrongUse: type[Exception] = typer.BadParameter.__mro__[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    try:
        status: int = get_command(app()).main(arguments, prog_name="eupg", standalone_mode=False)
    except _WrongUse as error:
        complain(f"{_message(error)} See '{_command_path(error)} --help'.")
        return 2
    except typer.Abort:
        # Interrupted while the arguments were read: no command had begun.
        return 130
    return status


def app() -> typer.Typer:
    """Return the commands as one Typer application."""
    together = typer.Typer(
        name="eupg",
        # Plain help: it can be copied from and searched, and starts quickly.
        rich_markup_mode=None,
        # A traceback must never show the values of variables: they may be records.
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    together.callback(epilog=f"{example_text('eupg demo')}\n\n{_EXPERIMENTS}")(_eupg)
    for module in _COMMANDS:
        module.add_to(together)
    return together


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"eupg {__version__}")
        raise typer.Exit


def _eupg(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Forget a person's data, with a stated guarantee."""


def _message(error: Exception) -> str:
    """Return what Typer says about wrong use, as a whole sentence."""
    format_message = getattr(error, "format_message", error.__str__)
    words = str(format_message()).strip()
    return words if words.endswith((".", "?", "!")) else f"{words}."


def _command_path(error: Exception) -> str:
    return str(getattr(getattr(error, "ctx", None), "command_path", "eupg"))
