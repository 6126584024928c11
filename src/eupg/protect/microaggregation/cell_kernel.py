"""The compiled loops that read rows: their fingerprints, projections and directions, and MDAV in one cell.

Every sum is taken in a fixed order, without fused operations and without a linear-algebra library, so a machine's
vector units and libraries change no bit of the result.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eupg.protect.compiled import compiled, inner
from eupg.protect.microaggregation.blocks import Floats, Positions
from eupg.protect.microaggregation.groups import Groups, Matrix

Singles = NDArray[np.float32]
Flags = NDArray[np.bool_]
# Rows that are compared with a limit at once: counting is vectorised, comparing one by one is not.
_TOGETHER = 64
# Rows whose distances stay in the nearest cache while all columns are added.
_CHUNK = 1024
# A direction needs few steps: any direction gives a valid cut, and a better one a slightly better cut.
_STEPS = 30
# Whatever is smaller counts as zero: its inverse might not be a number.
_SMALLEST = 1e-300


@compiled
def fingerprints(table: Matrix) -> NDArray[np.uint64]:
    """Return 64 bits per row that depend on its values alone, spread like random numbers."""
    n, d = table.shape
    out = np.empty(n, np.uint64)
    number = np.empty(1, np.float64)
    bits = number.view(np.uint64)
    for i in range(n):
        mixed = np.uint64(0x9E3779B97F4A7C15)
        for j in range(d):
            number[0] = table[i, j] + 0.0  # minus zero becomes zero
            mixed = (mixed ^ bits[0]) * np.uint64(0xBF58476D1CE4E5B9)
            mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0x94D049BB133111EB)
        out[i] = mixed ^ (mixed >> np.uint64(32))
    return out


@compiled
def singles(table: Matrix, rows: Positions) -> Singles:
    """Copy rows in single precision, moved to their mean and scaled by a power of two to at most 1.

    Differences in double precision come first, so neither a large mean nor a large unit costs accuracy.
    """
    d = table.shape[1]
    centre = np.zeros(d)
    for row in rows:
        for j in range(d):
            centre[j] += table[row, j]
    largest = 0.0
    for j in range(d):
        centre[j] /= rows.size
    for row in rows:
        for j in range(d):
            largest = max(largest, abs(table[row, j] - centre[j]))
    out = np.zeros((rows.size, d), np.float32)
    if largest < _SMALLEST:
        return out
    scale = 1.0
    while largest * scale > 1.0:
        scale *= 0.5
    while largest * scale <= 0.5:
        scale *= 2.0
    for i in range(rows.size):
        for j in range(d):
            out[i, j] = (table[rows[i], j] - centre[j]) * scale
    return out


@compiled
def means_of(table: Matrix, rows: Positions, labels: Groups, count: int) -> Floats:
    """Return the mean row of each group, summed in the order of ``rows``."""
    d = table.shape[1]
    out, sizes = np.zeros((count, d)), np.zeros(count)
    for i in rows:
        sizes[labels[i]] += 1.0
        for j in range(d):
            out[labels[i], j] += table[i, j]
    for g in range(count):
        for j in range(d):
            out[g, j] /= sizes[g]
    return out


@compiled
def principal_directions(sample: Floats, number: int) -> Floats:
    """Return about the ``number`` directions along which a sample spreads most: (number, dimensions).

    Orthogonal iteration, from the columns with the largest variance. A direction that does not exist is zero.
    """
    n, d = sample.shape
    centre, spread = np.zeros(d), np.zeros((d, d))
    for i in range(n):
        for j in range(d):
            centre[j] += sample[i, j]
    for j in range(d):
        centre[j] /= n
    row = np.empty(d)
    for i in range(n):
        for j in range(d):
            row[j] = sample[i, j] - centre[j]
        for j in range(d):
            for h in range(d):
                spread[j, h] += row[j] * row[h]
    largest = 0.0
    for j in range(d):
        largest = max(largest, spread[j, j])
    now, new = np.zeros((number, d)), np.zeros((number, d))
    if largest < _SMALLEST:
        return now
    taken = np.zeros(d, np.bool_)
    for a in range(min(number, d)):
        best = -1
        for j in range(d):
            if not taken[j] and (best < 0 or spread[j, j] > spread[best, best]):
                best = j
        taken[best], now[a, best] = True, 1.0
    for _ in range(_STEPS):
        for a in range(number):
            for j in range(d):
                new[a, j] = 0.0
            for h in range(d):
                for j in range(d):
                    new[a, j] += spread[h, j] / largest * now[a, h]
            before = 0.0
            for j in range(d):
                before += new[a, j] * new[a, j]
            for b in range(a):
                share = 0.0
                for j in range(d):
                    share += new[a, j] * new[b, j]
                for j in range(d):
                    new[a, j] -= share * new[b, j]
            square = 0.0
            for j in range(d):
                square += new[a, j] * new[a, j]
            # What is left of a dependent direction is rounding error.
            length = np.sqrt(square) if square > 1e-20 * before else np.inf
            for j in range(d):
                new[a, j] /= length
        now, new = new, now
    return now


@compiled
def projected(table: Matrix, rows: Positions, direction: Floats) -> Floats:
    """Return the product of each row with a direction."""
    out = np.empty(rows.size)
    for i in range(rows.size):
        total = 0.0
        for j in range(direction.size):
            total += table[rows[i], j] * direction[j]
        out[i] = total
    return out


@compiled
def squares_from(table: Matrix, rows: Positions, point: Floats) -> Floats:
    """Return the squared distance of each row from a point."""
    out = np.empty(rows.size)
    for i in range(rows.size):
        total = 0.0
        for j in range(point.size):
            offset = table[rows[i], j] - point[j]
            total += offset * offset
        out[i] = total
    return out


@inner
def measure(columns: Singles, point: Singles, n: int, distance: Singles) -> None:
    """Compute the squared distances from a point to the first ``n`` columns, which are rows of the table."""
    d = point.size
    for start in range(0, n, _CHUNK):
        part = distance[start : min(start + _CHUNK, n)]
        for i in range(part.size):
            part[i] = 0.0
        j = 0
        while j + 4 <= d:
            # Four at a time, in order: the sum is the same, and is loaded and stored a quarter as often.
            c0, c1 = columns[j, start : start + part.size], columns[j + 1, start : start + part.size]
            c2, c3 = columns[j + 2, start : start + part.size], columns[j + 3, start : start + part.size]
            p0, p1, p2, p3 = point[j], point[j + 1], point[j + 2], point[j + 3]
            for i in range(part.size):
                o0, o1, o2, o3 = c0[i] - p0, c1[i] - p1, c2[i] - p2, c3[i] - p3
                part[i] = (((part[i] + o0 * o0) + o1 * o1) + o2 * o2) + o3 * o3
            j += 4
        while j < d:
            column, p = columns[j, start : start + part.size], point[j]
            for i in range(part.size):
                offset = column[i] - p
                part[i] += offset * offset
            j += 1


@inner
def farthest(distance: Singles, n: int) -> int:
    """Return the position of the largest distance; of several, the first."""
    best, winner = np.float32(-1.0), 0
    for start in range(0, n, _TOGETHER):
        stop = min(start + _TOGETHER, n)
        far = 0
        for i in range(start, stop):
            far += distance[i] > best
        if far > 0:
            for i in range(start, stop):
                if distance[i] > best:
                    best, winner = distance[i], i
    return winner


@inner
def _replace_worst(worst: Singles, chosen: Positions, distance: float, position: int) -> None:
    """Replace the top of a heap by a nearer position; of two at one distance the later is worse."""
    at, size = 0, worst.size
    while 2 * at + 1 < size:
        child = 2 * at + 1
        other = child + 1
        if other < size and (
            worst[other] > worst[child] or (worst[other] == worst[child] and chosen[other] > chosen[child])
        ):
            child = other
        if worst[child] < distance or (worst[child] == distance and chosen[child] < position):
            break
        worst[at], chosen[at] = worst[child], chosen[child]
        at = child
    worst[at], chosen[at] = distance, position


@inner
def nearest(distance: Singles, n: int, worst: Singles, chosen: Positions) -> None:
    """Gather the positions of the smallest distances in ``chosen``, as many as it holds; ties go to the first."""
    for i in range(worst.size):
        worst[i], chosen[i] = np.inf, n + i
    for start in range(0, n, _TOGETHER):
        stop = min(start + _TOGETHER, n)
        near, limit = 0, worst[0]
        for i in range(start, stop):
            near += distance[i] < limit
        if near > 0:
            for i in range(start, stop):
                if distance[i] < worst[0]:
                    _replace_worst(worst, chosen, distance[i], i)


@compiled
def group_cell(table: Singles, rows: Positions, size: int, k: int, labels: Groups, label: int) -> int:
    """Group the named rows by MDAV, labelled from ``label`` on; return the next label.

    Groups have ``size`` rows, which is k or a little more; the last ones may have fewer, but at least k, or more, but
    at most 2k−1.
    """
    n, d = rows.size, table.shape[1]
    columns, names = np.empty((d, n), np.float32), rows.copy()
    total, point = np.zeros(d), np.empty(d, np.float32)
    for i in range(n):
        for j in range(d):
            columns[j, i] = table[rows[i], j]
            total[j] += table[rows[i], j]
    distance = np.empty(n, np.float32)
    worst, chosen = np.empty(size, np.float32), np.empty(size, np.int64)
    opposite = False
    while n >= 2 * k:
        taken = size if n - size >= k else k
        if not opposite:
            for j in range(d):
                point[j] = total[j] / n
            measure(columns, point, n, distance)
        # Farthest from the centroid; or, for the second group of a pair, from the row the first was formed around.
        centre = farthest(distance, n)
        for j in range(d):
            point[j] = columns[j, centre]
        measure(columns, point, n, distance)
        nearest(distance, n, worst[:taken], chosen[:taken])
        group = np.sort(chosen[:taken])
        for t in range(taken - 1, -1, -1):
            i = group[t]
            n -= 1
            labels[names[i]] = label
            names[i], distance[i] = names[n], distance[n]
            for j in range(d):
                total[j] -= columns[j, i]
                columns[j, i] = columns[j, n]
        label += 1
        opposite = not opposite
    for i in range(n):
        labels[names[i]] = label
    return label + 1
