"""The compiled loops that improve groups: rows move between near groups while the sum of squares falls.

Two moves are tried. ``divide_pairs`` takes two near groups and divides their rows anew along the line through their
centroids. ``dissolve`` hands the rows of a wide group to the groups that are nearest to each. Either move is made only
if the squared distances of rows to the centroids of their groups fall, and no group leaves the sizes k to 2k−1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eupg.protect.compiled import compiled, inner, inner_without_nan
from eupg.protect.microaggregation.blocks import Floats, Positions
from eupg.protect.microaggregation.cell_kernel import Flags, Singles, measure, nearest
from eupg.protect.microaggregation.groups import Groups

# A gain below this share is rounding error.
_GAIN = 1e-9
# Far from rows, whose numbers are at most 1, with a square that is finite in single precision.
_AWAY = 1e15


class PackedGroups(NamedTuple):
    """The rows of each group side by side, column by column, with places for as many rows as a group can have."""

    values: NDArray[np.float32]  # (groups, dimensions, places)
    rows: Positions  # (groups, places)
    sizes: Positions  # (groups,): how many places are taken; zero for a group that was dissolved
    sums: Floats  # (groups, dimensions)


class _Pair(NamedTuple):
    """Working memory for the rows of two groups, those of the first group first."""

    along: Singles  # (places,): where a row lies on the line through the centroids
    keys: Positions  # (places,): that, as a number that sorts like it, with the row's position in the lowest bits
    first: Flags  # (places,): whether a row goes to the first group
    step: Floats  # (dimensions,): from one centroid to the other
    mean: Floats  # (dimensions,): of both groups
    total: Floats  # (dimensions,): of the rows of the first group, relative to the mean
    best: Floats  # (dimensions,): the same, for the best division


@compiled
def pack_groups(table: Singles, labels: Groups, count: int, places: int) -> PackedGroups:
    """Copy rows into their groups."""
    n, d = table.shape
    values, rows = np.zeros((count, d, places), np.float32), np.zeros((count, places), np.int64)
    sizes, sums = np.zeros(count, np.int64), np.zeros((count, d))
    for i in range(n):
        g = labels[i]
        rows[g, sizes[g]] = i
        for j in range(d):
            values[g, j, sizes[g]] = table[i, j]
            sums[g, j] += table[i, j]
        sizes[g] += 1
    return PackedGroups(values, rows, sizes, sums)


@compiled
def labels_of(groups: PackedGroups, n: int) -> Groups:
    """Return the group of each row, numbered without gaps."""
    labels, label = np.empty(n, np.int64), 0
    for g in range(groups.sizes.size):
        for i in range(groups.sizes[g]):
            labels[groups.rows[g, i]] = label
        label += groups.sizes[g] > 0
    return labels


@inner
def _centroids(groups: PackedGroups) -> Singles:
    """Return the centroids as columns; that of an empty group is far from everything."""
    count, d = groups.sums.shape
    out = np.full((d, count), _AWAY, np.float32)
    for g in range(count):
        if groups.sizes[g] > 0:
            for j in range(d):
                out[j, g] = groups.sums[g, j] / groups.sizes[g]
    return out


@compiled
def near_pairs(groups: PackedGroups, number: int) -> Positions:
    """Return the pairs of groups of which one is among the ``number`` nearest of the other: (pairs, 2), each once."""
    count, d = groups.sums.shape
    number = min(number, count - 1)
    centroids, point, distance = _centroids(groups), np.empty(d, np.float32), np.empty(count, np.float32)
    worst, chosen = np.empty(number, np.float32), np.empty(number, np.int64)
    near = np.full((count, number), -1, np.int64)
    for g in range(count):
        if groups.sizes[g] == 0:
            continue
        for j in range(d):
            point[j] = centroids[j, g]
        measure(centroids, point, count, distance)
        distance[g] = np.inf
        nearest(distance, count, worst, chosen)
        near[g] = np.sort(chosen)
    pairs, size = np.empty((count * number, 2), np.int64), 0
    for g in range(count):
        for h in near[g]:
            if h < 0 or h >= count or groups.sizes[h] == 0:
                continue
            twice = False
            for other in near[h]:
                twice |= other == g
            if h > g or not twice:
                pairs[size, 0], pairs[size, 1] = g, h
                size += 1
    return pairs[:size]


@inner_without_nan
def _extremes(along: Singles, size_a: int, n: int) -> tuple[float, float]:
    """Return the largest number of the first group and the smallest of the second."""
    top, bottom = along[0], along[size_a]
    for i in range(size_a):
        top = max(top, along[i])
    for i in range(size_a, n):
        bottom = min(bottom, along[i])
    return top, bottom


@inner
def _sort(keys: Positions, n: int) -> None:
    """Sort the first keys, which are few."""
    if n > 40:
        keys[:n] = np.sort(keys[:n])
        return
    for i in range(1, n):
        key, at = keys[i], i
        while at > 0 and keys[at - 1] > key:
            keys[at] = keys[at - 1]
            at -= 1
        keys[at] = key


@inner
def _project(groups: PackedGroups, a: int, b: int, pair: _Pair) -> bool:
    """Place the rows of two groups on the line through their centroids; return whether there is a line."""
    size_a, size_b = groups.sizes[a], groups.sizes[b]
    n, apart = size_a + size_b, False
    along = pair.along
    for i in range(n):
        along[i] = 0.0
    for j in range(pair.step.size):
        pair.step[j] = groups.sums[b, j] / size_b - groups.sums[a, j] / size_a
        pair.mean[j] = (groups.sums[a, j] + groups.sums[b, j]) / n
        apart |= pair.step[j] != 0.0
        step = np.float32(pair.step[j])
        in_a, in_b, along_b = groups.values[a, j], groups.values[b, j], along[size_a:]
        for i in range(size_a):
            along[i] += in_a[i] * step
        for i in range(size_b):
            along_b[i] += in_b[i] * step
    return apart


@inner
def _move(groups: PackedGroups, source: int, at: int, target: int) -> None:
    """Move one row to another group, and the last row of the source into its place; sums are the caller's."""
    last, end = groups.sizes[source] - 1, groups.sizes[target]
    groups.rows[target, end] = groups.rows[source, at]
    groups.rows[source, at] = groups.rows[source, last]
    for j in range(groups.sums.shape[1]):
        groups.values[target, j, end] = groups.values[source, j, at]
        groups.values[source, j, at] = groups.values[source, j, last]
    groups.sizes[source] = last
    groups.sizes[target] = end + 1


