"""Fine-tuning that gives the leaves of a base model new values, from counts alone.

The base model's trees say where to cut; their leaves come from protected data and outlive an erasure. Their values come
from a ridge regression on the records, together with public cells. It depends on the records through whole numbers
alone, so a record that leaves is subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Examples, Matrix
from eupg.data.kind import Accepts, DataKind, check_kind
from eupg.data.rows import as_matrix
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.errors import DataError, ModelFileError, ParameterError
from eupg.learn.envelope import ModelFile, read_model, write_model
from eupg.learn.learner import (
    Learner,
    Model,
    Scores,
    Sums,
    TreeModel,
    check_fit,
    check_settings,
    own,
    own_start,
    total_effort,
)
from eupg.learn.leaves.cells import Codes, LeafCells
from eupg.learn.leaves.learner import cell_margins, cell_probabilities
from eupg.learn.leaves.public_cells import MOST_CELLS, cell_penalties, public_cells
from eupg.learn.leaves.ridge import ridge_scores
from eupg.learn.leaves.statistics import RidgeStatistics
from eupg.temporary import lent_as_file, written_bytes

_FORMAT = "eupg-leaf-ridge-1"
# Chosen on held-out training records, as are the penalties (docs/decisions/exact-trees.md).
_MOST_LEAVES = 300


@dataclass(frozen=True)
class TunedCells:
    """Public cells, followed by the leaves of the first trees of a base model."""

    public: LeafCells
    base: TreeModel
    trees: int

    @property
    def count(self) -> int:
        """Number of cells."""
        return self.public.count + sum(self.base.leaf_counts[: self.trees])

    def codes(self, X: Matrix) -> Codes:
        """Return the cells of each record, one column per group; :attr:`count` stands for none."""
        public = self.public.codes(X)
        public[public == self.public.count] = self.count
        firsts = list(accumulate(self.base.leaf_counts[: self.trees], initial=self.public.count))[:-1]
        leaves = self.base.leaves(X, trees=self.trees) + np.array(firsts, dtype=np.int64)
        return np.column_stack([public, leaves.astype(np.int32)])


@dataclass(frozen=True, eq=False)
class LeafRidgeModel:
    """A base model's leaves, and public cells, with scores of their own.

    Parameters
    ----------
    cells
        The cells, with the base model.
    scores
        One row per cell; one column for two classes, else one per class.
    schema
        What the columns mean.
    learner
        What made the model.
    effort
        That of the base model and that of fine-tuning; the model does not depend on the latter.
    """

    cells: TunedCells
    scores: NDArray[np.float64]
    schema: Schema
    learner: LeafRidge
    effort: int

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the probability of every class."""
        return cell_probabilities(self.cells, self.scores, as_matrix(self.schema, X))

    def margins(self, X: Matrix) -> Scores:
        """Return the sums before they are turned into probabilities: one number per record, or one per class."""
        margins = cell_margins(self.cells, self.scores, as_matrix(self.schema, X)).astype(np.float32)
        return margins[:, 0] if self.schema.classes == 2 else margins


