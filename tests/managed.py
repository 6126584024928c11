"""Small workspaces to test the manager with."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from eupg import EUPG, Manager, Retrain, Seeded
from eupg.data.dataset import Dataset
from eupg.forget import SISA, CertifiedSP, Durable, ExactTrees
from eupg.learn import LeafRidge, SklearnLearner, TorchLearner, XGBoostLearner
from eupg.learn.torch.networks import MLP
from eupg.manage.storage.subjects import SubjectIndex
from eupg.protect import LocalDP, ProbabilisticKAnonymity
from people import people

RNG = Seeded(7)
METHOD = EUPG(LocalDP(epsilon=4.0), SklearnLearner(), pretrain=2, finetune=1)
# The others that a manager runs, small.
TREES = XGBoostLearner(max_depth=3, threads=1)
NETWORK = TorchLearner(MLP((8,)), batch_size=32)
METHODS: dict[str, Any] = {
    "retrain": Retrain(TREES, 3),
    "sisa": SISA(SklearnLearner(), effort=2, shards=2, slices=2, jobs=1),
    "certified-sp": CertifiedSP(NETWORK, effort=2, finetune=20),
    "exact-trees": ExactTrees(most_cells=200),
    "leaf-ridge": EUPG(ProbabilisticKAnonymity(k=8), TREES, 3, 1, finetuner=LeafRidge(TREES)),
}
GROUPED = EUPG(ProbabilisticKAnonymity(k=8), SklearnLearner(), pretrain=2, finetune=1)


def named(data: Dataset, word: str) -> Dataset:
    """Give records and people names that stand in no file by chance; three records a person."""
    ids = [f"record-{word}-{i:05d}" for i in range(len(data))]
    subjects = [f"person-{word}-{i // 3:05d}" for i in range(len(data))]
    return dataclasses.replace(data, ids=np.array(ids), subjects=np.array(subjects))


RECORDS, NEWCOMERS = named(people(150), "amber"), named(people(30, seed=5), "birch")
HELD_OUT = named(people(12, seed=9), "cedar")
LOOK = RECORDS.X[::5]


def person(number: int, word: str = "amber") -> str:
    """Return a person's id."""
    return f"person-{word}-{number:05d}"


def record(number: int, word: str = "amber") -> str:
    """Return a record's id."""
    return f"record-{word}-{number:05d}"


def archived(index: SubjectIndex) -> dict[str, Any]:
    """Return the arrays of an index as format 3 held them in an archive of NumPy."""
    names = ("records", "people", "held_out", "gone", "drawn", "exposed", "seen", "groups")
    return {name: getattr(index, name) for name in names} | {"format": np.array(3)}


@contextmanager
def trained(folder: Path, method: Durable = METHOD, *, records: Dataset = RECORDS, **options: Any) -> Iterator[Manager]:
    """Train a workspace with twelve records held out, and close it in the end."""
    manager = Manager(folder, method, **({"rng": RNG} | options))
    try:
        manager.train(records, hold_out=HELD_OUT)
        yield manager
    finally:
        manager.close()


@contextmanager
def in_memory(otherwise: Path) -> Iterator[Path]:
    """Lend a folder that no disk slows down, where the system has one: a killed process needs none to tell."""
    memory = Path("/dev/shm")
    place = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else otherwise))
    try:
        yield place
    finally:
        shutil.rmtree(place)