@inner
def _exchange(groups: PackedGroups, a: int, b: int, first: Flags) -> None:
    """Move rows between two groups so that the first has those that are flagged."""
    size_a, size_b = groups.sizes[a], groups.sizes[b]
    i, j = size_a - 1, size_b - 1
    while True:
        while i >= 0 and first[i]:
            i -= 1
        while j >= 0 and not first[size_a + j]:
            j -= 1
        if i < 0 or j < 0:
            break
        groups.rows[a, i], groups.rows[b, j] = groups.rows[b, j], groups.rows[a, i]
        for h in range(groups.sums.shape[1]):
            groups.values[a, h, i], groups.values[b, h, j] = groups.values[b, h, j], groups.values[a, h, i]
        i -= 1
        j -= 1
    # Positions fall, so the row that fills a gap is one that stays.
    while i >= 0:
        if not first[i]:
            _move(groups, a, i, b)
        i -= 1
    while j >= 0:
        if first[size_a + j]:
            _move(groups, b, j, a)
        j -= 1


@inner
def _contested(along: Singles, keys: Positions, size_a: int, n: int) -> tuple[int, int]:
    """Put the rows between the two groups into their order along the line; return how many, and how many of the first.

    These are the rows of each group that lie beyond a row of the other, or the outermost one if the groups lie apart.
    Equal places keep the order of positions.
    """
    top, bottom = _extremes(along, size_a, n)
    low, high = min(top, bottom), max(top, bottom)
    bits, size, own = along.view(np.int32), 0, 0
    for i in range(n):
        if along[i] >= low if i < size_a else along[i] <= high:
            # Negative numbers sort backwards by their bits, unless all but the sign are inverted.
            keys[size] = (np.int64(bits[i] ^ ((bits[i] >> 31) & 0x7FFFFFFF)) << 32) | i
            size += 1
            own += i < size_a
    _sort(keys, size)
    return size, own


