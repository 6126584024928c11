"""A command: its options, its example, and what becomes of the errors that it raises."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from itertools import zip_longest
from typing import Any

import typer
from typer.core import TyperCommand

from eupg.cli.terminal import Terminal
from eupg.errors import EupgError, MissingFramework
from eupg.lazy import EXTRAS

# Packages that commands need, and the extra that installs each.
_EXTRAS = {**EXTRAS, "matplotlib": "demo", "statsmodels": "demo"}
_INTERRUPTED = "interrupted. If a workspace was being changed, eupg recover completes or undoes the change"


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
    """Return what to tell the user; None if the error is a mistake in this program."""
    if isinstance(error, EupgError | MissingFramework):
        return str(error)
    package = (error.name or "").split(".")[0]
    if package not in _EXTRAS:
        return None
    extra = "demo" if command == "demo" else _EXTRAS[package]
    return f"needs {package}: pip install 'eupg[{extra}]'"


@dataclass(frozen=True)
class CommandEntry:
    """A command of the program: its function, whose docstring is the help, and an example of its use."""

    run: Callable[..., int]
    example: str

    def add_to(self, app: typer.Typer) -> None:
        """Add the command under the name of its function, with the example below the options."""
        app.command(self.run.__name__, cls=Command, epilog=example_text(self.example))(_with_options(self.run))


def command(example: str) -> Callable[[Callable[..., int]], CommandEntry]:
    """Make a function a command. A parameter whose type is a dataclass stands for one option per field."""
    return lambda run: CommandEntry(run, example)


def example_text(example: str) -> str:
    """Return an example as the help shows it; the mark keeps its line breaks."""
    lines = "\n  ".join(example.split("\n"))
    return f"\b\nExample:\n  {lines}"


def _with_options(run: Callable[..., int]) -> Callable[..., int]:
    """Return the function with the fields of each dataclass among its parameters as parameters of their own."""
    signature = inspect.signature(run, eval_str=True)
    groups: dict[str, Any] = {p.name: p.annotation for p in signature.parameters.values() if is_dataclass(p.annotation)}
    options: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name in groups:
            options += inspect.signature(groups[parameter.name], eval_str=True).parameters.values()
        else:
            options.append(parameter)

    @wraps(run)
    def command(**values: Any) -> int:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        return run(**values)

    keyword_only = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]
    command.__signature__ = signature.replace(parameters=keyword_only)  # type: ignore[attr-defined]
    return command
