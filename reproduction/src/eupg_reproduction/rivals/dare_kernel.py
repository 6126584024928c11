"""Trees of a DaRE forest: built from records, and changed when records leave; compiled.

A tree is a function of a key and of the records it holds. Every random choice is the lowest of hashes of the key, the
place in the tree, and the thing to choose: so the tree without a record draws as the tree with it did, unless a choice
no longer exists. Deleting records keeps counts at every node up to date and builds again only what would be different.

Values are whole numbers in the order of the values (:func:`ordered`), so that a threshold is the same on every machine.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int32]
LEAF = -1
# Draws of a random threshold between the public bounds, before one of the values is taken.
_TRIES = 64
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_THIRTY, _TWENTY_SEVEN, _THIRTY_ONE, _ELEVEN = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


class Tree(NamedTuple):
    """The nodes of a tree, the candidate splits of each, and its records by leaf.

    ``order`` holds record numbers. A leaf holds ``records`` of them from ``start``; an inner node holds those of its
    leaves, which lie from ``start`` onwards, perhaps with gaps where records left. ``used`` counts nodes and
    candidates.
    """

    feature: Ints
    threshold: Ints
    left: Ints
    right: Ints
    records: Ints
    positive: Ints
    start: Ints
    depth: Ints
    key: NDArray[np.uint64]
    first: Ints
    candidates: Ints
    candidate_feature: Ints
    candidate_value: Ints
    candidate_left: Ints
    candidate_positive: Ints
    candidate_at: Ints
    order: Ints
    used: NDArray[np.int64]


class Shape(NamedTuple):
    """The settings of all trees, and the public bounds of each column."""

    depth: int
    random_layers: int
    thresholds: int
    features: int
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def ordered(values: NDArray[Any]) -> Ints:
    """Return whole numbers in the order of the values, which are rounded to single precision.

    Examples
    --------
    >>> np.argsort(ordered(np.array([0.5, -2.0, 0.0, 3.0]))).tolist()
    [1, 2, 0, 3]
    """
    bits = (np.asarray(values, dtype=np.float32) + np.float32(0)).view(np.int32)
    return np.where(bits < 0, np.int32(-(2**31)) - bits, bits).astype(np.int32)


@njit(cache=True)
def _mix(key: Any, value: Any) -> Any:
    z = key + _GOLDEN * (np.uint64(value) + np.uint64(1))
    z = (z ^ (z >> _THIRTY)) * _FIRST
    z = (z ^ (z >> _TWENTY_SEVEN)) * _SECOND
    return z ^ (z >> _THIRTY_ONE)


@njit(cache=True)
def _hash_value(key: Any, value: Any) -> Any:
    return _mix(key, np.uint64(np.int64(value) + np.int64(2**31)))


@njit(cache=True)
def _ordered_one(value: Any) -> Any:
    box = np.empty(1, dtype=np.float32)
    box[0] = value
    bits = box.view(np.int32)[0]
    if bits < 0:
        return np.int32(np.int64(-(2**31)) - np.int64(bits))
    return bits


@njit(cache=True)
def _impurity(count: Any, positive: Any, left: Any, left_positive: Any) -> Any:
    right, right_positive = count - left, positive - left_positive
    a = left_positive * (left - left_positive) / left
    b = right_positive * (right - right_positive) / right
    return (a + b) / count


@njit(cache=True)
def _lowest_values(X: Any, rows: Any, column: Any, key: Any, most: Any, values: Any, hashes: Any) -> Any:
    """Find the values below the largest whose hashes are lowest; return how many, and the smallest and largest."""
    low = X[rows[0], column]
    high = low
    for row in rows:
        value = X[row, column]
        low = min(low, value)
        high = max(high, value)
    found = 0
    if low == high:
        return found, low, high
    last = low - 1
    for row in rows:
        value = X[row, column]
        # Numba does not know `in` for these.
        if value == high or value == last:  # noqa: SIM109
            continue
        last = value
        hashed = _hash_value(key, value)
        if found == most and hashed >= hashes[found - 1]:
            continue
        place = found
        known = False
        for i in range(found):
            if hashes[i] == hashed and values[i] == value:
                known = True
                break
            if hashed < hashes[i]:
                place = i
                break
        if known:
            continue
        # An equal value further on would have had the same hash, and so the same place.
        end = min(found, most - 1)
        for i in range(end, place, -1):
            hashes[i], values[i] = hashes[i - 1], values[i - 1]
        hashes[place], values[place] = hashed, value
        found = min(found + 1, most)
    return found, low, high


@njit(cache=True)
def _candidates(
    X: Any, y: Any, rows: Any, key: Any, depth: Any, shape: Any, feature: Any, value: Any, left: Any, pos: Any, at: Any
) -> Any:
    """Write the candidate splits of a node, in the order of their hashes; return how many there are."""
    columns = X.shape[1]
    hashes = np.empty(columns, dtype=np.uint64)
    for j in range(columns):
        hashes[j] = _mix(key, j + 16)
    by_hash = np.argsort(hashes)
    random = depth < shape.random_layers
    most = 1 if random else shape.thresholds
    values, ranks = np.empty(most, dtype=np.int32), np.empty(most, dtype=np.uint64)
    wanted = 1 if random else shape.features
    total, chosen = 0, 0
    for j in by_hash:
        if chosen == wanted:
            break
        found, low, high = _lowest_values(X, rows, j, hashes[j], most, values, ranks)
        if not found:
            continue
        chosen += 1
        drawn = False
        if random:
            stream = _mix(hashes[j], 7)
            for _ in range(_TRIES):
                stream = _mix(stream, 1)
                share = np.float64(stream >> _ELEVEN) / np.float64(2**53)
                threshold = _ordered_one(shape.low[j] + share * (shape.high[j] - shape.low[j]))
                if low <= threshold < high:
                    values[0], drawn = threshold, True
                    break
        for i in range(found):
            feature[total], value[total] = j, values[i]
            lefts, positives, equals = 0, 0, 0
            for row in rows:
                mine = X[row, j]
                if mine <= values[i]:
                    lefts += 1
                    positives += y[row]
                    if mine == values[i]:
                        equals += 1
            left[total], pos[total] = lefts, positives
            at[total] = -1 if drawn else equals
            total += 1
    return total


@njit(cache=True)
def _best(count: Any, positive: Any, total: Any, left: Any, pos: Any) -> Any:
    best, least = -1, np.inf
    for i in range(total):
        score = _impurity(count, positive, left[i], pos[i])
        if score < least:
            best, least = i, score
    return best


@njit(cache=True)
def _longer_ints(array: Any, size: Any) -> Any:
    bigger = np.empty(size, dtype=np.int32)
    bigger[: len(array)] = array
    return bigger


@njit(cache=True)
def _roomier(tree: Any, more: Any) -> Any:
    """Return the tree with room for two nodes and so many candidates."""
    nodes, total = tree.used[0], tree.used[1]
    if nodes + 2 > len(tree.feature):
        size = 2 * len(tree.feature) + 2
        key = np.empty(size, dtype=np.uint64)
        key[: len(tree.key)] = tree.key
        tree = Tree(
            _longer_ints(tree.feature, size),
            _longer_ints(tree.threshold, size),
            _longer_ints(tree.left, size),
            _longer_ints(tree.right, size),
            _longer_ints(tree.records, size),
            _longer_ints(tree.positive, size),
            _longer_ints(tree.start, size),
            _longer_ints(tree.depth, size),
            key,
            _longer_ints(tree.first, size),
            _longer_ints(tree.candidates, size),
            tree.candidate_feature,
            tree.candidate_value,
            tree.candidate_left,
            tree.candidate_positive,
            tree.candidate_at,
            tree.order,
            tree.used,
        )
    if total + more > len(tree.candidate_feature):
        size = 2 * (total + more)
        tree = Tree(
            tree.feature,
            tree.threshold,
            tree.left,
            tree.right,
            tree.records,
            tree.positive,
            tree.start,
            tree.depth,
            tree.key,
            tree.first,
            tree.candidates,
            _longer_ints(tree.candidate_feature, size),
            _longer_ints(tree.candidate_value, size),
            _longer_ints(tree.candidate_left, size),
            _longer_ints(tree.candidate_positive, size),
            _longer_ints(tree.candidate_at, size),
            tree.order,
            tree.used,
        )
    return tree


@njit(cache=True)
def _grow(tree: Any, node: Any, X: Any, y: Any, shape: Any) -> Any:
    """Build the part of the tree below a node, whose records lie in ``order`` without gaps."""
    stack = np.empty(2 * shape.depth + 4, dtype=np.int32)
    stack[0], size = node, 1
    most = shape.thresholds * shape.features + 1
    while size:
        size -= 1
        node = stack[size]
        start, count = tree.start[node], tree.records[node]
        rows = tree.order[start : start + count]
        positive = 0
        for row in rows:
            positive += y[row]
        tree.positive[node] = positive
        tree.feature[node], tree.candidates[node] = LEAF, 0
        if tree.depth[node] >= shape.depth or count < 2 or positive == 0 or positive == count:
            continue
        tree = _roomier(tree, most)
        first = tree.used[1]
        total = _candidates(
            X,
            y,
            rows,
            tree.key[node],
            tree.depth[node],
            shape,
            tree.candidate_feature[first:],
            tree.candidate_value[first:],
            tree.candidate_left[first:],
            tree.candidate_positive[first:],
            tree.candidate_at[first:],
        )
        if not total:
            continue
        tree.used[1] += total
        tree.first[node], tree.candidates[node] = first, total
        best = first + _best(count, positive, total, tree.candidate_left[first:], tree.candidate_positive[first:])
        tree = _split(tree, node, best, X)
        stack[size], stack[size + 1] = tree.right[node], tree.left[node]
        size += 2
    return tree


@njit(cache=True)
def _split(tree: Any, node: Any, best: Any, X: Any) -> Any:
    """Divide the records of a node between two new children, which are not built yet."""
    column, threshold = tree.candidate_feature[best], tree.candidate_value[best]
    start, count = tree.start[node], tree.records[node]
    rows = tree.order[start : start + count]
    above = np.empty(count - tree.candidate_left[best], dtype=np.int32)
    lefts, rights = 0, 0
    for row in rows:
        if X[row, column] <= threshold:
            rows[lefts] = row
            lefts += 1
        else:
            above[rights] = row
            rights += 1
    rows[lefts:] = above
    first = tree.used[0]
    tree.used[0] += 2
    tree.feature[node], tree.threshold[node] = column, threshold
    tree.left[node], tree.right[node] = first, first + 1
    for side in range(2):
        child = first + side
        tree.start[child] = start + (lefts if side else 0)
        tree.records[child] = rights if side else lefts
        tree.depth[child] = tree.depth[node] + 1
        tree.key[child] = _mix(tree.key[node], side)
    return tree


@njit(cache=True)
def build(X: Any, y: Any, key: Any, shape: Any) -> Any:
    """Build a tree of all records."""
    nodes, room = 64, 64 * (shape.thresholds * shape.features + 1)
    tree = Tree(
        np.empty(nodes, dtype=np.int32),
        np.empty(nodes, dtype=np.int32),
        np.empty(nodes, dtype=np.int32),
        np.empty(nodes, dtype=np.int32),
        np.empty(nodes, dtype=np.int32),
        np.empty(nodes, dtype=np.int32),
        np.empty(nodes, dtype=np.int32),
        np.empty(nodes, dtype=np.int32),
        np.empty(nodes, dtype=np.uint64),
        np.empty(nodes, dtype=np.int32),
        np.empty(nodes, dtype=np.int32),
        np.empty(room, dtype=np.int32),
        np.empty(room, dtype=np.int32),
        np.empty(room, dtype=np.int32),
        np.empty(room, dtype=np.int32),
        np.empty(room, dtype=np.int32),
        np.arange(len(X)).astype(np.int32),
        np.array([1, 0], dtype=np.int64),
    )
    tree.start[0], tree.records[0], tree.depth[0], tree.key[0] = 0, len(X), 0, key
    return _grow(tree, 0, X, y, shape)


@njit(cache=True)
def _collected(tree: Any, node: Any, gone: Any, held: Any) -> Any:
    """Write the records below a node that are not gone; return how many."""
    stack = np.empty(len(tree.feature), dtype=np.int32)
    stack[0], size, total = node, 1, 0
    while size:
        size -= 1
        at = stack[size]
        if tree.feature[at] == LEAF:
            for row in tree.order[tree.start[at] : tree.start[at] + tree.records[at]]:
                if not gone[row]:
                    held[total] = row
                    total += 1
        else:
            stack[size], stack[size + 1] = tree.right[at], tree.left[at]
            size += 2
    return total


@njit(cache=True)
def delete(tree: Any, X: Any, y: Any, leaving: Any, gone: Any, shape: Any) -> Any:
    """Return the tree without some records, and how many records were in parts that were built again.

    ``leaving`` holds their numbers and is reordered; ``gone`` marks them.
    """
    nodes = np.empty(2 * shape.depth + 4, dtype=np.int32)
    begins, ends = np.empty(len(nodes), dtype=np.int64), np.empty(len(nodes), dtype=np.int64)
    nodes[0], begins[0], ends[0], size = 0, 0, len(leaving), 1
    most = shape.thresholds * shape.features + 1
    held, rebuilt = np.empty(len(tree.order), dtype=np.int32), 0
    while size:
        size -= 1
        node, begin, end = nodes[size], begins[size], ends[size]
        if begin == end:
            continue
        mine, before = leaving[begin:end], tree.records[node]
        if tree.feature[node] == LEAF:
            start, kept = tree.start[node], 0
            for row in tree.order[start : start + before]:
                if not gone[row]:
                    tree.order[start + kept] = row
                    kept += 1
        for row in mine:
            tree.positive[node] -= y[row]
        if tree.feature[node] == LEAF:
            tree.records[node] = before - len(mine)
            continue
        count, positive = before - len(mine), tree.positive[node]
        first, total = tree.first[node], tree.candidates[node]
        valid = True
        for i in range(first, first + total):
            column, value = tree.candidate_feature[i], tree.candidate_value[i]
            for row in mine:
                if X[row, column] <= value:
                    tree.candidate_left[i] -= 1
                    tree.candidate_positive[i] -= y[row]
                    if X[row, column] == value and tree.candidate_at[i] > 0:
                        tree.candidate_at[i] -= 1
            missing = tree.candidate_left[i] == 0 or tree.candidate_left[i] == count
            valid = valid and not missing and tree.candidate_at[i] != 0
        pure = count < 2 or positive == 0 or positive == count
        column, threshold = tree.feature[node], tree.threshold[node]
        if not valid and not pure:
            # Some candidate is no longer one: draw again from the records that are left.
            have = _collected(tree, node, gone, held)
            tree = _roomier(tree, most)
            first = tree.used[1]
            total = _candidates(
                X,
                y,
                held[:have],
                tree.key[node],
                tree.depth[node],
                shape,
                tree.candidate_feature[first:],
                tree.candidate_value[first:],
                tree.candidate_left[first:],
                tree.candidate_positive[first:],
                tree.candidate_at[first:],
            )
            tree.used[1] += total
            tree.first[node], tree.candidates[node] = first, total
        same = False
        if total and not pure:
            best = first + _best(count, positive, total, tree.candidate_left[first:], tree.candidate_positive[first:])
            same = tree.candidate_feature[best] == column and tree.candidate_value[best] == threshold
        if not same:
            have = _collected(tree, node, gone, held)
            tree.records[node] = have
            tree.order[tree.start[node] : tree.start[node] + have] = held[:have]
            rebuilt += have
            tree = _grow(tree, node, X, y, shape)
            continue
        tree.records[node] = count
        middle = begin
        for i in range(begin, end):
            if X[leaving[i], column] <= threshold:
                leaving[i], leaving[middle] = leaving[middle], leaving[i]
                middle += 1
        nodes[size], begins[size], ends[size] = tree.right[node], middle, end
        nodes[size + 1], begins[size + 1], ends[size + 1] = tree.left[node], begin, middle
        size += 2
    return tree, rebuilt


@njit(cache=True)
def add_predictions(feature: Any, threshold: Any, left: Any, right: Any, share: Any, X: Any, total: Any) -> None:
    """Add a tree's share of the second class to each row's total."""
    for row in range(len(X)):
        node = 0
        while feature[node] != LEAF:
            node = left[node] if X[row, feature[node]] <= threshold[node] else right[node]
        total[row] += share[node]
