"""What all algorithms of microaggregation share: the check of their input, and the measure of their groups."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eupg.errors import DataError
from eupg.validation import check_whole

# The group of each row, numbered from 0.
Groups = NDArray[np.int64]
Matrix = NDArray[np.floating[Any]]
# Squares and sums of anything smaller stay finite.
_LARGEST = 1e150


def check_input(X: ArrayLike, k: int) -> tuple[Matrix, int]:
    """Return a table of at least ``k`` rows in the layout the algorithms expect, and k; refuse other input."""
    k, table = check_whole("k", k, at_least=1), check_table(X)
    if len(table) < k:
        raise DataError(f"k={k} needs at least {k} records, got {len(table)}: lower k or protect more records together")
    return table, k


def check_table(X: ArrayLike) -> Matrix:
    """Return a table of finite numbers, contiguous, single precision where the input is; refuse other input."""
    table = np.asarray(X)
    if table.ndim != 2:
        raise DataError(f"expected a table of records by columns, got {table.ndim} dimensions: reshape it first")
    if table.dtype != np.float32:
        try:
            table = table.astype(np.float64, copy=False)
        except (TypeError, ValueError) as error:
            raise DataError(f"expected numbers, got {table.dtype}: encode categories first") from error
    if table.size == 0:
        return np.zeros((len(table), 1))
    if not float(np.abs(table).max()) <= _LARGEST:
        bad = int(np.argmin((np.abs(table.astype(np.float64)) <= _LARGEST).all(axis=1)))
        raise DataError(f"expected finite numbers of at most {_LARGEST:g}, record {bad} has another: fill or drop it")
    return np.ascontiguousarray(table)


def within_group_sse(X: ArrayLike, groups: ArrayLike) -> float:
    """Return the sum of squared distances of rows to the centroid of their group: lower is better.

    Examples
    --------
    >>> within_group_sse([[0.0], [2.0], [5.0]], [0, 0, 1])
    2.0
    """
    table, labels = check_table(X), np.asarray(groups)
    if labels.shape != (len(table),):
        raise DataError(f"expected one group for each of the {len(table)} records, got shape {labels.shape}")
    _, labels, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    squares = 0.0
    for column in table.T:
        means = np.bincount(labels, column) / sizes
        squares += float(((column - means[labels]) ** 2).sum())
    return squares
