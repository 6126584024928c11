"""The compiled loops of a gradient: residuals of records, cut, in whole numbers, added up by cell.

Each unit, a record or a person, is read by itself, and sums are of whole numbers, so its contribution does not depend
on any other.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from eupg.protect.compiled import compiled, inner

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Cells = NDArray[np.uint16] | NDArray[np.int32]
# A vector that rounding leaves above its limit is made shorter by this factor.
_SHORTER = 1 - 2.0**-20


@compiled
def add_residuals(
    cells: Cells, starts: Whole, y: Whole, limits: Whole, cut: float, euclidean: bool, margins: Floats, out: Whole
) -> None:
    """Add each record's residual to its cells.

    For two classes it is the probability of the second less 1 for records of that class; else one number per class.
    Its norm is cut to ``cut``, which becomes the record's limit in whole numbers.
    """
    width = margins.shape[1]
    residual, whole = np.empty(width), np.empty(width, dtype=np.int64)
    for r in range(len(y)):
        if width == 1:
            margin = 0.0
            for j in range(starts[r], starts[r + 1]):
                margin += margins[cells[j], 0]
            one = _of_two(margin, y[r], limits[r], cut)
            for j in range(starts[r], starts[r + 1]):
                out[cells[j], 0] += one
        else:
            _of_classes(cells[starts[r] : starts[r + 1]], y[r], limits[r], cut, euclidean, margins, residual, whole)
            for j in range(starts[r], starts[r + 1]):
                for k in range(width):
                    out[cells[j], k] += whole[k]


@compiled
def add_people(
    cells: Cells,
    starts: Whole,
    people: Whole,
    y: Whole,
    limits: Whole,
    cut: float,
    euclidean: bool,
    margins: Floats,
    weights: Whole,
    bound: int,
    out: Whole,
) -> None:
    """Add up the residuals of each person's records, and cut the sum so that its norm, with weights, is at most bound.

    ``people`` holds the first record of each person, and the number of records at its end.
    """
    width = margins.shape[1]
    residual, whole = np.empty(width), np.empty(width, dtype=np.int64)
    own = np.zeros((len(margins), width), dtype=np.int64)
    seen, touched = np.zeros(len(margins), dtype=np.bool_), np.empty(len(margins), dtype=np.int64)
    for p in range(len(people) - 1):
        used = 0
        for r in range(people[p], people[p + 1]):
            mine = cells[starts[r] : starts[r + 1]]
            if width == 1:
                margin = 0.0
                for c in mine:
                    margin += margins[c, 0]
                whole[0] = _of_two(margin, y[r], limits[r], cut)
            else:
                _of_classes(mine, y[r], limits[r], cut, euclidean, margins, residual, whole)
            for c in mine:
                # A cell without weight is no part of the answer.
                if weights[c] and not seen[c]:
                    seen[c] = True
                    touched[used] = c
                    used += 1
                for k in range(width):
                    own[c, k] += whole[k] if weights[c] else 0
        _shorten(own, touched[:used], weights, bound, euclidean)
        for c in touched[:used]:
            seen[c] = False
            for k in range(width):
                out[c, k] += own[c, k]
                own[c, k] = 0


@inner
def _of_two(margin: float, y: int, limit: int, cut: float) -> int:
    """Return the residual of a record of two classes in whole numbers."""
    residual = 1.0 / (1.0 + math.exp(-margin)) - y
    # A margin that is not a number fails both comparisons and adds nothing.
    if residual >= 0:
        whole = int(min(residual / cut, 1.0) * limit)
    elif residual < 0:
        whole = -int(min(-residual / cut, 1.0) * limit)
    else:
        whole = 0
    # Rounding in the lines above may be off by one at the limit; this comparison is exact.
    return min(max(whole, -limit), limit)


@inner
def _of_classes(
    cells: Cells, y: int, limit: int, cut: float, euclidean: bool, margins: Floats, residual: Floats, whole: Whole
) -> None:
    """Do the same for more classes: residuals are vectors, and their norms are cut."""
    classes = len(whole)
    residual[:] = 0.0
    for c in cells:
        for k in range(classes):
            residual[k] += margins[c, k]
    largest, total, size = residual.max(), 0.0, 0.0
    for k in range(classes):
        residual[k] = math.exp(residual[k] - largest)
        total += residual[k]
    for k in range(classes):
        residual[k] = residual[k] / total - (1.0 if k == y else 0.0)
        size += residual[k] ** 2 if euclidean else abs(residual[k])
    factor = limit / max(cut, math.sqrt(size) if euclidean else size)
    # Not a number where margins are not.
    factor = factor if factor >= 0 else 0.0
    for k in range(classes):
        value = residual[k] * factor
        whole[k] = int(value) if abs(value) <= limit else 0
    # Rounding may leave the norm slightly above the limit; this comparison is exact.
    while True:
        norm = 0
        for k in range(classes):
            norm += whole[k] ** 2 if euclidean else abs(whole[k])
        if norm <= (limit**2 if euclidean else limit):
            return
        for k in range(classes):
            whole[k] -= 1 if whole[k] > 0 else (-1 if whole[k] < 0 else 0)


@inner
def _shorten(own: Whole, touched: Whole, weights: Whole, bound: int, euclidean: bool) -> None:
    """Make a vector shorter, keeping its direction up to rounding, until its norm is at most bound."""
    size = 0.0
    for c in touched:
        for k in range(own.shape[1]):
            part = float(weights[c]) * abs(own[c, k])
            size += part**2 if euclidean else part
    factor = min(1.0, bound / max(math.sqrt(size) if euclidean else size, 1.0))
    while not _within(own, touched, weights, bound, euclidean):
        for c in touched:
            for k in range(own.shape[1]):
                own[c, k] = int(own[c, k] * factor)
        factor = _SHORTER


@inner
def _within(own: Whole, touched: Whole, weights: Whole, bound: int, euclidean: bool) -> bool:
    """Tell whether a norm is certainly at most bound, by whole numbers alone.

    Squares may need more than 63 bits. So all numbers are first divided by 2^s, entries rounded up and the bound down:
    the sum of squares of ⌈v/2^s⌉ is at most ⌊bound/2^s⌋² only if that of v is at most bound².
    """
    entries, shift, total = len(touched) * own.shape[1], 0, 0
    while euclidean and ((bound >> shift) + 2.0) ** 2 * entries > 2.0**61:
        shift += 1
    for c in touched:
        for k in range(own.shape[1]):
            part = weights[c] * abs(own[c, k])
            if part > bound:
                return False
            part = (part + (1 << shift) - 1) >> shift
            total += part * part if euclidean else part
    return total <= ((bound >> shift) ** 2 if euclidean else bound)
