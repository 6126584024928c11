"""Ensembles of scikit-learn as trees that read the schema's coding.

Their own trees read scaled numbers and one-hot categories. A graph that scaled numbers with another library's logarithm
could send a number right at a threshold to the other side. So each threshold is carried back to the column: the largest
value that the encoder puts on its lower side becomes the number that the column is compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Attribute, Categorical, Missing, Numeric, Ordinal
from eupg.data.encode import Encoder
from eupg.manage.integrations.export.trees import LARGEST, Branch, Forest, Leaf, Node

_AVERAGED = ("RandomForestClassifier", "ExtraTreesClassifier")
_SINGLE = ("DecisionTreeClassifier", "ExtraTreeClassifier")
_SIGN = np.int64(np.iinfo(np.int64).min)


@dataclass(frozen=True)
class SklearnForest:
    """Trees of an estimator, and what their sums are.

    Parameters
    ----------
    forest
        The trees.
    averaged
        Whether the sums are probabilities already. Otherwise they are margins.
    scale
        The factor of margins before they become probabilities.
    """

    forest: Forest
    averaged: bool = False
    scale: float = 1.0


@dataclass(frozen=True, eq=False)
class _Grown:
    """A tree as scikit-learn keeps it: for each node its children (the same twice for a leaf), input and threshold."""

    left: NDArray[Any]
    right: NDArray[Any]
    inputs: NDArray[Any]
    thresholds: NDArray[Any]
    leaf: Callable[[int], Leaf]

    @property
    def questions(self) -> Iterator[tuple[int, float]]:
        inner = np.flatnonzero(self.left != self.right)
        yield from zip(self.inputs[inner].tolist(), self.thresholds[inner].astype(np.float64).tolist(), strict=True)


def sklearn_forest_of(model: Any) -> SklearnForest | None:
    """Return the trees of a forest, of extra trees, of a single tree or of gradient boosting; None for anything else.

    Gradient boosting that starts from a model of its own, or that reads categories by number, is not such a sum.
    """
    estimator: Any = getattr(model, "estimator", None)
    kind, of = type(estimator).__name__, type(estimator).__module__.split(".")[0]
    if of != "sklearn":
        return None
    if kind in _AVERAGED or kind in _SINGLE:
        trees = estimator.estimators_ if kind in _AVERAGED else [estimator]
        grown = [_averaged(tree.tree_, 1 / len(trees)) for tree in trees]
        return SklearnForest(_planted(model, grown, (0.0,) * len(estimator.classes_)), averaged=True)
    if kind == "GradientBoostingClassifier":
        return _of_boosting(model)
    return _of_histograms(model) if kind == "HistGradientBoostingClassifier" else None


def _averaged(tree: Any, share: float) -> _Grown:
    def leaf(node: int) -> Leaf:
        return Leaf(tuple(enumerate((share * tree.value[node, 0]).tolist())))

    return _Grown(tree.children_left, tree.children_right, tree.feature, tree.threshold, leaf)


def _of_boosting(model: Any) -> SklearnForest | None:
    estimator = model.estimator
    if type(estimator.init_).__name__ != "DummyClassifier" and not isinstance(estimator.init_, str):
        return None
    start = estimator._raw_predict_init(np.zeros((1, estimator.n_features_in_), dtype=np.float32))[0]
    rate = float(estimator.learning_rate)
    grown = [_boosted(t.tree_, margin, rate) for stage in estimator.estimators_ for margin, t in enumerate(stage)]
    # The margin of the exponential loss is half of the logarithm of the odds.
    scale = 2.0 if estimator.loss == "exponential" else 1.0
    return SklearnForest(_planted(model, grown, tuple(start.tolist())), scale=scale)


def _boosted(tree: Any, margin: int, rate: float) -> _Grown:
    def leaf(node: int) -> Leaf:
        return Leaf(((margin, rate * float(tree.value[node, 0, 0])),))

    return _Grown(tree.children_left, tree.children_right, tree.feature, tree.threshold, leaf)


def _of_histograms(model: Any) -> SklearnForest | None:
    stages = model.estimator._predictors
    if any(one.nodes["is_categorical"].any() for stage in stages for one in stage):
        return None
    grown = [_binned(one.nodes, margin) for stage in stages for margin, one in enumerate(stage)]
    return SklearnForest(_planted(model, grown, tuple(np.ravel(model.estimator._baseline_prediction).tolist())))


def _binned(nodes: Any, margin: int) -> _Grown:
    def leaf(node: int) -> Leaf:
        return Leaf(((margin, float(nodes["value"][node])),))

    inner = nodes["is_leaf"] == 0
    left, right = (np.where(inner, nodes[side].astype(np.int64), -1) for side in ("left", "right"))
    return _Grown(left, right, nodes["feature_idx"], nodes["num_threshold"], leaf)


@dataclass(frozen=True)
class _Input:
    """What an estimator's input is: a scaled column, whether it has one category, or whether it is missing."""

    column: int
    category: int | None = None
    missing: bool = False


