"""Assemble the commands into one application, and turn wrong use into a message and an exit status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from typer.main import get_command

from eupg import __version__
from eupg.cli.add import add
from eupg.cli.audit import audit
from eupg.cli.batching import batching
from eupg.cli.certify import certify
from eupg.cli.command import example_text
from eupg.cli.compare import compare
from eupg.cli.decide import decide
from eupg.cli.demo import demo
from eupg.cli.export import export
from eupg.cli.forget import forget
from eupg.cli.key import key
from eupg.cli.limit import limit
from eupg.cli.plan import plan
from eupg.cli.predict import predict
from eupg.cli.pretrain import pretrain
from eupg.cli.protect import protect
from eupg.cli.recover import recover
from eupg.cli.renew import renew
from eupg.cli.request import request
from eupg.cli.schema import schema
from eupg.cli.serve import serve
from eupg.cli.signer import signer
from eupg.cli.status import status
from eupg.cli.terminal import complain
from eupg.cli.train import train
from eupg.cli.verify import verify
from eupg.cli.webhook import webhook
from eupg.cli.worker import worker

# In the order of the help: a first look, then the life cycle of a workspace.
_COMMANDS = (
    *(demo, compare, schema, plan, protect, pretrain, train, predict, add, renew, limit),
    *(request, decide, batching, forget, status, recover, audit, certify, verify, export, webhook),
    *(serve, worker, key, signer),
)
_EXPERIMENTS = (
    "Each command has its own help: eupg COMMAND --help. The experiments behind docs/results.md have their own "
    "program, eupg-reproduction, in the folder reproduction/ of the source."
)
# The base class of errors of use. Typer does not export it, and its module differs between versions of Typer.
_WrongUse: type[Exception] = typer.BadParameter.__mro__[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    try:
        exit_status: int = get_command(app()).main(arguments, prog_name="eupg", standalone_mode=False)
    except _WrongUse as error:
        complain(f"{_message(error)} See '{_command_path(error)} --help'.")
        return 2
    except typer.Abort:
        # Interrupted while the arguments were read: no command had begun.
        return 130
    return exit_status


def app() -> typer.Typer:
    """Return the commands as one Typer application."""
    application = typer.Typer(
        name="eupg",
        # Plain help: it can be copied from and searched, and starts quickly.
        rich_markup_mode=None,
        # A traceback must never show the values of variables: they may be records.
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    application.callback(epilog=f"{example_text('eupg demo')}\n\n{_EXPERIMENTS}")(_eupg)
    for entry in _COMMANDS:
        entry.add_to(application)
    return application


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
