"""MDAV microaggregation: split records into groups of at least k similar ones.

Probabilistic k-anonymity permutes attributes inside these groups. The algorithm is the fixed-size MDAV of
Domingo-Ferrer and Torra, "Ordinal, continuous and heterogeneous k-anonymity through microaggregation", Data Mining and
Knowledge Discovery 11 (2005). It considers all remaining records for each pair of groups; the compiled search of
:mod:`eupg.protect.microaggregation.kernel` gives the same groups from a fraction of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import ArrayLike

from eupg.errors import ParameterError
from eupg.protect.microaggregation.blocks import Positions, halves, neighbours_together, new_search, pack
from eupg.protect.microaggregation.groups import Groups, Matrix, check_input
from eupg.validation import check_whole

# Rows per block of the compiled search.
_WIDTH = 64


def mdav(X: ArrayLike, k: int) -> Groups:
    """Group similar rows, at least ``k`` per group, by exact MDAV.

    While 3k rows or more remain, take the row r farthest from their centroid and form a group of r and its k−1 nearest
    rows; then do the same around s, the remaining row farthest from r. With 2k to 3k−1 rows left, one more group is
    formed around the row farthest from the centroid. The remaining rows are the last group. Of several rows at the same
    distance, the one with the lowest index is taken. The result depends on ``X`` and ``k`` only.

    Parameters
    ----------
    X
        One row per record, one column per dimension, in units that make Euclidean distance meaningful. Arithmetic is in
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
    return _exact(*check_input(X, k))


def partitioned_mdav(X: ArrayLike, k: int, *, cell: int = 50_000, threads: int = 1) -> Groups:
    """Group similar rows in a very large table: split it into cells, then run MDAV in each.

    A table of more than ``cell`` rows is split at the median of its widest column, and so are the halves. Time grows
    linearly with the number of rows; groups near the borders of cells are slightly less tight.

    Parameters
    ----------
    X, k
        As for :func:`mdav`.
    cell
        Largest number of rows in a cell, at least 2k.
    threads
        Number of cells processed at the same time. The groups do not depend on it.

    Examples
    --------
    >>> partitioned_mdav([[1.0], [2.0], [3.0], [10.0], [11.0], [30.0], [31.0]], 2, cell=4).tolist()
    [0, 0, 0, 1, 1, 2, 2]
    """
    table, k = check_input(X, k)
    cell, threads = check_whole("cell", cell, at_least=1), check_whole("threads", threads, at_least=1)
    if cell < 2 * k:
        raise ParameterError(f"a cell holds at least 2k={2 * k} records, got cell={cell}: raise cell or lower k")
    cells = list(_cells(table, np.arange(len(table)), cell))
    with ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(lambda rows: _exact(table[rows], k), cells))
    labels, first = np.empty(len(table), np.int64), 0
    for rows, part in zip(cells, parts, strict=True):
        labels[rows] = part + first
        first += int(part.max()) + 1
    return labels


def _exact(table: Matrix, k: int, *, width: int = _WIDTH) -> Groups:
    labels, label, order = np.full(len(table), -1), 0, np.arange(len(table))
    if len(table) >= 2 * k:
        # Deferred: Numba takes longer to import than a small table takes to group.
        from eupg.protect.microaggregation.kernel import form_groups

        order = neighbours_together(table, width)
        while order.size >= 2 * k:
            blocks = pack(table, order, width)
            # Blocks run empty; once half of the rows have a group, the others are packed anew.
            label = form_groups(blocks, new_search(blocks, k), labels, label, max(2 * k, order.size // 2))
            order = order[labels[order] < 0]
    labels[order] = label
    return labels


def _cells(table: Matrix, rows: Positions, cell: int) -> Iterator[Positions]:
    """Split rows at medians until no part has more than ``cell``."""
    if len(rows) <= cell:
        yield rows
        return
    part = table[rows]
    widest = np.ptp(part, axis=0).argmax()
    order, half = halves(part[None, :, widest])[0], len(rows) // 2
    yield from _cells(table, np.sort(rows[order[:half]]), cell)
    yield from _cells(table, np.sort(rows[order[half:]]), cell)
