"""The protocol of executors: run independent tasks anywhere, with the same results everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar, runtime_checkable

Task = TypeVar("Task")
Answer = TypeVar("Answer")
# How often one task may lose its process or machine before the run stops.
LOSSES = 3


@runtime_checkable
class Executor(Protocol):
    """Runs tasks that do not depend on each other.

    A task may run more than once, since its process or machine may die on the way, so ``work`` must leave nothing
    behind that its repetition does not replace. Tasks and results are small: what is large lies in files, which are
    named by the task. On several machines, these files lie on a file system that all of them share.
    """

    def map(self, work: Callable[[Task], Answer], tasks: Sequence[Task]) -> Iterator[tuple[int, Answer]]:
        """Call ``work`` for each task, and yield its position and result as soon as it is done.

        ``work`` is a function of an importable module. An error that it raises ends the run and is raised here.
        """


class InProcess:
    """Runs the tasks one after the other in this process.

    Examples
    --------
    >>> list(InProcess().map(abs, [-3, 4]))
    [(0, 3), (1, 4)]
    """

    def map(self, work: Callable[[Task], Answer], tasks: Sequence[Task]) -> Iterator[tuple[int, Answer]]:
        """Call ``work`` for each task, in order."""
        for position, task in enumerate(tasks):
            yield position, work(task)


def in_order(executor: Executor, work: Callable[[Task], Answer], tasks: Sequence[Task]) -> list[Answer]:
    """Return the results in the order of the tasks."""
    results = dict(executor.map(work, tasks))
    return [results[position] for position in range(len(tasks))]
