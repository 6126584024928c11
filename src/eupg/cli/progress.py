"""Show what is running: one line per step, with its time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from eupg.progress import Progress


@contextmanager
def shown(console: Console, names: Mapping[str, str] | None = None) -> Iterator[Progress]:
    """Show steps as they run; ``names`` maps a step to its name on the screen."""
    columns = (SpinnerColumn(finished_text="[green]✓"), TextColumn("{task.description}"), BarColumn(20))
    bars = Bars(*columns, TimeElapsedColumn(), console=console)
    try:
        yield _Shown(bars, names or {})
    finally:
        if bars.tasks:
            bars.stop()


class _Shown:
    def __init__(self, bars: Bars, names: Mapping[str, str]) -> None:
        self._bars, self._names = bars, names
        self._running: list[TaskID] = []

    @contextmanager
    def step(self, name: str, /) -> Iterator[None]:
        # Not before the first step: a command without any should not leave an empty line.
        self._bars.start()
        task = self._bars.add_task(self._names.get(name, name), total=None)
        self._running.append(task)
        yield
        self._running.pop()
        self._bars.update(task, total=1, completed=1)

    def advance(self, share: float, /) -> None:
        """Move the bar of the running step."""
        self._bars.update(self._running[-1], total=1, completed=share)
