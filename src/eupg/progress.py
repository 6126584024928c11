"""How a long run reports what it is doing: each step runs inside ``with progress.step(name):``."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

_log = logging.getLogger("eupg")


class Progress(Protocol):
    """Is told when a step begins and when it ends."""

    def step(self, name: str, /) -> AbstractContextManager[None]:
        """Return a context manager; the step runs inside it."""


@runtime_checkable
class Measured(Progress, Protocol):
    """Is also told how much of the running step is done."""

    def advance(self, share: float, /) -> None:
        """Show that this share of the running step, from 0 to 1, is done."""


def advance(progress: Progress, share: float) -> None:
    """Tell how much of the running step is done, if that is shown."""
    if isinstance(progress, Measured):
        progress.advance(share)


class Silent:
    """Shows nothing."""

    def step(self, name: str, /) -> AbstractContextManager[None]:
        """Run the step."""
        del name
        return nullcontext()


SILENT = Silent()


class Printed:
    """Prints one line per step when it is done: for notebooks and scripts.

    Examples
    --------
    >>> with Printed().step("pretrain"):
    ...     pass
    pretrain: 0.0 s
    """

    @contextmanager
    def step(self, name: str, /) -> Iterator[None]:
        """Run the step, then print its name and duration."""
        started = time.perf_counter()
        yield
        print(f"{name}: {time.perf_counter() - started:.1f} s", flush=True)


@dataclass(frozen=True)
class Logged:
    """Logs every step at the level INFO, under the name ``eupg``, and passes it on to ``progress``."""

    progress: Progress

    @contextmanager
    def step(self, name: str, /) -> Iterator[None]:
        """Run the step, and log its beginning, and its end unless it fails."""
        started = time.perf_counter()
        _log.info("%s begins", name)
        with self.progress.step(name):
            yield
        _log.info("%s done in %.1f s", name, time.perf_counter() - started)

    def advance(self, share: float, /) -> None:
        """Pass the share on."""
        advance(self.progress, share)


@dataclass(frozen=True)
class Timed:
    """Measures how long each step takes, in seconds.

    Parameters
    ----------
    progress
        Shows the steps.
    seconds
        The duration of each step that succeeded, by its name.
    prefix
        Precedes the name of a step where it is shown.

    Examples
    --------
    >>> timed = Timed(SILENT)
    >>> with timed.step("pretrain"):
    ...     pass
    >>> list(timed.seconds)
    ['pretrain']
    """

    progress: Progress
    seconds: dict[str, float] = field(default_factory=dict)
    prefix: str = ""

    @contextmanager
    def step(self, name: str, /) -> Iterator[None]:
        """Run the step and note its duration."""
        started = time.perf_counter()
        with self.progress.step(self.prefix + name):
            yield
        self.seconds[name] = time.perf_counter() - started

    def advance(self, share: float, /) -> None:
        """Pass the share on."""
        advance(self.progress, share)
