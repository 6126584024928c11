"""XGBoost: pretrain some trees, then continue with more trees, or refresh the leaves of the existing ones."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

from eupg.data.dataset import Examples, ExamplesInParts, Matrix
from eupg.data.kind import Accepts, DataKind, check_kind
from eupg.data.rows import as_matrix
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.errors import ModelFileError, ParameterError
from eupg.learn.boosting import Boosting, as_probabilities, categorical_columns, coarse_scores, threads_for_table
from eupg.learn.envelope import read_model, write_model
from eupg.learn.learner import (
    Leaves,
    Model,
    Scores,
    check_effort,
    check_fit,
    check_scores,
    check_settings,
    own,
    own_start,
    total_effort,
)
from eupg.temporary import TemporaryFolder

_FORMAT = "eupg-xgboost-1"
# Where every model that continues from another starts, whatever its examples are.
_FIRST_GUESS = 0.5
# Statistics of each node's examples, which XGBoost writes but does not need to predict.
_STATISTICS = (b"base_weights", b"loss_changes", b"sum_hessian")
_COUNT_BYTES = 8
_FLOAT_BYTES = 4


@dataclass(frozen=True, eq=False)
class XGBoostModel:
    """Boosted trees, and how they were made; they take the schema's coding as it is.

    There is one ensemble per training that continued, and each starts from the margins of those before it. All models
    that continue from a base model share its ensemble.
    """

    boosters: tuple[xgb.Booster, ...]
    schema: Schema
    learner: XGBoostLearner
    effort: int

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the probabilities from all trees together."""
        X = as_matrix(self.schema, X)
        if not len(X):
            return np.empty((0, self.schema.classes))
        return as_probabilities(self.boosters[-1].predict(self._matrix_of(X)), self.schema.classes)

    def margins(self, X: Matrix) -> Scores:
        """Return the sum of all trees before it becomes a probability."""
        return np.asarray(self.boosters[-1].predict(self._matrix_of(X), output_margin=True))

    @cached_property
    def leaf_counts(self) -> tuple[int, ...]:
        """Number of leaves of each tree."""
        return tuple(int(ranks.max()) + 1 for ranks in self._leaf_ranks)

    def leaves(self, X: Matrix, *, trees: int) -> Leaves:
        """Return in which leaf of each of the first trees a record lies."""
        X = as_matrix(self.schema, X)
        out = np.empty((len(X), trees), dtype=np.int64)
        ranks, filled = self._leaf_ranks[:trees], 0
        for booster in self.boosters if len(X) else ():
            rounds, total = booster.num_boosted_rounds(), self._trees_of(booster)
            # XGBoost gives the trees of whole rounds: one per round for two classes, else one per class.
            wanted = min(rounds, -(-(trees - filled) * rounds // total))
            if wanted > 0:
                nodes = booster.predict(_matrix(self.schema, X), pred_leaf=True, iteration_range=(0, wanted))
                for column in np.asarray(nodes, dtype=np.int64).reshape(len(X), -1).T[: trees - filled]:
                    out[:, filled] = ranks[filled][column]
                    filled += 1
        return out

    @cached_property
    def _leaf_ranks(self) -> list[NDArray[np.int64]]:
        """Return for each tree the number of each node among the leaves; −1 for inner nodes."""
        ranks = []
        for booster in self.boosters:
            described = json.loads(bytes(booster.save_raw("json")))
            for tree in described["learner"]["gradient_booster"]["model"]["trees"]:
                leaf = np.array(tree["left_children"]) == -1
                ranks.append(np.where(leaf, np.cumsum(leaf) - 1, -1))
        return ranks

    def _trees_of(self, booster: xgb.Booster) -> int:
        return int(booster.num_boosted_rounds()) * (1 if self.schema.classes == 2 else self.schema.classes)

    def _matrix_of(self, X: Matrix) -> xgb.DMatrix:
        """Return the rows with the margins at which the last ensemble starts."""
        matrix = _matrix(self.schema, X)
        for booster in self.boosters[:-1]:
            matrix.set_base_margin(booster.predict(matrix, output_margin=True))
        return matrix


@dataclass(frozen=True)
class XGBoostLearner(Boosting):
    """Boost trees with the paper's settings; effort counts trees (per class, for more than two classes).

    Parameters
    ----------
    max_depth, learning_rate, reg_lambda
        As in the paper's table of hyper-parameters.
    refresh_leaves
        When continuing from a model, first compute the leaves of its trees anew from the new examples.
    threads
        CPU threads; 0 means one for small tables and all for large ones.
    """

    accepts: ClassVar[Accepts] = Accepts(DataKind.TABLE, instead="TorchLearner(ResNet18())")
    max_depth: int = 7
    learning_rate: float = 0.5
    reg_lambda: float = 5.0
    refresh_leaves: bool = False
    threads: int = 0

    def __post_init__(self) -> None:
        whole = {"max_depth": 1, "threads": 0}
        check_settings(self, whole=whole, positive=("learning_rate",), not_negative=("reg_lambda",))

    @property
    def uses_scores(self) -> bool:
        """Whether only margins are needed: further trees use those of the trees before, refreshed leaves do not."""
        return not self.refresh_leaves

    def fit(
        self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model | None = None
    ) -> XGBoostModel:
        """Grow ``effort`` trees, from scratch or after those of ``start``."""
        check_fit(examples, effort)
        check_kind(examples.schema, self)
        base = own_start(start, XGBoostModel, examples)
        matrix = _matrix(examples.schema, examples.X, examples.y)
        parameters = self._parameters(examples, rng)
        before: list[xgb.Booster] = []
        for booster in base.boosters if base else ():
            before.append(_refreshed(booster, parameters, matrix) if self.refresh_leaves else booster)
            matrix.set_base_margin(before[-1].predict(matrix, output_margin=True))
        last = _further(parameters, matrix, effort) if before else xgb.train(parameters, matrix, effort)
        return XGBoostModel((*before, last), examples.schema, self, total_effort(effort, start))

    def fit_parts(self, examples: ExamplesInParts, *, effort: int, rng: np.random.Generator) -> XGBoostModel:
        """Grow ``effort`` trees from scratch on examples that may be larger than memory.

        XGBoost reads each part twice and keeps a compressed copy of all parts on disk while it trains, in a folder for
        temporary files, which is removed at the end. Split points come from a sketch of the parts, so the trees are
        similar to those of :meth:`fit` on the same examples, and not the same.
        """
        check_effort(effort, len(examples))
        check_kind(examples.schema, self)
        counts = np.zeros(examples.schema.classes, np.int64)
        for _, y in examples.batches():
            counts += np.bincount(y, minlength=len(counts))
        parameters = self._settings(examples.schema, rng, threads=self.threads, share=_coarse_share_of(counts))
        with TemporaryFolder() as folder:
            matrix = xgb.ExtMemQuantileDMatrix(_Parts(examples, folder), enable_categorical=True)
            booster = xgb.train(parameters, matrix, effort)
            # XGBoost's copy of the parts is deleted with the matrix.
            del matrix
        return XGBoostModel((booster,), examples.schema, self, effort)

    def scores(self, model: Model, X: Matrix) -> Scores:
        """Return the model's margins."""
        return own(model, XGBoostModel).margins(X)

    def fit_scored(
        self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model, scores: Scores
    ) -> XGBoostModel:
        """Add ``effort`` trees to ``start``, whose margins are known."""
        if not self.uses_scores:
            raise ParameterError("leaves are refreshed with the trees, not with their margins: call fit")
        base = own_start(start, XGBoostModel, examples)
        assert base is not None
        added = self.fit_correction(examples, effort=effort, rng=rng, scores=scores)
        return XGBoostModel((*base.boosters, *added.boosters), examples.schema, self, total_effort(effort, start))

    def fit_correction(
        self, examples: Examples, *, effort: int, rng: np.random.Generator, scores: Scores
    ) -> XGBoostModel:
        """Grow ``effort`` trees that start from the margins of any model."""
        check_fit(examples, effort)
        check_kind(examples.schema, self)
        check_scores(examples, scores)
        matrix = _matrix(examples.schema, examples.X, examples.y)
        matrix.set_base_margin(scores)
        booster = _further(self._parameters(examples, rng), matrix, effort)
        return XGBoostModel((booster,), examples.schema, self, effort)

    def first(self, model: Model, trees: int, *, start: Model | None = None) -> XGBoostModel:
        """Return the model with only the first of the trees that were added to ``start``."""
        mine = own(model, XGBoostModel)
        boosters = (*mine.boosters[:-1], mine.boosters[-1][:trees])
        return XGBoostModel(boosters, mine.schema, self, total_effort(trees, start))

    def _parameters(self, examples: Examples, rng: np.random.Generator) -> dict[str, Any]:
        threads, share = threads_for_table(examples, self.threads), _coarse_share(examples)
        return self._settings(examples.schema, rng, threads=threads, share=share)

    def _settings(self, schema: Schema, rng: np.random.Generator, *, threads: int, share: float) -> dict[str, Any]:
        classes = schema.classes
        objective: dict[str, Any] = {"objective": "binary:logistic"}
        if classes > 2:
            objective = {"objective": "multi:softprob", "num_class": classes}
        return objective | {
            "max_depth": self.max_depth,
            "eta": self.learning_rate,
            "lambda": self.reg_lambda,
            "tree_method": "hist",
            "nthread": threads,
            # XGBoost's own first guess would be the exact share of classes among the examples.
            "base_score": share,
            "seed": int(rng.integers(2**31)),
            "verbosity": 0,
        }

    def save(self, model: Model, path: str | Path) -> None:
        """Write each ensemble as UBJSON, one after the other, without statistics of the examples."""
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
    """Return the rounded share of the second of two classes; with more classes all start alike."""
    return _coarse_share_of(np.bincount(examples.y, minlength=examples.schema.classes))


def _coarse_share_of(counts: NDArray[np.int64]) -> float:
    return _FIRST_GUESS if len(counts) > 2 else float(1 / (1 + np.exp(-coarse_scores(counts)[0])))


def _refreshed(booster: xgb.Booster, parameters: dict[str, Any], matrix: xgb.DMatrix) -> xgb.Booster:
    """Return the same trees with new leaves."""
    update = {"process_type": "update", "updater": "refresh", "refresh_leaf": 1, "base_score": _FIRST_GUESS}
    return xgb.train(parameters | update, matrix, booster.num_boosted_rounds(), xgb_model=booster)


def _further(parameters: dict[str, Any], matrix: xgb.DMatrix, effort: int) -> xgb.Booster:
    """Return trees that start from the matrix's margins instead of a first guess."""
    return xgb.train(parameters | {"base_score": _FIRST_GUESS}, matrix, effort)


def _without_statistics(booster: xgb.Booster) -> bytes:
    """Return the ensemble as UBJSON, with zeros in place of the statistics of each node's examples.

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
                f"XGBoost {xgb.__version__} writes {word.decode()!r} of {trees} trees in an unknown layout "
                f"(recognised {erased}), so it cannot be erased: install a version from 3.0 to 3.2"
            )
    return bytes(content)


def _key(word: bytes) -> bytes:
    """Return a key as UBJSON writes it, with its length."""
    return b"L" + len(word).to_bytes(_COUNT_BYTES) + word


def _matrix(schema: Schema, X: Matrix, y: Any = None) -> xgb.DMatrix:
    return xgb.DMatrix(X, label=y, feature_types=_kinds(schema), enable_categorical=True)


def _kinds(schema: Schema) -> list[str]:
    categorical = categorical_columns(schema)
    return ["c" if column in categorical else "q" for column in range(len(schema.features))]


class _Parts(xgb.DataIter):
    """Hands XGBoost one part after the other."""

    def __init__(self, examples: ExamplesInParts, folder: Path) -> None:
        self._examples, self._batches = examples, examples.batches()
        super().__init__(cache_prefix=str(folder / "parts"))

    def reset(self) -> None:
        """Start over."""
        self._batches = self._examples.batches()

    def next(self, input_data: Any) -> bool:
        """Hand over the next part, if there is one."""
        part = next(self._batches, None)
        if part is None:
            return False
        X, y = part
        input_data(data=X.astype(np.float32), label=y, feature_types=_kinds(self._examples.schema))
        return True
