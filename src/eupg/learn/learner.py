"""The protocols of models and learners.

A learner is stateless: its fields are its hyper-parameters. One method serves pre-training and fine-tuning; it knows
neither which stage it serves nor anything about privacy, ids or erasure.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from eupg.data.dataset import Examples, Matrix
from eupg.data.score import Probabilities
from eupg.errors import NothingRetained, ParameterError


@runtime_checkable
class Model(Protocol):
    """Something that predicts. It takes rows in the schema's coding and encodes them itself."""

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the probability of every class: one row an example, rows sum to one."""


@runtime_checkable
class Learner(Protocol):
    """Fits models to examples."""

    @property
    def warm_starts(self) -> bool:
        """Whether ``fit`` can go on from a given model."""

    def fit(self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model | None = None) -> Model:
        """Fit a new model; ``start``, if given, is where to begin and stays as it is.

        Effort counts passes over the data (networks, linear models) or trees (boosting). Everything computed from the
        examples on the way, such as scales, belongs to the new model alone.
        """

    def save(self, model: Model, path: Path) -> None:
        """Write the model to one file, without pickle."""

    def load(self, path: Path) -> Model:
        """Read a model written by :meth:`save`; running code from the file is impossible."""


def check_fit(examples: Examples, effort: int) -> None:
    """Refuse an empty table or an effort that does nothing."""
    if isinstance(effort, bool) or not isinstance(effort, (int, np.integer)) or effort < 1:
        raise ParameterError(f"effort must be a whole number of at least 1 (epochs or trees), got {effort!r}")
    if len(examples.y) == 0:
        raise NothingRetained("no example is left to learn from: keep at least one record, or retire the model")


def total_effort(effort: int, start: Model | None) -> int:
    """Return the effort of a model with that of the one it goes on from."""
    return int(effort) + int(getattr(start, "effort", 0))


def threads_for_table(examples: Examples, asked: int) -> int:
    """Return how many threads to boost with: as asked, or, for 0, one on a small table and all (0) on a large one.

    Below a million values a second thread gains little where it is free and costs much where it is not.
    """
    return asked or (1 if examples.X.size < 1_000_000 else 0)


def both_classes(positive: np.ndarray[tuple[int], np.dtype[np.floating]]) -> Probabilities:
    """Turn the probability of the second class into that of both."""
    second = positive.astype(np.float64)
    return np.column_stack([1.0 - second, second])
