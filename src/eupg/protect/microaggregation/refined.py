"""Microaggregation in time that grows with the number of rows, with tighter groups than those of MDAV.

The table is cut into parts, and each part into cells of about 8,000 rows. MDAV groups the rows of each cell. Then rows
move between near groups, across the borders of cells, while the squares within groups fall; a second division into
parts does the same across the borders of parts. Rows are first put into an order that depends on their values alone, so
the groups do not depend on the order of the input. Every part is grouped by itself, so they do not depend on the number
of threads either. The first call compiles for some ten seconds; later processes load the result from a cache.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import ArrayLike

from eupg.protect.microaggregation.blocks import Positions
from eupg.protect.microaggregation.cuts import cut
from eupg.protect.microaggregation.groups import Groups, Matrix, check_input
from eupg.protect.microaggregation.mdav import mdav
from eupg.validation import check_whole

# Below this k the groups are no tighter than those of MDAV.
LEAST_K = 5
# Rows of a part and of a cell, or as many groups of k where k is large.
_PART_ROWS, _PART_GROUPS = 30_000, 1_000
_CELL_ROWS, _CELL_GROUPS = 8_000, 270
# Where parts are cut again, the cuts lie elsewhere.
_QUANTILE, _SECOND_QUANTILE = 1 / 2, 1 / 3
# Rounds of improvement in a part, and after the second division.
_ROUNDS, _SECOND_ROUNDS = 2, 1
# In each round: the share of groups that may be dissolved, the near groups of each, and the sweeps over their pairs.
_WIDEST, _NEAR, _SWEEPS = 0.1, 16, 3


def microaggregate(X: ArrayLike, k: int, *, threads: int = 1) -> Groups:
    """Group similar rows, k to 2k−1 per group, in time proportional to the number of rows.

    The squares within groups are usually smaller than those of :func:`mdav`, which forms groups of k one after the
    other and never changes one. The result depends on the rows and ``k`` only: rows in another order get the same
    groups, except that equal rows may change places. For k below 5 the result is that of :func:`mdav`, in its time.

    Parameters
    ----------
    X, k
        As for :func:`mdav`. Distances are computed in single precision, relative to the mean of a part of the table.
    threads
        Number of parts processed at the same time; a part has about 30,000 rows. The groups do not depend on it.

    Returns
    -------
    numpy.ndarray
        The group of each row, numbered from 0.

    Examples
    --------
    >>> import numpy as np
    >>> sizes = np.bincount(microaggregate(np.random.default_rng(0).normal(size=(1000, 4)), 10))
    >>> sizes.sum(), sizes.min() >= 10, sizes.max() < 20
    (np.int64(1000), np.True_, np.True_)
    """
    table, k = check_input(X, k)
    threads = check_whole("threads", threads, at_least=1)
    if k < LEAST_K or len(table) < 2 * k:
        return mdav(table, k)
    rows, most = _order(table), max(_PART_ROWS, _PART_GROUPS * k)
    parts = cut(table, rows, most=most, least=2 * k, quantile=_QUANTILE)
    with ThreadPoolExecutor(threads) as pool:
        labels = _joined(parts, pool.map(lambda part: _grouped(table, part, k), parts))
        if len(parts) > 1:
            parts = _divided_elsewhere(table, rows, labels, most // k)
            labels = _joined(parts, pool.map(lambda part: _mended(table, part, labels[part], k), parts))
    return labels


def group_part(X: ArrayLike, k: int) -> Groups:
    """Group one part of a larger table by itself, as :func:`microaggregate` does: some 8,000 to 50,000 rows.

    The result depends on these rows and ``k`` only, whatever their order. Memory and time grow with the number of
    rows; beyond about 50,000 (or 1,600 times k, if that is more) :func:`microaggregate` is faster.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(1000, 4))
    >>> (group_part(X, 10) == microaggregate(X, 10)).all()
    np.True_
    """
    table, k = check_input(X, k)
    if k < LEAST_K or len(table) < 2 * k:
        return mdav(table, k)
    rows = _order(table)
    return _joined([rows], [_grouped(table, rows, k)])


def _order(table: Matrix) -> Positions:
    """Return an order of rows that depends on their values alone, like a shuffle: every few rows are a sample."""
    from eupg.protect.microaggregation.cell_kernel import fingerprints

    return np.argsort(fingerprints(table), kind="stable")


def _grouped(table: Matrix, rows: Positions, k: int) -> Groups:
    """Return the groups of one part."""
    from eupg.protect.microaggregation.cell_kernel import group_cell, singles

    part = singles(table, rows)
    labels, label = np.empty(len(rows), np.int64), 0
    # One row above k leaves room to exchange rows between groups of different sizes. In one column MDAV has little to
    # gain from that, and larger groups only cost.
    size = k + (part.shape[1] > 1)
    for cell in cut(part, np.arange(len(rows)), most=max(_CELL_ROWS, _CELL_GROUPS * k), least=2 * k):
        label = group_cell(part, cell, size, k, labels, label)
    return _improved(part, labels, label, k, _ROUNDS)


def _mended(table: Matrix, rows: Positions, labels: Groups, k: int) -> Groups:
    """Return better groups of a part that consists of whole groups."""
    from eupg.protect.microaggregation.cell_kernel import singles

    names, labels = np.unique(labels, return_inverse=True)
    return _improved(singles(table, rows), labels, len(names), k, _SECOND_ROUNDS)


def _improved(part: Matrix, labels: Groups, count: int, k: int, rounds: int) -> Groups:
    from eupg.protect.microaggregation.group_kernel import dissolve, divide_pairs, labels_of, near_pairs, pack_groups

    groups = pack_groups(part, labels, count, 2 * k - 1)
    for _ in range(rounds):
        dissolve(groups, _WIDEST)
        divide_pairs(groups, k, near_pairs(groups, _NEAR), _SWEEPS)
    return labels_of(groups, len(part))


def _divided_elsewhere(table: Matrix, rows: Positions, labels: Groups, most: int) -> list[Positions]:
    """Divide the table into parts of whole groups, at most ``most`` in each, with other borders than before."""
    from eupg.protect.microaggregation.cell_kernel import means_of

    count = int(labels.max()) + 1
    means = means_of(table, rows, labels, count)
    part_of = np.empty(count, np.int64)
    for number, groups in enumerate(cut(means, _order(means), most=most, least=4, quantile=_SECOND_QUANTILE)):
        part_of[groups] = number
    numbers = part_of[labels[rows]]
    return np.split(rows[np.argsort(numbers, kind="stable")], np.cumsum(np.bincount(numbers))[:-1])


def _joined(parts: list[Positions], groups: Iterable[Groups]) -> Groups:
    """Return the group of each row of the table from the groups of each part, numbered on."""
    labels, first = np.empty(sum(map(len, parts)), np.int64), 0
    for rows, part in zip(parts, groups, strict=True):
        labels[rows] = part + first
        first += int(part.max()) + 1
    return labels