def _planted(model: Any, grown: list[_Grown], start: tuple[float, ...]) -> Forest:
    """Return the trees with questions about columns."""
    encoder = model.encoder
    inputs = list(_inputs(encoder))
    asked: dict[int, set[float]] = {}
    for tree in grown:
        for number, threshold in tree.questions:
            asked.setdefault(number, set()).add(threshold)
    cuts = {
        number: _cuts(encoder, inputs[number].column, number, sorted(thresholds))
        for number, thresholds in asked.items()
        if inputs[number].category is None and not inputs[number].missing
    }
    return Forest(tuple(_tree(tree, 0, inputs, encoder.features, cuts) for tree in grown), start)


def _inputs(encoder: Encoder) -> Iterator[_Input]:
    for column, attribute in enumerate(encoder.features):
        if isinstance(attribute, Categorical):
            yield from (_Input(column, category=code) for code in range(len(attribute.categories)))
        else:
            yield _Input(column)
        if attribute.missing is Missing.KEEP:
            yield _Input(column, missing=True)


def _tree(
    tree: _Grown,
    node: int,
    inputs: list[_Input],
    features: tuple[Attribute, ...],
    cuts: Mapping[int, Mapping[float, float]],
) -> Node:
    if tree.left[node] == tree.right[node]:
        return tree.leaf(node)
    yes, no = (_tree(tree, int(side[node]), inputs, features, cuts) for side in (tree.left, tree.right))
    number, threshold = int(tree.inputs[node]), float(tree.thresholds[node])
    about, column = inputs[number], inputs[number].column
    zero, one = threshold >= 0, threshold >= 1
    if about.missing:
        # 1 for a missing value, 0 for any other.
        return Branch(column, LARGEST if zero else -LARGEST, yes, no, one, reached=True)
    if about.category is None:
        # A missing value is read as 0.
        return Branch(column, cuts[number][threshold], yes, no, zero, reached=True)
    attribute = features[column]
    assert isinstance(attribute, Categorical)
    codes = range(len(attribute.categories))
    return Branch(column, frozenset(c for c in codes if (one if c == about.category else zero)), yes, no, zero)


def _cuts(encoder: Encoder, column: int, number: int, thresholds: list[float]) -> dict[float, float]:
    """Return for each threshold of an input the largest value of its column that does not exceed it, by bisection."""
    attribute, limits = encoder.features[column], np.array(thresholds)
    assert isinstance(attribute, Numeric | Ordinal)
    lower, upper = (
        (attribute.lower, attribute.upper)
        if isinstance(attribute, Numeric)
        else (0.0, float(len(attribute.categories) - 1))
    )

    def passes(values: NDArray[np.float64]) -> NDArray[np.bool_]:
        X = np.full((len(values), len(encoder.features)), np.nan)
        X[:, column] = values
        return np.asarray(encoder(X)[:, number].astype(np.float64) <= limits)

    # The order of whole numbers that have the same bits: between two of them lies no further value.
    low, high = (_ordered(np.full(len(limits), bound)) for bound in (lower, upper))
    none, every = ~passes(_value(low)), passes(_value(high))
    while (high - low > 1).any():
        middle = low + (high - low) // 2
        passed = passes(_value(middle))
        low, high = np.where(passed, middle, low), np.where(passed, high, middle)
    cuts = np.where(every, LARGEST, np.where(none, -LARGEST, _value(low)))
    return dict(zip(thresholds, cuts.tolist(), strict=True))


def _ordered(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return whole numbers in the order of these values, one step for each value of double precision."""
    bits = (values + 0.0).view(np.int64)
    return np.where(bits >= 0, bits, _SIGN - bits)


def _value(order: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(order >= 0, order, _SIGN - order).view(np.float64)
