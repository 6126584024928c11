"""A command: its registration with an example, and what becomes of the errors that it raises."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import typer
from typer.core import TyperCommand

from eupg.cli.terminal import Terminal
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
_INTERRUPTED = "interrupted; in a workspace, the next change or eupg recover completes or undoes what was half done"


class Command(TyperCommand):
    """A command that ends with an exit status and a sentence, never with a traceback of an expected error."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; an option that lacks its value does not take the next option for it."""
        # While a shell asks for completions, the value is what the user is about to type.
        if not ctx.resilient_parsing:
            self._require_values(ctx, args)
        return super().parse_args(ctx, args)

    def _require_values(self, ctx: Any, args: list[str]) -> None:
        options = [parameter for parameter in self.params if parameter.param_type_name == "option"]
        names = {name for option in options for name in (*option.opts, *option.secondary_opts)}
        with_value = {name for option in options if not getattr(option, "is_flag", False) for name in option.opts}
        for name, value in zip_longest(args, args[1:]):
            if name == "--":
                break
            if name in with_value and (value is None or value in names):
                got = "nothing" if value is None else f"the option {value}"
                raise typer.BadParameter(f"expected a value, got {got}", ctx, param_hint=repr(name))

    def invoke(self, ctx: Any) -> Any:
        """Run the command and return the exit status."""
        terminal = Terminal(as_json=bool(ctx.params.get("as_json")))
        try:
            return super().invoke(ctx)
        except (EupgError, ModuleNotFoundError) as error:
            message = _sentence(error, str(ctx.info_name))
            if message is None:
                raise
            terminal.complain(message)
            return 2
        except KeyboardInterrupt:
            terminal.complain(_INTERRUPTED)
            return 130


def _sentence(error: EupgError | ModuleNotFoundError, command: str) -> str | None:
    """Return what to tell the user; None where the error is a mistake of this program."""
    if isinstance(error, EupgError | MissingFramework):
        return str(error)
    package = (error.name or "").split(".")[0]
    if package not in _EXTRAS:
        return None
    extra = "demo" if command == "demo" else _EXTRAS[package]
    return f"needs {package}: pip install 'eupg[{extra}]'"


def add_command(app: typer.Typer, run: Callable[..., int], *, example: str) -> None:
    """Add a command under the name of its function, whose docstring is the help, with an example below the options."""
    app.command(run.__name__, cls=Command, epilog=example_text(example))(run)


def example_text(example: str) -> str:
    """Return an example as the help shows it; the mark keeps its line breaks."""
    lines = "\n  ".join(example.split("\n"))
    return f"\b\nExample:\n  {lines}"
