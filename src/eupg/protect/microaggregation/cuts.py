"""Cuts: a table divided into parts of similar rows, by planes through its sparse places.

A plane through a dense place separates neighbours, so each cut is the widest nearly empty band that is not far from the
middle. Heavy tails are set apart first: their groups are wide, and a plane through them would cost most.
"""

from __future__ import annotations

import numpy as np

from eupg.protect.microaggregation.blocks import Floats, Positions
from eupg.protect.microaggregation.groups import Matrix

# Rows that decide where a part is cut.
_SAMPLE = 2048
# Principal directions that are tried beside the columns.
_PRINCIPAL = 4
# A band holds this share of the sample on either side of its middle, which lies this near to the wanted quantile.
_BAND, _WINDOW = 0.02, 0.25
# Tails are heavy where the outer share of the rows has more than a share of the squares; at most so many are set apart.
_OUTER, _HEAVY, _SET_APART = 0.05, 0.2, 0.125
# A cut that leaves less than this share on one side is made by rank instead.
_LEAST_SHARE = 1 / 8


def cut(table: Matrix, rows: Positions, *, most: int, least: int, quantile: float = 0.5) -> list[Positions]:
    """Divide rows into parts of at most ``most`` and at least ``least`` rows.

    Parameters
    ----------
    table
        All rows.
    rows
        The rows to divide, in an order that does not depend on their values' order: every few of them are a sample.
        Equal rows that fill more than a part are divided in this order.
    most, least
        The sizes of a part; ``most`` is at least four times ``least``.
    quantile
        About where cuts are made: at this share of the rows and, on every second level, at its complement.
    """
    parts: list[Positions] = []
    stack = [(rows, 0, False)]
    while stack:
        part, level, tails_checked = stack.pop()
        if len(part) <= most:
            parts.append(part)
            continue
        sample = _sample(table, part)
        if not tails_checked:
            far = _tails(table, part, sample, most, least)
            if far is not None:
                stack += [(part[~far], level, True), (part[far], level + 1, True)]
                continue
        above = _above(table, part, sample, quantile if level % 2 == 0 else 1 - quantile, least)
        stack += [(part[above], level + 1, False), (part[~above], level + 1, False)]
    return parts


def _sample(table: Matrix, rows: Positions) -> Floats:
    size = max(256, min(_SAMPLE, len(rows) // 8))
    return table[rows[:: max(1, len(rows) // size)]].astype(np.float64)


def _tails(table: Matrix, rows: Positions, sample: Floats, most: int, least: int) -> np.ndarray | None:
    """Return which rows are the outermost, or None where there are no heavy tails."""
    from eupg.protect.microaggregation.cell_kernel import means_of, squares_from

    everything = np.arange(len(sample))
    centre = means_of(sample, everything, np.zeros(len(sample), np.int64), 1)[0]
    squares = np.sort(squares_from(sample, everything, centre))
    running = np.cumsum(squares)
    if running[-1] - running[int((1 - _OUTER) * len(squares)) - 1] <= _HEAVY * running[-1]:
        return None
    share = min(_SET_APART, 0.9 * most / len(rows))
    limit = squares[int((1 - share) * len(squares))]
    far = squares_from(table, rows, centre) > limit
    return far if least <= far.sum() <= len(rows) // 2 else None


def _above(table: Matrix, rows: Positions, sample: Floats, quantile: float, least: int) -> np.ndarray:
    """Return which rows lie above the cut."""
    from eupg.protect.microaggregation.cell_kernel import principal_directions, projected

    directions = np.concatenate([principal_directions(sample, _PRINCIPAL), np.eye(sample.shape[1])])
    everything = np.arange(len(sample))
    positions = np.stack([projected(sample, everything, direction) for direction in directions[:_PRINCIPAL]])
    positions = np.sort(np.concatenate([positions, sample.T]), axis=1)
    chosen, limit = _sparsest(positions, quantile)
    along = projected(table, rows, directions[chosen])
    above = along > limit
    number = int(above.sum())
    if min(number, len(rows) - number) < max(least, len(rows) * _LEAST_SHARE):
        # Most rows lie at one place of this direction: half of them, ties in the order of the rows.
        above = np.zeros(len(rows), np.bool_)
        above[np.argsort(along, kind="stable")[len(rows) // 2 :]] = True
    return above


def _sparsest(positions: Floats, quantile: float) -> tuple[int, float]:
    """Return the direction with the widest band that holds few rows of the sample, and a limit inside the band."""
    n = positions.shape[1]
    half = max(1, min(4, n // 8), int(n * _BAND))
    middles = np.arange(max(half, int(n * (quantile - _WINDOW))), min(n - half, int(n * (quantile + _WINDOW)) + 1))
    widths = positions[:, middles + half - 1] - positions[:, middles - half]
    chosen, at = np.unravel_index(int(widths.argmax()), widths.shape)
    line = positions[chosen]
    # In the middle of the band, the widest gap between two neighbours.
    band = np.arange(middles[at] - half // 2, middles[at] + half // 2 + 1)
    gap = band[int((line[band] - line[band - 1]).argmax())]
    return int(chosen), float(line[gap - 1] + (line[gap] - line[gap - 1]) / 2)
