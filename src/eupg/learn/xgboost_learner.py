"""XGBoost: pre-train some trees, then go on with more trees, or refresh the leaves of those there are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xgboost as xgb

from eupg.data.attribute import Categorical
from eupg.data.dataset import Examples, Matrix
from eupg.data.picture import require_table
from eupg.data.rows import as_matrix
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.errors import ModelFileError, ParameterError
from eupg.learn.envelope import read_model, write_model
from eupg.learn.learner import (
    Model,
    Scores,
    both_classes,
    check_fit,
    check_settings,
    coarse_first_guess,
    own,
    own_start,
    threads_for_table,
    total_effort,
)

_FORMAT = "eupg-xgboost-1"
# What every model that goes on from another starts at, whoever its examples are.
_FIRST_GUESS = 0.5
# What XGBoost writes about the examples of each node, besides what it needs to predict.
_STATISTICS = (b"base_weights", b"loss_changes", b"sum_hessian")
_COUNT_BYTES = 8
_FLOAT_BYTES = 4


@dataclass(frozen=True, eq=False)
class XGBoostModel:
    """Boosted trees, and how they were made; the schema's coding is their input as it is.

    There is one ensemble for each time that training went on, and each starts from the margins of those before it. That
    of a base model is shared by all models that go on from it.
    """

    boosters: tuple[xgb.Booster, ...]
    schema: Schema
    learner: XGBoostLearner
    effort: int

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the probabilities that all trees give together."""
        X = as_matrix(self.schema, X)
        if not len(X):
            return np.empty((0, self.schema.classes))
        out = np.asarray(self.boosters[-1].predict(self._matrix_of(X)), dtype=np.float64)
        if self.schema.classes == 2:
            return both_classes(out)
        return np.asarray(out / out.sum(axis=1, keepdims=True))

    def margins(self, X: Matrix) -> Scores:
        """Return what all trees give together before it is turned into probabilities."""
        return np.asarray(self.boosters[-1].predict(self._matrix_of(X), output_margin=True))

    def _matrix_of(self, X: Matrix) -> xgb.DMatrix:
        """Return the rows with the margins at which the last ensemble starts."""
        matrix = _matrix(self.schema, X)
        for booster in self.boosters[:-1]:
            matrix.set_base_margin(booster.predict(matrix, output_margin=True))
        return matrix


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

    @property
    def uses_scores(self) -> bool:
        """Further trees need the margins of those before; leaves are refreshed with the trees themselves."""
        return not self.refresh_leaves

    def fit(
        self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model | None = None
    ) -> XGBoostModel:
        """Add ``effort`` trees to nothing, or to the given ensemble."""
        check_fit(examples, effort)
        require_table(examples.schema, "XGBoostLearner", "TorchLearner(ResNet18())")
        base = own_start(start, XGBoostModel, examples)
        matrix = _matrix(examples.schema, examples.X, examples.y)
        parameters = self._parameters(examples, rng)
        if base is None:
            return XGBoostModel((xgb.train(parameters, matrix, effort),), examples.schema, self, int(effort))
        before = []
        for booster in base.boosters:
            before.append(_refreshed(booster, parameters, matrix) if self.refresh_leaves else booster)
            matrix.set_base_margin(before[-1].predict(matrix, output_margin=True))
        boosters = (*before, _further(parameters, matrix, effort))
        return XGBoostModel(boosters, examples.schema, self, total_effort(effort, start))

    def scores(self, model: Model, X: Matrix) -> Scores:
        """Return the model's margins."""
        return own(model, XGBoostModel).margins(X)

    def fit_scored(
        self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model, scores: Scores
    ) -> XGBoostModel:
        """Add ``effort`` trees to an ensemble whose margins are known."""
        check_fit(examples, effort)
        if not self.uses_scores:
            raise ParameterError("leaves are refreshed with the trees, not with their margins: call fit")
        if len(scores) != len(examples.y):
            raise ParameterError(f"{len(examples.y)} examples need as many scores, got {len(scores)}: pass one of each")
        own_start(start, XGBoostModel, examples)
        matrix = _matrix(examples.schema, examples.X, examples.y)
        matrix.set_base_margin(scores)
        boosters = (*own(start, XGBoostModel).boosters, _further(self._parameters(examples, rng), matrix, effort))
        return XGBoostModel(boosters, examples.schema, self, total_effort(effort, start))

    def first(self, model: Model, trees: int, *, start: Model | None = None) -> XGBoostModel:
        """Return the model with the first so many of the trees that were added to ``start``."""
        mine = own(model, XGBoostModel)
        boosters = (*mine.boosters[:-1], mine.boosters[-1][:trees])
        return XGBoostModel(boosters, mine.schema, self, total_effort(trees, start))

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
            # XGBoost's own first guess would be the exact share of classes among the examples.
            "base_score": _coarse_share(examples),
            "seed": int(rng.integers(2**31)),
            "verbosity": 0,
        }

    def save(self, model: Model, path: str | Path) -> None:
        """Write each ensemble as UBJSON, one behind the other, without statistics of the examples."""
        mine = own(model, XGBoostModel)
        parts = [_without_statistics(booster) for booster in mine.boosters]
        sizes = [len(part) for part in parts]
        write_model(path, _FORMAT, mine.schema, b"".join(parts), effort=mine.effort, sizes=sizes)

    def load(self, path: str | Path) -> XGBoostModel:
        """Read the ensembles back."""
        file = read_model(path, _FORMAT)
        boosters = []
        for part in file.parts():
            boosters.append(xgb.Booster({"nthread": self.threads}))
            boosters[-1].load_model(bytearray(part))
        return XGBoostModel(tuple(boosters), file.schema, self, file.effort)