@dataclass(frozen=True)
class LeafRidge:
    """Fine-tunes a model of trees by giving its leaves new values; takes the place of a finetuner in EUPG.

    It uses the first trees of the base model that have at most 300 leaves together, and up to 1,500 public cells.
    Effort makes no difference: there is one solution.

    Parameters
    ----------
    base
        The learner of the base model: reads and writes the base model within a file.
    penalty, leaf_penalty
        Of the ridge regression: the score of a cell of a public grid, and that of a leaf of the base model, is pulled
        towards zero as if by so many records; that of a leaf of a public tree as if by six times the first number.

    Examples
    --------
    >>> from eupg import EUPG
    >>> from eupg.learn import XGBoostLearner
    >>> from eupg.protect import ProbabilisticKAnonymity
    >>> learner = XGBoostLearner()
    >>> method = EUPG(ProbabilisticKAnonymity(30), learner, finetuner=LeafRidge(learner))
    """

    base: Learner
    accepts: ClassVar[Accepts] = Accepts(DataKind.TABLE, instead="TorchLearner(ResNet18())")
    penalty: float = 20.0
    leaf_penalty: float = 1000.0

    def __post_init__(self) -> None:
        if isinstance(self.base, type) or not isinstance(self.base, Learner):
            raise ParameterError(f"expected the learner of the base model, such as XGBoostLearner(), got {self.base!r}")
        check_settings(self, whole={}, positive=("penalty", "leaf_penalty"), not_negative=())

    @property
    def warm_starts(self) -> bool:
        """It goes on from a base model, and only so."""
        return True

    def fit(
        self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model | None = None
    ) -> LeafRidgeModel:
        """Give the leaves of the model to start from values that fit the examples; no randomness is used."""
        check_fit(examples, effort)
        if start is None:
            raise ParameterError(
                "LeafRidge gives new values to the leaves of a base model, got none: pass it as start, as "
                "EUPG(…, finetuner=LeafRidge(learner)) does, or use ExactTrees(), which needs no base model"
            )
        return self.fit_sums(self.sums(examples, start=start), effort=effort, start=start)

    def sums(self, examples: Examples, *, start: Model) -> RidgeStatistics:
        """Count the examples in the cells."""
        check_kind(examples.schema, self)
        own_start(start, type(_trees(start)), examples)
        cells = self._cells(_trees(start))
        return RidgeStatistics.count_in(cells, examples.X, examples.y, classes=examples.schema.classes)

    def fit_sums(self, sums: Sums, *, effort: int, start: Model) -> LeafRidgeModel:
        """Fit the model to counts."""
        cells, counts = self._cells(_trees(start)), _own_counts(sums)
        penalties = np.full(cells.count, float(self.leaf_penalty))
        penalties[: cells.public.count] = cell_penalties(cells.public, self.penalty)
        scores = ridge_scores(counts, penalties)
        return LeafRidgeModel(cells, scores, cells.base.schema, self, total_effort(effort, start))

    def save_sums(self, sums: Sums, path: Path, *, start: Model) -> None:
        """Write the counts."""
        _own_counts(sums).save(path, _trees(start).schema)

    def load_sums(self, path: Path) -> RidgeStatistics:
        """Read counts back."""
        return RidgeStatistics.load(path)

    def _cells(self, base: TreeModel) -> TunedCells:
        trees = sum(total <= _MOST_LEAVES for total in accumulate(base.leaf_counts))
        if not trees:
            raise ParameterError(
                f"the first tree of the base model has {next(iter(base.leaf_counts), 0)} leaves, expected 1 to "
                f"{_MOST_LEAVES}: pretrain a base model of smaller trees"
            )
        return TunedCells(public_cells(base.schema, most=MOST_CELLS - _MOST_LEAVES), base, trees)

    def save(self, model: Model, path: str | Path) -> None:
        """Write the base model as its own learner does, then the scores as numbers of eight bytes."""
        mine = own(model, LeafRidgeModel)
        base = written_bytes(partial(self.base.save, mine.cells.base), beside=path)
        parts = [base, np.ascontiguousarray(mine.scores, dtype="<f8").tobytes()]
        write_model(
            path,
            _FORMAT,
            mine.schema,
            b"".join(parts),
            effort=mine.effort,
            sizes=[len(part) for part in parts],
            public=mine.cells.public.to_json(),
            trees=mine.cells.trees,
        )

    def load(self, path: str | Path) -> LeafRidgeModel:
        """Read a model back."""
        file = read_model(path, _FORMAT)
        parts = file.parts()
        if len(parts) != 2:
            raise ModelFileError(f"{path} has {len(parts)} parts, expected a base model and scores: save it again")
        with lent_as_file(parts[0]) as inner:
            base = _trees(self.base.load(inner))
        cells = TunedCells(_public(file), base, _tree_count(file, base))
        width = 1 if file.schema.classes == 2 else file.schema.classes
        if len(parts[1]) != 8 * cells.count * width:
            raise ModelFileError(
                f"{path} has {len(parts[1])} bytes of scores, expected {8 * cells.count * width} for {cells.count} "
                "cells: save the model again"
            )
        scores = np.frombuffer(parts[1], dtype="<f8").reshape(cells.count, width).astype(np.float64)
        if not np.isfinite(scores).all():
            raise ModelFileError(f"{path} has scores that are not finite: save the model again")
        return LeafRidgeModel(cells, scores, file.schema, self, file.effort)


def _trees(model: Model) -> TreeModel:
    if not isinstance(model, TreeModel):
        raise ParameterError(
            f"expected a base model made of trees, got a {type(model).__name__}: pretrain with XGBoostLearner() or "
            "LightGBMLearner()"
        )
    return model


def _own_counts(sums: Sums) -> RidgeStatistics:
    if not isinstance(sums, RidgeStatistics):
        raise ParameterError(f"expected the counts of LeafRidge.sums, got {type(sums).__name__}: count again")
    return sums


def _public(file: ModelFile) -> LeafCells:
    try:
        return LeafCells.from_json(file.about.get("public"), file.schema.columns)
    except DataError as error:
        raise ModelFileError(
            f"{file.path} does not describe its public cells ({error}): save the model again"
        ) from error


def _tree_count(file: ModelFile, base: TreeModel) -> int:
    trees = file.about.get("trees")
    if type(trees) is not int or not 0 < trees <= len(base.leaf_counts):
        raise ModelFileError(
            f"{file.path} uses {trees!r:.60} of {len(base.leaf_counts)} trees of its base model: save the model again"
        )
    return trees
