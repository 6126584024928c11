"""The compiled loops of streaming protection: coordinates of rows, their place in a cut tree, and permutations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eupg.protect.compiled import compiled

Points = NDArray[np.float32]
Places = NDArray[np.int64]


@compiled
def standardise(values: NDArray[np.float64], mean: float, spread: float, points: Points, at: int) -> None:
    """Write the z-scores of a column; a missing value is at the mean."""
    for i in range(values.size):
        points[i, at] = 0.0 if np.isnan(values[i]) else (values[i] - mean) / spread


@compiled
def mark(values: NDArray[np.float64], code: int, height: float, points: Points, at: int) -> None:
    """Write where a column has this code; −1 stands for a missing value."""
    for i in range(values.size):
        if code < 0:
            points[i, at] = height if np.isnan(values[i]) else 0.0
        else:
            points[i, at] = height if values[i] == code else 0.0


@compiled
def leaves_of(
    points: Points,
    ball: NDArray[np.bool_],
    vector: Points,
    threshold: Points,
    low: Places,
    high: Places,
) -> NDArray[np.int32]:
    """Return the leaf of each point: children are nodes if not negative, otherwise −1 minus the number of a leaf."""
    n, d = points.shape
    out = np.empty(n, np.int32)
    for i in range(n):
        node = 0
        while node >= 0:
            total = np.float32(0.0)
            if ball[node]:
                for j in range(d):
                    offset = points[i, j] - vector[node, j]
                    total += offset * offset
            else:
                for j in range(d):
                    total += points[i, j] * vector[node, j]
            node = high[node] if total > threshold[node] else low[node]
        out[i] = -1 - node
    return out


@compiled
def permuted(words: NDArray[np.uint64], starts: Places, source: Places) -> bool:
    """Permute the positions of each group, from ``starts[g]`` to ``starts[g + 1]``, uniformly (Fisher and Yates).

    A word is uniform below 2⁶³. The few beyond the largest multiple of the number of choices would favour some of them:
    then the answer is False, and the caller draws all words again.
    """
    span = np.uint64(1) << np.uint64(63)
    for g in range(starts.size - 1):
        begin, end = starts[g], starts[g + 1]
        for i in range(begin, end):
            source[i] = i
        for i in range(end - 1, begin, -1):
            choices = np.uint64(i - begin + 1)
            if words[i] >= span - span % choices:
                return False
            j = begin + np.int64(words[i] % choices)
            source[i], source[j] = source[j], source[i]
    return True


@compiled
def constant_groups(column: Any, starts: Places) -> int:
    """Return how many rows lie in groups that have a single value of a column; missing values are equal."""
    rows = 0
    for g in range(starts.size - 1):
        first = column[starts[g]]
        same = True
        for i in range(starts[g] + 1, starts[g + 1]):
            value = column[i]
            if value != first and not (value != value and first != first):
                same = False
                break
        if same:
            rows += starts[g + 1] - starts[g]
    return rows


@compiled
def squares(points: Points, starts: Places) -> float:
    """Return the sum of squared distances of points, in the order of their groups, to the centroid of their group."""
    d = points.shape[1]
    total = 0.0
    for g in range(starts.size - 1):
        begin, end = starts[g], starts[g + 1]
        for j in range(d):
            mean = 0.0
            for i in range(begin, end):
                mean += points[i, j]
            mean /= end - begin
            for i in range(begin, end):
                offset = points[i, j] - mean
                total += offset * offset
    return total
