"""How a long run shows what it is doing: each step goes through a watch, which may show it, time it, or do nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Watch(Protocol):
    """Runs one step and shows that it runs."""

    def __call__(self, step: str, work: Callable[[], T], /) -> T:
        """Do the work and return its result."""


def unwatched(step: str, work: Callable[[], T], /) -> T:
    """Do the work and show nothing."""
    del step
    return work()


def stopwatch(watch: Watch, seconds: dict[str, float], *, of: str = "") -> Watch:
    """Return a watch that notes how long each step takes; ``of`` goes before what is shown of a step."""

    def timed(step: str, work: Callable[[], T], /) -> T:
        started = time.perf_counter()
        result = watch(of + step, work)
        seconds[step] = time.perf_counter() - started
        return result

    return timed
