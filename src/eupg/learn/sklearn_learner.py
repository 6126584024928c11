"""scikit-learn estimators: any classifier with ``partial_fit`` or ``warm_start``."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import skops.io
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from skops.io.exceptions import UntrustedTypesFoundException

from eupg.data.dataset import Examples, Matrix
from eupg.data.encode import Encoder
from eupg.data.picture import require_table
from eupg.data.rows import as_matrix
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.errors import DataError, ModelFileError, ParameterError
from eupg.learn.envelope import read_model, write_model
from eupg.learn.learner import Model, check_fit, own, own_start, total_effort
from eupg.learn.sklearn_statistics import erase_statistics

_FORMAT = "eupg-sklearn-1"


@dataclass(frozen=True, eq=False)
class SklearnModel:
    """A fitted estimator, the encoder it was fitted with, and how it was made."""

    estimator: Any
    encoder: Encoder
    schema: Schema
    learner: SklearnLearner
    effort: int

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the estimator's probabilities, with a column for every class of the schema."""
        X = as_matrix(self.schema, X)
        out = np.zeros((len(X), self.schema.classes))
        if len(X):
            found = np.asarray(self.estimator.predict_proba(self.encoder(X)), dtype=np.float64)
            out[:, np.asarray(self.estimator.classes_, dtype=np.int64)] = found
            out /= out.sum(axis=1, keepdims=True)
        return out


@dataclass(frozen=True)
class SklearnLearner:
    """Fit a scikit-learn classifier; effort counts epochs, iterations or trees, whichever the estimator knows.

    An estimator with ``partial_fit`` runs through the shuffled examples ``effort`` times. One with ``warm_start``
    gets ``effort`` more trees (``n_estimators``) or iterations (``max_iter``). Others can be retrained, but cannot go
    on from a model. Inputs are scaled numbers and one-hot categories, so the estimator must take negative numbers.

    Histogram gradient boosting can be used so, but bins the examples of each step anew and reads its earlier trees in
    the new bins: scikit-learn means its warm start for the same data. Prefer ``XGBoostLearner`` for trees.

    Parameters
    ----------
    estimator
        An unfitted classifier with ``predict_proba``; it is cloned, never changed.
    trusted
        Further type names that a saved model of this learner may hold, besides those skops trusts.
    """

    estimator: Any = field(default_factory=lambda: SGDClassifier(loss="log_loss", alpha=1e-4))
    trusted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.estimator, BaseEstimator) or not hasattr(self.estimator, "predict_proba"):
            raise ParameterError(
                f"expected an unfitted scikit-learn classifier with predict_proba, got {self.estimator!r}"
            )

    @property
    def warm_starts(self) -> bool:
        """Whether the estimator can go on from a fitted one."""
        return hasattr(self.estimator, "partial_fit") or (
            "warm_start" in self.estimator.get_params() and self._budget is not None
        )

    @property
    def accumulates(self) -> bool:
        """Whether effort counts trees, which stay, and not passes over the examples."""
        trees = self._budget == "n_estimators" or hasattr(self.estimator, "max_leaf_nodes")
        return trees and not hasattr(self.estimator, "partial_fit")

    @property
    def _budget(self) -> str | None:
        known = self.estimator.get_params()
        return next((name for name in ("n_estimators", "max_iter") if name in known), None)

    def fit(
        self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model | None = None
    ) -> SklearnModel:
        """Fit for ``effort`` epochs, iterations or trees."""
        check_fit(examples, effort)
        require_table(examples.schema, "SklearnLearner", "TorchLearner(ResNet18())")
        if start is not None and not self.warm_starts:
            raise ParameterError(f"{type(self.estimator).__name__} cannot go on from a model: use one that can")
        base = own_start(start, SklearnModel, examples)
        encoder = Encoder.fit(examples, start=base.encoder if base else None)
        inputs = encoder(examples.X)
        estimator = copy.deepcopy(base.estimator) if base else clone(self.estimator)
        if "random_state" in estimator.get_params():
            estimator.set_params(random_state=int(rng.integers(2**31)))
        if hasattr(estimator, "partial_fit"):
            classes = np.arange(examples.schema.classes)
            for _ in range(effort):
                order = rng.permutation(len(inputs))
                with _refusals(estimator):
                    estimator.partial_fit(inputs[order], examples.y[order], classes=classes)
        else:
            self._fit_whole(estimator, inputs, examples, effort, go_on=start is not None)
        erase_statistics(estimator)
        return SklearnModel(estimator, encoder, examples.schema, self, total_effort(effort, start))

    def _fit_whole(self, estimator: Any, inputs: Any, examples: Examples, effort: int, *, go_on: bool) -> None:
        present = len(np.unique(examples.y))
        if present < examples.schema.classes:
            raise DataError(
                f"{present} of {examples.schema.classes} classes occur in {len(examples.y)} records, and "
                f"{type(estimator).__name__} needs them all: keep more records, or use an estimator with partial_fit"
            )
        if self._budget:
            before = _before(estimator, self._budget) if go_on else 0
            estimator.set_params(**{self._budget: before + effort})
        if "warm_start" in estimator.get_params():
            estimator.set_params(warm_start=go_on)
        with warnings.catch_warnings(), _refusals(estimator):
            # A budget is a budget: stopping before convergence is what was asked for.
            warnings.simplefilter("ignore", ConvergenceWarning)
            estimator.fit(inputs, examples.y)

    def save(self, model: Model, path: str | Path) -> None:
        """Write the estimator with skops, which stores no code."""
        mine = own(model, SklearnModel)
        about = {"encoder": mine.encoder.to_json(), "effort": mine.effort}
        write_model(path, _FORMAT, mine.schema, skops.io.dumps(mine.estimator), **about)

    def load(self, path: str | Path) -> SklearnModel:
        """Read an estimator back; types that are not trusted are refused before anything is built."""
        file = read_model(path, _FORMAT)
        encoder = file.encoder()
        try:
            estimator = skops.io.loads(file.payload, trusted=list(self.trusted))
        except UntrustedTypesFoundException as error:
            raise ModelFileError(
                f"{path}: {error}; if you trust them, name them in SklearnLearner(trusted=…), or in Manager(trusted=…)"
            ) from error
        return SklearnModel(estimator, encoder, file.schema, self, file.effort)


def _before(estimator: Any, budget: str) -> int:
    """Return what the budget of a fitted estimator already counts: a total of trees, but iterations from nothing."""
    if budget == "n_estimators":
        return int(getattr(estimator, "n_estimators_", estimator.n_estimators))
    # Histogram gradient boosting calls its trees iterations.
    return int(estimator.n_iter_) if hasattr(estimator, "n_trees_per_iteration_") else 0


@contextmanager
def _refusals(estimator: Any) -> Iterator[None]:
    """Turn the estimator's own complaint about its inputs into one that names it and the remedy."""
    try:
        yield
    except ValueError as error:
        raise DataError(
            f"{type(estimator).__name__} cannot be fitted to these records ({error}): numbers reach it scaled, "
            "categories as zeros and ones; use settings or an estimator that take them, such as SGDClassifier"
        ) from error
