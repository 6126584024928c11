"""Show what is running: one line a step, with its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from eupg.watch import Watch

T = TypeVar("T")


@contextmanager
def steps(console: Console, names: Mapping[str, str] | None = None) -> Iterator[Watch]:
    """Show steps as they run; ``names`` says what a step is called on the screen."""
    columns = (SpinnerColumn(finished_text="[green]✓"), TextColumn("{task.description}"), BarColumn(20))
    progress = Progress(*columns, TimeElapsedColumn(), console=console)
    started = []
    try:

        def watch(step: str, work: Callable[[], T], /) -> T:
            # Not before the first step: a command without any should not leave an empty line.
            progress.start()
            started.append(step)
            task = progress.add_task((names or {}).get(step, step), total=None)
            result = work()
            progress.update(task, total=1, completed=1)
            return result

        yield watch
    finally:
        if started:
            progress.stop()
