"""What the manager costs beside its peers: erasures at several sizes, predictions, durable requests, looks.

Each figure is measured in the same run as its peer, turn by turn, in processor time and wall time: the bare method, the
bare commits of SQLite, XGBoost's prediction in place. ``python -m benchmarks.bench_manager --rows 3000000`` adds one.
Tables are drawn at random: ten columns, one record per person, local differential privacy, 1 % of people exposed.
"""

import argparse
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.timing import Result
from eupg import EUPG, Manager, Seeded
from eupg.data.attribute import Categorical, Numeric, Role
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.learn.xgboost import XGBoostLearner
from eupg.protect import LocalDP, ProbabilisticKAnonymity

SIZES = (30_000, 300_000, 1_000_000)
TURNS, CLIENTS, EACH, CROWD, BATCH, REFERENCES = 5, 8, 60, 100_000, 10_000, 200_000
_FRESH = """
import sys, time
from eupg import Manager
import eupg.manage.trainer
manager = Manager(sys.argv[1])
manager.method
started, wall = time.process_time(), time.perf_counter()
manager.request_erasure(record=sys.argv[2])
done = manager.forget()
assert done.records == 1 and not done.trained
print(time.process_time() - started, time.perf_counter() - wall)
"""


@dataclass(frozen=True)
class Cost:
    """Seconds of the processor and of the clock; the median of several turns."""

    processor: float
    wall: float

    @classmethod
    def of(cls, turns: list["Cost"]) -> "Cost":
        """Return the median of several turns."""
        return cls(*(float(np.median([getattr(turn, name) for turn in turns])) for name in ("processor", "wall")))

    def __str__(self) -> str:
        return f"{1000 * self.processor:.1f} ms of the processor, {1000 * self.wall:.1f} ms"


def cost(work: Callable[[], object]) -> Cost:
    processor, wall = time.process_time(), time.perf_counter()
    work()
    return Cost(time.process_time() - processor, time.perf_counter() - wall)


def table(rows: int, seed: int = 0) -> Dataset:
    draw = np.random.default_rng(seed)
    X = np.round(draw.normal(50, 15, (rows, 10)).clip(0, 100), 3)
    X[:, 0] = draw.integers(0, 5, rows)
    y = (X[:, 1:4].sum(axis=1) + draw.normal(0, 20, rows) > 150).astype(np.int64)
    numbers = (Numeric(name=f"x{j}", lower=0, upper=100, resolution=0.001) for j in range(1, 10))
    label = Categorical(name="y", role=Role.LABEL, categories=("no", "yes"))
    schema = Schema((Categorical(name="town", categories=tuple("abcde")), *numbers, label))
    ids = np.array([f"p{i}" for i in range(rows)])
    return Dataset(schema, X, y, ids, ids)


@contextmanager
def workspace(data: Dataset, method: EUPG, *, hold_out: float = 0.01) -> Iterator[Manager]:
    with tempfile.TemporaryDirectory() as folder:
        manager = Manager(folder, method, rng=Seeded(0))
        manager.train(data, hold_out=hold_out)
        yield manager
        manager.close()


def run(sizes: tuple[int, ...] = SIZES) -> Iterator[Result]:
    """Yield each figure as soon as it is measured, the quick ones first."""
    yield from crowd()
    with workspace(table(30_000), EUPG(LocalDP(4.0), XGBoostLearner(threads=1), 5, 5)) as manager:
        for measure in (requests, bulk, reference, status):
            yield measure(manager)
    yield exposed(sizes[min(1, len(sizes) - 1)])
    yield from erasures(sizes)


def unexposed(manager: Manager) -> Iterator[str]:
    """Yield people in training whom no model has seen."""
    state = manager.space.state()
    index = manager.space.index(state)
    data, _ = manager.space.read(state)
    yield from data.ids[~index.part(index.exposed, held_out=False)].tolist()


