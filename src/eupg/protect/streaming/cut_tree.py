"""A tree of cuts that divides a table into cells, grown from a sample of its rows.

A cut runs where rows are sparse, so that few groups would have crossed it: through the widest band that holds few rows
of the sample, perpendicular to one of the coordinates or of the first principal axes. Where a few outlying rows hold
much of the variance, they are set apart first, since a cut through them costs the most. The tree follows from the
sample alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eupg.protect.streaming.kernel import Places, Points, leaves_of

# Rows of the sample that one cut looks at, and the least per cell.
_LOOKED_AT, PER_CELL = 4096, 1024
# Principal axes among the directions of cuts, and the most coordinates, those that vary most, that cuts consider.
_AXES, _CONSIDERED = 4, 64
# A cut leaves at least this share of the sample on both sides, and looks for its band between these quantiles.
_LEAST_SHARE, _FROM, _TO = 1 / 8, 0.25, 0.75
# Half of the share of the sample that a sparse band holds.
_BAND = 1 / 50
# Where the outer 5 % of the rows hold more than this share of the squares, up to an eighth of the rows is set apart.
_OUTER, _HEAVY, _SET_APART = 0.95, 0.2, 0.125


class _Cut(NamedTuple):
    ball: bool
    vector: Points
    threshold: float


@dataclass(frozen=True, eq=False)
class CutTree:
    """Cuts as arrays; a child is a node, or −1 minus the number of a leaf. Leaves are numbered from one side.

    A plane compares a row's product with ``vector``, a ball its squared distance from it, with ``threshold``.
    """

    ball: NDArray[np.bool_]
    vector: Points
    threshold: Points
    low: Places
    high: Places
    leaves: int

    def leaf_of(self, points: Points) -> NDArray[np.int32]:
        """Return the number of each row's leaf."""
        if not len(self.low):
            return np.zeros(len(points), np.int32)
        return leaves_of(points, self.ball, self.vector, self.threshold, self.low, self.high)

    @classmethod
    def grow(cls, sample: Points, most: float) -> CutTree:
        """Cut until no leaf has more than ``most`` rows of the sample, where cuts can do that."""
        cuts: list[_Cut] = []
        children: list[list[int]] = []
        leaves = 0
        # The rows of a node, its place as a child, and whether its outlying rows are already set apart.
        waiting: list[tuple[Points, tuple[int, int] | None, bool]] = [(sample, None, False)]
        while waiting:
            points, place, even = waiting.pop()
            cut = _cut(points, most, even=even) if len(points) > most else None
            if cut is None:
                number, leaves = -1 - leaves, leaves + 1
            else:
                number = len(cuts)
                cuts.append(cut)
                children.append([0, 0])
                tree = cls._of([cut._replace()], [[-1, -2]], 2)
                above = tree.leaf_of(points) == 1
                waiting.append((points[above], (number, 1), cut.ball))
                waiting.append((points[~above], (number, 0), cut.ball))
            if place is not None:
                children[place[0]][place[1]] = number
        return cls._of(cuts, children, leaves)

    @classmethod
    def _of(cls, cuts: list[_Cut], children: list[list[int]], leaves: int) -> CutTree:
        return cls(
            np.array([cut.ball for cut in cuts], dtype=bool),
            np.array([cut.vector for cut in cuts], dtype=np.float32),
            np.array([cut.threshold for cut in cuts], dtype=np.float32),
            np.array([child[0] for child in children], dtype=np.int64),
            np.array([child[1] for child in children], dtype=np.int64),
            leaves,
        )


def _cut(points: Points, most: float, *, even: bool) -> _Cut | None:
    """Return the best cut of some rows, or none if too many of them are equal."""
    sample = points[:: max(1, len(points) // _LOOKED_AT)].astype(np.float64)
    n = len(sample)
    centre = sample.mean(axis=0)
    if not even:
        away = np.square(sample.astype(np.float32) - centre.astype(np.float32)).sum(axis=1)
        order = np.sort(away)
        if order[int(_OUTER * n) :].sum() > _HEAVY * order.sum():
            share = min(_SET_APART, 0.9 * most / len(points))
            threshold = float(order[int((1 - share) * n)])
            if 0 < np.count_nonzero(away > threshold) <= n / 2:
                return _Cut(True, centre.astype(np.float32), threshold)
    directions = _directions(sample - centre)
    heights = np.sort(sample @ directions.T, axis=0)
    band = max(4, int(_BAND * n))
    middle = np.arange(max(band, int(_FROM * n)), min(n - band, int(_TO * n) + 1))
    if not len(middle):
        return None
    width = heights[middle + band - 1] - heights[middle - band]
    for best in np.argsort(-width.max(axis=0), kind="stable"):
        at = middle[width[:, best].argmax()]
        near = np.arange(at - band // 2, at + band // 2 + 1)
        line = heights[:, best]
        gap = near[(line[near] - line[near - 1]).argmax()]
        threshold = float(np.float32((line[gap - 1] + line[gap]) / 2))
        above = np.count_nonzero(sample @ directions[best] > threshold)
        if min(above, n - above) >= _LEAST_SHARE * n:
            return _Cut(False, directions[best].astype(np.float32), threshold)
    return None


def _directions(centred: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the coordinates that vary most and the first principal axes, rounded so that they are alike everywhere."""
    d = centred.shape[1]
    chosen = np.sort(np.argsort(-np.square(centred).sum(axis=0), kind="stable")[:_CONSIDERED])
    part = centred[:, chosen]
    values, vectors = np.linalg.eigh(part.T @ part)
    vectors = vectors[:, np.argsort(-values, kind="stable")][:, :_AXES].T
    vectors *= np.sign(vectors[np.arange(len(vectors)), np.abs(vectors).argmax(axis=1)])[:, None]
    axes = np.zeros((len(vectors), d))
    axes[:, chosen] = np.round(vectors * 1024) / 1024
    return np.concatenate([np.eye(d)[chosen], axes])
