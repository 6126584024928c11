"""LightGBM: pre-train some trees, then go on with more trees."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np

from eupg.data.attribute import Categorical
from eupg.data.dataset import Examples, Matrix
from eupg.data.picture import require_table
from eupg.data.rows import as_matrix
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
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

_FORMAT = "eupg-lightgbm-1"
# What LightGBM writes about the examples of each node, besides what it needs to predict.
_STATISTICS = frozenset(
    ("split_gain", "leaf_weight", "leaf_count", "internal_value", "internal_weight", "internal_count")
)


@dataclass(frozen=True, eq=False)
class LightGBMModel:
    """A boosted ensemble, and how it was made; the schema's coding is its input as it is."""

    booster: lgb.Booster
    schema: Schema
    learner: LightGBMLearner
    effort: int

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the ensemble's probabilities."""
        X = as_matrix(self.schema, X)
        if not len(X):
            return np.empty((0, self.schema.classes))
        out = np.asarray(self.booster.predict(X))
        return both_classes(out) if self.schema.classes == 2 else out / out.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class LightGBMLearner:
    """Boost trees leaf by leaf; effort counts trees (per class, for more than two classes).

    Parameters
    ----------
    leaves, learning_rate, reg_lambda, least_records
        Leaves a tree, step size, L2 penalty on leaf values, smallest number of records in a leaf.
    threads
        CPU threads; 0 takes one for small tables and all for large ones.
    """

    leaves: int = 31
    learning_rate: float = 0.1
    reg_lambda: float = 5.0
    least_records: int = 20
    threads: int = 0

    def __post_init__(self) -> None:
        check_settings(
            self,
            whole={"leaves": 2, "least_records": 1, "threads": 0},
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
    ) -> LightGBMModel:
        """Add ``effort`` trees to nothing, or to the given ensemble."""
        check_fit(examples, effort)
        require_table(examples.schema, "LightGBMLearner", "TorchLearner(ResNet18())")
        base = own_start(start, LightGBMModel, examples)
        schema = examples.schema
        parameters = self._parameters(examples, rng)
        # LightGBM writes into the ensemble it goes on from, so it gets a copy.
        before = lgb.Booster(model_str=base.booster.model_to_string()) if base else None
        # LightGBM's own first guess would be the exact share of classes among the examples.
        guess = coarse_first_guess(examples)
        matrix = lgb.Dataset(
            examples.X,
            label=examples.y,
            init_score=None if base else np.repeat(guess, len(examples.y)),
            params=parameters,
            feature_name=[f"f{j}" for j in range(len(schema.features))],
            categorical_feature=[j for j, a in enumerate(schema.features) if isinstance(a, Categorical)],
        )
        booster = lgb.train(parameters, matrix, effort, init_model=before)
        if base is None:
            _start_from(booster, guess)
        return LightGBMModel(booster, schema, self, total_effort(effort, start))

    def first(self, model: Model, trees: int, *, start: Model | None = None) -> LightGBMModel:
        """Return the model with the first so many of the trees that were added to ``start``."""
        mine = own(model, LightGBMModel)
        # Those that are there, which are fewer than were asked for where LightGBM found nothing left to split.
        before = 0 if start is None else own(start, LightGBMModel).booster.current_iteration()
        kept = min(before + trees, mine.booster.current_iteration())
        booster = lgb.Booster(model_str=mine.booster.model_to_string(num_iteration=kept))
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
        text = _without_statistics(mine.booster.model_to_string())
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


def _without_statistics(text: str) -> str:
    """Return an ensemble's text with what is needed to predict or to add trees, and nothing else.

    Counts, gains and values of inner nodes go, and with them the ranges of the features (``feature_infos``), which are
    those of the examples, the importances and the settings, which hold the seed.
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
