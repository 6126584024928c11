"""DP-EBM: boosted shape functions under differential privacy (Nori et al., ICML 2021), from ``interpret``.

Settings as in :mod:`benchmarks.private_peers`. The claim is about one record: a person with several has a weaker one.
"""

from __future__ import annotations

import importlib
import pickle
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from eupg.data.attribute import Numeric
from eupg.data.dataset import Dataset, Matrix
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.forget.released import Released
from eupg.forget.storage import Storage
from eupg.forget.unlearner import Trained, check_same_table, check_start, kept_ids
from eupg.guarantees import DifferentiallyPrivate, Neighbours
from eupg.learn.learner import check_settings
from eupg.rng import Randomness

_SETTINGS = {"learning_rate": 0.1, "max_rounds": 1000, "max_bins": 64}


@dataclass(frozen=True, eq=False)
class EBMModel:
    """A fitted model of ``interpret``."""

    schema: Schema
    fitted: Any

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the probability of every class."""
        return np.asarray(self.fitted.predict_proba(_columns(self.schema, X)), dtype=np.float64)

    def storage(self) -> Storage:
        """Return the size of the model, pickled."""
        return Storage(1, len(pickle.dumps(self.fitted)))


@dataclass(frozen=True)
class DPEBM:
    """Serve a private model as it is: nothing has to be done when somebody leaves.

    Parameters
    ----------
    epsilon, delta
        The claim, for one record added or removed.
    """

    epsilon: float = 1.0
    delta: float = 1e-5

    def __post_init__(self) -> None:
        check_settings(self, whole={}, positive=("epsilon", "delta"), not_negative=())

    def train(self, data: Dataset, rng: Randomness) -> Trained:
        """Fit the model; its noise is its own, so ``rng`` only gives it a seed where it has one."""
        interpret: Any = importlib.import_module("interpret.privacy")

        check_start(data, rng)
        features = data.schema.features
        model = interpret.DPExplainableBoostingClassifier(
            feature_types=["continuous" if isinstance(a, Numeric) else "nominal" for a in features],
            epsilon=self.epsilon,
            delta=self.delta,
            privacy_bounds={i: (a.lower, a.upper) for i, a in enumerate(features) if isinstance(a, Numeric)},
            random_state=int(rng.stage("pretrain").generator().integers(2**31)) if rng.seeded else None,
            n_jobs=1,
            **_SETTINGS,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(_columns(data.schema, data.X), data.y)
        claim = DifferentiallyPrivate(
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=Neighbours.ADD_OR_REMOVE,
            caveats=data.schema.caveats,
            seeded=rng.seeded,
        )
        served = EBMModel(data.schema, model)
        return Trained(served, data.schema, frozenset(), data.id_set, Released.of(data), claim, served)

    def forget(self, trained: Trained, retained: Dataset, rng: Randomness) -> Trained:
        """Return the same model, with fewer records behind it."""
        kept = kept_ids(trained, retained)
        released = trained.released.retaining(kept)
        return Trained(trained.model, trained.schema, frozenset(), kept, released, trained.claim, trained.memory)

    def update(self, trained: Trained, data: Dataset, rng: Randomness) -> Trained:
        """Return the same model: a new one would spend the budget again."""
        check_same_table(trained, data)
        released = trained.released.retaining(data.id_set)
        return Trained(trained.model, data.schema, frozenset(), data.id_set, released, trained.claim, trained.memory)


def _columns(schema: Schema, X: Matrix) -> pd.DataFrame:
    """Return a table in which categories are text."""
    named = {}
    for i, attribute in enumerate(schema.features):
        numbers = X[:, i]
        named[attribute.name] = numbers if isinstance(attribute, Numeric) else numbers.astype(int).astype(str)
    return pd.DataFrame(named)
