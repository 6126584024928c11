"""The utility of predictions as the paper reports it: accuracy, or the area under the ROC curve, in percent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eupg.errors import DataError

Probabilities = NDArray[np.float64]
Labels = NDArray[np.int64]


def accuracy(probabilities: Probabilities, y: Labels) -> float:
    """Return the percentage of rows whose likeliest class is the true one."""
    if not len(y):
        raise DataError("no rows to score: pass at least one")
    return float(100 * (probabilities.argmax(axis=1) == y).mean())


def auc(probabilities: Probabilities, y: Labels) -> float:
    """Return the area under the ROC curve of the second class, in percent; ties count half.

    Examples
    --------
    >>> auc(np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]]), np.array([0, 1, 1]))
    100.0
    """
    scores, positive = probabilities[:, 1], y == 1
    members, others = int(positive.sum()), int((~positive).sum())
    if not members or not others:
        raise DataError("the area under the ROC curve needs rows of both classes")
    _, place, size = np.unique(scores, return_inverse=True, return_counts=True)
    middle_rank = np.cumsum(size) - (size - 1) / 2
    return float(100 * (middle_rank[place][positive].sum() - members * (members + 1) / 2) / (members * others))
