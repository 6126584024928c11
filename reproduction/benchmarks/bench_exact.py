"""Erasing one person by subtraction against training XGBoost again, on tables of 100,000 and 3,000,000 rows."""

import sys
import time
from collections.abc import Callable

import numpy as np

from benchmarks.timing import Result
from eupg.data.attribute import Categorical, Numeric, Role
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.forget.exact_trees import CountedModel, ExactTrees
from eupg.forget.retrain import Retrain
from eupg.learn.xgboost import XGBoostLearner
from eupg.rng import Seeded

NUMBERS, LISTS, CATEGORIES = 8, 4, 6
ROWS, MOST_ROWS = 100_000, 3_000_000
TREES = 100


def table(rows: int) -> Dataset:
    """Return rows that fill every cell, which is the slowest case: numbers and categories of equal probability."""
    rng = np.random.default_rng(7)
    label = Categorical(name="label", role=Role.LABEL, categories=("no", "yes"))
    numbers = tuple(Numeric(name=f"n{j}", lower=0, upper=1000) for j in range(NUMBERS))
    names = tuple(f"c{i}" for i in range(CATEGORIES))
    lists = tuple(Categorical(name=f"l{j}", categories=names) for j in range(LISTS))
    X = np.empty((rows, NUMBERS + LISTS))
    for j in range(NUMBERS + LISTS):
        X[:, j] = rng.integers(0, 1001 if j < NUMBERS else CATEGORIES, rows)
    y = (X[:, 0] / 1000 + (X[:, NUMBERS] == 2) + rng.normal(0, 0.5, rows) > 1).astype(np.int64)
    ids = np.arange(rows).astype(str)
    return Dataset(Schema((*numbers, *lists, label)), X, y, ids, ids)


def processor_s(work: Callable[[], object], *, repeats: int) -> float:
    """Return the median processor time: all that is compared runs on one thread, and cores may be shared."""
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)
    return sorted(seconds)[len(seconds) // 2]


def run(rows: int = ROWS) -> list[Result]:
    data, method, rng = table(rows), ExactTrees(), Seeded(0)
    plain, keep = Retrain(XGBoostLearner(threads=1), TREES), np.arange(rows) != rows // 2
    trained = method.train(data, rng)
    counted = trained.memory
    assert isinstance(counted, CountedModel)
    person, retained = data.select(~keep), data.select(keep)
    method.erase(trained, person)  # compiles
    subtract = processor_s(lambda: method.subtract(counted, person), repeats=9)
    erase = processor_s(lambda: method.erase(trained, person), repeats=9)
    erased = method.erase(trained, person)
    add = processor_s(lambda: method.add(erased, person), repeats=9)
    train = processor_s(lambda: method.train(data, rng), repeats=1)
    retrain = processor_s(lambda: plain.train(retained, rng), repeats=1)
    detail = (
        f"processor time on {rows:,}×{NUMBERS + LISTS}, one thread: subtract and solve {subtract:.3f} s, with the set "
        f"of ids {erase:.3f} s (adding {add:.3f} s), training on all {train:.1f} s; XGBoost, {TREES} trees, "
        f"{retrain:.1f} s"
    )
    name = f"erasing one of {rows:,} people, XGBoost retrain over subtraction"
    met = max(erase, add) <= 0.2 and retrain > 10 * erase
    return [Result(name, retrain / erase, "> 10, and at most 0.2 s per erasure or addition", met, detail)]


if __name__ == "__main__":
    for size in map(int, sys.argv[1:] or [ROWS, MOST_ROWS]):
        for result in run(size):
            print(f"{result.name}: {result.ratio:.1f}\n     {result.detail}", flush=True)
