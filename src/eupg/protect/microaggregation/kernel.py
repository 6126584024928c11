"""The compiled loop of MDAV: an exact search that skips blocks of rows it can prove irrelevant.

Rows without a group are stored in blocks of near neighbours. The bounding box of a block and its largest distance from
a fixed origin bound the distance between a point and any row of the block, and a block is measured only where its bound
leaves the answer open. Distances are summed in the order of the dimensions, without fused operations, so a row's
distance is the same number in any block: bounds and blocks change the time, never the groups. The first call compiles;
later processes load the result from a cache.
"""

from __future__ import annotations

import numpy as np

from eupg.protect.compiled import compiled, inner, inner_without_nan
from eupg.protect.microaggregation.blocks import Blocks, Floats, Positions, Search
from eupg.protect.microaggregation.groups import Groups

_HUGE = float(np.finfo(np.float64).max)
# Far above the rounding error of a bound, far below any difference that matters.
_SLACK = 1e-10
# The promising blocks first: their rows tighten the limit before the doubtful blocks are considered.
_SHARES = (0.0, 0.5, 1.0)


@inner
def _add(total: Floats, j: int, x: float) -> None:
    """Add to a sum and to its rounding error (Knuth's two-sum), so that the centroid never drifts."""
    before = total[0, j]
    after = before + x
    share = after - before
    total[1, j] += (before - (after - share)) + (x - share)
    total[0, j] = after


@inner
def _replace_worst(worst: Floats, group: Positions, distance: float, row: int) -> None:
    """Replace the top of the heap by a nearer row; of two rows at one distance the higher index is worse."""
    at = 0
    while 2 * at + 1 < worst.size:
        child = 2 * at + 1
        other = child + 1
        if other < worst.size and (
            worst[other] > worst[child] or (worst[other] == worst[child] and group[other] > group[child])
        ):
            child = other
        if worst[child] < distance or (worst[child] == distance and group[child] < row):
            break
        worst[at], group[at] = worst[child], group[child]
        at = child
    worst[at], group[at] = distance, row


@inner
def _measure(blocks: Blocks, search: Search, b: int) -> None:
    """Compute the squared distances from the point to one block, unless they are known."""
    values, distance, filled = blocks.values, search.distance, blocks.filled[b]
    if search.measured[b]:
        return
    search.measured[b] = True
    for i in range(filled):
        distance[b, i] = 0.0
    for j in range(search.point.size):
        p = search.point[j]
        for i in range(filled):
            offset = values[b, j, i] - p
            distance[b, i] += offset * offset


@inner_without_nan
def _refresh(blocks: Blocks, b: int) -> None:
    """Recompute the bounds of one block."""
    filled = blocks.filled[b]
    for j in range(blocks.origin.size):
        low, high = np.inf, -np.inf
        for i in range(filled):
            low = min(low, blocks.values[b, j, i])
            high = max(high, blocks.values[b, j, i])
        blocks.low[j, b] = low
        blocks.high[j, b] = high
    reach = 0.0
    for i in range(filled):
        reach = max(reach, blocks.radius[b, i])
    blocks.reach[b] = np.sqrt(reach)


@inner
def _bound_above(blocks: Blocks, search: Search) -> float:
    """Bound the squared distance from the point to each block from above; return the largest bound.

    With x and p relative to the origin, |x−p|² = |x|² + |p|² − 2x·p, where |x| is at most the block's reach and its box
    bounds x·p.
    """
    bound, reach, square = search.bound, blocks.reach, 0.0
    for b in range(bound.size):
        bound[b] = 0.0
    for j in range(search.point.size):
        origin = blocks.origin[j]
        p = search.point[j] - origin
        square += p * p
        for b in range(bound.size):
            bound[b] += min((blocks.low[j, b] - origin) * p, (blocks.high[j, b] - origin) * p)
    radius, top = np.sqrt(square), -np.inf
    for b in range(bound.size):
        triangle = (reach[b] + radius) ** 2
        bound[b] = min(reach[b] ** 2 + square - 2.0 * bound[b], triangle) + _SLACK * triangle
        if blocks.filled[b] == 0:
            bound[b] = -np.inf
        top = max(top, bound[b])
    return top


