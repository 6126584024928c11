"""scikit-learn estimators: any classifier with ``partial_fit`` or ``warm_start``.

What an estimator notes about its examples and does not need to predict is erased. Counts in two versions of a model,
one from before and one from after a person left, would tell which way that person went at each split. What it predicts
with stays: the means of naive Bayes and the class shares from which scikit-learn's boosting starts are exact statistics
of the examples; nearest neighbours keep the examples themselves.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier

from eupg.data.dataset import Examples, Matrix
from eupg.data.encode import Encoder
from eupg.data.kind import Accepts, DataKind, check_kind
from eupg.data.rows import as_matrix
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.errors import DataError, ModelFileError, ParameterError
from eupg.learn.envelope import read_model, write_model
from eupg.learn.learner import Model, check_fit, own, own_start, total_effort
from eupg.learn.skops_import import skops_io

_FORMAT = "eupg-sklearn-1"
# scikit-learn's own types inside trees and neighbours. skops trusts only estimators, but these too are built from plain
# arrays and run no code. Like the parsers of XGBoost and LightGBM, they expect that the arrays belong together.
_TRUSTED = (
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.neighbors._ball_tree.BallTree",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.tree._tree.Tree",
)


@dataclass(frozen=True, eq=False)
class SklearnModel:
    """A fitted estimator, the encoder it was fitted with, and how it was made."""

    estimator: Any
    encoder: Encoder
    schema: Schema
    learner: SklearnLearner
    effort: int

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the estimator's probabilities, with one column per class of the schema."""
        X = as_matrix(self.schema, X)
        out = np.zeros((len(X), self.schema.classes))
        if len(X):
            inputs = self.encoder(X)
            if hasattr(self.estimator, "coef_"):
                # Sums of large terms in single precision would differ between machines, and from an exported copy.
                inputs = inputs.astype(np.float64)
            chances = np.asarray(self.estimator.predict_proba(inputs), dtype=np.float64)
            out[:, np.asarray(self.estimator.classes_, dtype=np.int64)] = chances
            out /= out.sum(axis=1, keepdims=True)
        return out


@dataclass(frozen=True)
class SklearnLearner:
    """Fit a scikit-learn classifier; effort counts epochs, iterations or trees, whichever the estimator knows.

    An estimator with ``partial_fit`` passes over the shuffled examples ``effort`` times. One with ``warm_start`` gets
    ``effort`` more trees (``n_estimators``) or iterations (``max_iter``). Others can be retrained, but cannot continue
    from a model. Inputs are scaled numbers and one-hot categories, so the estimator must accept negative numbers.

    Histogram gradient boosting works, but bins the examples of each step anew and reads its earlier trees in the new
    bins: scikit-learn intends its warm start for the same data. Prefer ``XGBoostLearner`` for trees.

    Parameters
    ----------
    estimator
        An unfitted classifier with ``predict_proba``; it is cloned, never changed.
    trusted
        Further type names that a saved model of this learner may hold, besides those of common estimators. An
        estimator that needs other types is refused, as its models could not be loaded.
    """

    accepts: ClassVar[Accepts] = Accepts(DataKind.TABLE, instead="TorchLearner(ResNet18())")
    estimator: Any = field(default_factory=lambda: SGDClassifier(loss="log_loss", alpha=1e-4))
    trusted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.estimator, BaseEstimator) or not hasattr(self.estimator, "predict_proba"):
            raise ParameterError(
                f"expected an unfitted scikit-learn classifier with predict_proba, got {self.estimator!r}"
            )
        untrusted = [name for name in self._types_outside_skops() if name not in (*_TRUSTED, *self.trusted)]
        if untrusted:
            raise ParameterError(
                f"a saved {type(self.estimator).__name__} holds {', '.join(untrusted)}, which is loaded only if you "
                f"trust it: pass SklearnLearner(…, trusted={tuple(untrusted)!r}), or Manager(trusted=…) to open a "
                "workspace"
            )

    def _types_outside_skops(self) -> list[str]:
        """Fit a clone to a few made-up rows and return the types in its file that skops does not trust.

        Settings that do not fit so few rows are not checked here; ``load`` refuses their files.
        """
        probe = clone(self.estimator)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if self._budget:
                    probe.set_params(**{self._budget: 1})
                probe.fit(_PROBE_ROWS, _PROBE_LABELS)
            erase_statistics(probe)
            types: list[str] = skops_io.get_untrusted_types(data=skops_io.dumps(probe))
        except Exception:
            return []
        return types

    @property
    def warm_starts(self) -> bool:
        """Whether the estimator can continue from a fitted one."""
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
        """The parameter that sets the estimator's effort."""
        known = self.estimator.get_params()
        return next((name for name in ("n_estimators", "max_iter") if name in known), None)

    def fit(
        self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model | None = None
    ) -> SklearnModel:
        """Fit for ``effort`` epochs, iterations or trees."""
        check_fit(examples, effort)
        check_kind(examples.schema, self)
        if start is not None and not self.warm_starts:
            raise ParameterError(f"{type(self.estimator).__name__} cannot continue from a model: use one that can")
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
                with _explained(estimator):
                    estimator.partial_fit(inputs[order], examples.y[order], classes=classes)
        else:
            self._fit_whole(estimator, inputs, examples, effort, continues=start is not None)
        erase_statistics(estimator)
        return SklearnModel(estimator, encoder, examples.schema, self, total_effort(effort, start))

    def _fit_whole(self, estimator: Any, inputs: Any, examples: Examples, effort: int, *, continues: bool) -> None:
        present = len(np.unique(examples.y))
        if present < examples.schema.classes:
            raise DataError(
                f"{present} of {examples.schema.classes} classes occur in {len(examples.y)} records, and "
                f"{type(estimator).__name__} needs them all: keep more records, or use an estimator with partial_fit"
            )
        if self._budget:
            before = _effort_before(estimator, self._budget) if continues else 0
            estimator.set_params(**{self._budget: before + effort})
        if "warm_start" in estimator.get_params():
            estimator.set_params(warm_start=continues)
        with warnings.catch_warnings(), _explained(estimator):
            # Stopping before convergence is what a limited effort asks for.
            warnings.simplefilter("ignore", ConvergenceWarning)
            estimator.fit(inputs, examples.y)

    def save(self, model: Model, path: str | Path) -> None:
        """Write the estimator with skops, which stores no code."""
        mine = own(model, SklearnModel)
        payload: bytes = skops_io.dumps(mine.estimator)
        write_model(path, _FORMAT, mine.schema, payload, effort=mine.effort, encoder=mine.encoder.to_json())

    def load(self, path: str | Path) -> SklearnModel:
        """Read an estimator back; untrusted types are refused before any object is built."""
        file = read_model(path, _FORMAT)
        encoder = file.encoder()
        try:
            estimator = skops_io.loads(file.payload, trusted=[*_TRUSTED, *self.trusted])
        except skops_io.exceptions.UntrustedTypesFoundException as error:
            raise ModelFileError(
                f"{path}: {error}; if you trust them, name them in SklearnLearner(trusted=…), or in Manager(trusted=…)"
            ) from error
        return SklearnModel(estimator, encoder, file.schema, self, file.effort)


