"""A model that adds up one number per cell, and the learner that writes and reads its file.

Such models are fitted under differential privacy by :class:`~eupg.forget.private_trees.base.PrivateTrees`; the learner
itself fits none.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from eupg.data.dataset import Examples, Matrix
from eupg.data.rows import as_matrix
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.errors import DataError, ModelFileError, ParameterError
from eupg.learn.envelope import read_model, write_model
from eupg.learn.learner import Model, Scores, both_classes, own
from eupg.learn.leaves.cells import Cells

_FORMAT = "eupg-leaves-1"
# Rows are read in parts, so that memory does not grow with their number.
_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class LeafModel:
    """Scores of cells: those of the cells in which a record lies are added up.

    Parameters
    ----------
    cells
        The cells.
    scores
        One row per cell; one column for two classes, else one per class.
    schema
        What the columns mean.
    effort
        As the method was asked to spend; this model does not depend on it.
    """

    cells: Cells
    scores: NDArray[np.float64]
    schema: Schema
    effort: int

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the probability of every class."""
        X = as_matrix(self.schema, X)
        if not len(X):
            return np.empty((0, self.schema.classes))
        margins = self._margins(X)
        if self.schema.classes == 2:
            return both_classes(expit(margins[:, 0]))
        return np.asarray(softmax(margins, axis=1), dtype=np.float64)

    def margins(self, X: Matrix) -> Scores:
        """Return the sums before they are turned into probabilities: one number per record, or one per class."""
        margins = self._margins(as_matrix(self.schema, X)).astype(np.float32)
        return margins[:, 0] if self.schema.classes == 2 else margins

    def _margins(self, X: Matrix) -> NDArray[np.float64]:
        # The last row is for records that lie in no cell of a group.
        scores = np.vstack([self.scores, np.zeros((1, self.scores.shape[1]))])
        out = np.zeros((len(X), self.scores.shape[1]))
        for start in range(0, len(X), _ROWS):
            part = slice(start, start + _ROWS)
            for codes in self.cells.codes(X[part]).T:
                out[part] += scores[codes]
        return out


@dataclass(frozen=True)
class LeafLearner:
    """Writes and reads models of leaves, which :class:`~eupg.forget.private_trees.base.PrivateTrees` fits."""

    @property
    def warm_starts(self) -> bool:
        """A model of leaves is served as it is."""
        return False

    def fit(
        self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model | None = None
    ) -> LeafModel:
        """Refuse: only training under differential privacy fits such a model."""
        raise ParameterError(
            "LeafLearner fits no model itself: train with EUPG(PrivateTrees(epsilon), LeafLearner(), exposure=0), or "
            "use another learner such as XGBoostLearner()"
        )

    def save(self, model: Model, path: str | Path) -> None:
        """Write the cells as JSON, and their scores as numbers of eight bytes."""
        mine = own(model, LeafModel)
        payload = np.ascontiguousarray(mine.scores, dtype="<f8").tobytes()
        write_model(path, _FORMAT, mine.schema, payload, effort=mine.effort, cells=mine.cells.to_json())

    def load(self, path: str | Path) -> LeafModel:
        """Read a model back."""
        file = read_model(path, _FORMAT)
        try:
            cells = Cells.from_json(file.about.get("cells"), file.schema.columns)
        except DataError as error:
            raise ModelFileError(
                f"{path} describes no cells that can be read ({error}): save the model again"
            ) from error
        width = 1 if file.schema.classes == 2 else file.schema.classes
        if len(file.payload) != 8 * cells.count * width:
            raise ModelFileError(
                f"{path} has {len(file.payload)} bytes of scores, expected {8 * cells.count * width} for {cells.count} "
                "cells: save the model again"
            )
        scores = np.frombuffer(file.payload, dtype="<f8").reshape(cells.count, width).astype(np.float64)
        if not np.isfinite(scores).all():
            raise ModelFileError(f"{path} has scores that are not finite: save the model again")
        return LeafModel(cells, scores, file.schema, file.effort)
