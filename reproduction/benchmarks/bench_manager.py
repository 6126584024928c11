"""What the manager costs: a durable request, a look at the status, and what it adds to the bare forget on Adult."""

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.bench_mlp import table
from benchmarks.timing import Result, median_s
from eupg import EUPG, LocalDP, Manager, ProbabilisticKAnonymity, Seeded, SklearnLearner, sources
from eupg.data.dataset import Dataset
from eupg.errors import SourceUnavailable
from eupg.learn.learner import Learner
from eupg.learn.torch_learner import TorchLearner
from eupg.learn.xgboost_learner import XGBoostLearner
from eupg.manage import workshop
from eupg.manage.records import RecordFiles
from eupg.manage.request_states import Receipt
from eupg.manage.roll import Roll
from eupg.manage.workshop import Workshop
from eupg.manage.workspace import Workspace

REQUESTS, CROWD, FORGETS = 200, 100_000, 5
STEPS: dict[str, tuple[Any, str]] = {
    "recover": (Workspace, "recover"),
    "read": (RecordFiles, "read"),
    "base": (Workshop, "load"),
    "fine-tune": (EUPG, "forget"),
    "keep": (Workshop, "keep"),
    "rewrite": (RecordFiles, "without"),
    "roll": (Roll, "to_bytes"),
    "measure": (workshop, "measured"),
    "switch": (Workspace, "switch"),
}


def run() -> list[Result]:
    return [request(), status(), *forget()]


@contextmanager
def small() -> Iterator[Manager]:
    """Train something quick on a table of 32,000 rows."""
    with tempfile.TemporaryDirectory() as folder:
        manager = Manager(folder, EUPG(LocalDP(4.0), SklearnLearner(), pretrain=1, finetune=1), rng=Seeded(0))
        manager.train(table(), hold_out=0.0)
        yield manager
        manager.close()


def request() -> Result:
    with small() as manager:
        people = iter(manager.space.records.read(manager.space.current().records).subjects[: 2 * REQUESTS].tolist())
        seconds = median_s(lambda: manager.request_erasure(subject=next(people)), repeats=REQUESTS)
    detail = f"median of {REQUESTS} requests, each received, accepted and on disk (SQLite) when the call returns"
    return Result("a durable request, in ms", 1000 * seconds, "< 20", seconds < 0.02, detail)


def status() -> Result:
    with small() as manager:
        rng = np.random.default_rng(0)
        digests = [rng.bytes(16).hex() for _ in range(CROWD)]
        for start in range(0, CROWD, 10_000):
            manager.space.book.receive_many(Receipt("person", d) for d in digests[start : start + 10_000])
        seconds = median_s(manager.status)
    return Result("status, in s", seconds, "< 1", seconds < 1, f"over {CROWD:,} requests, all of them open")


def forget() -> list[Result]:
    try:
        data = sources.adult().train
    except SourceUnavailable:
        return [Result("forget, manager over method", float("nan"), "≤ 1.10", True, "skipped: Adult is not here")]
    return [
        _forget("MLP", TorchLearner(), data),
        _forget("XGBoost", XGBoostLearner(), data),
    ]


def _forget(name: str, learner: Learner, data: Dataset) -> Result:
    method = EUPG(ProbabilisticKAnonymity(k=30), learner, pretrain=5, finetune=5)
    with tempfile.TemporaryDirectory() as folder:
        manager = Manager(folder, method, rng=Seeded(0))
        manager.train(data)
        bare, managed, spent = [], [], defaultdict[str, list[float]](list)
        for _ in range(FORGETS):
            mine = manager.space.records.read(manager.space.current().records)
            base = manager.base_model
            manager.request_erasure(subject=str(mine.subjects[0]))
            current = manager.space.current()
            known = manager._workshop._trained(current, mine, manager.space.roll(current), base)
            kept = mine.select(mine.subjects != mine.subjects[0])
            bare.append(_seconds(lambda known=known, kept=kept: method.forget(known, kept, Seeded(0))))
            with _stopwatch(spent):
                managed.append(_seconds(manager.forget))
        manager.close()
    plain, whole = np.median(bare), np.median(managed)
    steps = ", ".join(f"{step} {1000 * np.median(times):.0f}" for step, times in spent.items())
    detail = f"{whole:.3f} s against {plain:.3f} s for one person of Adult; in ms: {steps}"
    return Result(f"forget, manager over method, {name}", whole / plain, "≤ 1.10", whole / plain <= 1.10, detail)


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


@contextmanager
def _stopwatch(spent: dict[str, list[float]]) -> Iterator[None]:
    """Add up the time spent in each step of one forget."""
    sums, before = dict.fromkeys(STEPS, 0.0), {step: getattr(owner, name) for step, (owner, name) in STEPS.items()}

    def timed(step: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            started = time.perf_counter()
            try:
                return work(*arguments, **options)
            finally:
                sums[step] += time.perf_counter() - started

        return wrapped

    for step, (owner, name) in STEPS.items():
        setattr(owner, name, timed(step, before[step]))
    try:
        yield
    finally:
        for step, (owner, name) in STEPS.items():
            setattr(owner, name, before[step])
            spent[step].append(sums[step])


if __name__ == "__main__":
    for result in run():
        print(f"{result.name}: {result.ratio:.2f} (goal {result.goal})\n     {result.detail}")
