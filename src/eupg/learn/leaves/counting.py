"""The compiled loops over cells: counting the records that lie in two cells at once, and reading the counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])
Whole = NDArray[np.int64]
Cells = NDArray[np.int32]
Floats = NDArray[np.float64]
# The cells of so many records, and the counts of two groups, fit into a core's own cache.
_BLOCK = 2048


def compiled(function: Function) -> Function:
    """Compile for use from Python, and keep the result on disk where that is possible."""
    try:
        return cast(Function, njit(error_model="numpy", nogil=True, cache=True)(function))
    except RuntimeError:  # no folder can be written to: every process compiles for itself
        return cast(Function, njit(error_model="numpy", nogil=True)(function))


@compiled
def count_pairs(codes: Cells, y: Whole, cells: int, pairs: Whole) -> None:
    """Add one to ``pairs[c, a, b]``, a ≤ b, for each record of class c in both cells; a code of ``cells`` is no cell.

    Cells are numbered through the groups, so the cell of an earlier group has the lower number. A single matrix is for
    all classes.
    """
    rows, groups = codes.shape
    block, matrix = np.empty((groups, _BLOCK), dtype=np.int32), np.empty(_BLOCK, dtype=np.int32)
    for first in range(0, rows, _BLOCK):
        size = min(_BLOCK, rows - first)
        for r in range(size):
            matrix[r] = min(y[first + r], len(pairs) - 1)
            for g in range(groups):
                block[g, r] = codes[first + r, g]
        for g in range(groups):
            for h in range(g, groups):
                for r in range(size):
                    a, b = block[g, r], block[h, r]
                    if a < cells and b < cells:
                        pairs[matrix[r], a, b] += 1


@compiled
def count_labels(codes: Cells, y: Whole, cells: int, labels: Whole) -> None:
    """Add one to ``labels[a, c]`` for each record of class c that lies in the cell a."""
    for r in range(codes.shape[0]):
        for g in range(codes.shape[1]):
            if codes[r, g] < cells:
                labels[codes[r, g], y[r]] += 1


@compiled
def weigh_pairs(pairs: Whole, weights: Floats, used: Whole, panels: Floats) -> None:
    """Write the weighted sum of the matrices for some rows and columns: the upper triangle, in panels of columns."""
    width, row = panels.shape[2], np.empty(len(used))
    for i in range(len(used)):
        row[:] = 0.0
        for matrix in range(len(weights)):
            for j in range(i, len(used)):
                row[j] += weights[matrix] * pairs[matrix, used[i], used[j]]
        for j in range(i, len(used)):
            panels[j // width, i, j % width] = row[j]
