"""What the manager costs beside its peers: erasures at several sizes, predictions, durable requests, looks, memory.

Each figure is measured in the same run as its peer, turn by turn, in processor time and wall time, with the smallest
and the largest of the turns: the bare method, the same at the smallest table, the bare commits and inserts of SQLite,
XGBoost's prediction in place. ``python -m benchmarks.bench_manager --rows 3000000`` adds one.
Tables are drawn at random: ten columns, one record per person, local differential privacy, 1 % of people exposed.
"""

import argparse
import gc
import json
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
from eupg.data.table_file import return_memory
from eupg.learn.xgboost import XGBoostLearner
from eupg.protect import LocalDP, ProbabilisticKAnonymity

SIZES = (30_000, 300_000, 1_000_000)
TURNS, CLIENTS, EACH, CROWD, BATCH, REFERENCES = 5, 8, 60, 100_000, 10_000, 200_000
_FRESH = """
import gc, sys, time
from eupg import Manager
import eupg.manage.trainer
manager = Manager(sys.argv[1])
manager.method
# What the imports left behind is their cost.
gc.collect()
started, wall = time.process_time(), time.perf_counter()
manager.request_erasure(record=sys.argv[2])
done = manager.forget()
assert done.records == 1 and not done.trained
print(time.process_time() - started, time.perf_counter() - wall)
"""
_TRAIN = """
import sys
from pathlib import Path
from benchmarks import bench_manager
bench_manager.train_apart(int(sys.argv[1]), Path(sys.argv[2]))
"""
_CLIENT = """
import sys, time
from eupg import Manager
manager = Manager(sys.argv[1])
manager.request_erasure(record=sys.argv[2] + "-first")
print("ready", flush=True)
sys.stdin.readline()
waits = []
for i in range(int(sys.argv[3])):
    started = time.perf_counter()
    manager.request_erasure(record=f"{sys.argv[2]}-{i}")
    waits.append(time.perf_counter() - started)
print(max(waits))
"""


@dataclass(frozen=True)
class Cost:
    """Seconds of the processor and of the clock: the median of several turns, and the spread of the processor."""

    processor: float
    wall: float
    least: float | None = None
    most: float | None = None

    @classmethod
    def of(cls, turns: list["Cost"]) -> "Cost":
        """Return the median of several turns."""
        spent = [turn.processor for turn in turns]
        wall = float(np.median([turn.wall for turn in turns]))
        return cls(float(np.median(spent)), wall, min(spent), max(spent))

    def __str__(self) -> str:
        spread = (
            "" if self.least is None or self.most is None else f" ({1000 * self.least:.1f} to {1000 * self.most:.1f})"
        )
        return f"{1000 * self.processor:.1f} ms of the processor{spread}, {1000 * self.wall:.1f} ms"


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
        for measure in (requests, request_processes, bulk, reference, status):
            yield measure(manager)
    yield exposed(sizes[min(1, len(sizes) - 1)])
    yield from erasures(sizes)


def unexposed(manager: Manager) -> Iterator[str]:
    """Yield people in training whom no model has seen."""
    state = manager.space.state()
    index = manager.space.index(state)
    data, _ = manager.space.read(state)
    yield from data.ids[~index.part(index.exposed, held_out=False)].tolist()


def train_apart(rows: int, folder: Path) -> None:
    """Train a workspace; leave the names of people whom no model has seen, and print what memory it took."""
    method = EUPG(LocalDP(4.0), XGBoostLearner(threads=1), 5, 5, exposure=0.01)
    manager, data = Manager(folder, method, rng=Seeded(0)), table(rows)
    gc.collect()
    return_memory()
    raw = data.X.nbytes + data.y.nbytes + data.ids.nbytes
    before = _memory("VmRSS")
    # From now on the system notes the most that is in use.
    Path("/proc/self/clear_refs").write_text("5")
    spent = cost(lambda: manager.train(data, hold_out=0.01))
    most = _memory("VmHWM")
    names = [name for name, _ in zip(unexposed(manager), range(4 * TURNS), strict=False)]
    (folder / "names.json").write_text(json.dumps(names))
    manager.close()
    print(json.dumps({"raw": raw, "most": most - before + raw, "processor": spent.processor}))


