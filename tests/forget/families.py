"""Learners of every family at sizes that train in milliseconds, and what tests of SISA ask about its state."""

import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from torch import nn

from eupg.data.dataset import Dataset
from eupg.learn import MLP, Learner, LightGBMLearner, SklearnLearner, TorchLearner, XGBoostLearner


def normed(inputs: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, classes))


TREES = ("sklearn.tree._tree.Tree",)
ADAM = ("sklearn.neural_network._stochastic_optimizers.AdamOptimizer",)
FAMILIES: dict[str, Learner] = {
    "torch": TorchLearner(MLP((4,)), batch_size=32),
    "torch batch norm": TorchLearner(normed, batch_size=16),
    "xgboost": XGBoostLearner(max_depth=3, threads=1),
    "xgboost refresh": XGBoostLearner(max_depth=3, refresh_leaves=True, threads=1),
    "lightgbm": LightGBMLearner(threads=1, least_records=2),
    "sklearn sgd": SklearnLearner(),
    "sklearn logistic": SklearnLearner(LogisticRegression()),
    "sklearn mlp": SklearnLearner(MLPClassifier((4,)), trusted=ADAM),
    "sklearn boosting": SklearnLearner(GradientBoostingClassifier(max_depth=2), trusted=TREES),
    "sklearn trees": SklearnLearner(ExtraTreesClassifier(max_depth=3), trusted=TREES),
}
NO_START = SklearnLearner(
    KNeighborsClassifier(),
    trusted=("sklearn.neighbors._kd_tree.KDTree", "sklearn.metrics._dist_metrics.EuclideanDistance64"),
)
family = pytest.mark.parametrize("learner", FAMILIES.values(), ids=FAMILIES.keys())
FAST = FAMILIES["xgboost"]


def same(a, b, X) -> bool:
    return np.array_equal(a.model.predict_proba(X), b.model.predict_proba(X))


def files(folder: Path) -> dict[str, str]:
    """Return the digest of every file."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in Path(folder).rglob("*")}


def place(trained, record: str) -> tuple[int, int]:
    """Return shard and slice of a record."""
    return divmod(trained.memory.places[record], trained.memory.sharding.slices)


def names(trained) -> set[str]:
    return {name for shard in trained.memory.checkpoints for name in shard if name is not None}


def late(data: Dataset, subject: str) -> Dataset:
    """Two records that arrive later."""
    ids = np.array(["late-1", "late-2"])
    return dataclasses.replace(data.select(np.arange(len(data)) < 2), ids=ids, subjects=np.array([subject] * 2))


@dataclasses.dataclass(frozen=True)
class Noting(XGBoostLearner):
    """Notes each fit: how many records, how much effort, and whether it went on from a model."""

    calls: list = dataclasses.field(default_factory=list)

    def fit(self, examples, *, effort, rng, start=None):
        self.calls.append((len(examples.y), effort, start is not None))
        return super().fit(examples, effort=effort, rng=rng, start=start)