@inner
def _divide(groups: PackedGroups, k: int, a: int, b: int, pair: _Pair) -> bool:
    """Divide the rows of two groups at the best place along the line; return whether that lowered the squares.

    With both groups around their common mean, the squares between them are |s|²·(1/m + 1/(n−m)), where s is the sum of
    the m rows of the first group. What they gain, the squares within groups lose.
    """
    size_a = groups.sizes[a]
    n, d, places = size_a + groups.sizes[b], pair.step.size, groups.rows.shape[1]
    if not _project(groups, a, b, pair):
        return False
    low, high = max(k, n - places), min(places, n - k)
    keys, total, mean = pair.keys, pair.total, pair.mean
    contested, own = _contested(pair.along, keys, size_a, n)
    if low == high and contested == 2 and own == 1 and (keys[0] & 0xFFFFFFFF) < size_a:
        return False
    before = 0.0
    for j in range(d):
        total[j] = groups.sums[a, j] - size_a * mean[j]
        before += total[j] * total[j]
    before *= n / (size_a * (n - size_a))
    for t in range(contested):
        row = keys[t] & 0xFFFFFFFF
        if row < size_a:
            for j in range(d):
                total[j] -= groups.values[a, j, row] - mean[j]
    most, best_size, start = before * (1.0 + _GAIN), 0, size_a - own
    for m in range(start, min(high, start + contested) + 1):
        if m > start:
            row = keys[m - start - 1] & 0xFFFFFFFF
            if row < size_a:
                for j in range(d):
                    total[j] += groups.values[a, j, row] - mean[j]
            else:
                for j in range(d):
                    total[j] += groups.values[b, j, row - size_a] - mean[j]
        if m < low:
            continue
        between = 0.0
        for j in range(d):
            between += total[j] * total[j]
        between *= n / (m * (n - m))
        if between > most:
            most, best_size = between, m
            pair.best[:] = total
    if best_size == 0:
        return False
    for i in range(n):
        pair.first[i] = i < size_a
    for t in range(contested):
        pair.first[keys[t] & 0xFFFFFFFF] = start + t < best_size
    _exchange(groups, a, b, pair.first)
    for j in range(d):
        both = groups.sums[a, j] + groups.sums[b, j]
        groups.sums[a, j] = pair.best[j] + best_size * mean[j]
        groups.sums[b, j] = both - groups.sums[a, j]
    return True


@compiled
def divide_pairs(groups: PackedGroups, k: int, pairs: Positions, sweeps: int) -> int:
    """Divide each pair of groups anew where that lowers the squares; return how often it did.

    A pair is tried again only after one of its groups has changed.
    """
    count, d, places = groups.values.shape
    pair = _Pair(
        np.empty(2 * places, np.float32),
        np.empty(2 * places, np.int64),
        np.empty(2 * places, np.bool_),
        np.empty(d),
        np.empty(d),
        np.empty(d),
        np.empty(d),
    )
    changed, tried, clock, made = np.zeros(count, np.int64), np.full(pairs.shape[0], -1, np.int64), 0, 0
    for _ in range(sweeps):
        before = made
        for p in range(pairs.shape[0]):
            a, b = pairs[p]
            if groups.sizes[a] == 0 or groups.sizes[b] == 0 or tried[p] >= max(changed[a], changed[b]):
                continue
            clock += 1
            tried[p] = clock
            if _divide(groups, k, a, b, pair):
                # The line has turned, so this pair is tried again, too.
                tried[p], changed[a], changed[b] = clock - 1, clock, clock
                made += 1
        if made == before:
            break
    return made


@compiled
def dissolve(groups: PackedGroups, share: float) -> int:
    """Dissolve the widest groups where that lowers the squares; return how many were dissolved.

    Each row goes to the nearest group with room. A group that bridges two clusters is near neither of them, but each of
    its rows is near one.

    Parameters
    ----------
    groups
        The groups, changed in place.
    share
        The share of groups, those with the largest squares, that are tried.
    """
    count, d, places = groups.values.shape
    centroids, point, distance = _centroids(groups), np.empty(d, np.float32), np.empty(count, np.float32)
    squares, extra, target = np.zeros(count), np.zeros(count, np.int64), np.empty(places, np.int64)
    for g in range(count):
        for j in range(d):
            for i in range(groups.sizes[g]):
                offset = groups.values[g, j, i] - centroids[j, g]
                squares[g] += offset * offset
    widest, dissolved = np.argsort(-squares, kind="mergesort"), 0
    for w in range(min(count, int(count * share) + 1)):
        g = widest[w]
        size, cost, moves = groups.sizes[g], 0.0, 0
        if size == 0 or squares[g] <= 0.0:
            continue
        for i in range(size):
            for j in range(d):
                point[j] = groups.values[g, j, i]
            measure(centroids, point, count, distance)
            least, best = np.float32(np.inf), -1
            for h in range(count):
                if distance[h] < least and h != g and groups.sizes[h] > 0 and groups.sizes[h] + extra[h] < places:
                    least, best = distance[h], h
            if best < 0:
                break
            # A group of m rows that takes one more at squared distance s gains s·m/(m+1) squares.
            members = groups.sizes[best] + extra[best]
            cost += least * members / (members + 1.0)
            if cost >= squares[g]:
                break
            target[i] = best
            extra[best] += 1
            moves += 1
        for i in range(moves):
            extra[target[i]] = 0
        if moves < size:
            continue
        for i in range(size - 1, -1, -1):
            h = target[i]
            for j in range(d):
                groups.sums[h, j] += groups.values[g, j, i]
            _move(groups, g, i, h)
        for i in range(size):
            h = target[i]
            for j in range(d):
                centroids[j, h] = groups.sums[h, j] / groups.sizes[h]
        groups.sums[g] = 0.0
        centroids[:, g] = _AWAY
        dissolved += 1
    return dissolved
