"""Several independent fits at the same time: one single-threaded process per core.

Each process is a fresh interpreter that talks to this one through its standard input and output. It is neither forked,
since this process may run threads of OpenMP or CUDA, nor started through ``multiprocessing``, which would import the
caller's main script a second time: a script without a ``__main__`` guard would then start over, and one read from
standard input could not be found. The price is that a process does not know what was defined in ``__main__``. Work that
needs it, or that cannot be pickled, stays in this process.
"""

from __future__ import annotations

import io
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from types import FunctionType
from typing import Any, BinaryIO, TypeVar

from eupg.errors import WorkerLost

T = TypeVar("T")

# The paths come as arguments, so that a process finds every module that this one can import.
_START = "import sys; sys.path[:] = sys.argv[1:]; from eupg.learn.workers import serve; serve()"
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_LENGTH = struct.Struct("!Q")
# How long a process that has nothing left to do may take to end.
_PATIENCE_S = 5.0


def side_by_side(
    work: Callable[..., T], shared: tuple[Any, ...], tasks: Sequence[int], *, jobs: int
) -> Iterator[tuple[int, T]]:
    """Call ``work(*shared, task)`` for each task and yield (task, result) as each is done.

    Everything stays in this process, in order, with one job or one task, and where another process could not receive
    the work: it cannot be pickled, or it was defined in ``__main__``.
    """
    crew = _Crew.start(work, shared, min(jobs, len(tasks))) if jobs > 1 and len(tasks) > 1 else None
    if crew is None:
        for task in tasks:
            yield task, work(*shared, task)
        return
    yield from crew.results(tasks)


class _Crew:
    """Processes that have all received the same work."""

    def __init__(self, workers: list[_Worker]) -> None:
        self._workers = workers
        self._threads = ThreadPoolExecutor(len(workers))

    @classmethod
    def start(cls, work: Callable[..., Any], shared: tuple[Any, ...], count: int) -> _Crew | None:
        """Start the processes and hand them the work; return None where they could not receive it."""
        message = _portable((work, shared))
        # A frozen application has no interpreter to start.
        if message is None or not sys.executable or getattr(sys, "frozen", False):
            return None
        crew = cls([_Worker() for _ in range(count)])
        try:
            received = list(crew._threads.map(lambda worker: worker.begin(message), crew._workers))
        except BaseException:
            crew.end(at_once=True)
            raise
        if all(received):
            return crew
        crew.end(at_once=True)
        return None

    def results(self, tasks: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """Yield each task with its result as it is done; the processes end with the last one, or with an error."""
        idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        for worker in self._workers:
            idle.put(worker)
        done = False
        try:
            waiting = {self._threads.submit(_with_one_of, idle, task): task for task in tasks}
            for finished in as_completed(waiting):
                yield waiting[finished], finished.result()
            done = True
        finally:
            self.end(at_once=not done)

    def end(self, *, at_once: bool) -> None:
        """End every process; at once, or when it has seen that nothing more will come."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.end(at_once=at_once)
        self._threads.shutdown()


def _with_one_of(idle: queue.SimpleQueue[_Worker], task: int) -> Any:
    worker = idle.get()
    try:
        return worker.do(task)
    finally:
        idle.put(worker)


class _Worker:
    """One process, seen from this side."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # More threads would fight over the same cores.
            env={**os.environ, **dict.fromkeys(_THREADS, "1")},
        )

    def begin(self, message: bytes) -> bool:
        """Hand over the work; tell whether the process could load it."""
        return bool(self._ask(message))

    def do(self, task: int) -> Any:
        """Return the result of a task, or raise what it raised."""
        result, error, trace = self._ask(pickle.dumps(task))
        if error is not None:
            error.add_note(f"It was raised in a process that trained models:\n{trace}")
            raise error
        return result

    def _ask(self, message: bytes) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):
            _write(self._process.stdin, message)
            answer = _read(self._process.stdout)
            if answer is not None:
                return pickle.loads(answer)  # noqa: S301 (from a process that this one started)
        raise WorkerLost(
            f"a process that trained models ended early ({_ending(self._process.wait())}), for lack of memory perhaps: "
            "run it again with fewer jobs; with jobs=1 everything stays in one process"
        )

    def end(self, *, at_once: bool) -> None:
        """End the process and give back its pipes."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        if at_once:
            process.kill()
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


class _StaysHere(Exception):
    """Something that no other process can import."""


class _Portable(pickle.Pickler):
    """A pickler that refuses what was defined in ``__main__``: it would be looked for in the other process's own."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type | FunctionType) and obj.__module__ == "__main__":
            raise _StaysHere
        return NotImplemented


def _portable(content: object) -> bytes | None:
    """Return the content pickled, or None where it cannot be sent to another process."""
    buffer = io.BytesIO()
    try:
        _Portable(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(content)
    except (_StaysHere, pickle.PicklingError, AttributeError, TypeError):
        return None
    return buffer.getvalue()


def serve() -> None:
    """Receive work, then one task after another, until standard input ends; runs in a process of its own."""
    # The terminal's Ctrl-C reaches this process too; the one that started it decides what ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(os.dup(0), "rb") as incoming, os.fdopen(os.dup(1), "wb") as outgoing:
        # Whatever a framework prints or reads must not end up between the messages.
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        # Whoever waits for an answer may be gone.
        with suppress(BrokenPipeError):
            _answer(incoming, outgoing)


def _answer(incoming: BinaryIO, outgoing: BinaryIO) -> None:
    content = _read(incoming)
    if content is None:
        return
    try:
        work, shared = pickle.loads(content)  # noqa: S301 (from the process that started this one)
    except Exception:
        _write(outgoing, pickle.dumps(False))
        return
    del content
    _write(outgoing, pickle.dumps(True))
    while (task := _read(incoming)) is not None:
        _write(outgoing, _result(work, shared, pickle.loads(task)))  # noqa: S301 (as above)


def _result(work: Callable[..., Any], shared: tuple[Any, ...], task: int) -> bytes:
    """Return the pickled result of a task, or its error with the traceback."""
    try:
        return pickle.dumps((work(*shared, task), None, None), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        trace = traceback.format_exc()
        with suppress(Exception):
            # Some exceptions can be written and not read back.
            message = pickle.dumps((None, error.with_traceback(None), trace))
            pickle.loads(message)  # noqa: S301 (written on the line above)
            return message
        return pickle.dumps((None, RuntimeError(f"{type(error).__name__}: {error}"), trace))


def _write(stream: Any, message: bytes) -> None:
    stream.write(_LENGTH.pack(len(message)))
    stream.write(message)
    stream.flush()


def _read(stream: Any) -> bytes | None:
    """Return the next message, or None where the other side has ended."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    message = stream.read(length)
    return message if len(message) == length else None
