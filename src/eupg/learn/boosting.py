"""What learners of boosted trees share, whichever framework grows the trees."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Categorical
from eupg.data.dataset import Examples
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.learn.learner import Scores, both_classes


class Boosting:
    """The abilities of every learner that boosts trees."""

    @property
    def accumulates(self) -> bool:
        """Effort counts trees, which stay."""
        return True

    @property
    def warm_starts(self) -> bool:
        """An ensemble continues with further trees."""
        return True


def categorical_columns(schema: Schema) -> list[int]:
    """Return the positions of the categorical features."""
    return [column for column, a in enumerate(schema.features) if isinstance(a, Categorical)]


def as_probabilities(output: NDArray[np.floating], classes: int) -> Probabilities:
    """Return an ensemble's output, one number for two classes or one per class, as rows that sum to one."""
    if classes == 2:
        return both_classes(output)
    rows = np.asarray(output, dtype=np.float64)
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


def threads_for_table(examples: Examples, threads: int) -> int:
    """Return the number of threads to boost with; for 0, one on a small table and all (0) on a large one.

    Below a million values a second thread gains little on an idle machine and costs much on a busy one.
    """
    return threads or (1 if examples.X.size < 1_000_000 else 0)


def coarse_first_guess(examples: Examples) -> Scores:
    """Return the score of each class, or of the second of two, before any tree: log-odds, or logarithms of shares.

    Exact shares in two versions of a model would reveal the label of a person who left in between. Rounded to half a
    unit they are the same, but for a rare step. A fixed guess does not work: trees that start far off split badly, or
    not at all, if there is little to learn.
    """
    return coarse_scores(np.bincount(examples.y, minlength=examples.schema.classes))


def coarse_scores(examples_per_class: NDArray[np.int64]) -> Scores:
    """Return the first guess for this many examples of each class."""
    counts = examples_per_class + 0.5
    scores = np.log(counts[1:] / counts[:1]) if len(counts) == 2 else np.log(counts / counts.sum())
    return np.asarray(np.round(2 * scores) / 2, dtype=np.float32)
