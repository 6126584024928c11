"""The steps of a run: the tasks of each, on an executor, and how many are done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from eupg.executor.executor import Answer, Executor, Task
from eupg.progress import Progress, advance


@dataclass(frozen=True)
class Steps:
    """Runs the tasks of each step and reports how many are done."""

    executor: Executor
    progress: Progress

    def run(self, name: str, work: Callable[[Task], Answer], tasks: Sequence[Task]) -> list[Answer]:
        """Return the results of all tasks, in their order."""
        results: dict[int, Answer] = {}
        with self.progress.step(name):
            for position, result in self.executor.map(work, tasks):
                results[position] = result
                advance(self.progress, len(results) / len(tasks))
        return [results[position] for position in range(len(tasks))]
