"""How alike two categories are: the utility behind the exponential mechanism.

A utility decides which wrong answers are likelier, so it must not depend on the records it protects. It comes from a
hierarchy declared in the schema, or from embeddings learnt on a *public* table. Embeddings learnt on the private table
itself (as the paper does, with TabNet) are possible and marked: ε does not cover what they reveal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Categorical, Listed
from eupg.data.dataset import Dataset
from eupg.errors import ParameterError

_BINS = 10


@dataclass(frozen=True)
class Embedding:
    """A vector for each category of one attribute; alike categories point the same way.

    Parameters
    ----------
    vectors
        One vector of equal length per category.
    public
        True only if no record to be protected had a part in them.
    """

    vectors: Mapping[str, tuple[float, ...]] = field(hash=False)
    public: bool

    def utility(self, attribute: Categorical) -> NDArray[np.float64]:
        """Return the cosine of every two categories, between −1 and 1."""
        absent = [c for c in attribute.categories if c not in self.vectors]
        if absent:
            raise ParameterError(f"column {attribute.name!r}: no vector for category {absent[0]!r}: learn it too")
        vectors = np.array([self.vectors[c] for c in attribute.categories], dtype=np.float64)
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
        return np.asarray(np.clip(unit @ unit.T, -1, 1) * (1 - np.eye(len(unit))) + np.eye(len(unit)))


def hierarchy_utility(attribute: Categorical) -> NDArray[np.float64]:
    """Return 1 for the same category, −1 where nothing is shared, and between them by how far up the paths meet."""
    paths = [attribute.ancestors(c) for c in attribute.categories]
    deepest = max(len(p) for p in paths)
    size = len(paths)
    utility = np.full((size, size), -1.0)
    for i in range(size):
        for j in range(size):
            shared = len(set(paths[i]) & set(paths[j]))
            utility[i, j] = 1.0 if i == j else -1.0 + 2.0 * shared / max(deepest, 1)
    return utility


def learn_embeddings(data: Dataset, *, dimensions: int = 10, public: bool) -> dict[str, Embedding]:
    """Learn a vector per category from which values occur together (singular vectors of log-odds counts).

    Parameters
    ----------
    data
        The table to learn from; its label takes no part.
    dimensions
        Length of the vectors.
    public
        Say whether the table is public. If it is the table you will protect, it is not.
    """
    features = data.schema.features
    blocks = [_one_hot(data, j) for j in range(len(features))]
    learnt = {}
    for j, attribute in enumerate(features):
        if not isinstance(attribute, Categorical) or len(attribute.categories) < 2:
            continue
        others = [b for i, b in enumerate(blocks) if i != j]
        if not others:
            raise ParameterError("embeddings need a second attribute to see what occurs together")
        # Half a count everywhere keeps the logarithm finite for pairs that never meet.
        counts = blocks[j].T @ np.hstack(others) + 0.5
        logs = np.log(counts) - np.log(counts.sum(axis=1, keepdims=True)) - np.log(counts.mean(axis=0, keepdims=True))
        left, values, _ = np.linalg.svd(logs - logs.mean(axis=0), full_matrices=False)
        vectors = (left * values)[:, :dimensions]
        learnt[attribute.name] = Embedding(
            {c: tuple(map(float, v)) for c, v in zip(attribute.categories, vectors, strict=False)}, public
        )
    return learnt


def _one_hot(data: Dataset, j: int) -> NDArray[np.float64]:
    attribute, values = data.schema.features[j], data.X[:, j]
    if isinstance(attribute, Listed):
        size, codes = len(attribute.categories) + 1, np.nan_to_num(values, nan=len(attribute.categories))
    else:
        edges = np.unique(np.nanquantile(values, np.linspace(0, 1, _BINS + 1)[1:-1]))
        size, codes = len(edges) + 2, np.where(np.isnan(values), len(edges) + 1, np.searchsorted(edges, values))
    hot = np.zeros((len(values), size))
    hot[np.arange(len(values)), codes.astype(np.int64)] = 1.0
    return hot[:, : size - 1] if not np.isnan(values).any() else hot
