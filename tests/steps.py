"""Progress for tests: notes the steps of a run, and may act inside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Steps:
    """Notes the name of each step, and calls ``act`` with it before the step runs."""

    def __init__(self, act: Callable[[str], object] | None = None) -> None:
        self.act, self.names = act, list[str]()

    @contextmanager
    def step(self, name: str, /) -> Iterator[None]:
        self.names.append(name)
        if self.act is not None:
            self.act(name)
        yield