def erasures(sizes: tuple[int, ...]) -> list[Result]:
    """Erase people whom no model has seen; the peer is the same at the smallest size."""
    warm: dict[int, Cost] = {}
    fresh: dict[int, Cost] = {}
    method = EUPG(LocalDP(4.0), XGBoostLearner(threads=1), 5, 5, exposure=0.01)
    for rows in sizes:
        with workspace(table(rows), method) as manager:
            people = unexposed(manager)

            def one(manager: Manager = manager, people: Iterator[str] = people) -> None:
                manager.request_erasure(record=next(people))
                assert not manager.forget().trained

            one()
            warm[rows] = Cost.of([cost(one) for _ in range(TURNS)])
            turns = []
            for _ in range(3):
                command = [sys.executable, "-c", _FRESH, str(manager.space.folder), next(people)]
                told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
                turns.append(Cost(float(told[0]), float(told[1])))
            fresh[rows] = Cost.of(turns)
    results, first = [], sizes[0]
    for name, limit, costs in (("warm", 0.05, warm), ("in a fresh process", 0.5, fresh)):
        for rows, spent in costs.items():
            ratio = spent.processor / costs[first].processor
            detail = f"{spent}; at {first:,} rows {costs[first]}; without imports"
            met = ratio <= 3 and spent.processor <= limit
            goal = f"≤ 3, and {1000 * limit:.0f} ms"
            results.append(Result(f"one unexposed person of {rows:,}, {name}", ratio, goal, met, detail))
    return results


def exposed(rows: int) -> Result:
    """Erase people whom the model has seen, beside the bare method on the same records, turn by turn."""
    method = EUPG(LocalDP(4.0), XGBoostLearner(threads=1), 50, 20)
    bare, managed = [], []
    with workspace(table(rows), method) as manager:
        for _ in range(TURNS):
            state = manager.space.state()
            data, _ = manager.space.read(state)
            trained = manager._trainer._restored(state, data, manager.space.index(state))
            kept = data.select(data.ids != data.ids[7])
            bare.append(cost(lambda trained=trained, kept=kept: method.forget(trained, kept, Seeded(0))))
            manager.request_erasure(record=str(data.ids[7]))
            del trained, kept, data
            managed.append(cost(manager.forget))
    whole, alone = Cost.of(managed), Cost.of(bare)
    ratio = whole.processor / alone.processor
    return Result(f"one exposed person of {rows:,}", ratio, "≤ 1.2", ratio <= 1.2, f"{whole}; bare method {alone}")


def crowd() -> list[Result]:
    """Erase many people at once, beside the bare method; then predict one row, beside XGBoost in place; certify."""
    method = EUPG(ProbabilisticKAnonymity(k=10), XGBoostLearner(threads=1), 50, 20)
    with workspace(table(30_000), method) as manager:
        state = manager.space.state()
        data, _ = manager.space.read(state)
        row = np.asarray(data.X[-1:])
        predicted = [_predictions(manager, row)]
        trained = manager._trainer._restored(state, data, manager.space.index(state))
        kept = data.select(np.arange(len(data)) >= BATCH)
        bare = cost(lambda: method.forget(trained, kept, Seeded(0)))
        manager.request_many(records=data.ids[:BATCH].tolist())
        done = []
        managed = cost(lambda: done.append(manager.forget()))
        predicted.append(_predictions(manager, row))
        certified = Cost.of([cost(lambda name=name: manager.certify(name)) for name in done[0].requests[:TURNS]])
    ratio = managed.processor / bare.processor
    each = 1e6 * (managed.processor - bare.processor) / BATCH
    detail = f"{managed}; bare method {bare}; {each:.0f} µs of the processor per person beside the method"
    results = [Result(f"{BATCH:,} of 30,000 people at once", ratio, "≤ 3", ratio <= 3, detail)]
    for when, (ours, model, in_place) in zip(("before", "after"), predicted, strict=True):
        beside = 1000 * (ours.processor - model.processor)
        detail = f"{ours}; its model alone {model}; XGBoost in place {in_place}"
        results.append(Result(f"predict, ms beside the model, {when} the crowd", beside, "≤ 1", beside <= 1, detail))
    seconds = certified.processor
    results.append(Result("certify after the crowd, in s", seconds, "≤ 0.1", seconds <= 0.1, str(certified)))
    return results