_PROBE_ROWS = np.linspace(-1.0, 1.0, 40, dtype=np.float32).reshape(20, 2)
_PROBE_LABELS = np.arange(20) % 2


def _effort_before(estimator: Any, budget: str) -> int:
    """Return what the budget of a fitted estimator already counts: the total of trees; iterations start at zero."""
    if budget == "n_estimators":
        return int(getattr(estimator, "n_estimators_", estimator.n_estimators))
    # Histogram gradient boosting calls its trees iterations.
    return int(estimator.n_iter_) if hasattr(estimator, "n_trees_per_iteration_") else 0


@contextmanager
def _explained(estimator: Any) -> Iterator[None]:
    """Turn an estimator's own complaint about its inputs into one that names it and the remedy."""
    try:
        yield
    except ValueError as error:
        raise DataError(
            f"{type(estimator).__name__} cannot be fitted to these records ({error}): numbers reach it scaled, "
            "categories as zeros and ones; use settings or an estimator that take them, such as SGDClassifier"
        ) from error


def _coarse(value: Any) -> Any:
    """Round a number of examples to a power of two: further training sets its step size by it."""
    return type(value)(2 ** round(np.log2(value))) if value > 0 else value


def _zeros(value: Any) -> Any:
    return None if value is None else np.zeros_like(value)[()]


# What replaces each attribute; attributes that further training reads keep their kind.
_ERASED: dict[str, Callable[[Any], Any]] = {
    "t_": _coarse,
    "best_loss_": lambda value: None if value is None else np.inf,
    "best_validation_score_": lambda value: None if value is None else -np.inf,
    "loss_curve_": lambda value: value[:0],
    "validation_scores_": lambda value: None if value is None else value[:0],
    **dict.fromkeys(
        ("estimator_errors_", "loss_", "oob_improvement_", "oob_scores_", "train_score_", "validation_score_"), _zeros
    ),
}
# Attributes that nothing reads again: numbers and weights of examples, scores of single ones, an optimiser's moments.
_DROPPED = (
    "_n_samples",
    "_n_samples_bootstrap",
    "_optimizer",
    "_sample_weight",
    "oob_decision_function_",
    "oob_score_",
)


def erase_statistics(estimator: Any) -> None:
    """Erase counts, losses and gains from an estimator and all inside it; its predictions do not change."""
    for part in _parts(estimator):
        for name in _DROPPED:
            part.__dict__.pop(name, None)
        for name, erased in _ERASED.items():
            if name in part.__dict__:
                setattr(part, name, erased(getattr(part, name)))
        if hasattr(part, "tree_"):
            for name in ("impurity", "n_node_samples", "weighted_n_node_samples"):
                getattr(part.tree_, name)[:] = 0
            part.tree_.value[part.tree_.children_left != part.tree_.children_right] = 0
        # Trees of histogram gradient boosting.
        for predictor in (one for stage in part.__dict__.get("_predictors", ()) for one in stage):
            for name in ("count", "gain"):
                predictor.nodes[name] = 0
            predictor.nodes["value"][predictor.nodes["is_leaf"] == 0] = 0


def _parts(value: Any) -> Iterator[Any]:
    """Yield an estimator and all estimators inside it, each once."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, (list, tuple)) or (isinstance(one, np.ndarray) and one.dtype == object):
            waiting.extend(np.ravel(one) if isinstance(one, np.ndarray) else one)
        elif isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, BaseEstimator) and id(one) not in seen:
            seen.add(id(one))
            waiting.extend(vars(one).values())
            yield one
