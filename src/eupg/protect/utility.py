"""How alike two categories are: the utility behind the exponential mechanism.

A utility decides which wrong answers are likelier, so it must not depend on the records it protects. It comes from a
hierarchy declared in the schema, or from embeddings learnt on a *public* table. Embeddings learnt on the private table
itself (as the paper does, with TabNet) are possible and marked: ε does not cover what they reveal.
``docs/decisions/no-tabnet.md`` compares them all; none is better than randomised response for the models trained after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Categorical, Listed
from eupg.data.dataset import Dataset
from eupg.data.picture import require_table
from eupg.errors import DataError, ParameterError
from eupg.validation import check_whole

_BINS = 10


@dataclass(frozen=True)
class Embedding:
    """A vector for each category of one attribute; alike categories point the same way.

    Parameters
    ----------
    vectors
        One vector of equal length per category. A vector of zeros says nothing: it is as like as unlike all others.
    public
        True only if no record to be protected had a part in them.
    """

    vectors: Mapping[str, tuple[float, ...]] = field(hash=False)
    public: bool

    def utility(self, attribute: Categorical) -> NDArray[np.float64]:
        """Return the cosine of every two categories, between −1 and 1; two that point the same way get mixed up."""
        absent = [c for c in attribute.categories if c not in self.vectors]
        if absent:
            raise ParameterError(f"column {attribute.name!r}: no vector for category {absent[0]!r}: learn it too")
        chosen = [np.atleast_1d(np.asarray(self.vectors[c], dtype=np.float64)) for c in attribute.categories]
        if len({v.shape for v in chosen}) > 1 or not all(np.isfinite(v).all() for v in chosen):
            raise ParameterError(f"column {attribute.name!r}: vectors must be finite and of one length")
        vectors = np.stack(chosen)
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        # What is left of rounding points nowhere.
        told = length > 1e-9 * max(1.0, float(length.max()))
        unit = np.divide(vectors, length, out=np.zeros_like(vectors), where=told)
        cosine = np.clip(unit @ unit.T, -1, 1)
        np.fill_diagonal(cosine, 1.0)
        return np.asarray(cosine)


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
    """Learn a vector per category from which values occur with it (correspondence analysis of log shares).

    Parameters
    ----------
    data
        The table to learn from; its label takes no part.
    dimensions
        The most numbers in a vector.
    public
        Say whether the table is public. If it is the table you will protect, it is not.
    """
    check_whole("dimensions", dimensions, at_least=1)
    require_table(data.schema, "learn_embeddings", "PixelPermutation or PixelDP, which need none")
    if not len(data):
        raise DataError("embeddings need records to learn from, got none")
    features = data.schema.features
    if len(features) < 2:
        raise ParameterError("embeddings need a second attribute to see what occurs together")
    blocks = [_one_hot(data, j) for j in range(len(features))]
    learnt = {}
    for j, attribute in enumerate(features):
        if not isinstance(attribute, Categorical):
            continue
        others = np.hstack([b for i, b in enumerate(blocks) if i != j])
        others = others[:, others.any(axis=0)]
        usual = others.mean(axis=0)
        # Ten usual records are added to every category, so that a rare one is near the usual and an unseen one is it.
        counts = blocks[j][:, : len(attribute.categories)].T @ others + 10 * usual
        shares = counts / (blocks[j][:, : len(attribute.categories)].sum(axis=0)[:, None] + 10)
        left, values, _ = np.linalg.svd(np.log(shares / usual) * np.sqrt(usual), full_matrices=False)
        vectors = (left * values)[:, :dimensions]
        learnt[attribute.name] = Embedding(
            {c: tuple(map(float, v)) for c, v in zip(attribute.categories, vectors, strict=True)}, public
        )
    return learnt


def _one_hot(data: Dataset, j: int) -> NDArray[np.float64]:
    """Return one column per value that occurs (numbers in bins around their deciles, missing ones apart)."""
    attribute, values = data.schema.features[j], data.X[:, j]
    missing = np.isnan(values)
    if isinstance(attribute, Listed):
        size, codes = len(attribute.categories), np.nan_to_num(values).astype(np.int64)
    else:
        known = values[~missing]
        edges = np.unique(np.quantile(known, np.linspace(0, 1, _BINS + 1)[1:-1])) if len(known) else known
        # Below, on and above each edge are told apart: many records may share one number.
        size = 2 * len(edges) + 1
        codes = np.searchsorted(edges, values, side="left") + np.searchsorted(edges, values, side="right")
    hot = np.zeros((len(values), size + 1))
    hot[np.arange(len(values)), np.where(missing, size, codes)] = 1.0
    return hot
