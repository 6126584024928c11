"""Quality of forgetting on pictures, on a GPU: utility, membership inference, seconds by phase; one method per cell.

All repetitions share the reference models. Each sees a random half of all pictures, training and test, in pairs of a
half and its complement, so every scored picture is outside exactly half of them. Only their predictions on scored
pictures are kept, in the cache folder, so that a suite can be spread over many short runs. Seconds are those of one
process with the GPU to itself, without evaluation.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eupg.audit.membership.audit import audit_predictions
from eupg.audit.membership.queries import PictureQueries, predictions
from eupg.audit.membership.rmia import RMIA
from eupg.audit.membership.signals import SignalKind
from eupg.data.dataset import Dataset
from eupg.data.sources import Source, cache_folder
from eupg.forget.eupg import EUPG
from eupg.forget.storage import storage
from eupg.learn.learner import Model
from eupg.rng import Seeded
from eupg_reproduction import methods, picture_methods
from eupg_reproduction.cell import Cell
from eupg_reproduction.cell_figures import CellFigures, audited, repetition, requests, timed
from eupg_reproduction.run import FRESH
from eupg_reproduction.shared_references import SEED, halves
from eupg_reproduction.trainings import Trainings
from eupg_reproduction.version import code_version

# The most repetitions: reference models score the pictures that are forgotten in any of them.
MOST_REPEATS = 3
_NONMEMBERS = 2_500
# Epochs of fine-tuning in the paper's tables; sweeps go further.
_TABLE = 5
_QUERIES = PictureQueries(flip=True, shift=2)
_NAMELESS = "code that left no name"
_ORDER = ("Retrain", "Short retrain", "Certified-SP", "SISA")


def measure(cells: Sequence[Cell]) -> Iterator[tuple[Cell, CellFigures]]:
    """Measure one repetition after the other, sweeps last; shared steps are trained once."""
    suite = _Suite(methods.source(cells[0].set), float(cells[0].get("forget")))
    cases = {number: _Case(suite, number) for number in sorted({cell.repetition for cell in cells})}
    for cell in sorted(cells, key=_turn):
        yield cell, cases[cell.repetition].run(cell)


def _turn(cell: Cell) -> tuple[bool, int, int, str]:
    """Return the order of a cell: the main tables first, so that an interrupted run has them."""
    late = cell.method == "SISA" or cell.get("finetune") > _TABLE
    return late, cell.repetition, _ORDER.index(cell.method) if cell.method in _ORDER else len(_ORDER), str(cell)


class _Suite:
    """The parts that all repetitions share: the pictures, the scored ones, and the reference models' predictions."""

    def __init__(self, source: Source, share: float) -> None:
        self.source, self.share = source, share
        self._references: dict[str, NDArray[np.float32]] = {}
        self._made_by: dict[str, str] = {}
        self.reused = 0

    @property
    def made_by(self) -> dict[str, int]:
        """The number of reference models by the code that made them."""
        return dict(Counter(self._made_by.values()))

    @cached_property
    def pool(self) -> Dataset:
        """All pictures; those of the test set come last."""
        return self.source.train.plus(self.source.test)

    @cached_property
    def nonmembers(self) -> Dataset:
        """Pictures that no method ever sees."""
        return self.source.test.select(np.arange(len(self.source.test)) < _NONMEMBERS)

    @cached_property
    def scored(self) -> Dataset:
        """Pictures that reference models predict: those forgotten in some repetition, and the non-members."""
        forgotten = [requests(self.source, self.share, repetition(i))[0].ids for i in range(MOST_REPEATS)]
        return self.pool.select(np.isin(self.pool.ids, np.concatenate([*forgotten, self.nonmembers.ids])))

    def halves(self, models: int) -> NDArray[np.bool_]:
        """Return which reference model sees which picture of the pool."""
        return halves(self.source, models)

    def references(self, cell: Cell) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return the reference models' predictions on the scored pictures, and which of these each model saw."""
        models = int(cell.get("references"))
        recipe = picture_methods.recipe(cell)
        inside, probabilities = self.halves(models), []
        for i in range(models):
            key = _key(
                f"{recipe.learner!r} {recipe.pretrain} {len(self.pool)} {_QUERIES!r}", self.scored.ids, inside[i], i
            )
            if key not in self._references:
                self._references[key] = self._kept(key) if self._reuses(key) else self._trained(cell, inside[i], i, key)
            probabilities.append(self._references[key])
        return np.stack(probabilities), inside[:, np.isin(self.pool.ids, self.scored.ids)]

    def _reuses(self, key: str) -> bool:
        return _file(key).is_file() and not os.environ.get(FRESH)

    def _kept(self, key: str) -> NDArray[np.float32]:
        self.reused += 1
        with np.load(_file(key), allow_pickle=False) as content:
            self._made_by[key] = str(content["version"]) if "version" in content else _NAMELESS
            return np.asarray(content["probabilities"], dtype=np.float32)

    def _trained(self, cell: Cell, inside: NDArray[np.bool_], number: int, key: str) -> NDArray[np.float32]:
        recipe = picture_methods.recipe(cell)
        stream = Seeded(SEED).stage(f"reference {number}").generator()
        model = recipe.learner.fit(self.pool.select(inside), effort=recipe.pretrain, rng=stream)
        probabilities = predictions(model, self.scored, _QUERIES).astype(np.float32)
        self._made_by[key] = code_version()
        file = _file(key)
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(f".{os.getpid()}.partial")
        with partial.open("wb") as out:
            np.savez_compressed(out, probabilities=probabilities, version=np.array(self._made_by[key]))
        partial.replace(file)
        return probabilities


