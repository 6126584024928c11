"""The rows that have no group yet, in blocks of near neighbours: the data of the compiled search of MDAV.

A block is small enough to be measured at once and tight enough to be skipped at once. The layout decides how fast
groups are formed, but not which ones.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eupg.protect.microaggregation.groups import Matrix

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
# Rows sampled to choose the widest column of a part.
_SAMPLE = 32


class Blocks(NamedTuple):
    """Rows without a group, in blocks of ``width`` places, of which the first ``filled`` are occupied."""

    values: Matrix  # (blocks, dimensions, width)
    rows: Positions  # (blocks, width)
    filled: Positions  # (blocks,)
    place: Positions  # (all rows,): block times width, plus position in the block
    low: Floats  # (dimensions, blocks): the bounding box
    high: Floats  # (dimensions, blocks)
    radius: Floats  # (blocks, width): distance from the origin, squared
    reach: Floats  # (blocks,): the largest distance from the origin
    origin: Floats  # (dimensions,)
    total: Floats  # (2, dimensions): the sum of all rows, and its rounding error


class Search(NamedTuple):
    """The point from which distances are measured, and working memory."""

    point: Floats  # (dimensions,)
    bound: Floats  # (blocks,)
    distance: Floats  # (blocks, width), squared
    measured: NDArray[np.bool_]  # (blocks,): whether ``distance`` is known for this point
    worst: Floats  # (k,): a max-heap of the k smallest distances so far
    group: Positions  # (k,): the rows they belong to


def neighbours_together(table: Matrix, width: int) -> Positions:
    """Order the rows by halving the table at medians until no part has more than ``width`` rows."""
    n = len(table)
    levels = max(0, math.ceil(math.log2(n / width)))
    # The parts of a level are halved at once, so they have equal length: numbers from n on are copies, dropped below.
    parts = np.arange(math.ceil(n / 2**levels) * 2**levels)[None]
    for _ in range(levels):
        length = parts.shape[1]
        sample = table[parts[:, :: max(1, length // _SAMPLE)] % n]
        widest = np.ptp(sample, axis=1).argmax(axis=1)
        values = table[parts % n, widest[:, None]]
        parts = np.take_along_axis(parts, halves(values), axis=1).reshape(-1, length // 2)
    return parts[parts < n]


def halves(values: Matrix) -> Positions:
    """Order each line so that no value of its first half exceeds one of the second; equal values keep their order."""
    half = values.shape[1] // 2
    median = np.partition(values, half, axis=1)[:, half, None]
    side = (values >= median).astype(np.uint8) + (values > median)
    return side.argsort(axis=1, kind="stable")


def pack(table: Matrix, order: Positions, width: int) -> Blocks:
    """Copy the rows named in ``order`` into blocks; their bounds and their sum are computed later."""
    size, (n, d) = -(-order.size // width), table.shape
    rows = np.resize(order, (size, width))
    filled = np.full(size, width)
    filled[-1] -= size * width - order.size
    place = np.zeros(n, np.int64)
    place[order] = np.arange(order.size)
    values = np.ascontiguousarray(table[rows].transpose(0, 2, 1))
    # Any origin gives valid bounds, and one near the centroid gives tight bounds.
    origin = values.mean(axis=(0, 2), dtype=np.float64)
    low, high, radius, reach = np.empty((d, size)), np.empty((d, size)), np.zeros((size, width)), np.empty(size)
    return Blocks(values, rows, filled, place, low, high, radius, reach, origin, np.zeros((2, d)))


def new_search(blocks: Blocks, k: int) -> Search:
    """Reserve the working memory to search these blocks for groups of k."""
    size, d, width = blocks.values.shape
    measured, group = np.zeros(size, np.bool_), np.empty(k, np.int64)
    return Search(np.empty(d), np.empty(size), np.empty((size, width)), measured, np.empty(k), group)
