"""Several independent fits at the same time: one single-threaded process a core.

Processes are forked from a server that has the framework loaded and no threads, unlike this process, which must not be
forked.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing.context import BaseContext
from typing import Any, TypeVar

T = TypeVar("T")


def side_by_side(
    work: Callable[..., T], shared: tuple[Any, ...], tasks: Sequence[int], *, jobs: int, parts: Sequence[object]
) -> Iterator[tuple[int, T]]:
    """Call ``work(*shared, task)`` for each task and yield (task, result) as each is done.

    With one job, or one task, everything stays in this process. ``parts`` are the objects whose modules the processes
    will need; what they name in ``preload`` is loaded too.
    """
    if jobs == 1 or len(tasks) < 2:
        for task in tasks:
            yield task, work(*shared, task)
        return
    with (
        _one_thread_each(),
        ProcessPoolExecutor(
            min(jobs, len(tasks)), mp_context=_context(work, parts), initializer=_begin, initargs=(work, shared)
        ) as processes,
    ):
        waiting = {processes.submit(_work, task): task for task in tasks}
        for finished in as_completed(waiting):
            yield waiting[finished], finished.result()


def _context(work: Callable[..., Any], parts: Sequence[object]) -> BaseContext:
    """Return how processes are started: from a server, started once, where the system has that."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    modules = [type(part).__module__ for part in parts if part is not None]
    more = [name for part in parts for name in getattr(part, "preload", ())]
    context.set_forkserver_preload([work.__module__, *modules, *more])
    return context


_shared: tuple[Callable[..., Any], tuple[Any, ...]] | None = None


def _begin(work: Callable[..., Any], shared: tuple[Any, ...]) -> None:
    """Receive what every task of this process needs, once."""
    global _shared  # noqa: PLW0603
    _shared = (work, shared)


def _work(task: int) -> Any:
    assert _shared is not None
    work, shared = _shared
    return work(*shared, task)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let processes started inside use one thread each: more would fight over the same cores."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
