"""The model of a synthesis: it asks its questions, makes the noisy answers agree with each other, and draws rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from eupg.data.dataset import Dataset, Labels, Matrix
from eupg.data.schema import Schema
from eupg.protect.cells import Cells
from eupg.protect.synthesis.budget import Budget
from eupg.protect.synthesis.marginals import Counts, agree, draw, independent, positive, shrink, smooth
from eupg.protect.synthesis.questions import (
    Binned,
    ColumnCounts,
    Feature,
    Pair,
    PairCounts,
    Shape,
    choose_tree,
    column_counts,
    measure,
)
from eupg.rng import Randomness


class Countable(Protocol):
    """Records that a synthesis can ask, in memory or in files."""

    @property
    def schema(self) -> Schema:
        """What the columns mean."""

    def column(self, number: int) -> ColumnCounts:
        """Return what counts the records by one feature."""

    def pairs(self, features: Mapping[int, Feature], singles: list[Counts]) -> PairCounts:
        """Return what counts the records by two of these features, which are numbered in their order."""


@dataclass(frozen=True, eq=False)
class CountableTable:
    """Records in memory."""

    data: Dataset

    @property
    def schema(self) -> Schema:
        """What the columns mean."""
        return self.data.schema

    def column(self, number: int) -> ColumnCounts:
        """Return what counts the records by one feature."""
        return partial(column_counts, self.data.X[:, number], self.data.y)

    def pairs(self, features: Mapping[int, Feature], singles: list[Counts]) -> Binned:
        """Return the bins of all records."""
        return Binned([f.code(self.data.X[:, j]) for j, f in features.items()], self.data.y, singles)


@dataclass(frozen=True, eq=False)
class SynthesisModel:
    """A tree-augmented naive Bayes network of noisy counts; the claim covers all that it holds.

    Parameters
    ----------
    schema, features
        The schema, and the features that can vary by their position; their ``counts`` agree with each other.
    tree
        Pairs of features from the root outwards, with their counts: class, known feature, next feature.
    """

    schema: Schema
    features: Mapping[int, Feature]
    tree: list[tuple[Pair, Counts]]

    @classmethod
    def ask(cls, records: Countable, varying: list[int], budget: Budget, total: int, rng: Randomness) -> SynthesisModel:
        """Ask the records one question after the other; ``total`` is a noisy count of them."""
        schema = records.schema
        shape = Shape.fitting(total, schema.classes, budget)
        asked = [
            Feature.ask(schema.features[j], records.column(j), shape, budget, rng.stage(f"feature {j}"))
            for j in varying
        ]
        label = _class_counts(asked)
        singles = [positive(agree(f.counts, 0, label).T).T for f in asked]
        binned = records.pairs(dict(zip(varying, asked, strict=True)), singles)
        chosen = choose_tree(binned, budget, rng)
        tables = {pair: measure(binned, pair, budget, rng.stage(f"pair {pair}")) for pair in chosen}
        features = [_consistent(at, f, tables, budget, label) for at, f in enumerate(asked)]
        tree = []
        for known, following in _outward(chosen):
            table = tables.get((known, following))
            table = tables[following, known].transpose(0, 2, 1) if table is None else table
            counts = _consistent_pair(table, features[known].counts.T, features[following].counts.T, budget)
            tree.append(((varying[known], varying[following]), counts))
        return cls(schema, dict(zip(varying, features, strict=True)), tree)

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


def _outward(pairs: list[Pair]) -> list[Pair]:
    """Return the tree's pairs from its busiest feature outwards, each as (known feature, next feature)."""
    if not pairs:
        return []
    known, rest, ordered = {int(np.bincount(np.ravel(pairs)).argmax())}, list(pairs), []
    while rest:
        pair = next(p for p in rest if known & set(p))
        rest.remove(pair)
        ordered.append(pair if pair[0] in known else (pair[1], pair[0]))
        known |= set(pair)
    return ordered


def _class_counts(features: list[Feature]) -> Counts:
    """Return the counts of the classes: the average over features, weighted by the inverse variance of the noise."""
    weights = np.array([1 / f.variance.sum() for f in features])
    sums = np.array([f.counts.sum(axis=0) for f in features])
    return np.asarray(np.maximum(weights @ sums / weights.sum(), 1.0))


def _consistent(at: int, feature: Feature, tables: Mapping[Pair, Counts], budget: Budget, label: Counts) -> Feature:
    """Return a feature with counts from all tables that hold it, after removing what noise explains."""
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
    difference = smooth(counts - expected, float((1 / weight).mean()), ordered=feature.cells.ordered)
    return replace(feature, counts=positive(expected + difference).T)


def _consistent_pair(table: Counts, first: Counts, second: Counts, budget: Budget) -> Counts:
    """Return a pair's counts: in agreement with its features, and independent where noise would explain the rest."""
    expected = independent(first, second)
    difference = agree(agree(table, 2, first), 1, second) - expected
    return positive(expected + shrink(difference, budget.pair.spread**2))
