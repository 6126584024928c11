"""XGBoost: pre-train some trees, then go on with more trees, or refresh the leaves of those there are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xgboost as xgb

from eupg.data.attribute import Categorical
from eupg.data.dataset import Examples, Matrix
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.learn.envelope import read_model, write_model
from eupg.learn.learner import (
    Model,
    both_classes,
    check_fit,
    check_settings,
    own,
    own_start,
    threads_for_table,
    total_effort,
)

_FORMAT = "eupg-xgboost-1"


@dataclass(frozen=True, eq=False)
class XGBoostModel:
    """A boosted ensemble, and how it was made; the schema's coding is its input as it is."""

    booster: xgb.Booster
    schema: Schema
    learner: XGBoostLearner
    effort: int

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the ensemble's probabilities."""
        if not len(X):
            return np.empty((0, self.schema.classes))
        out = np.asarray(self.booster.predict(_matrix(self.schema, X)), dtype=np.float64)
        if self.schema.classes == 2:
            return both_classes(out)
        return np.asarray(out / out.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class XGBoostLearner:
    """Boost trees with the paper's settings; effort counts trees (per class, for more than two classes).

    Parameters
    ----------
    max_depth, learning_rate, reg_lambda
        As in the paper's table of hyper-parameters.
    refresh_leaves
        When going on from a model, first give the leaves of its trees new values from the new examples.
    threads
        CPU threads; 0 takes one for small tables and all for large ones.
    """

    max_depth: int = 7
    learning_rate: float = 0.5
    reg_lambda: float = 5.0
    refresh_leaves: bool = False
    threads: int = 0

    def __post_init__(self) -> None:
        check_settings(
            self,
            whole={"max_depth": 1, "threads": 0},
            positive=("learning_rate",),
            not_negative=("reg_lambda",),
        )

    @property
    def accumulates(self) -> bool:
        """Effort counts trees, which stay."""
        return True

    @property
    def warm_starts(self) -> bool:
        """An ensemble goes on with further trees."""
        return True

    def fit(
        self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model | None = None
    ) -> XGBoostModel:
        """Add ``effort`` trees to nothing, or to the given ensemble."""
        check_fit(examples, effort)
        base = own_start(start, XGBoostModel, examples)
        matrix = _matrix(examples.schema, examples.X, examples.y)
        parameters = self._parameters(examples, rng)
        before = base.booster if base else None
        if before is not None and self.refresh_leaves:
            update = {"process_type": "update", "updater": "refresh", "refresh_leaf": 1}
            before = xgb.train(parameters | update, matrix, before.num_boosted_rounds(), xgb_model=before)
        booster = xgb.train(parameters, matrix, effort, xgb_model=before)
        return XGBoostModel(booster, examples.schema, self, total_effort(effort, start))

    def _parameters(self, examples: Examples, rng: np.random.Generator) -> dict[str, Any]:
        classes = examples.schema.classes
        objective: dict[str, Any] = {"objective": "binary:logistic"}
        if classes > 2:
            objective = {"objective": "multi:softprob", "num_class": classes}
        return objective | {
            "max_depth": self.max_depth,
            "eta": self.learning_rate,
            "lambda": self.reg_lambda,
            "tree_method": "hist",
            "nthread": threads_for_table(examples, self.threads),
            "seed": int(rng.integers(2**31)),
            "verbosity": 0,
        }

    def save(self, model: Model, path: str | Path) -> None:
        """Write the ensemble as UBJSON."""
        mine = own(model, XGBoostModel)
        write_model(path, _FORMAT, mine.schema, bytes(mine.booster.save_raw("ubj")), effort=mine.effort)

    def load(self, path: str | Path) -> XGBoostModel:
        """Read an ensemble back."""
        file = read_model(path, _FORMAT)
        booster = xgb.Booster({"nthread": self.threads})
        booster.load_model(bytearray(file.payload))
        return XGBoostModel(booster, file.schema, self, file.effort)


def _matrix(schema: Schema, X: Matrix, y: Any = None) -> xgb.DMatrix:
    kinds = ["c" if isinstance(a, Categorical) else "q" for a in schema.features]
    return xgb.DMatrix(X, label=y, feature_types=kinds, enable_categorical=True)
