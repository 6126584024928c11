"""scikit-learn estimators: any classifier with ``partial_fit`` or ``warm_start``."""

from __future__ import annotations

import copy
import warnings
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
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.errors import DataError, ModelFileError, ParameterError
from eupg.learn.envelope import read_model, write_model
from eupg.learn.learner import Model, check_fit, total_effort

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
    on from a model.

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
    def _budget(self) -> str | None:
        known = self.estimator.get_params()
        return next((name for name in ("n_estimators", "max_iter") if name in known), None)

    def fit(
        self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model | None = None
    ) -> SklearnModel:
        """Fit for ``effort`` epochs, iterations or trees."""
        check_fit(examples, effort)
        if start is not None and not self.warm_starts:
            raise ParameterError(f"{type(self.estimator).__name__} cannot go on from a model: use one that can")
        encoder = Encoder.fit(examples, start=_own(start).encoder if start is not None else None)
        inputs = encoder(examples.X)
        estimator = clone(self.estimator) if start is None else copy.deepcopy(_own(start).estimator)
        if "random_state" in estimator.get_params():
            estimator.set_params(random_state=int(rng.integers(2**31)))
        if hasattr(estimator, "partial_fit"):
            for _ in range(effort):
                order = rng.permutation(len(inputs))
                estimator.partial_fit(inputs[order], examples.y[order], classes=np.arange(examples.schema.classes))
        else:
            self._fit_whole(estimator, inputs, examples, effort, go_on=start is not None)
        return SklearnModel(estimator, encoder, examples.schema, self, total_effort(effort, start))

    def _fit_whole(self, estimator: Any, inputs: Any, examples: Examples, effort: int, *, go_on: bool) -> None:
        present = len(np.unique(examples.y))
        if present < examples.schema.classes:
            raise DataError(
                f"{present} of {examples.schema.classes} classes occur in {len(examples.y)} records, and "
                f"{type(estimator).__name__} needs them all: keep more records, or use an estimator with partial_fit"
            )
        if self._budget:
            grown = estimator.get_params()[self._budget] if go_on and self._budget == "n_estimators" else 0
            estimator.set_params(**{self._budget: grown + effort})
        if "warm_start" in estimator.get_params():
            estimator.set_params(warm_start=go_on)
        with warnings.catch_warnings():
            # A budget is a budget: stopping before convergence is what was asked for.
            warnings.simplefilter("ignore", ConvergenceWarning)
            estimator.fit(inputs, examples.y)

    def save(self, model: Model, path: Path) -> None:
        """Write the estimator with skops, which stores no code."""
        own = _own(model)
        about = {"encoder": own.encoder.to_json(), "effort": own.effort}
        write_model(path, _FORMAT, own.schema, skops.io.dumps(own.estimator), **about)

    def load(self, path: Path) -> SklearnModel:
        """Read an estimator back; types that are not trusted are refused before anything is built."""
        schema, about, payload = read_model(path, _FORMAT)
        try:
            estimator = skops.io.loads(payload, trusted=list(self.trusted))
        except UntrustedTypesFoundException as error:
            raise ModelFileError(
                f"{path}: {error}; if you trust them, name them in SklearnLearner(trusted=…)"
            ) from error
        encoder = Encoder.from_json(schema.features, about["encoder"])
        return SklearnModel(estimator, encoder, schema, self, about["effort"])


def _own(model: Model) -> SklearnModel:
    if not isinstance(model, SklearnModel):
        raise ParameterError(
            f"expected a model of SklearnLearner, got {type(model).__name__}: use one learner throughout"
        )
    return model
