"""Where a command prints: words for a person, or, with ``--json``, values for a program."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class Terminal:
    """The output of one command.

    Parameters
    ----------
    as_json
        Whether standard output is for JSON alone; everything else then goes to standard error.
    """

    as_json: bool

    @cached_property
    def console(self) -> Console:
        """The console that everything but JSON goes to."""
        from rich.console import Console

        return Console(stderr=self.as_json, highlight=False)

    def show(self, words: str, values: Any, *, wrap: bool = True) -> None:
        """Print words for a person, or values for a program."""
        self.answer(values)
        if not self.as_json:
            self.console.print(_readable(words), markup=False, soft_wrap=not wrap)

    def answer(self, values: Any) -> None:
        """Print values for a program, or nothing for a person."""
        if self.as_json:
            sys.stdout.write(json.dumps(values, indent=2, ensure_ascii=False) + "\n")

    def tell(self, notes: Iterable[str]) -> None:
        """Print notes, one per line, whether or not the result is JSON."""
        for note in notes:
            self.console.print(_readable(note), markup=False)

    def complain(self, message: str) -> None:
        """Say what went wrong."""
        from rich.markup import escape

        self.console.print(f"[bold red]eupg:[/] {escape(_readable(message))}")


def complain(message: str) -> None:
    """Say on standard error what is wrong with the arguments."""
    Terminal(as_json=True).complain(message)


def counted(number: int, one: str, many: str | None = None) -> str:
    """Write a number with its noun, in the singular or the plural.

    Examples
    --------
    >>> counted(1, "record"), counted(1200, "record"), counted(2, "person", "people")
    ('1 record', '1,200 records', '2 people')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _readable(text: str) -> str:
    """Return the text without characters that would control the terminal: others wrote parts of it, such as reasons."""
    from eupg.certify.summary import readable

    return "\n".join(map(readable, text.split("\n")))
