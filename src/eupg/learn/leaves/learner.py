"""A model that adds up one number per cell, and the learner that writes and reads its file.

Such models are fitted under differential privacy by :class:`~eupg.forget.private_trees.base.PrivateTrees`, and to
counts of records by :class:`~eupg.forget.exact_trees.ExactTrees`. The learner itself fits none, but it can continue
from one: another learner then fits a correction, whose margins are added to those of the leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from eupg.data.dataset import Examples, Matrix
from eupg.data.rows import as_matrix
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.errors import DataError, ModelFileError, ParameterError
from eupg.learn.envelope import ModelFile, read_model, write_model
from eupg.learn.learner import (
    Correcting,
    Learner,
    Leaves,
    Margined,
    Model,
    Scores,
    both_classes,
    own,
    own_start,
    total_effort,
)
from eupg.learn.leaves.cells import LeafCells, NumberedCells, Tree
from eupg.temporary import lent_as_file, written_bytes

_FORMAT, _CORRECTED = "eupg-leaves-1", "eupg-corrected-leaves-1"
# Rows are read in parts, so that memory use does not grow with their number.
_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class LeafModel:
    """Scores of cells; a record's margin is the sum over the cells in which it lies.

    Parameters
    ----------
    cells
        The cells.
    scores
        One row per cell; one column for two classes, else one per class.
    schema
        What the columns mean.
    effort
        As requested; this model does not depend on it.
    """

    cells: LeafCells
    scores: NDArray[np.float64]
    schema: Schema
    effort: int

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the probability of every class."""
        return cell_probabilities(self.cells, self.scores, as_matrix(self.schema, X))

    def margins(self, X: Matrix) -> Scores:
        """Return the sums before they are turned into probabilities: one number per record, or one per class."""
        margins = cell_margins(self.cells, self.scores, as_matrix(self.schema, X)).astype(np.float32)
        return margins[:, 0] if self.schema.classes == 2 else margins

    @property
    def leaf_counts(self) -> tuple[int, ...]:
        """Number of leaves of each tree; grids are not trees."""
        return tuple(tree.size for tree in self._trees)

    def leaves(self, X: Matrix, *, trees: int) -> Leaves:
        """Return in which leaf of each of the first trees a record lies."""
        X = as_matrix(self.schema, X)
        columns = [tree.codes(X) for tree in self._trees[:trees]]
        return np.column_stack([np.empty((len(X), 0), dtype=np.int64), *columns])

    @property
    def _trees(self) -> list[Tree]:
        return [group for group in self.cells.groups if isinstance(group, Tree) and group.questions]


def cell_margins(cells: NumberedCells, scores: NDArray[np.float64], X: Matrix) -> NDArray[np.float64]:
    """Return the sum of the scores of the cells in which each record lies."""
    # The last row is for records that lie in no cell of a group.
    padded = np.vstack([scores, np.zeros((1, scores.shape[1]))])
    out = np.zeros((len(X), scores.shape[1]))
    for start in range(0, len(X), _ROWS):
        part = slice(start, start + _ROWS)
        for codes in cells.codes(X[part]).T:
            out[part] += padded[codes]
    return out


def cell_probabilities(cells: NumberedCells, scores: NDArray[np.float64], X: Matrix) -> Probabilities:
    """Return the probability of every class: one column of scores is for two classes."""
    return _probabilities(cell_margins(cells, scores, X))


def _probabilities(margins: NDArray[np.float64]) -> Probabilities:
    if margins.shape[1] == 1:
        return both_classes(expit(margins[:, 0]))
    # There is no largest margin among those of no record.
    return np.asarray(softmax(margins, axis=1), dtype=np.float64) if len(margins) else margins