def _memory(name: str) -> int:
    """Return a figure of this process's memory in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))


def erasures(sizes: tuple[int, ...]) -> Iterator[Result]:
    """Erase people whom no model has seen, at all sizes turn by turn; the peer is the same at the smallest size."""
    warm: dict[int, list[Cost]] = {rows: [] for rows in sizes}
    fresh: dict[int, list[Cost]] = {rows: [] for rows in sizes}
    names: dict[int, Iterator[str]] = {}
    with tempfile.TemporaryDirectory() as top:
        folders = {rows: Path(top) / str(rows) for rows in sizes}
        for rows, folder in folders.items():
            told = json.loads(_told([_TRAIN, str(rows), str(folder)]))
            ratio = told["most"] / told["raw"]
            detail = f"{told['most'] / 1e6:.0f} MB, the table {told['raw'] / 1e6:.0f} MB; {told['processor']:.1f} s"
            yield Result(f"memory of training on {rows:,}, of the table", ratio, "≤ 3", ratio <= 3, detail)
            names[rows] = iter(json.loads((folder / "names.json").read_text()))
            (folder / "names.json").unlink()
        managers = {rows: Manager(folder) for rows, folder in folders.items()}
        for turn in range(TURNS + 1):
            for rows, manager in managers.items():
                name = next(names[rows])

                def one(manager: Manager = manager, name: str = name) -> None:
                    manager.request_erasure(record=name)
                    assert not manager.forget().trained

                spent = cost(one)
                if turn:
                    warm[rows].append(spent)
        for manager in managers.values():
            manager.close()
        for _ in range(TURNS):
            for rows, folder in folders.items():
                processor, wall = map(float, _told([_FRESH, str(folder), next(names[rows])]).split())
                fresh[rows].append(Cost(processor, wall))
    for what, limit, turns in (("warm", 0.05, warm), ("in a fresh process", 0.5, fresh)):
        costs = {rows: Cost.of(spent) for rows, spent in turns.items()}
        peer = costs[sizes[0]]
        for rows, spent in costs.items():
            ratio = spent.processor / peer.processor
            detail = f"{spent}; at {sizes[0]:,} rows {peer}; without imports"
            met = ratio <= 3 and spent.processor <= limit
            goal = f"≤ 3, and {1000 * limit:.0f} ms"
            yield Result(f"one unexposed person of {rows:,}, {what}", ratio, goal, met, detail)


def _told(arguments: list[str]) -> str:
    """Run Python code in a process of its own, and return what it prints."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


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
        bare = [cost(lambda: method.forget(trained, kept, Seeded(0))) for _ in range(3)]
        alone = manager.request_erasure(record=str(data.ids[-2])).id
        manager.forget()
        few = Cost.of([cost(lambda: manager.certify(alone)) for _ in range(TURNS)])
        manager.request_many(records=data.ids[:BATCH].tolist())
        done = []
        managed = cost(lambda: done.append(manager.forget()))
        bare += [cost(lambda: method.forget(trained, kept, Seeded(0))) for _ in range(3)]
        predicted.append(_predictions(manager, row))
        certified = Cost.of([cost(lambda name=name: manager.certify(name)) for name in done[0].requests[:TURNS]])
    method_alone = Cost.of(bare)
    ratio = managed.processor / method_alone.processor
    each = 1e6 * (managed.processor - method_alone.processor) / BATCH
    detail = f"{managed}; bare method {method_alone}; {each:.0f} µs of the processor per person beside the method"
    results = [Result(f"{BATCH:,} of 30,000 people at once", ratio, "≤ 3", ratio <= 3, detail)]
    for when, (ours, model, in_place) in zip(("before", "after"), predicted, strict=True):
        beside = 1000 * (ours.processor - model.processor)
        detail = f"{ours}; its model alone {model}; XGBoost in place {in_place}"
        results.append(Result(f"predict, ms beside the model, {when} the crowd", beside, "≤ 1", beside <= 1, detail))
    seconds, detail = certified.processor, f"{certified}; before the crowd, after one erasure {few}"
    results.append(Result("certify after the crowd, in s", seconds, "≤ 0.1", seconds <= 0.1, detail))
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
    """Ask from eight threads, beside the bare commits of SQLite, turn by turn."""
    waits: list[float] = []
    turns: list[Cost] = []

    def client(first: int) -> None:
        for i in range(EACH):
            started = time.perf_counter()
            manager.request_erasure(record=f"p{first + i}")
            waits.append(time.perf_counter() - started)

    bare = [_commits()]
    for turn in range(TURNS):
        starts = [(turn * CLIENTS + number) * EACH for number in range(CLIENTS)]
        threads = [threading.Thread(target=client, args=(first,)) for first in starts]
        turns.append(cost(lambda threads=threads: [*(t.start() for t in threads), *(t.join() for t in threads)]))
        bare.append(_commits())
    number = CLIENTS * EACH
    rates = [number / turn.wall for turn in turns]
    rate = float(np.median(rates))
    each = 1000 * float(np.median([turn.processor for turn in turns])) / number
    detail = (
        f"{CLIENTS} threads, {min(rates):.0f} to {max(rates):.0f}, longest wait {max(waits):.3f} s, {each:.2f} ms of "
        f"the processor each; bare commits {np.median(bare):.0f} ({min(bare):.0f} to {max(bare):.0f}) per s"
    )
    return Result("durable requests per s", rate, "≥ 1,000", rate >= 1000, detail)


