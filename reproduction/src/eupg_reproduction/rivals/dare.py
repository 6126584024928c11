"""DaRE: a random forest from which records can be deleted exactly (Brophy and Lowd, ICML 2021).

Written from the paper. As there: every tree sees all records; the upper layers split at random, the lower ones take the
best of a few random thresholds of a few random columns by Gini's index; all counts are kept, and a deletion builds
again only the parts whose best split changes. Two differences make deletion repeat training bit for bit, where the
paper's is equal in distribution. Thresholds are values of the column rather than middles between two of them with
different labels. And each draw is the lowest of keyed hashes (:mod:`eupg_reproduction.rivals.dare_kernel`), which a
record's absence does not change.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Categorical, Numeric, Ordinal
from eupg.data.dataset import Dataset, Matrix, RecordId
from eupg.data.ids import IdSet
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.errors import NothingRetained, ParameterError
from eupg.forget.released import Released
from eupg.forget.storage import Storage
from eupg.forget.unlearner import Trained, check_same_table, check_start, ids_with, ids_without, kept_ids
from eupg.guarantees import Exact
from eupg.guarantees.guarantee import assuming
from eupg.guarantees.wording import REQUESTS_APART
from eupg.learn.learner import check_settings
from eupg.rng import Randomness
from eupg_reproduction.rivals.dare_kernel import Ints, Shape, Tree, add_predictions, build, delete, ordered


@dataclass(frozen=True, eq=False)
class DaREModel:
    """What is served: the splits of each tree, and the share of the second class at each node."""

    schema: Schema
    trees: tuple[tuple[NDArray[np.generic], ...], ...]

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the mean of the leaves' shares."""
        rows, total = encoded(self.schema, X), np.zeros(len(X))
        for tree in self.trees:
            feature, threshold, left, right, share = tree
            add_predictions(feature, threshold, left, right, share, rows, total)
        second = total / len(self.trees)
        return np.column_stack([1 - second, second])


@dataclass(eq=False)
class Forest:
    """The memory of :class:`DaRE`: the records, as numbers, and the trees with all their counts."""

    X: Ints
    y: Ints
    rows: dict[RecordId, int]
    keys: NDArray[np.uint64]
    shape: Shape
    trees: list[Tree]
    rebuilt: int = 0

    def copy(self) -> Forest:
        """Return a forest that changes on its own."""
        trees = [Tree._make(array.copy() for array in tree) for tree in self.trees]
        return Forest(self.X.copy(), self.y.copy(), dict(self.rows), self.keys, self.shape, trees)

    def delete(self, names: Set[RecordId]) -> None:
        """Delete records, and overwrite their values."""
        leaving = np.array([self.rows.pop(name) for name in names], dtype=np.int32)
        gone = np.zeros(len(self.X), dtype=np.bool_)
        gone[leaving] = True
        for i, tree in enumerate(self.trees):
            self.trees[i], rebuilt = delete(tree, self.X, self.y, leaving.copy(), gone, self.shape)
            self.rebuilt += int(rebuilt)
        self.X[leaving], self.y[leaving] = 0, 0

    def served(self, schema: Schema) -> DaREModel:
        """Return a model to serve, which later deletions do not change."""
        parts = []
        for tree in self.trees:
            nodes = int(tree.used[0])
            count, positive = tree.records[:nodes], tree.positive[:nodes]
            share = np.where(count > 0, positive / np.maximum(count, 1), 0.5)
            splits = (tree.feature, tree.threshold, tree.left, tree.right)
            parts.append((*(array[:nodes].copy() for array in splits), share))
        return DaREModel(schema, tuple(parts))

    def storage(self) -> Storage:
        """Return the size of all arrays; records are kept at the leaves, so they count."""
        size = self.X.nbytes + self.y.nbytes
        for tree in self.trees:
            nodes, candidates = tree.used.tolist()
            size += nodes * 4 * 10 + nodes * 8 + candidates * 4 * 5 + tree.order.nbytes
        return Storage(1, size)


