"""Run the missing cells: in parallel processes, measurements of time one at a time, each result written at once."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from eupg.errors import ParameterError
from eupg_reproduction.cell import Cell, Job, group, matches
from eupg_reproduction.experiments import cells_of
from eupg_reproduction.kinds import KINDS, kind
from eupg_reproduction.process import Process
from eupg_reproduction.results import Contents, Result, Writer, read
from eupg_reproduction.run_cache import FOLDER
from eupg_reproduction.version import code_version, source_digest

Tell = Callable[[str], None]
# One thread per process: more would compete for the same cores, and no method gets more than another.
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "LOKY_MAX_CPU_COUNT"), "1"
)
# The environment variable that tells processes not to use a cache.
FRESH = "EUPG_BENCH_FRESH"
# Rough relative durations: the longest jobs start first, so that none runs alone at the end.
_SLOW = {"mlp": 10, "lightgbm": 2, "xgboost": 2, "logistic": 1, "credit": 3, "heart": 2, "adult": 2, "quality": 3}


@dataclass(frozen=True)
class Plan:
    """What a run will do: its jobs, the results it reuses, and the number of lines that were cut off."""

    jobs: tuple[Job, ...]
    reused: tuple[Result, ...]
    fresh: bool = False
    torn: int = 0

    @property
    def cells(self) -> int:
        """How many cells will be computed."""
        return sum(len(job.cells) for job in self.jobs)


@dataclass(frozen=True)
class Outcome:
    """What a run did."""

    written: int
    failed: tuple[str, ...]


def plan(names: Sequence[str], path: Path, *, repeats: int = 5, only: Sequence[str] = (), fresh: bool = False) -> Plan:
    """Plan the cells of these experiments that are missing from the results file.

    Parameters
    ----------
    names
        Experiments; ``all`` means all except the smoke test.
    path
        The results file.
    repeats
        Repetitions of each cell.
    only
        Filters, all of which a cell must pass; see :func:`eupg_reproduction.cell.matches`.
    fresh
        Compute everything again, whatever the file holds.
    """
    check_counts(repeats=repeats)
    wanted = {cell.key: cell for cell in cells_of(names, repeats) if matches(cell, only)}
    if not wanted:
        raise ParameterError(
            f"no cell of {', '.join(names)} passes {list(only)!r}: loosen --only, or see eupg-reproduction list"
        )
    contents = Contents({}) if fresh else read(path)
    known = contents.newest
    missing = [cell for key, cell in wanted.items() if key not in known]
    jobs = group(missing, {name: k.together for name, k in KINDS.items()})
    jobs.sort(key=_weight, reverse=True)
    return Plan(tuple(jobs), tuple(known[key] for key in wanted if key in known), fresh, contents.torn)


def check_counts(*, repeats: int = 1, jobs: int = 1) -> None:
    """Refuse fewer than one repetition or process."""
    if repeats < 1:
        raise ParameterError(f"at least one repetition is needed, got {repeats!r}")
    if jobs < 1:
        raise ParameterError(f"at least one process is needed, got {jobs!r}")


def _weight(job: Job) -> int:
    first = job.cells[0]
    weight = len(job.cells)
    for word in (first.model, first.set, first.kind):
        weight *= _SLOW.get(word, 1)
    return weight


def run(plan: Plan, path: Path, *, jobs: int = 1, tell: Tell) -> Outcome:
    """Compute the planned cells; a killed run loses only the cells in progress.

    Parameters
    ----------
    plan
        From :func:`plan`.
    path
        The results file; lines are appended, each on disk before the next.
    jobs
        Parallel processes of one thread each. Measurements of time run first, one at a time; their models are reused.
    tell
        Called with one sentence per finished cell.
    """
    check_counts(jobs=jobs)
    alone = [job for job in plan.jobs if kind(job.kind).alone]
    parallel = [job for job in plan.jobs if not kind(job.kind).alone]
    with (
        _orderly_exit(),
        Writer(path) as writer,
        TemporaryDirectory(prefix="eupg-bench-", ignore_cleanup_errors=True) as folder,
    ):
        fresh = {FRESH: "1"} if plan.fresh else {}
        # Temporary files of the processes, including models, go there too and are deleted if the run is killed.
        dispatcher = _Dispatcher(
            writer, plan.cells, tell, os.environ | _ONE_THREAD | fresh | {FOLDER: folder, "TMPDIR": folder}
        )
        dispatcher.compute(alone, min(1, len(alone)))
        dispatcher.compute(parallel, min(jobs, len(parallel)))
    return Outcome(dispatcher.written, tuple(dispatcher.failed))


@contextmanager
def _orderly_exit() -> Iterator[None]:
    """Turn termination signals into an exception, so that everything is cleaned up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    known = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    # Signals that are ignored, as under nohup, stay ignored.
    names = [name for name in known if signal.getsignal(name) is signal.SIG_DFL]
    before = {name: signal.signal(name, lambda number, _: sys.exit(128 + number)) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


class _Dispatcher:
    """Distributes jobs and collects results; one thread per process uses it."""

    def __init__(self, writer: Writer, total: int, tell: Tell, environment: dict[str, str]) -> None:
        self.written, self.failed = 0, list[str]()
        self._writer, self._total, self._tell, self._environment = writer, total, tell, environment
        self._lock = threading.Lock()
        self._version, self._source = code_version(), source_digest()

    def compute(self, jobs: Iterable[Job], processes: int) -> None:
        waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
        for job in jobs:
            waiting.put(job)
        workers = [Process(self._environment) for _ in range(processes)]
        threads = [threading.Thread(target=self._serve, args=(w, waiting, processes), daemon=True) for w in workers]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            # After an interrupt no other job may start.
            with suppress(queue.Empty):
                while True:
                    waiting.get_nowait()
            for worker in workers:
                worker.end()

    def _serve(self, worker: Process, waiting: queue.SimpleQueue[Job], beside: int) -> None:
        while True:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                for message in worker.messages(job):
                    self._keep(job, message, beside)
            except Exception as error:
                self._fail(job, f"{type(error).__name__}: {error}")

    def _keep(self, job: Job, message: dict[str, Any], beside: int) -> None:
        if "error" in message:
            sys.stderr.write(message["trace"])
            self._fail(job, message["error"])
            return
        cell = next(c for c in job.cells if c.key == message["key"])
        with self._lock:
            self._writer.append(self._line(cell, message, beside))
            self.written += 1
            self._tell(f"{self.written + len(self.failed)}/{self._total} {cell}: {_gist(message)}")

    def _line(self, cell: Cell, message: dict[str, Any], beside: int) -> dict[str, Any]:
        source = source_digest()
        changed = "" if source == self._source else ".changed-on-the-way"
        return {
            "cell": cell.key,
            "config": cell.config,
            "version": self._version + changed,
            "source": source,
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "seed": cell.repetition,
            "processes": beside,
            "metrics": message["metrics"],
            "seconds": message["seconds"],
            "shared": message["shared"],
            "cpu_s": message["cpu_s"],
            "peak_mb": message["peak_mb"],
            "machine": message["machine"],
        }

    def _fail(self, job: Job, why: str) -> None:
        with self._lock:
            self.failed.append(f"{job}: {why}")
            self._tell(f"FAILED {job}: {why}")


def _gist(message: dict[str, Any]) -> str:
    """Return the main figure and the seconds."""
    metrics = message["metrics"]
    utility = metrics.get("utility")
    if utility is None and "after" in metrics:
        utility = metrics["after"]["utility"]
    seconds = sum(message["seconds"].values())
    words = (f"{utility:.2f}, " if isinstance(utility, float) else "") + f"{seconds:.1f} s"
    if metrics.get("references_reused"):
        words += f"; references reused, made by {', '.join(metrics['references_made_by'])}"
    return words


def elapsed(started: float) -> str:
    """Return the time since a moment in words."""
    seconds = time.monotonic() - started
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