def _predictions(manager: Manager, row: np.ndarray) -> tuple[Cost, Cost, Cost]:
    manager.predict(row)
    model = manager._served[1]
    booster = model.boosters[-1]
    turns: list[list[Cost]] = [[], [], []]
    for _ in range(100):
        works = (lambda: manager.predict(row), lambda: model.predict_proba(row), lambda: booster.inplace_predict(row))
        for spent, work in zip(turns, works, strict=True):
            spent.append(cost(work))
    ours, alone, in_place = map(Cost.of, turns)
    return ours, alone, in_place


def requests(manager: Manager) -> Result:
    """Ask from eight threads, beside the bare commits of SQLite before and after."""
    waits: list[float] = []

    def client(number: int) -> None:
        for i in range(EACH):
            started = time.perf_counter()
            manager.request_erasure(record=f"p{number * EACH + i}")
            waits.append(time.perf_counter() - started)

    bare = [_commits()]
    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    spent = cost(lambda: [*(t.start() for t in threads), *(t.join() for t in threads)])
    bare.append(_commits())
    number = CLIENTS * EACH
    rate = number / spent.wall
    detail = (
        f"{CLIENTS} threads, longest wait {max(waits):.3f} s, {1000 * spent.processor / number:.2f} ms of the "
        f"processor each; bare commits {min(bare):.0f} to {max(bare):.0f} per s"
    )
    return Result("durable requests per s", rate, "≥ 1,000", rate >= 1000, detail)


def _commits(number: int = 200) -> float:
    with tempfile.TemporaryDirectory() as folder:
        database = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE entries (number INTEGER PRIMARY KEY, body TEXT)")
        started = time.perf_counter()
        for _ in range(number):
            database.execute("BEGIN IMMEDIATE")
            database.execute("INSERT INTO entries (body) VALUES (?)", ("x" * 300,))
            database.execute("COMMIT")
        rate = number / (time.perf_counter() - started)
        database.close()
    return rate


def bulk(manager: Manager) -> Result:
    """Take in many requests; all but those about people held here are rejected, which costs as much."""
    names = [f"crowd-{i}" for i in range(CROWD)]
    spent = cost(lambda: manager.request_many(records=names))
    met = spent.wall <= 20
    return Result(
        f"bulk intake of {CROWD:,}, in s", spent.wall, "≤ 20", met, f"{spent.processor:.1f} s of the processor"
    )


def reference(manager: Manager) -> Result:
    """Look up a reference among many entries."""
    events = [("reference", {"reference": f"{i:032x}", "request": f"r-{i:016x}"}) for i in range(REFERENCES)]
    for start in range(0, REFERENCES, 20_000):
        manager.space.ledger.append_many(events[start : start + 20_000])
    with manager.space.ledger.snapshot() as snapshot:
        works = [lambda i=i: snapshot.naming("reference", f"{i:032x}", ["reference"]) for i in range(0, 5000, 50)]
        spent = Cost.of([cost(work) for work in works])
    ms = 1000 * spent.processor
    return Result(f"a reference among {REFERENCES:,}, in ms", ms, "≤ 1", ms <= 1, str(spent))


def status(manager: Manager) -> Result:
    """Run ``eupg status`` in a process of its own, imports included."""
    command = [sys.executable, "-m", "eupg", "status", "--workspace", str(manager.space.folder), "--json"]
    turns = []
    for _ in range(TURNS):
        before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        turns.append(Cost(processor, time.perf_counter() - wall))
    spent = Cost.of(turns)
    met, detail = spent.processor <= 0.5, f"{spent}; over {CROWD:,} requests"
    return Result("eupg status with imports, in s", spent.processor, "≤ 0.5", met, detail)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, action="append", default=[], help="a further size of table")
    for result in run((*SIZES, *parser.parse_args().rows)):
        print(f"{'ok  ' if result.met else 'MISS'} {result.name}: {result.ratio:.2f} (goal {result.goal})")
        print(f"     {result.detail}", flush=True)
