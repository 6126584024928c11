"""Post-processing of noisy counts: bins, estimates that agree with each other, and draws.

Nothing here sees a record: every function takes counts that are already noisy, so the claim on the counts covers every
result.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.float64]
Codes = NDArray[np.int64]
_TINY = 1e-9


def positive(counts: Counts) -> Counts:
    """Return the nearest rows of counts (least squares) that are not negative and have the same sums, or zeros.

    Setting negative counts to zero would keep all positive noise of empty cells. Subtracting the same amount from every
    remaining cell, until the sum is right, does not.
    """
    total = counts.sum(axis=-1, keepdims=True)
    down = np.sort(counts, axis=-1)[..., ::-1]
    excess = (np.cumsum(down, axis=-1) - total) / np.arange(1, counts.shape[-1] + 1)
    last = np.maximum((down > excess).sum(axis=-1, keepdims=True) - 1, 0)
    out = np.maximum(counts - np.take_along_axis(excess, last, axis=-1), 0.0)
    return np.asarray(np.where(total > _TINY, out, 0.0))


def bins(counts: Counts, most: int, *, ordered: bool, apart: int = 0) -> Codes:
    """Group cells (rows: cells, columns: classes) into at most ``most`` bins of about equal count; return their bins.

    Cells without an order are first sorted by their class shares, so that the cells of a bin are similar. The last
    ``apart`` cells (a missing value) keep a bin of their own.
    """
    if len(counts) <= most:
        return np.arange(len(counts))
    free, room = len(counts) - apart, max(1, most - apart)
    mass = positive(counts[:free].sum(axis=1))
    # Where noise leaves nothing, all cells count the same: every bin must hold some.
    mass = mass if mass.any() else np.ones(free)
    order = np.arange(free) if ordered else np.argsort(_class_direction(counts[:free], mass), kind="stable")
    goal, filled, current = _goal(mass, room), 0.0, 0
    bin_of = np.empty(len(counts), dtype=np.int64)
    for cell in order:
        # A cell that fills a bin by itself (for example the zeros of a column) does not share one.
        if filled > 0 and (filled >= goal or mass[cell] >= goal) and current < room - 1:
            current, filled = current + 1, 0.0
        bin_of[cell] = current
        filled += mass[cell]
    bin_of[free:] = current + 1 + np.arange(apart)
    return bin_of


def _goal(mass: Counts, room: int) -> float:
    """Return the target count of a bin, computed without the cells that fill a bin by themselves.

    If these were included, the other cells of a column that is mostly zero would share one or two bins.
    """
    large = np.zeros(len(mass), dtype=bool)
    while True:
        goal = float(mass[~large].sum() / (room - large.sum()))
        more = ~large & (mass >= goal)
        if not more.any() or large.sum() + more.sum() >= room:
            return goal
        large |= more


def gather(counts: Counts, bin_of: Codes) -> Counts:
    """Sum the rows of each bin."""
    out = np.zeros((int(bin_of.max()) + 1, counts.shape[1]))
    np.add.at(out, bin_of, counts)
    return out


def agree(table: Counts, axis: int, goal: Counts) -> Counts:
    """Return the nearest table that sums over ``axis`` to the goal."""
    return np.asarray(table + np.expand_dims((goal - table.sum(axis=axis)) / table.shape[axis], axis))


def independent(first: Counts, second: Counts) -> Counts:
    """Return the expected counts of two features that are independent within each class (rows)."""
    totals = np.maximum(first.sum(axis=1), _TINY)[:, None, None]
    return np.asarray(first[:, :, None] * second[:, None, :] / totals)


def shrink(differences: Counts, variance: float) -> Counts:
    """Shrink each class's differences to the part that noise of this variance does not explain."""
    axes = tuple(range(1, differences.ndim))
    spread = np.maximum((differences**2).mean(axis=axes, keepdims=True), _TINY)
    return np.asarray(differences * np.maximum(0.0, 1 - variance / spread))


def smooth(differences: Counts, variance: float, *, ordered: bool) -> Counts:
    """Shrink differences of one feature (rows: classes, columns: bins), scale by scale if its bins have an order.

    Differences between the halves, the quarters, the eighths… of the range (a Haar basis) are shrunk separately, since
    coarse ones are mostly real and fine ones are mostly noise.
    """
    if not ordered or differences.shape[1] < 2:
        return shrink(differences, variance)
    basis, level = _haar(differences.shape[1])
    parts = differences @ basis.T
    for scale in range(1, int(level.max()) + 1):
        parts[:, level == scale] = shrink(parts[:, level == scale], variance)
    return np.asarray(parts @ basis)


def draw(weights: Counts, rows: Codes, numbers: np.random.Generator) -> Codes:
    """Draw for each entry of ``rows`` a column of that row of weights; a row without weight is uniform."""
    count, width = weights.shape
    totals = weights.sum(axis=1, keepdims=True)
    shares = np.where(totals > 0, weights / np.where(totals > 0, totals, 1.0), 1.0 / width)
    edges = (np.cumsum(shares, axis=1) + np.arange(count)[:, None]).ravel()
    columns = np.searchsorted(edges, rows + numbers.random(len(rows)), side="right") - rows * width
    # Rounding may leave the last edge of a row slightly below the next row.
    last = width - 1 - np.argmax(shares[:, ::-1] > 0, axis=1)
    return np.asarray(np.clip(columns, 0, last[rows]), dtype=np.int64)


def _class_direction(counts: Counts, mass: Counts) -> Counts:
    """Return one number per cell; cells with similar class shares get similar numbers."""
    counts = np.maximum(counts, 0.0)
    overall = counts.sum(axis=0) / max(counts.sum(), _TINY)
    # Rare cells say little about the class, so they are treated as nearly average.
    few = max(mass.mean(), _TINY)
    shares = (counts + few * overall) / (counts.sum(axis=1, keepdims=True) + few) - overall
    direction = np.linalg.svd(np.sqrt(mass)[:, None] * shares, full_matrices=False)[2][0]
    # The sign of a singular vector is arbitrary.
    return np.asarray(shares @ (direction * np.sign(direction[np.abs(direction).argmax()])))


def _haar(size: int) -> tuple[Counts, Codes]:
    """Return an orthonormal basis of steps, by repeated halving of the range, and the depth of each step."""
    rows, level, parts = [np.full(size, size**-0.5)], [0], [(0, size, 1)]
    while parts:
        start, end, depth = parts.pop()
        if end - start > 1:
            middle = (start + end + 1) // 2
            step = np.zeros(size)
            step[start:middle], step[middle:end] = 1 / (middle - start), -1 / (end - middle)
            rows.append(step / np.linalg.norm(step))
            level.append(depth)
            parts += [(start, middle, depth + 1), (middle, end, depth + 1)]
    return np.array(rows), np.array(level)