@dataclass(frozen=True, eq=False)
class CorrectedModel:
    """A base model of leaves and a correction: a record's margin is the sum of theirs.

    Parameters
    ----------
    base, correction
        The two models.
    effort
        That of both together.
    """

    base: LeafModel
    correction: Margined
    effort: int

    @property
    def schema(self) -> Schema:
        """What the columns mean."""
        return self.base.schema

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the probability of every class."""
        X = as_matrix(self.schema, X)
        if not len(X):
            return np.empty((0, self.schema.classes))
        return _probabilities(self.margins(X).astype(np.float64).reshape(len(X), -1))

    def margins(self, X: Matrix) -> Scores:
        """Return the sums before they are turned into probabilities: one number per record, or one per class."""
        X = as_matrix(self.schema, X)
        return self.base.margins(X) + self.correction.margins(X)


@dataclass(frozen=True)
class LeafLearner:
    """Writes and reads models of leaves, which PrivateTrees and ExactTrees fit, and lets others correct them.

    Parameters
    ----------
    finetuner
        Corrects a model of leaves where fine-tuning continues from it: XGBoostLearner, LightGBMLearner or TorchLearner.
        The leaves stay as they are; their margins are where the correction starts. Without one, a model of leaves is
        served as it is.

    Examples
    --------
    >>> from eupg import EUPG, PrivateTrees
    >>> from eupg.learn import XGBoostLearner
    >>> learner = LeafLearner(XGBoostLearner(max_depth=3, learning_rate=0.1))
    >>> EUPG(PrivateTrees(epsilon=1.0), learner, pretrain=1, finetune=10, exposure=0.05).sees_raw
    True
    """

    finetuner: Correcting | None = None

    def __post_init__(self) -> None:
        if isinstance(self.finetuner, type) or not isinstance(self.finetuner, Correcting | None):
            raise ParameterError(
                f"expected a learner that can start from margins, got {self.finetuner!r}: use XGBoostLearner(), "
                "LightGBMLearner() or TorchLearner(), or serve the leaves as they are"
            )

    @property
    def warm_starts(self) -> bool:
        """Whether a model of leaves can be corrected; otherwise it is served as it is."""
        return self.finetuner is not None

    @property
    def uses_scores(self) -> bool:
        """A correction needs the margins of the leaves alone."""
        return self.warm_starts

    def scores(self, model: Model, X: Matrix) -> Scores:
        """Return the model's margins."""
        return own(model, LeafModel).margins(X)

    def fit(
        self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model | None = None
    ) -> CorrectedModel:
        """Correct a model of leaves; PrivateTrees and ExactTrees fit the leaves themselves."""
        if start is None:
            raise ParameterError(
                "LeafLearner does not fit models: train with EUPG(PrivateTrees(epsilon), LeafLearner(), exposure=0) or "
                "ExactTrees(), or use another learner such as XGBoostLearner()"
            )
        return self.fit_scored(examples, effort=effort, rng=rng, start=start, scores=self.scores(start, examples.X))

    def fit_scored(
        self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model, scores: Scores
    ) -> CorrectedModel:
        """Correct a model of leaves, whose margins are known."""
        base = own_start(start, LeafModel, examples)
        assert base is not None
        if self.finetuner is None:
            raise ParameterError("LeafLearner() cannot go on from a model: pass LeafLearner(XGBoostLearner())")
        correction = self.finetuner.fit_correction(examples, effort=effort, rng=rng, scores=scores)
        return CorrectedModel(base, correction, total_effort(effort, start))

    def save(self, model: Model, path: str | Path) -> None:
        """Write the cells as JSON and their scores as numbers of eight bytes; a correction as its own learner does."""
        if isinstance(model, CorrectedModel):
            both = ((self, model.base), (self._corrector(path), model.correction))
            parts = [written_bytes(partial(learner.save, part), beside=path) for learner, part in both]
            sizes = [len(part) for part in parts]
            write_model(path, _CORRECTED, model.schema, b"".join(parts), effort=model.effort, sizes=sizes)
            return
        mine = own(model, LeafModel)
        payload = np.ascontiguousarray(mine.scores, dtype="<f8").tobytes()
        write_model(path, _FORMAT, mine.schema, payload, effort=mine.effort, cells=mine.cells.to_json())

    def load(self, path: str | Path) -> LeafModel | CorrectedModel:
        """Read a model back, corrected or not."""
        file = read_model(path, _FORMAT, _CORRECTED)
        if file.about["format"] == _FORMAT:
            return _leaves(file)
        parts = file.parts()
        if len(parts) != 2:
            raise ModelFileError(f"{path} has {len(parts)} parts, expected leaves and a correction: save it again")
        base, correction = _read(self, parts[0]), _read(self._corrector(path), parts[1])
        return CorrectedModel(own(base, LeafModel), cast(Margined, correction), file.effort)

    def _corrector(self, path: str | Path) -> Correcting:
        if self.finetuner is None:
            raise ParameterError(
                f"{path} is for leaves and a correction, which needs the learner that fitted it: use "
                "LeafLearner(XGBoostLearner()), or whichever it was"
            )
        return self.finetuner


def _read(learner: Learner, content: bytes) -> Model:
    """Read what a learner wrote."""
    with lent_as_file(content) as path:
        return learner.load(path)


def _leaves(file: ModelFile) -> LeafModel:
    path = file.path
    try:
        cells = LeafCells.from_json(file.about.get("cells"), file.schema.columns)
    except DataError as error:
        raise ModelFileError(
            f"{path} does not describe its cells in a readable form ({error}): save the model again"
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
