"""Independent pieces of work at the same time: one single-threaded process per core.

Each process is a new interpreter that talks to this one through its standard input and output. It is not forked, since
this process may run threads of OpenMP or CUDA. It is not started through ``multiprocessing`` either, which would import
the caller's main script a second time: a script without a ``__main__`` guard would start over, and one read from
standard input could not be found. The price is that a process does not know what ``__main__`` defines. Work that needs
it, or that cannot be pickled, stays in this process. A process ends within a second of the one that started it.
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
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FunctionType
from typing import IO, Any, BinaryIO

from eupg.errors import WorkerLost
from eupg.executor.executor import LOSSES, Answer, InProcess, Task
from eupg.validation import check_whole

# The paths come as arguments, so that a process finds every module that this one can import.
_START = "import sys; sys.path[:] = sys.argv[1:]; from eupg.executor.processes import serve; serve()"
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_LENGTH = struct.Struct("!Q")
# The first byte of a message: work to load, or a task for it.
_WORK, _TASK = b"w", b"t"
# How long an idle process may take to end.
_PATIENCE_S = 5.0
# How often a process looks whether the one that started it still runs.
_WATCH_S = 0.5


@dataclass(frozen=True)
class LocalProcesses:
    """Runs tasks in processes of this machine. A process that is killed is replaced, and its task is repeated.

    Parameters
    ----------
    jobs
        Number of processes; by default one per core that this process may use. With one, everything stays here.
    """

    jobs: int | None = None

    def __post_init__(self) -> None:
        if self.jobs is not None:
            check_whole("jobs", self.jobs, at_least=1)

    def map(self, work: Callable[[Task], Answer], tasks: Sequence[Task]) -> Iterator[tuple[int, Answer]]:
        """Call ``work`` for each task, and yield its position and result as soon as it is done.

        Everything stays in this process, in order, with one job or one task, and if another process cannot receive the
        work: it cannot be pickled, or it was defined in ``__main__``.
        """
        with self.opened() as processes:
            yield from processes.map(work, tasks)

    @contextmanager
    def opened(self) -> Iterator[_Processes]:
        """Start processes that stay for several calls of ``map``; they end with the block."""
        processes = _Processes(self.jobs or usable_cores())
        try:
            yield processes
        finally:
            processes.end(at_once=False)


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Processes:
    """An executor whose processes stay between calls; it starts them when it first needs them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._workers: list[_Worker] = []

    def map(self, work: Callable[[Task], Answer], tasks: Sequence[Task]) -> Iterator[tuple[int, Answer]]:
        """Call ``work`` for each task, and yield its position and result as soon as it is done."""
        count = min(self._most, len(tasks))
        message = _portable(work) if count > 1 else None
        if message is None or not self._receive(message, count):
            yield from InProcess().map(work, tasks)
            return
        yield from self._shared_out(message, tasks, count)

    def end(self, *, at_once: bool) -> None:
        """End all processes."""
        for worker in self._workers:
            worker.end(at_once=at_once)
        self._workers.clear()

    def _receive(self, message: bytes, count: int) -> bool:
        """Hand the work to so many processes; tell whether they can load it."""
        # A frozen application has no interpreter to start.
        if not sys.executable or getattr(sys, "frozen", False):
            return False
        self._workers += [_Worker() for _ in range(count - len(self._workers))]
        try:
            with ThreadPoolExecutor(count) as threads:
                return all(list(threads.map(lambda place: self._load(place, message), range(count))))
        except BaseException:
            self.end(at_once=True)
            raise

    def _load(self, place: int, message: bytes) -> bool:
        try:
            return self._workers[place].load(message)
        except WorkerLost:
            # It was killed while it had nothing to do.
            return self._replaced(place).load(message)

    def _replaced(self, place: int) -> _Worker:
        """Put a new process in the place of one that is lost."""
        self._workers[place].end(at_once=True)
        self._workers[place] = _Worker()
        return self._workers[place]

    def _shared_out(self, message: bytes, tasks: Sequence[Any], count: int) -> Iterator[tuple[int, Any]]:
        """Hand each task to the next idle process."""
        idle: queue.SimpleQueue[int] = queue.SimpleQueue()
        for place in range(count):
            idle.put(place)

        def done_by_one(position: int) -> Any:
            place = idle.get()
            try:
                for loss in range(1, LOSSES + 1):
                    try:
                        return self._workers[place].do(tasks[position])
                    except WorkerLost:
                        if stopped.is_set():
                            raise
                        self._replaced(place).load(message)
                        if loss == LOSSES:
                            raise
            finally:
                idle.put(place)

        threads, finished, stopped = ThreadPoolExecutor(count), False, threading.Event()
        try:
            waiting = {threads.submit(done_by_one, position): position for position in range(len(tasks))}
            for future in as_completed(waiting):
                yield waiting[future], future.result()
            finished = True
        finally:
            stopped.set()
            threads.shutdown(wait=False, cancel_futures=True)
            for worker in () if finished else list(self._workers):
                worker.end(at_once=True)
            threads.shutdown()
            if not finished:
                # One may have been replaced in the meantime.
                self.end(at_once=True)


