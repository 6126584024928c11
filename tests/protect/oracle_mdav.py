"""MDAV as the textbook has it, in NumPy: slow and obvious, the standard the compiled search is held to."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def textbook_mdav(X: NDArray, k: int, *, centroid: Callable[[NDArray], Vector] | None = None) -> NDArray[np.int64]:
    columns = np.array(X, np.float64).T.copy()
    centroid = centroid or exact_mean
    labels = np.full(len(X), -1)
    left = np.arange(len(X))
    label = 0

    def form_group_around(position: int) -> None:
        nonlocal columns, left, label
        group = nearest(columns, columns[:, position], k)
        labels[left[group]] = label
        label += 1
        columns, left = np.delete(columns, group, axis=1), np.delete(left, group)

    while left.size >= 3 * k:
        r = farthest(columns, centroid(columns))
        at_r = columns[:, r]
        form_group_around(r)
        form_group_around(farthest(columns, at_r))
    if left.size >= 2 * k:
        form_group_around(farthest(columns, centroid(columns)))
    labels[left] = label
    return labels


def farthest(columns: NDArray, point: Vector) -> int:
    return int(squared_distances(columns, point).argmax())  # the first of several


def nearest(columns: NDArray, point: Vector, k: int) -> NDArray[np.int64]:
    distances = squared_distances(columns, point)
    kth = np.partition(distances, k - 1)[k - 1]
    nearer, tied = np.flatnonzero(distances < kth), np.flatnonzero(distances == kth)
    return np.concatenate([nearer, tied[: k - nearer.size]])


def squared_distances(columns: NDArray, point: Vector) -> Vector:
    # Column by column, so that the order of rounding is defined and equal rows are at equal distances.
    total = np.zeros(columns.shape[1])
    for column, x in zip(columns, point, strict=True):
        total += (column - x) ** 2
    return total


def exact_mean(columns: NDArray) -> Vector:
    return np.array([math.fsum(column) for column in columns]) / columns.shape[1]


def plain_mean(columns: NDArray) -> Vector:
    return columns.mean(axis=1)
