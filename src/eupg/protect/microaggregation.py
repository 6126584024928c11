"""MDAV microaggregation: split records into groups of at least k similar ones.

Part of stage 1, protect: probabilistic k-anonymity permutes attributes inside these groups. The algorithm is the
fixed-size MDAV of Domingo-Ferrer and Torra, "Ordinal, continuous and heterogeneous k-anonymity through
microaggregation", Data Mining and Knowledge Discovery 11 (2005). It looks at all remaining records for each pair of
groups; the compiled search gives the same groups from a fraction of them (see ``mdav_kernel``).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import ArrayLike

from eupg.errors import DataError, ParameterError
from eupg.protect.mdav_blocks import Integers, Matrix, halves, neighbours_together, new_search, pack
from eupg.validation import check_whole

# Squares and sums of anything smaller stay finite.
_LARGEST = 1e150
_WIDTH = 64


def mdav(X: ArrayLike, k: int) -> Integers:
    """Group similar rows, at least ``k`` to a group, by exact MDAV.

    While 3k rows or more remain, take the row r farthest from their centroid and form a group of r and its k−1 nearest
    rows; then do the same around s, the remaining row farthest from r. With 2k to 3k−1 rows left, one more group is
    formed around the row farthest from the centroid. What is left is the last group. Of several rows at the same
    distance, the one with the lowest index is taken. The result depends on nothing but ``X`` and ``k``.

    Parameters
    ----------
    X
        One row a record, one column a dimension, in units that make Euclidean distance meaningful. Arithmetic is in
        double precision; single precision input is stored as it is, which is faster on wide tables.
    k
        Size of all groups but the last, which has k to 2k−1 rows.

    Returns
    -------
    numpy.ndarray
        The group of each row, numbered from 0 in order of formation.

    Raises
    ------
    ParameterError
        If ``k`` is not a whole number of at least 1.
    DataError
        If ``X`` is not a table of finite numbers with at least ``k`` rows.

    Examples
    --------
    >>> mdav([[1.0], [2.0], [3.0], [10.0], [11.0], [30.0], [31.0]], 2).tolist()
    [1, 1, 2, 2, 2, 0, 0]
    """
    k, table = check_whole("k", k, at_least=1), checked_table(X)
    check_enough(table, k)
    return _exact(table, k)


def partitioned_mdav(X: ArrayLike, k: int, *, cell: int = 50_000, threads: int = 1) -> Integers:
    """Group similar rows in a very large table: split it into cells, then run MDAV in each.

    A table of more than ``cell`` rows is split at the median of its widest column, and so on with the halves. Time
    grows linearly with the number of rows; groups near the borders of cells are a little less tight.

    Parameters
    ----------
    X, k
        As for :func:`mdav`.
    cell
        Largest number of rows in a cell, at least 2k.
    threads
        Cells worked on at the same time. The groups do not depend on it.

    Returns
    -------
    numpy.ndarray
        The group of each row, numbered from 0, cell by cell.

    Examples
    --------
    >>> partitioned_mdav([[1.0], [2.0], [3.0], [10.0], [11.0], [30.0], [31.0]], 2, cell=4).tolist()
    [0, 0, 0, 1, 1, 2, 2]
    """
    k, cell = check_whole("k", k, at_least=1), check_whole("cell", cell, at_least=1)
    threads = check_whole("threads", threads, at_least=1)
    if cell < 2 * k:
        raise ParameterError(f"a cell holds at least 2k={2 * k} records, got cell={cell}: raise cell or lower k.")
    table = checked_table(X)
    check_enough(table, k)
    cells = list(_cells(table, np.arange(len(table)), cell))
    with ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(lambda rows: _exact(table[rows], k), cells))
    labels, first = np.empty(len(table), np.int64), 0
    for rows, part in zip(cells, parts, strict=True):
        labels[rows] = part + first
        first += int(part.max()) + 1
    return labels


def within_group_sse(X: ArrayLike, groups: ArrayLike) -> float:
    """Sum the squared distances of rows to the centroid of their group: what grouping loses, lower is better.

    Examples
    --------
    >>> within_group_sse([[0.0], [2.0], [5.0]], [0, 0, 1])
    2.0
    """
    table, labels = checked_table(X), np.asarray(groups)
    if labels.shape != (len(table),):
        raise DataError(f"expected one group for each of the {len(table)} records, got shape {labels.shape}.")
    _, labels, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    squares = 0.0
    for column in table.T:
        means = np.bincount(labels, column) / sizes
        squares += float(((column - means[labels]) ** 2).sum())
    return squares


def _exact(table: Matrix, k: int, *, width: int = _WIDTH) -> Integers:
    labels, label, order = np.full(len(table), -1), 0, np.arange(len(table))
    if len(table) >= 2 * k:
        # Deferred: Numba takes longer to import than a small table takes to group.
        from eupg.protect.mdav_kernel import form_groups

        order = neighbours_together(table, width)
        while order.size >= 2 * k:
            blocks = pack(table, order, width)
            # Blocks run empty; at half, what is left moves together.
            label = form_groups(blocks, new_search(blocks, k), labels, label, max(2 * k, order.size // 2))
            order = order[labels[order] < 0]
    labels[order] = label
    return labels


def _cells(table: Matrix, rows: Integers, cell: int) -> Iterator[Integers]:
    """Split rows at medians until no part has more than ``cell``."""
    if len(rows) <= cell:
        yield rows
        return
    part = table[rows]
    widest = np.ptp(part, axis=0).argmax()
    order, half = halves(part[None, :, widest])[0], len(rows) // 2
    yield from _cells(table, np.sort(rows[order[:half]]), cell)
    yield from _cells(table, np.sort(rows[order[half:]]), cell)


def checked_table(X: ArrayLike) -> Matrix:
    """Check the input and give it the layout the search expects; single precision stays single."""
    table = np.asarray(X)
    if table.ndim != 2:
        raise DataError(f"expected a table of records by columns, got {table.ndim} dimensions: reshape it first.")
    if table.dtype != np.float32:
        try:
            table = table.astype(np.float64, copy=False)
        except (TypeError, ValueError) as error:
            raise DataError(f"expected numbers, got {table.dtype}: encode categories first.") from error
    if table.size == 0:
        return np.zeros((len(table), 1))
    if not float(np.abs(table).max()) <= _LARGEST:
        bad = int(np.argmin((np.abs(table.astype(np.float64)) <= _LARGEST).all(axis=1)))
        raise DataError(f"expected finite numbers of at most {_LARGEST:g}, record {bad} has another: fill or drop it.")
    return np.ascontiguousarray(table)


def check_enough(table: Matrix, k: int) -> None:
    """Refuse a table with fewer rows than one group needs."""
    if len(table) < k:
        raise DataError(
            f"k={k} needs at least {k} records, got {len(table)}: lower k or protect more records together."
        )
