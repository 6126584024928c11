"""Ridge regression on cells, from counts alone.

The regression predicts +1 for the second of two classes and −1 for the first; with more classes, +1 for each class
against all others. A prediction f estimates 2p − 1, where p is the probability of the class. A fixed public link turns
it into a probability: the logistic function of 3f, or the softmax of 1.5f over classes.

Of two classes, the rarer one has the greater weight: least squares would otherwise hardly look at it. The weights
follow from the numbers of records of the two classes. The logarithm of their ratio is subtracted from 3f, so that the
probabilities are those of the records as they are.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from eupg.learn.leaves.cholesky import PANEL, solve
from eupg.learn.leaves.counting import Floats, Whole, weigh_pairs

# Chosen on held-out training records (docs/decisions/exact-trees.md).
_SLOPE = 3.0


class Moments(Protocol):
    """Sums over records from which a ridge regression follows, in whole numbers."""

    @property
    def pairs(self) -> Whole:
        """Sums of products of two features, above the diagonal: one matrix per class for two classes, else one."""

    @property
    def labels(self) -> Whole:
        """The sum of each feature over the records of each class; the first feature is the same for every record."""

    @property
    def records(self) -> Whole:
        """How many records of each class there are."""


def ridge_scores(statistics: Moments, penalties: float | Floats, *, unit: int = 1, slope: float = _SLOPE) -> Floats:
    """Return the scores of cells: one row per cell; one column for two classes, else one per class.

    The same counts give the same scores, bit for bit, whatever the number of threads and whichever numerical libraries
    are installed: see :mod:`eupg.learn.leaves.cholesky`. This assumes double precision as IEEE 754 defines it, and a
    compiler that keeps to it, as Numba does.

    Parameters
    ----------
    statistics
        The counts of the records; the first cell holds every record.
    penalties
        Added to the count of each cell: pulls its score towards zero as if by so many records. One number for all
        cells, or one per cell.
    unit
        The number that stands for 1 in the features: 1 for cells, in which a record lies or does not.
    slope
        Of the link: by which a prediction is multiplied for two classes; half of it is for more.

    Examples
    --------
    >>> from eupg.learn.leaves.statistics import RidgeStatistics
    >>> codes = np.array([[0, 1], [0, 1], [0, 2], [0, 2]], dtype=np.int32)
    >>> statistics = RidgeStatistics.of(codes, np.array([1, 1, 0, 0]), cells=4, classes=2)
    >>> ridge_scores(statistics, penalties=1.0).round(6).tolist()
    [[0.0], [2.0], [-2.0], [0.0]]
    """
    targets, weights = _targets(statistics)
    scores = np.zeros(targets.shape)
    # The score of a cell that holds no record is zero, and it takes no part in the others.
    used = np.flatnonzero(np.einsum("kii->i", statistics.pairs))
    if not len(used):
        return scores
    # Filled up to whole panels with equations x = 0, which have no part in the others either.
    columns, width = len(used), targets.shape[1]
    size, more = (PANEL * -(-number // PANEL) for number in (columns, width))
    panels = np.zeros(((size + more) // PANEL, size, PANEL))
    weigh_pairs(statistics.pairs, weights, used, panels)
    added = np.ones(size)
    added[:columns] = (np.broadcast_to(penalties, len(targets)) * float(unit) ** 2)[used]
    diagonal = np.arange(size)
    panels[diagonal // PANEL, diagonal, diagonal % PANEL] += added
    for column in range(width):
        panels[(size + column) // PANEL, :columns, column % PANEL] = targets[used, column] * float(unit)
    scores[used] = (slope if len(weights) == 2 else slope / 2) * solve(panels, width)[:columns]
    if len(weights) == 2:
        scores[0] -= math.log(weights[1] / weights[0])
    return scores


def _targets(statistics: Moments) -> tuple[Floats, Floats]:
    """Return the weighted sums of ±1 over the records of each cell, and the weights."""
    labels = statistics.labels
    if labels.shape[1] == 2:
        weights = class_weights(statistics.records)
        return weights[1] * labels[:, 1:] - weights[0] * labels[:, :1], weights
    return (2 * labels - labels.sum(axis=1, keepdims=True)).astype(np.float64), np.ones(1)


def class_weights(records: Whole) -> Floats:
    """Return weights that fall with the square root of the number of records of a class, and add up to all records.

    One record more is assumed of each class, so that a class without records has a weight, too.

    Examples
    --------
    >>> class_weights(np.array([99, 99])).tolist()
    [1.0, 1.0]
    >>> class_weights(np.array([899, 99])).round(3).tolist()
    [0.833, 2.5]
    """
    weights = 1 / np.sqrt(records + 1)
    return np.asarray(weights * ((records + 1).sum() / (weights * (records + 1)).sum()))
