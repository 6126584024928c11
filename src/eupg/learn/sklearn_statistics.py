"""Erase from fitted scikit-learn estimators what they note about their examples and do not need to predict.

Counts of two versions of a model, one before and one after somebody left, tell which way that person went at each
split. What an estimator predicts with stays, whatever it is: the means of naive Bayes and the class shares from which
scikit-learn's boosting starts are exact statistics of the examples; nearest neighbours keep the examples themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

# Fields of a tree's nodes, by scikit-learn's two kinds of trees.
_NODE_STATISTICS = ("impurity", "n_node_samples", "weighted_n_node_samples")
_HISTOGRAM_STATISTICS = ("count", "gain")


def _coarse(value: Any) -> Any:
    """Round a number of examples to a power of two: training that goes on sets its step size by it."""
    return type(value)(2 ** round(np.log2(value))) if value > 0 else value


def _zeros(value: Any) -> Any:
    return None if value is None else np.zeros_like(value)[()]


# What becomes of each attribute: those that further training reads keep their kind.
_ERASED: dict[str, Callable[[Any], Any]] = {
    "t_": _coarse,
    "best_loss_": lambda value: None if value is None else np.inf,
    "best_validation_score_": lambda value: None if value is None else -np.inf,
    "estimator_errors_": _zeros,
    "loss_": _zeros,
    "loss_curve_": lambda value: value[:0],
    "oob_improvement_": _zeros,
    "oob_scores_": _zeros,
    "train_score_": _zeros,
    "validation_score_": _zeros,
    "validation_scores_": lambda value: None if value is None else value[:0],
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
    """Erase counts, losses and gains from an estimator and those inside of it; its predictions stay as they are."""
    for part in _parts(estimator):
        for name in _DROPPED:
            part.__dict__.pop(name, None)
        for name, erased in _ERASED.items():
            if name in part.__dict__:
                setattr(part, name, erased(getattr(part, name)))
        if hasattr(part, "tree_"):
            _erase_nodes(part.tree_)
        for predictor in (one for stage in part.__dict__.get("_predictors", ()) for one in stage):
            for field in _HISTOGRAM_STATISTICS:
                predictor.nodes[field] = 0
            predictor.nodes["value"][predictor.nodes["is_leaf"] == 0] = 0


def _erase_nodes(tree: Any) -> None:
    for name in _NODE_STATISTICS:
        getattr(tree, name)[:] = 0
    tree.value[tree.children_left != tree.children_right] = 0


def _parts(value: Any) -> Iterator[Any]:
    """Yield an estimator and all that it is made of, each once."""
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