def request_processes(manager: Manager) -> Result:
    """Ask from eight processes, which cannot share a commit, beside the bare commits of SQLite."""
    bare = [_commits()]
    command = [sys.executable, "-c", _CLIENT, str(manager.space.folder)]
    clients = [
        subprocess.Popen([*command, f"c{i}", str(EACH)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for i in range(CLIENTS)
    ]
    for client in clients:
        assert client.stdout is not None
        client.stdout.readline()
    started = time.perf_counter()
    for client in clients:
        assert client.stdin is not None
        client.stdin.write("\n")
        client.stdin.flush()
    waits = [float(client.communicate()[0]) for client in clients]
    rate = CLIENTS * EACH / (time.perf_counter() - started)
    bare.append(_commits())
    detail = f"longest wait {max(waits):.3f} s; bare commits {min(bare):.0f} to {max(bare):.0f} per s"
    return Result(f"durable requests per s, {CLIENTS} processes", rate, "≥ 1,000", rate >= 1000, detail)


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
    bare = [cost(lambda: _inserts(CROWD))]
    spent = cost(lambda: manager.request_many(records=names))
    bare.append(cost(lambda: _inserts(CROWD)))
    met, peer = spent.wall <= 20, Cost.of(bare)
    detail = f"{spent.processor:.1f} s of the processor; bare inserts {peer}"
    return Result(f"bulk intake of {CROWD:,}, in s", spent.wall, "≤ 20", met, detail)


def _inserts(number: int, at_once: int = 2000) -> None:
    """Insert rows into a table of SQLite with one index, in commits of so many."""
    with tempfile.TemporaryDirectory() as folder:
        database = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE requests (id TEXT PRIMARY KEY, digest TEXT, state TEXT)")
        for start in range(0, number, at_once):
            database.execute("BEGIN IMMEDIATE")
            rows = [(os.urandom(8).hex(), os.urandom(16).hex(), "rejected") for _ in range(start, start + at_once)]
            database.executemany("INSERT INTO requests VALUES (?, ?, ?)", rows)
            database.execute("COMMIT")
        database.close()


def reference(manager: Manager) -> Result:
    """Look up a reference among many entries."""
    events = [("reference", {"reference": f"{i:032x}", "request": f"r-{i:016x}"}) for i in range(REFERENCES)]
    for start in range(0, REFERENCES, 20_000):
        manager.space.ledger.append_many(events[start : start + 20_000])
    with manager.space.ledger.snapshot() as snapshot:
        works = [lambda i=i: snapshot.naming("reference", f"{i:032x}", ["reference"]) for i in range(0, 5000, 50)]
        head = snapshot.head().number
        bare = [lambda i=i: snapshot.between(head - i - 2, head - i, ["reference"]) for i in range(len(works))]
        pairs = [(cost(work), cost(by_number)) for work, by_number in zip(works, bare, strict=True)]
    spent, peer = (Cost.of([pair[i] for pair in pairs]) for i in range(2))
    ms = 1000 * spent.processor
    detail = f"{spent}; an entry by its number {peer}"
    return Result(f"a reference among {REFERENCES:,}, in ms", ms, "≤ 1", ms <= 1, detail)


def status(manager: Manager) -> Result:
    """Run ``eupg status`` in a process of its own, imports included, beside the imports of what it reads with."""
    look = ["-m", "eupg", "status", "--workspace", str(manager.space.folder), "--json"]
    imports = ["-c", "import numpy, sqlalchemy, pydantic"]
    turns: tuple[list[Cost], list[Cost]] = ([], [])
    for _ in range(TURNS):
        for spent, arguments in zip(turns, (look, imports), strict=True):
            before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            command = [sys.executable, *arguments]
            subprocess.run(command, check=True, capture_output=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            spent.append(Cost(processor, time.perf_counter() - wall))
    ours, peer = map(Cost.of, turns)
    met, detail = ours.processor <= 0.5, f"{ours}; over {CROWD:,} requests; its libraries alone {peer}"
    return Result("eupg status with imports, in s", ours.processor, "≤ 0.5", met, detail)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, action="append", default=[], help="a further size of table")
    for result in run((*SIZES, *parser.parse_args().rows)):
        print(f"{'ok  ' if result.met else 'MISS'} {result.name}: {result.ratio:.2f} (goal {result.goal})")
        print(f"     {result.detail}; load {os.getloadavg()[0]:.1f}", flush=True)
