"""LightGBM: pretrain some trees, then continue with more trees."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import lightgbm as lgb
import numpy as np

from eupg.data.dataset import Examples, Matrix
from eupg.data.kind import Accepts, DataKind, check_kind
from eupg.data.rows import as_matrix
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.learn.boosting import Boosting, as_probabilities, categorical_columns, coarse_first_guess, threads_for_table
from eupg.learn.envelope import read_model, write_model
from eupg.learn.learner import (
    Leaves,
    Model,
    Scores,
    check_fit,
    check_scores,
    check_settings,
    own,
    own_start,
    total_effort,
)

_FORMAT = "eupg-lightgbm-1"
# Statistics of each node's examples, which LightGBM writes but does not need to predict.
_STATISTICS = frozenset(
    ("split_gain", "leaf_weight", "leaf_count", "internal_value", "internal_weight", "internal_count")
)


@dataclass(frozen=True, eq=False)
class LightGBMModel:
    """A boosted ensemble, and how it was made; it takes the schema's coding as it is."""

    booster: lgb.Booster
    schema: Schema
    learner: LightGBMLearner
    effort: int

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the ensemble's probabilities."""
        X = as_matrix(self.schema, X)
        if not len(X):
            return np.empty((0, self.schema.classes))
        return as_probabilities(np.asarray(self.booster.predict(X)), self.schema.classes)

    def margins(self, X: Matrix) -> Scores:
        """Return the sum of all trees before it becomes a probability."""
        X = as_matrix(self.schema, X)
        shape = (0,) if self.schema.classes == 2 else (0, self.schema.classes)
        output = self.booster.predict(X, raw_score=True) if len(X) else np.empty(shape)
        return np.asarray(output, dtype=np.float32)

    @cached_property
    def leaf_counts(self) -> tuple[int, ...]:
        """Number of leaves of each tree."""
        return tuple(int(tree["num_leaves"]) for tree in self.booster.dump_model()["tree_info"])

    def leaves(self, X: Matrix, *, trees: int) -> Leaves:
        """Return in which leaf of each of the first trees a record lies."""
        X = as_matrix(self.schema, X)
        if not len(X) or not trees:
            return np.empty((len(X), trees), dtype=np.int64)
        # LightGBM gives the trees of whole rounds: one per round for two classes, else one per class.
        rounds = -(-trees // (1 if self.schema.classes == 2 else self.schema.classes))
        leaves = np.asarray(self.booster.predict(X, pred_leaf=True, num_iteration=rounds), dtype=np.int64)
        return leaves.reshape(len(X), -1)[:, :trees]


@dataclass(frozen=True)
class LightGBMLearner(Boosting):
    """Boost trees leaf by leaf; effort counts trees (per class, for more than two classes).

    Parameters
    ----------
    leaves, learning_rate, reg_lambda, least_records
        Leaves per tree, step size, L2 penalty on leaf values, smallest number of records per leaf.
    threads
        CPU threads; 0 means one for small tables and all for large ones.
    """

    accepts: ClassVar[Accepts] = Accepts(DataKind.TABLE, instead="TorchLearner(ResNet18())")
    leaves: int = 31
    learning_rate: float = 0.1
    reg_lambda: float = 5.0
    least_records: int = 20
    threads: int = 0

    def __post_init__(self) -> None:
        whole = {"leaves": 2, "least_records": 1, "threads": 0}
        check_settings(self, whole=whole, positive=("learning_rate",), not_negative=("reg_lambda",))

    def fit(
        self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model | None = None
    ) -> LightGBMModel:
        """Grow ``effort`` trees, from scratch or after those of ``start``."""
        check_fit(examples, effort)
        check_kind(examples.schema, self)
        base = own_start(start, LightGBMModel, examples)
        # LightGBM writes into the ensemble it continues from, so it gets a copy.
        before = lgb.Booster(model_str=base.booster.model_to_string()) if base else None
        # LightGBM's own first guess would be the exact share of classes among the examples.
        guess = coarse_first_guess(examples)
        booster = self._boosted(examples, effort, rng, None if base else np.repeat(guess, len(examples.y)), before)
        if base is None:
            _start_from(booster, guess)
        return LightGBMModel(booster, examples.schema, self, total_effort(effort, start))

    def fit_correction(
        self, examples: Examples, *, effort: int, rng: np.random.Generator, scores: Scores
    ) -> LightGBMModel:
        """Grow ``effort`` trees that start from the margins of any model."""
        check_fit(examples, effort)
        check_kind(examples.schema, self)
        check_scores(examples, scores)
        # LightGBM takes the scores of the first class for all examples, then those of the second, and so on.
        booster = self._boosted(examples, effort, rng, scores.T.ravel())
        return LightGBMModel(booster, examples.schema, self, effort)

    def _boosted(
        self,
        examples: Examples,
        effort: int,
        rng: np.random.Generator,
        scores: Scores | None,
        before: lgb.Booster | None = None,
    ) -> lgb.Booster:
        """Grow trees that start from scores, or after those of another ensemble."""
        parameters = self._parameters(examples, rng)
        matrix = lgb.Dataset(
            examples.X,
            label=examples.y,
            init_score=scores,
            params=parameters,
            feature_name=[f"f{j}" for j in range(len(examples.schema.features))],
            categorical_feature=categorical_columns(examples.schema),
        )
        return lgb.train(parameters, matrix, effort, init_model=before)

    def first(self, model: Model, trees: int, *, start: Model | None = None) -> LightGBMModel:
        """Return the model with only the first of the trees that were added to ``start``."""
        mine = own(model, LightGBMModel)
        before = 0 if start is None else own(start, LightGBMModel).booster.current_iteration()
        # There are fewer trees than asked for if LightGBM had nothing left to split.
        iterations = min(before + trees, mine.booster.current_iteration())
        booster = lgb.Booster(model_str=mine.booster.model_to_string(num_iteration=iterations))
        return LightGBMModel(booster, mine.schema, self, total_effort(trees, start))

    def _parameters(self, examples: Examples, rng: np.random.Generator) -> dict[str, Any]:
        classes = examples.schema.classes
        objective: dict[str, Any] = {"objective": "binary"}
        if classes > 2:
            objective = {"objective": "multiclass", "num_class": classes}
        return objective | {
            "num_leaves": self.leaves,
            "learning_rate": self.learning_rate,
            "lambda_l2": self.reg_lambda,
            "min_data_in_leaf": self.least_records,
            "num_threads": threads_for_table(examples, self.threads),
            "seed": int(rng.integers(2**31)),
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }

    def save(self, model: Model, path: str | Path) -> None:
        """Write the ensemble as LightGBM's text, without statistics of the examples."""
        mine = own(model, LightGBMModel)
        text = without_statistics(mine.booster.model_to_string())
        write_model(path, _FORMAT, mine.schema, text.encode(), effort=mine.effort)

    def load(self, path: str | Path) -> LightGBMModel:
        """Read an ensemble back."""
        file = read_model(path, _FORMAT)
        booster = lgb.Booster(model_str=file.payload.decode())
        return LightGBMModel(booster, file.schema, self, file.effort)


def _start_from(booster: lgb.Booster, guess: Scores) -> None:
    """Add a first guess to the leaves of each class's first tree, as LightGBM does with its own."""
    trees = booster.dump_model(num_iteration=1)["tree_info"]
    for number, score in enumerate(guess.tolist()):
        for leaf in range(trees[number]["num_leaves"]):
            booster.set_leaf_output(number, leaf, booster.get_leaf_output(number, leaf) + score)


def without_statistics(text: str) -> str:
    """Return an ensemble's text with only what predicting or adding trees needs.

    Removed are counts, gains and values of inner nodes, the examples' ranges of the features (``feature_infos``), the
    importances, and the settings, which hold the seed.
    """
    head, trees = text.partition("end of trees")[0].split("\n\n", maxsplit=1)
    parts = [_tree_without_statistics(part) for part in re.split(r"^(?=Tree=)", trees, flags=re.MULTILINE)[1:]]
    described = dict(line.split("=", maxsplit=1) for line in head.splitlines() if "=" in line)
    described["feature_infos"] = " ".join("none" for _ in described["feature_infos"].split(" "))
    described["tree_sizes"] = " ".join(str(len(part)) for part in parts)
    lines = ["tree", *(f"{word}={value}" for word, value in described.items())]
    return "\n".join(lines) + "\n\n" + "".join(parts) + "end of trees\n"


def _tree_without_statistics(part: str) -> str:
    return "".join(line for line in part.splitlines(keepends=True) if line.split("=")[0] not in _STATISTICS)
