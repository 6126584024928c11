"""The similarity of categories: the utility of the exponential mechanism.

A utility decides which wrong answers are likelier, so it must not depend on the records it protects. It comes from a
hierarchy declared in the schema, or from embeddings learnt on a *public* table. Embeddings learnt on the private table
itself (as the paper does, with TabNet) are possible and marked: ε does not cover what they reveal.
``docs/decisions/no-tabnet.md`` compares them; for the models trained afterwards, none beats randomised response.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Categorical, Listed
from eupg.data.dataset import Dataset
from eupg.data.kind import Accepts, DataKind
from eupg.errors import DataError, ParameterError
from eupg.validation import check_whole

_BINS = 10
_TABLES = Accepts(DataKind.TABLE, instead="PixelPermutation or PixelDP, which need no embeddings")


@dataclass(frozen=True)
class Embedding:
    """A vector for each category of one attribute; similar categories have similar directions.

    Parameters
    ----------
    vectors
        One vector per category, all of equal length. A vector of zeros is neither similar nor dissimilar to any other.
    public
        True only if no record to be protected contributed to the vectors.
    """

    vectors: Mapping[str, tuple[float, ...]] = field(hash=False)
    public: bool

    def utility(self, attribute: Categorical) -> NDArray[np.float64]:
        """Return the cosine of every two categories, between −1 and 1; similar ones are confused more often."""
        absent = [c for c in attribute.categories if c not in self.vectors]
        if absent:
            raise ParameterError(f"column {attribute.name!r}: no vector for category {absent[0]!r}: add one")
        rows = [np.atleast_1d(np.asarray(self.vectors[c], dtype=np.float64)) for c in attribute.categories]
        if len({row.shape for row in rows}) > 1 or not all(np.isfinite(row).all() for row in rows):
            raise ParameterError(f"column {attribute.name!r}: vectors must be finite and of one length")
        vectors = np.stack(rows)
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        # A vector of rounding errors has no direction.
        directed = length > 1e-9 * max(1.0, float(length.max()))
        unit = np.divide(vectors, length, out=np.zeros_like(vectors), where=directed)
        cosine = np.clip(unit @ unit.T, -1, 1)
        np.fill_diagonal(cosine, 1.0)
        return np.asarray(cosine)


def hierarchy_utility(attribute: Categorical) -> NDArray[np.float64]:
    """Return 1 for the same category, −1 for no common ancestor, and between them by the number of common ancestors."""
    paths = [set(attribute.ancestors(c)) for c in attribute.categories]
    deepest = max(len(path) for path in paths)
    utility = np.array([[-1.0 + 2.0 * len(one & other) / deepest for other in paths] for one in paths])
    np.fill_diagonal(utility, 1.0)
    return utility


def learn_embeddings(data: Dataset, *, dimensions: int = 10, public: bool) -> dict[str, Embedding]:
    """Learn a vector per category from the values that occur with it (correspondence analysis of log shares).

    Parameters
    ----------
    data
        The table to learn from; its label is not used.
    dimensions
        Largest length of a vector.
    public
        Whether the table is public. The table that you will protect is not.
    """
    check_whole("dimensions", dimensions, at_least=1)
    _TABLES.check(data.schema, "learn_embeddings")
    if not len(data):
        raise DataError("embeddings need records to learn from, got none")
    features = data.schema.features
    if len(features) < 2:
        raise ParameterError("embeddings need at least two features, got one: use randomised response instead")
    blocks = [_one_hot(data, j) for j in range(len(features))]
    learnt = {}
    for j, attribute in enumerate(features):
        if not isinstance(attribute, Categorical):
            continue
        own = blocks[j][:, : attribute.points]
        others = np.hstack([b for i, b in enumerate(blocks) if i != j])
        others = others[:, others.any(axis=0)]
        average = others.mean(axis=0)
        # Ten average records are added to every category: a rare one is near the average, an unseen one is the average.
        shares = (own.T @ others + 10 * average) / (own.sum(axis=0)[:, None] + 10)
        left, values, _ = np.linalg.svd(np.log(shares / average) * np.sqrt(average), full_matrices=False)
        vectors = (left * values)[:, :dimensions]
        learnt[attribute.name] = Embedding(
            {c: tuple(map(float, v)) for c, v in zip(attribute.categories, vectors, strict=True)}, public
        )
    return learnt


def _one_hot(data: Dataset, j: int) -> NDArray[np.float64]:
    """Return one column per category, or per bin around the deciles of numbers, and one for missing values."""
    attribute, values = data.schema.features[j], data.X[:, j]
    missing = np.isnan(values)
    if isinstance(attribute, Listed):
        size, codes = attribute.points, np.nan_to_num(values).astype(np.int64)
    else:
        known = values[~missing]
        edges = np.unique(np.quantile(known, np.linspace(0, 1, _BINS + 1)[1:-1])) if len(known) else known
        # Values below, on and above each edge get different bins: many records may share one number.
        size = 2 * len(edges) + 1
        codes = np.searchsorted(edges, values, side="left") + np.searchsorted(edges, values, side="right")
    hot = np.zeros((len(values), size + 1))
    hot[np.arange(len(values)), np.where(missing, size, codes)] = 1.0
    return hot
