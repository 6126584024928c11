"""How a long run shows what it is doing: each step goes through a watch, which may show it, time it, or do nothing."""

from __future__ import annotations

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
