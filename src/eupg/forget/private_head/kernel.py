"""The compiled loop that cuts people with several records: their residuals, until their sum is short enough."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from eupg.protect.compiled import compiled

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
# Relative to the largest term; rounding of a sum of a million such terms stays below it.
_SLACK = 1e-9


@compiled
def shorten_people(people: Whole, products: Floats, offsets: Whole, norm: int, bound: int, residuals: Whole) -> None:
    """Cut each person's residuals so that the norm of Σ x·R over their records is at most ``bound``.

    The squared norm is Σ (x_i·x_j)(R_i·R_j) over pairs of records. It is computed in floating point, with an error far
    below the slack, and taken for larger by the slack. Where that exceeds the bound, all residuals are multiplied by
    one factor and rounded towards zero. Rounding moves x·R by at most ‖x‖·√K, K being the number of scores, so the
    factor leaves room for that.

    Parameters
    ----------
    people
        The first record of each person, and the number of records at its end.
    products, offsets
        The products x_i·x_j of each person's records, row by row, and where those of a person begin.
    norm
        The largest norm of a record's x.
    bound
        The largest norm of a person's sum.
    residuals
        One row per record, changed in place; the norm of x·R of a record is at most bound.
    """
    width = residuals.shape[1]
    for p in range(len(people) - 1):
        first, size = people[p], people[p + 1] - people[p]
        if size < 2:
            continue
        square = 0.0
        for i in range(size):
            for j in range(size):
                inner = 0.0
                for k in range(width):
                    inner += float(residuals[first + i, k]) * float(residuals[first + j, k])
                square += products[offsets[p] + i * size + j] * inner
        length = math.sqrt(max(square, 0.0) + _SLACK * float(size) ** 2 * float(bound) ** 2)
        if length <= bound:
            continue
        room = max(float(bound) - float(size) * float(norm) * math.sqrt(float(width)), 0.0)
        factor = room / length * (1 - _SLACK)
        for i in range(size):
            for k in range(width):
                residuals[first + i, k] = int(float(residuals[first + i, k]) * factor)