def _coarse_share(examples: Examples) -> float:
    """Return the share of the second of two classes, coarsely; more classes start alike."""
    if examples.schema.classes > 2:
        return _FIRST_GUESS
    return float(1 / (1 + np.exp(-coarse_first_guess(examples)[0])))


def _refreshed(booster: xgb.Booster, parameters: dict[str, Any], matrix: xgb.DMatrix) -> xgb.Booster:
    """Return trees with new leaves."""
    update = {"process_type": "update", "updater": "refresh", "refresh_leaf": 1, "base_score": _FIRST_GUESS}
    return xgb.train(parameters | update, matrix, booster.num_boosted_rounds(), xgb_model=booster)


def _further(parameters: dict[str, Any], matrix: xgb.DMatrix, effort: int) -> xgb.Booster:
    """Return trees that start from the matrix's margins, which take the place of the first guess."""
    return xgb.train(parameters | {"base_score": _FIRST_GUESS}, matrix, effort)


def _without_statistics(booster: xgb.Booster) -> bytes:
    """Return the ensemble as UBJSON, with zeros for what tells how many examples reached a node, and what they said.

    XGBoost predicts from ``split_conditions`` alone, and refreshes leaves from new examples alone.
    """
    content = bytearray(booster.save_raw("ubj"))
    trees = content.count(_key(b"split_conditions"))
    for word in _STATISTICS:
        # An array of single-precision numbers, with its length.
        mark = _key(word) + b"[$d#L"
        at = content.find(mark)
        erased = 0
        while at >= 0:
            begin = at + len(mark) + _COUNT_BYTES
            size = _FLOAT_BYTES * int.from_bytes(content[begin - _COUNT_BYTES : begin])
            content[begin : begin + size] = bytes(size)
            erased += 1
            at = content.find(mark, begin + size)
        if erased != trees or trees < booster.num_boosted_rounds():
            raise ModelFileError(
                f"XGBoost {xgb.__version__} writes {word.decode()!r} of {trees} trees in a layout that is not known "
                f"(recognised {erased}), so it cannot be erased: install a version from 3.0 to 3.2"
            )
    return bytes(content)


def _key(word: bytes) -> bytes:
    """Return a key as UBJSON writes it, with its length."""
    return b"L" + len(word).to_bytes(_COUNT_BYTES) + word


def _matrix(schema: Schema, X: Matrix, y: Any = None) -> xgb.DMatrix:
    kinds = ["c" if isinstance(a, Categorical) else "q" for a in schema.features]
    return xgb.DMatrix(X, label=y, feature_types=kinds, enable_categorical=True)
