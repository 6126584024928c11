"""Time, storage and inference of every method: one process at a time, one thread, no evaluation in the timer.

Every method runs once on a few records first, so that loading and compiling are not timed. All methods of a repetition
forget the same people. Inference is the median of several passes over the test records. The models are stored for
``quality``, which would train the same ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from statistics import median

import numpy as np

from eupg.data.dataset import Dataset
from eupg.data.sources import Source
from eupg.forget.unlearner import Unlearner
from eupg.learn.learner import Model
from eupg.rng import Seeded
from eupg_reproduction import methods
from eupg_reproduction.cell import Cell
from eupg_reproduction.cell_figures import CellFigures, repetition, requests
from eupg_reproduction.run_cache import RunCache
from eupg_reproduction.trainings import Trainings

_WARM_UP = 4_000
_PASSES = 5


def measure(cells: Sequence[Cell]) -> Iterator[tuple[Cell, CellFigures]]:
    """Time the methods of one repetition."""
    source, rng = methods.source(cells[0].set), repetition(cells[0].repetition)
    members, retained = requests(source, float(cells[0].get("forget")), rng)
    trainings, warm = Trainings(source.train, rng, RunCache.of_run(reads=False)), set[tuple[type, type]]()
    for cell in cells:
        method = methods.method(cell)
        kind = (type(method), type(getattr(method, "mechanism", None)))
        if kind not in warm:
            _warm_up(method, source.train)
            warm.add(kind)
        yield cell, _run(source, trainings, method, retained, len(members))


def _run(source: Source, trainings: Trainings, method: Unlearner, retained: Dataset, forgotten: int) -> CellFigures:
    done = trainings.honour(method, retained)
    storage = done.storage
    metrics = {
        "inference_us_a_record": _inference(done.after, source.test),
        "storage": {"files": storage.files, "bytes": storage.size_bytes, "models": storage.models_a_prediction},
        "records": {"train": len(source.train), "forgotten": forgotten, "retained": len(retained)},
    }
    return CellFigures(metrics, done.seconds, done.shared)


def _warm_up(method: Unlearner, data: Dataset) -> None:
    few = data.select(np.arange(len(data)) < _WARM_UP)
    trained = method.train(few, Seeded(0))
    method.forget(trained, few.without(few.ids[:1].tolist()), Seeded(0))


def _inference(model: Model, test: Dataset) -> float:
    passes = []
    for _ in range(_PASSES):
        started = time.perf_counter()
        model.predict_proba(test.X)
        passes.append(time.perf_counter() - started)
    return 1e6 * median(passes) / len(test)