class _Case:
    """One repetition: the forgotten pictures, the retained ones, and the trainings."""

    def __init__(self, suite: _Suite, number: int) -> None:
        self.suite, self.source = suite, suite.source
        self.rng = repetition(number)
        self.members, self.retained = requests(self.source, suite.share, self.rng)
        self.trainings = Trainings(self.source.train, self.rng)
        self._attacks: dict[int, RMIA] = {}

    def run(self, cell: Cell) -> CellFigures:
        """Train, forget and measure one method.

        Sweeps measure the effect of many epochs on the retained pictures. The model served before does not influence
        it, so it is trained for one epoch and not measured.
        """
        method, sweeps = picture_methods.method(cell), int(cell.get("finetune")) > _TABLE
        first = Cell.of({**cell.config, "finetune": 1}) if sweeps else cell
        trained, seconds, shared = self.trainings.train(picture_methods.method(first))
        stored = storage(trained)
        before = {} if sweeps else {"before": self._measured(cell, trained.model)}
        after = timed(seconds, "forget", lambda: method.forget(trained, self.retained, self.rng))
        if sweeps:
            seconds, shared = {"forget": seconds["forget"]}, ()
        metrics = {
            **before,
            "after": self._measured(cell, after.model),
            "storage": {"files": stored.files, "bytes": stored.size_bytes, "models": stored.models_a_prediction},
            "records": {"train": len(self.source.train), "forgotten": len(self.members)},
            "references_reused": self.suite.reused,
            "references_made_by": self.suite.made_by,
            "device": _device_name(),
            # The name of a recipe may change its meaning later.
            "learner": repr(picture_methods.recipe(cell).short),
            "base": repr(method.learner) if isinstance(method, EUPG) else None,
            "claim": after.claim.to_json(),
        }
        return CellFigures(metrics, seconds, shared)

    def _measured(self, cell: Cell, model: Model) -> dict[str, Any]:
        test = self.source.test
        figures: dict[str, Any] = {"utility": self.source.utility(model.predict_proba(test.X), test.y)}
        if int(cell.get("references")):
            figures["audit"] = self._audited(cell, model)
        return figures

    def _audited(self, cell: Cell, model: Model) -> dict[str, float]:
        scored = self.members.plus(self.suite.nonmembers)
        probabilities, inside = self.suite.references(cell)
        attack = self._attacks.get(len(inside))
        place = {name: row for row, name in enumerate(self.suite.scored.ids.tolist())}
        rows = [place[name] for name in scored.ids.tolist()]
        report = audit_predictions(
            predictions(model, scored, _QUERIES),
            scored.y,
            np.arange(len(scored)) < len(self.members),
            probabilities[:, rows],
            inside[:, rows],
            attack=attack,
            signal=SignalKind.TAYLOR,
        )
        # Tuned on the reference models alone, so it is the same for every model.
        self._attacks[len(inside)] = attack or RMIA(a=float(report.parameters["a"]))
        return audited(report)


def _key(words: str, ids: NDArray[np.str_], inside: NDArray[np.bool_], number: int) -> str:
    digest = hashlib.sha256(f"{words} {number}".encode())
    for array in (ids, inside):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:24]


def _file(key: str) -> Path:
    return cache_folder() / "references" / f"{key}.npz"


def _device_name() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