@inner
def _farthest(blocks: Blocks, search: Search) -> int:
    """Return the row farthest from the point; of several, the one with the lowest index."""
    bound, distance, rows = search.bound, search.distance, blocks.rows
    top = _bound_above(blocks, search)
    best, winner = -1.0, -1
    for share in _SHARES:
        limit = share * best + (1.0 - share) * top
        for b in range(bound.size):
            if bound[b] < limit or bound[b] < best:
                continue
            bound[b] = -np.inf  # seen
            _measure(blocks, search, b)
            # Counting is vectorised, comparing one by one is not, and most blocks hold no candidate.
            far = 0
            for i in range(blocks.filled[b]):
                far += distance[b, i] >= best
            if far == 0:
                continue
            for i in range(blocks.filled[b]):
                if distance[b, i] > best or (distance[b, i] == best and rows[b, i] < winner):
                    best, winner = distance[b, i], rows[b, i]
    return winner


@inner
def _bound_below(blocks: Blocks, search: Search) -> None:
    """Bound the squared distance from the point to each block from below: the distance to its box.

    Rounding is monotone, and these are the operations of ``_measure`` in the same order, so no slack is needed.
    """
    bound = search.bound
    for b in range(bound.size):
        bound[b] = 0.0 if blocks.filled[b] > 0 else np.inf
    for j in range(search.point.size):
        p = search.point[j]
        for b in range(bound.size):
            gap = max(blocks.low[j, b] - p, p - blocks.high[j, b], 0.0)
            bound[b] += gap * gap


@inner
def _nearest(blocks: Blocks, search: Search) -> None:
    """Gather the k rows nearest to the point in ``search.group``; ties at the k-th place go to the lowest index."""
    bound, distance, rows = search.bound, search.distance, blocks.rows
    worst, group = search.worst, search.group
    _bound_below(blocks, search)
    for i in range(worst.size):
        worst[i], group[i] = _HUGE, blocks.place.size
    for share in _SHARES:
        for b in range(bound.size):
            if bound[b] > share * worst[0]:
                continue
            bound[b] = np.inf  # seen
            _measure(blocks, search, b)
            near = 0
            for i in range(blocks.filled[b]):
                near += distance[b, i] <= worst[0]
            if near == 0:
                continue
            for i in range(blocks.filled[b]):
                if distance[b, i] < worst[0] or (distance[b, i] == worst[0] and rows[b, i] < group[0]):
                    _replace_worst(worst, group, distance[b, i], rows[b, i])


@inner
def _take(blocks: Blocks, search: Search, labels: Groups, label: int) -> None:
    """Give the rows in ``search.group`` their label and remove them from their blocks."""
    values, rows, place = blocks.values, blocks.rows, blocks.place
    width = rows.shape[1]
    for row in search.group:
        labels[row] = label
        b, i = place[row] // width, place[row] % width
        last = blocks.filled[b] - 1
        for j in range(search.point.size):
            _add(blocks.total, j, -values[b, j, i])
            values[b, j, i] = values[b, j, last]
        rows[b, i] = rows[b, last]
        place[rows[b, i]] = b * width + i
        blocks.radius[b, i] = blocks.radius[b, last]
        search.distance[b, i] = search.distance[b, last]
        blocks.filled[b] = last
        _refresh(blocks, b)


@compiled
def form_groups(blocks: Blocks, search: Search, labels: Groups, label: int, stop: int) -> int:
    """Form groups of k until fewer than ``stop`` rows remain, labelled from ``label`` on; return the next label."""
    width, k, point, total = blocks.rows.shape[1], search.group.size, search.point, blocks.total
    n = 0
    for b in range(blocks.filled.size):
        for j in range(point.size):
            for i in range(blocks.filled[b]):
                _add(total, j, blocks.values[b, j, i])
                offset = blocks.values[b, j, i] - blocks.origin[j]
                blocks.radius[b, i] += offset * offset
        _refresh(blocks, b)
        n += blocks.filled[b]
    opposite = False
    while n >= stop or opposite:
        if not opposite:
            for j in range(point.size):
                point[j] = (total[0, j] + total[1, j]) / n
            search.measured[:] = False
        # Farthest from the centroid; or, for the second group of a pair, from the row the first was formed around.
        row = _farthest(blocks, search)
        b, i = blocks.place[row] // width, blocks.place[row] % width
        for j in range(point.size):
            point[j] = blocks.values[b, j, i]
        search.measured[:] = False
        _nearest(blocks, search)
        _take(blocks, search, labels, label)
        opposite = not opposite and n >= 3 * k
        n -= k
        label += 1
    return label
