"""The compiled loops of a gradient: residuals of records, cut, in whole numbers, added up by cell.

Each record is read by itself, and sums are of whole numbers, so what a record adds does not depend on any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])
Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Cells = NDArray[np.int32]


def _compiled(function: Function) -> Function:
    """Compile for use from Python, and keep the result on disk where that is possible."""
    try:
        return cast(Function, njit(error_model="numpy", nogil=True, cache=True)(function))
    except RuntimeError:  # no folder can be written to: every process compiles for itself
        return cast(Function, njit(error_model="numpy", nogil=True)(function))


@_compiled
def add_residuals(
    cells: Cells, starts: Whole, y: Whole, limits: Whole, cut: float, margins: Floats, out: Whole
) -> None:
    """Add each record's residual, for two classes, to its cells.

    A residual is the probability of the second class less 1 for records of that class. It is cut to ±``cut``, which
    becomes ±limit in whole numbers.
    """
    for r in range(len(y)):
        margin = 0.0
        for j in range(starts[r], starts[r + 1]):
            margin += margins[cells[j], 0]
        residual = 1.0 / (1.0 + math.exp(-margin)) - y[r]
        # A margin that is not a number fails both comparisons and adds nothing.
        if residual >= 0:
            whole = int(min(residual / cut, 1.0) * limits[r])
        elif residual < 0:
            whole = -int(min(-residual / cut, 1.0) * limits[r])
        else:
            whole = 0
        # Rounding in the lines above may be off by one at the limit; this comparison is exact.
        whole = min(max(whole, -limits[r]), limits[r])
        for j in range(starts[r], starts[r + 1]):
            out[cells[j], 0] += whole


@_compiled
def add_residuals_of_classes(
    cells: Cells, starts: Whole, y: Whole, limits: Whole, cut: float, margins: Floats, out: Whole
) -> None:
    """Do the same for more classes: residuals are vectors, and their norms are cut."""
    classes = margins.shape[1]
    residual, whole = np.empty(classes), np.empty(classes, dtype=np.int64)
    for r in range(len(y)):
        residual[:] = 0.0
        for j in range(starts[r], starts[r + 1]):
            for k in range(classes):
                residual[k] += margins[cells[j], k]
        largest, total, square = residual.max(), 0.0, 0.0
        for k in range(classes):
            residual[k] = math.exp(residual[k] - largest)
            total += residual[k]
        for k in range(classes):
            residual[k] = residual[k] / total - (1.0 if k == y[r] else 0.0)
            square += residual[k] ** 2
        factor = limits[r] / max(cut, math.sqrt(square))
        # Not a number where margins are not.
        factor = factor if factor >= 0 else 0.0
        norm = 0
        for k in range(classes):
            value = residual[k] * factor
            whole[k] = int(value) if abs(value) <= limits[r] else 0
            norm += whole[k] ** 2
        # Rounding may leave the norm a hair above the limit; this comparison is exact.
        while norm > limits[r] ** 2:
            norm = 0
            for k in range(classes):
                whole[k] -= 1 if whole[k] > 0 else (-1 if whole[k] < 0 else 0)
                norm += whole[k] ** 2
        for j in range(starts[r], starts[r + 1]):
            for k in range(classes):
                out[cells[j], k] += whole[k]
