"""The protocol of executors: run independent tasks anywhere, with the same results everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Task = TypeVar("Task")
Answer = TypeVar("Answer")
# How often one task may lose its process or machine before the run stops.
LOSSES = 3


@runtime_checkable
class Executor(Protocol):
    """Runs tasks that do not depend on each other.

    A task may run more than once, since its process or machine may die on the way, so ``work`` must leave nothing
    behind that its repetition does not replace. Tasks and results are small: what is large lies in files, which are
    named by the task. On several machines, these files lie on a file system that all of them share. ``work`` may be a
    ``functools.partial`` that holds what all tasks need, records too: each process or machine receives it once, and no
    reference to it is kept when the run ends.
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


@runtime_checkable
class Opening(Protocol):
    """An executor that can keep its processes for several calls of ``map``."""

    def opened(self) -> AbstractContextManager[Executor]:
        """Return a block; what it yields is an executor whose processes end with the block."""


def opened(executor: Executor) -> AbstractContextManager[Executor]:
    """Return a block for many short calls of ``map``, so that processes are started once.

    Examples
    --------
    >>> with opened(InProcess()) as executor:
    ...     in_order(executor, abs, [-3, 4])
    [3, 4]
    """
    return executor.opened() if isinstance(executor, Opening) else nullcontext(executor)


def in_order(executor: Executor, work: Callable[[Task], Answer], tasks: Sequence[Task]) -> list[Answer]:
    """Return the results in the order of the tasks."""
    results = dict(executor.map(work, tasks))
    return [results[position] for position in range(len(tasks))]


def added_up(executor: Executor, work: Callable[[Task], NDArray[np.int64]], tasks: Sequence[Task]) -> NDArray[np.int64]:
    """Return the sum of the results, which are arrays of whole numbers, so that no order of summation matters."""
    results = executor.map(work, tasks)
    total = np.array(next(results)[1])
    for _, result in results:
        total += result
    return total