class _Worker:
    """One process, seen from this side."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # More threads would compete for the same cores.
            env={**os.environ, **dict.fromkeys(_THREADS, "1")},
        )

    @property
    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout

    def load(self, work: bytes) -> bool:
        """Hand over pickled work, which replaces what the process had before; tell whether it can load it."""
        return bool(self._ask(_WORK, work))

    def do(self, task: Any) -> Any:
        """Return the result of a task, or raise what it raised."""
        result, error, trace = self._ask(_TASK, pickle.dumps(task))
        if error is not None:
            error.add_note(f"It was raised in another process:\n{trace}")
            raise error
        return result

    def _ask(self, kind: bytes, content: bytes) -> Any:
        """Return the answer to a message."""
        outgoing, incoming = self._pipes
        with suppress(OSError):
            _write(outgoing, kind, content)
            answer = _read(incoming)
            if answer is not None:
                return pickle.loads(answer)  # noqa: S301 (from a process that this one started)
        raise WorkerLost(
            f"a process that did part of the work ended early ({_ending(self._process.wait())}), perhaps for lack of "
            "memory: run it again with fewer jobs; with jobs=1 everything stays in one process"
        )

    def end(self, *, at_once: bool) -> None:
        """End the process and close its pipes."""
        outgoing, incoming = self._pipes
        if at_once:
            self._process.kill()
        with suppress(OSError):
            outgoing.close()
        try:
            self._process.wait(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        incoming.close()


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


class _DefinedInMain(Exception):
    """Something that no other process can import."""


class _Portable(pickle.Pickler):
    """A pickler that refuses what ``__main__`` defines: another process would look for it in its own."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type | FunctionType) and obj.__module__ == "__main__":
            raise _DefinedInMain
        return NotImplemented


def _portable(content: object) -> bytes | None:
    """Return the content pickled, or None if it cannot be sent to another process."""
    buffer = io.BytesIO()
    try:
        _Portable(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(content)
    except (_DefinedInMain, pickle.PicklingError, AttributeError, TypeError):
        return None
    return buffer.getvalue()


def serve() -> None:
    """Receive work, then one task after another, until standard input ends; runs in a process of its own."""
    # The terminal's Ctrl-C reaches this process too; the process that started it decides what ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    with os.fdopen(os.dup(0), "rb") as incoming, os.fdopen(os.dup(1), "wb") as outgoing:
        # A framework's own input and output must not mix with the messages.
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        # The process that waits for an answer may be gone.
        with suppress(BrokenPipeError):
            _answer(incoming, outgoing)


def _end_with(parent: int) -> None:
    """End this process at once when the one that started it is gone: nobody would use its results."""
    while os.getppid() == parent:
        time.sleep(_WATCH_S)
    os._exit(1)


def _answer(incoming: BinaryIO, outgoing: BinaryIO) -> None:
    work: Any = None
    while (message := _read(incoming)) is not None:
        kind, content = message[:1], memoryview(message)[1:]
        if kind == _TASK:
            answer = _result(work, pickle.loads(content))  # noqa: S301 (from the process that started this one)
        else:
            work = None
            work, answer = _loaded(content)
        # The work may be as large as a table: it is not held twice.
        del message, content
        _write(outgoing, answer)


def _loaded(content: memoryview) -> tuple[Any, bytes]:
    """Return pickled work, and the answer that says whether it could be loaded."""
    try:
        return pickle.loads(content), pickle.dumps(True)  # noqa: S301 (as above)
    except Exception:
        return None, pickle.dumps(False)


def _result(work: Callable[[Any], Any], task: Any) -> bytes:
    """Return the pickled result of a task, or its error with the traceback."""
    try:
        return pickle.dumps((work(task), None, None), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        trace = traceback.format_exc()
        with suppress(Exception):
            # Some exceptions can be written and not read back.
            message = pickle.dumps((None, error.with_traceback(None), trace))
            pickle.loads(message)  # noqa: S301 (written on the line above)
            return message
        return pickle.dumps((None, RuntimeError(f"{type(error).__name__}: {error}"), trace))


def _write(stream: IO[bytes], *pieces: bytes) -> None:
    """Write a message, which may come in pieces."""
    stream.write(_LENGTH.pack(sum(map(len, pieces))))
    for piece in pieces:
        stream.write(piece)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes | None:
    """Return the next message, or None if the other side has ended."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    message = stream.read(length)
    return message if len(message) == length else None
