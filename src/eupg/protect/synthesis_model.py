"""The model of a synthesis: what was asked of the records, what the noisy answers make of each other, and its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from eupg.data.dataset import Dataset, Labels, Matrix
from eupg.data.schema import Schema
from eupg.protect.cells import Cells
from eupg.protect.marginals import Counts, agree, draw, independent, positive, shrink, smooth
from eupg.protect.synthesis_budget import Budget
from eupg.protect.synthesis_features import Feature, Shape
from eupg.protect.synthesis_tree import Binned, Pair, choose_tree, measure, outward
from eupg.rng import Randomness


@dataclass(frozen=True, eq=False)
class SynthesisModel:
    """A tree-augmented naive Bayes network of noisy counts; it holds nothing that is not covered by the claim.

    Parameters
    ----------
    schema
        What the columns mean.
    features
        Those that can vary, by their position; their ``counts`` agree with each other.
    tree
        Pairs of them from the root outwards, with their counts: class, known feature, next feature.
    """

    schema: Schema
    features: Mapping[int, Feature]
    tree: list[tuple[Pair, Counts]]

    @classmethod
    def ask(cls, data: Dataset, varying: list[int], budget: Budget, total: int, rng: Randomness) -> SynthesisModel:
        """Put the questions to the records, one after the other; ``total`` is a noisy count of them."""
        shape = Shape.fitting(total, data.schema.classes, budget)
        asked = [
            Feature.ask(data.schema.features[j], data.X[:, j], data.y, shape, budget, rng.stage(f"feature {j}"))
            for j in varying
        ]
        label = _label(asked)
        codes = [f.code(data.X[:, j]) for f, j in zip(asked, varying, strict=True)]
        binned = Binned(codes, data.y, [positive(agree(f.counts, 0, label).T).T for f in asked])
        chosen = choose_tree(binned, budget, rng)
        tables = {pair: measure(binned, pair, budget, rng.stage(f"pair {pair}")) for pair in chosen}
        features = [_settled(at, f, tables, budget, label) for at, f in enumerate(asked)]
        tree = []
        for known, following in outward(chosen):
            table = tables.get((known, following))
            table = tables[following, known].transpose(0, 2, 1) if table is None else table
            settled = _settled_pair(table, features[known].counts.T, features[following].counts.T, budget)
            tree.append(((varying[known], varying[following]), settled))
        return cls(data.schema, dict(zip(varying, features, strict=True)), tree)

    def draw(self, rows: int, numbers: np.random.Generator) -> tuple[Matrix, Labels]:
        """Draw rows: the class, the root given the class, every other feature given both."""
        root = self.tree[0][0][0] if self.tree else next(iter(self.features))
        y = draw(self.features[root].counts.sum(axis=0)[None, :], np.zeros(rows, dtype=np.int64), numbers)
        drawn = {root: draw(self.features[root].counts.T, y, numbers)}
        for (known, following), table in self.tree:
            drawn[following] = draw(table.reshape(-1, table.shape[2]), y * table.shape[1] + drawn[known], numbers)
        X = np.empty((rows, len(self.schema.features)))
        for j, attribute in enumerate(self.schema.features):
            if j in self.features:
                X[:, j] = self.features[j].draw(drawn[j], numbers)
            else:
                X[:, j] = Cells.of(attribute, 2).draw(np.zeros(rows, dtype=np.int64), numbers)
        return X, y


def _label(features: list[Feature]) -> Counts:
    """Return the counts of the classes: each feature gives them once, weighed by how little noise it adds."""
    weights = np.array([1 / f.variance.sum() for f in features])
    sums = np.array([f.counts.sum(axis=0) for f in features])
    return np.asarray(np.maximum(weights @ sums / weights.sum(), 1.0))


def _settled(at: int, feature: Feature, tables: Mapping[Pair, Counts], budget: Budget, label: Counts) -> Feature:
    """Return a feature with counts from all tables that hold it, less the noise that can be told from them."""
    weight = 1 / feature.variance
    total = feature.counts * weight
    for (first, second), table in tables.items():
        if at in (first, second):
            other = 2 if at == first else 1
            more = 1 / (table.shape[other] * budget.pair.spread**2)
            total, weight = total + more * table.sum(axis=other).T, weight + more
    counts = agree(total / weight, 0, label).T
    mass = positive(counts.sum(axis=0))
    expected = np.outer(label, mass / mass.sum())
    apart = smooth(counts - expected, float((1 / weight).mean()), ordered=feature.cells.ordered)
    return replace(feature, counts=positive(expected + apart).T)


def _settled_pair(table: Counts, first: Counts, second: Counts, budget: Budget) -> Counts:
    """Return a pair's counts: in agreement with its features, and independent where noise would explain the rest."""
    expected = independent(first, second)
    apart = agree(agree(table, 2, first), 1, second) - expected
    return positive(expected + shrink(apart, budget.pair.spread**2))