@dataclass(frozen=True)
class DaRE:
    """A random forest that deletes records exactly; two classes.

    Parameters
    ----------
    trees
        Number of trees.
    depth
        The most layers of splits.
    random_layers
        How many upper layers split at random.
    thresholds
        Thresholds per column among which a greedy split chooses.
    in_place
        Whether an erasure changes the forest instead of a copy. It is then as fast as a deployed forest, and the
        earlier state can no longer be used, except for its model.

    Examples
    --------
    >>> from eupg import Seeded, sources
    >>> data = sources.rand_hie().train
    >>> few = data.select(np.arange(len(data)) < 500)
    >>> method = DaRE(trees=5, depth=6)
    >>> trained = method.train(few, Seeded(1))
    >>> after = method.erase(trained, few.select(np.arange(500) < 20))
    >>> never_there = method.train(few.select(np.arange(500) >= 20), Seeded(1))
    >>> bool((after.model.predict_proba(few.X) == never_there.model.predict_proba(few.X)).all())
    True
    """

    subtracts = True
    trees: int = 50
    depth: int = 12
    random_layers: int = 0
    thresholds: int = 10
    in_place: bool = False

    def __post_init__(self) -> None:
        whole = {"trees": 1, "depth": 1, "random_layers": 0, "thresholds": 1}
        check_settings(self, whole=whole, positive=(), not_negative=())

    def train(self, data: Dataset, rng: Randomness) -> Trained:
        """Build all trees."""
        check_start(data, rng)
        if data.schema.classes != 2:
            raise ParameterError(f"DaRE is for two classes, got {data.schema.classes}: use another method")
        keys = rng.stage("pretrain").generator().integers(0, 2**63, self.trees, dtype=np.uint64)
        return self._built(keys, encoded(data.schema, data.X), data.y.astype(np.int32), data.ids.tolist(), data.schema)

    def forget(self, trained: Trained, retained: Dataset, rng: Randomness) -> Trained:
        """Delete every record that is not retained."""
        kept = kept_ids(trained, retained)
        return trained if trained.ids <= kept else self._without(trained, trained.ids - kept, IdSet(kept))

    def erase(self, trained: Trained, rows: Dataset) -> Trained:
        """Delete these records."""
        return self._without(trained, rows.id_set, ids_without(trained, rows))

    def add(self, trained: Trained, rows: Dataset) -> Trained:
        """Build all trees again, with new records; the paper has no faster way."""
        ids_with(trained, rows)
        forest = _forest(trained)
        places = np.array(list(forest.rows.values()), dtype=np.int64)
        X = np.vstack([forest.X[places], encoded(rows.schema, rows.X)])
        y = np.concatenate([forest.y[places], rows.y.astype(np.int32)])
        return self._built(forest.keys, X, y, [*forest.rows, *rows.ids.tolist()], trained.schema)

    def update(self, trained: Trained, data: Dataset, rng: Randomness) -> Trained:
        """Build all trees again, with the same draws."""
        check_start(data, rng)
        check_same_table(trained, data)
        X, y = encoded(data.schema, data.X), data.y.astype(np.int32)
        return self._built(_forest(trained).keys, X, y, data.ids.tolist(), data.schema)

    def _built(self, keys: NDArray[np.uint64], X: Ints, y: Ints, names: list[str], schema: Schema) -> Trained:
        low, high = _bounds(schema)
        few = max(1, int(np.sqrt(X.shape[1])))
        shape = Shape(self.depth, self.random_layers, self.thresholds, few, low, high)
        trees = [build(X, y, key, shape) for key in keys]
        forest = Forest(X, y, {name: i for i, name in enumerate(names)}, keys, shape, trees)
        return _trained(forest, schema, IdSet(frozenset(names)))

    def _without(self, trained: Trained, leaving: Set[RecordId], ids: Set[RecordId]) -> Trained:
        if not ids:
            raise NothingRetained("no record is left to train on: keep at least one, or retire the model")
        forest = _forest(trained) if self.in_place else _forest(trained).copy()
        forest.delete(leaving)
        return _trained(forest, trained.schema, ids)


def encoded(schema: Schema, X: Matrix) -> Ints:
    """Return numbers as they are and one column per category, as whole numbers in the order of the values."""
    columns = []
    for j, attribute in enumerate(schema.features):
        if isinstance(attribute, Categorical):
            columns.append((X[:, j : j + 1] == np.arange(len(attribute.categories))).astype(np.float32))
        else:
            columns.append(np.nan_to_num(X[:, j : j + 1], nan=-np.inf))
    return np.ascontiguousarray(ordered(np.hstack(columns)))


def _bounds(schema: Schema) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    ends: list[tuple[float, float]] = []
    for attribute in schema.features:
        if isinstance(attribute, Categorical):
            ends += [(0.0, 1.0)] * len(attribute.categories)
        elif isinstance(attribute, Numeric):
            ends.append((attribute.lower, attribute.upper))
        elif isinstance(attribute, Ordinal):
            ends.append((0.0, float(attribute.points - 1)))
        else:
            raise ParameterError(f"DaRE reads numbers and categories, got {attribute.kind} {attribute.name!r}")
    low, high = np.array(ends, dtype=np.float64).T
    return np.ascontiguousarray(low), np.ascontiguousarray(high)


def _trained(forest: Forest, schema: Schema, ids: Set[RecordId]) -> Trained:
    # The draws stay: whoever chooses requests by looking at the model chooses with knowledge of them.
    claim = assuming(Exact(caveats=schema.caveats), REQUESTS_APART, needed=True)
    return Trained(forest.served(schema), schema, ids, ids, Released(), claim, forest)


def _forest(trained: Trained) -> Forest:
    if not isinstance(trained.memory, Forest):
        raise ParameterError("this model was not trained by DaRE: forget with the method that trained it")
    return trained.memory
