"""Which pictures have a twin, or nearly one, among others: serves ``duplicates``.

Two pictures are as far apart as their pixels differ, as a root mean square. Comparing every pixel of every pair would
take long, so averages of small tiles are compared first: these never differ by more than the pixels do, so whatever is
far apart by them is far apart, and only the few pairs that are left are compared in full.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eupg.data.picture import Bytes, Picture

# How many grey levels a distance of 1 is: as far as one unit of a network's input.
GREY_LEVELS = 63.75
_TILE = 4
# Rows and bytes at a time: what is held in memory besides the pictures.
_OURS, _THEIRS, _PAIRS = 512, 8192, 4096


def nearest_pictures(picture: Picture, ours: Bytes, theirs: Bytes, *, tolerance: float) -> NDArray[np.float64]:
    """Return how far each of our pictures is from the nearest of theirs; infinite beyond the tolerance."""
    reach = (tolerance * GREY_LEVELS) ** 2 * picture.columns
    coarse, others = _tile_means(picture, ours), _tile_means(picture, theirs)
    norms, other_norms = (coarse**2).sum(axis=1), (others**2).sum(axis=1)
    best = np.full(len(ours), np.inf)
    for start in range(0, len(theirs), _THEIRS):
        part = slice(start, start + _THEIRS)
        for first in range(0, len(ours), _OURS):
            rows = slice(first, first + _OURS)
            apart = norms[rows, None] + other_norms[part] - 2 * (coarse[rows] @ others[part].T)
            # Single precision may be off by some millionths of the norms: a pair more is compared, none is missed.
            i, j = np.nonzero(apart <= reach + 1e-4 * (norms[rows, None] + other_norms[part]) + 1.0)
            _compare(ours, theirs, i + first, j + start, best)
    return np.where(best <= reach, np.sqrt(best / picture.columns) / GREY_LEVELS, np.inf)


def _compare(ours: Bytes, theirs: Bytes, i: NDArray[np.intp], j: NDArray[np.intp], best: NDArray[np.float64]) -> None:
    """Note the sum of squared differences of these pairs where it is the least so far."""
    for at in range(0, len(i), _PAIRS):
        some = slice(at, at + _PAIRS)
        gap = ours[i[some]].astype(np.int32) - theirs[j[some]]
        np.minimum.at(best, i[some], np.einsum("ij,ij->i", gap, gap, dtype=np.int64).astype(np.float64))


def _tile_means(picture: Picture, X: Bytes) -> NDArray[np.float32]:
    """Return tile sums over the root of the tile's size: distances between these are at most those between pictures."""
    down, right = np.arange(0, picture.height, _TILE), np.arange(0, picture.width, _TILE)
    sizes = np.outer(np.diff(np.r_[down, picture.height]), np.diff(np.r_[right, picture.width]))
    out = np.empty((len(X), picture.channels, len(down), len(right)), dtype=np.float32)
    for at in range(0, len(X), _THEIRS):
        images = picture.images(X[at : at + _THEIRS]).astype(np.float32) - np.float32(127.5)
        out[at : at + _THEIRS] = np.add.reduceat(np.add.reduceat(images, down, axis=2), right, axis=3)
    return np.asarray((out / np.sqrt(sizes)).reshape(len(X), -1), dtype=np.float32)
