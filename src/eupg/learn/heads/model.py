"""A linear model of public features, and the learner that writes and reads its file.

Such models are fitted under differential privacy by :class:`~eupg.forget.private_head.base.PrivateHead`, and to exact
sums over the records by :class:`~eupg.forget.exact_head.ExactHead`. The learner itself fits none.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from eupg.data.dataset import Examples, Matrix
from eupg.data.kind import Accepts, DataKind
from eupg.data.rows import as_matrix
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.data.vector import GRID, Vectors, on_grid
from eupg.errors import ModelFileError, ParameterError
from eupg.learn.envelope import read_model, write_model
from eupg.learn.learner import Model, Scores, both_classes, own

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
_FORMAT = "eupg-head-1"
# Rows are read in parts, so that memory use does not grow with their number.
_ROWS = 4096


@dataclass(frozen=True, eq=False)
class HeadModel:
    """Weights of public features; a record's margin is their weighted sum.

    Parameters
    ----------
    weights
        One row for the constant, then one per feature; one column for two classes, else one per class.
    centre
        Subtracted from a record's vector, in units of the grid, before the difference is scaled to length 1; None
        where vectors are used as they are.
    schema
        What the columns mean.
    effort
        As requested; this model does not depend on it.
    """

    weights: Floats
    centre: Whole | None
    schema: Schema
    effort: int

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the probability of every class."""
        margins = self._margins(as_matrix(self.schema, X))
        if margins.shape[1] == 1:
            return both_classes(expit(margins[:, 0]))
        # There is no largest margin among those of no record.
        return np.asarray(softmax(margins, axis=1), dtype=np.float64) if len(margins) else margins

    def margins(self, X: Matrix) -> Scores:
        """Return the sums before they are turned into probabilities: one number per record, or one per class."""
        margins = self._margins(as_matrix(self.schema, X)).astype(np.float32)
        return margins[:, 0] if self.schema.classes == 2 else margins

    def _margins(self, X: Matrix) -> Floats:
        out = np.empty((len(X), self.weights.shape[1]))
        for start in range(0, len(X), _ROWS):
            part = slice(start, start + _ROWS)
            out[part] = self.weights[0] + (centred(X[part], self.centre) / GRID) @ self.weights[1:]
        return out


def centred(X: NDArray[np.generic], centre: Whole | None) -> Vectors:
    """Return vectors of the grid around a centre, scaled to length 1; as they are without one."""
    return np.asarray(X, dtype=np.int16) if centre is None else on_grid(np.asarray(X, dtype=np.int64) - centre)


@dataclass(frozen=True)
class HeadLearner:
    """Writes and reads linear models of public features, which PrivateHead and ExactHead fit.

    Examples
    --------
    >>> from eupg import EUPG
    >>> from eupg.forget import PrivateHead
    >>> EUPG(PrivateHead(epsilon=1.0), HeadLearner(), pretrain=1, finetune=0, exposure=0).sees_raw
    False
    """

    accepts: ClassVar[Accepts] = Accepts(DataKind.VECTORS, instead="encode_records first, or another learner")

    @property
    def warm_starts(self) -> bool:
        """A linear model of public features is served as it is."""
        return False

    def fit(
        self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model | None = None
    ) -> HeadModel:
        """Refuse: PrivateHead and ExactHead fit these models."""
        raise ParameterError(
            "HeadLearner does not fit models: train with EUPG(PrivateHead(epsilon), HeadLearner(), pretrain=1, "
            "finetune=0, exposure=0), or with ExactHead()"
        )

    def save(self, model: Model, path: str | Path) -> None:
        """Write the weights as numbers of eight bytes, then the centre, if there is one."""
        mine = own(model, HeadModel)
        payload = np.ascontiguousarray(mine.weights, dtype="<f8").tobytes()
        if mine.centre is not None:
            payload += np.ascontiguousarray(mine.centre, dtype="<i8").tobytes()
        write_model(path, _FORMAT, mine.schema, payload, effort=mine.effort, centred=mine.centre is not None)

    def load(self, path: str | Path) -> HeadModel:
        """Read a model back."""
        file = read_model(path, _FORMAT)
        has_centre = file.about.get("centred")
        if file.schema.vector is None or type(has_centre) is not bool:
            raise ModelFileError(f"{path} does not describe a linear model of public features: save the model again")
        dimension, width = file.schema.vector.dimension, 1 if file.schema.classes == 2 else file.schema.classes
        split = 8 * (dimension + 1) * width
        expected = split + (8 * dimension if has_centre else 0)
        if len(file.payload) != expected:
            raise ModelFileError(
                f"{path} has {len(file.payload)} bytes of weights, expected {expected} for {dimension} features: save "
                "the model again"
            )
        weights = np.frombuffer(file.payload[:split], dtype="<f8").reshape(dimension + 1, width).astype(np.float64)
        if not np.isfinite(weights).all():
            raise ModelFileError(f"{path} has weights that are not finite: save the model again")
        centre = np.frombuffer(file.payload[split:], dtype="<i8").astype(np.int64) if has_centre else None
        return HeadModel(weights, centre, file.schema, file.effort)
