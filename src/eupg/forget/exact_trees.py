"""Exact unlearning by subtraction: a model that follows from counts, from which an erased person is taken away.

The model is a ridge regression on public cells (:mod:`eupg.learn.leaves.public_cells`). It depends on the records
through whole numbers alone, so erasing a person subtracts their counts and solves a system of fixed size again. The
result is the model of a table they were never in.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from eupg.data.dataset import Dataset, RecordId
from eupg.data.ids import IdSet
from eupg.data.kind import Accepts, DataKind, check_kind
from eupg.data.schema import Schema
from eupg.data.table_file import TableFile
from eupg.errors import NothingRetained, ParameterError
from eupg.executor.executor import Executor
from eupg.executor.processes import LocalProcesses
from eupg.forget.durable import KeptState, Part
from eupg.forget.released import Released
from eupg.forget.storage import Storage
from eupg.forget.unlearner import Trained, check_same_table, check_start, ids_with, ids_without, kept_ids
from eupg.guarantees import Exact
from eupg.learn.learner import Model, check_settings, own
from eupg.learn.leaves.cells import LeafCells
from eupg.learn.leaves.learner import LeafLearner, LeafModel
from eupg.learn.leaves.public_cells import MOST_CELLS, cell_penalties, public_cells
from eupg.learn.leaves.ridge import ridge_scores
from eupg.learn.leaves.statistics import RidgeStatistics
from eupg.progress import SILENT, Progress, advance
from eupg.protect.streaming.chunks import Chunk, TableColumns, chunks_of
from eupg.protect.streaming.record_parts import records_in
from eupg.rng import Randomness
from eupg.temporary import TemporaryFolder


@dataclass(frozen=True, eq=False)
class CountedModel:
    """A model and the counts it follows from: the memory of :class:`ExactTrees`."""

    model: LeafModel
    statistics: RidgeStatistics

    def storage(self) -> Storage:
        """Return the size of the two files: the model and the counts."""
        with TemporaryFolder() as folder:
            model, counts = folder / "model", folder / "counts"
            LeafLearner().save(self.model, model)
            self.statistics.save(counts, self.model.schema)
            return Storage(2, model.stat().st_size + counts.stat().st_size)


@dataclass(frozen=True)
class ExactTrees:
    """Forget exactly, by subtraction: the time it takes hardly depends on the number of records.

    Cells come from the schema alone: grids between declared bounds, declared categories, and random trees with a fixed
    public seed. Nothing is kept per person; the counts of cells are kept, and are personal data as the records are.

    :meth:`forget` counts the retained records anew and never sees the others. :meth:`erase` needs only the records that
    leave, subtracts their counts and drops them. Both give the same model, bit for bit.

    The claim is about the newest model. Whoever holds the versions before and after the erasure of one person can
    compare them.

    Parameters
    ----------
    penalty
        Of the ridge regression: the score of a cell of a grid is pulled towards zero as if by so many records, that of
        a tree's leaf as if by six times as many.
    most_cells
        The most cells. The time to erase somebody grows with its third power: about 0.15 s of one core for 1,800.

    Examples
    --------
    >>> import numpy as np
    >>> from eupg import Schema, Seeded
    >>> from eupg.data import Categorical, Numeric, Role
    >>> label = Categorical(name="ill", role=Role.LABEL, categories=("no", "yes"))
    >>> schema = Schema((Numeric(name="age", lower=0, upper=120), label))
    >>> ages, names = np.arange(20.0, 80.0), np.arange(60).astype(str)
    >>> data = Dataset(schema, ages[:, None], (ages > 50).astype(int), names, names)
    >>> method = ExactTrees()
    >>> trained = method.train(data, Seeded(1))
    >>> erased = method.erase(trained, data.select(data.ids == "7"))
    >>> never_there = method.train(data.without(["7"]), Seeded(2))
    >>> bool((erased.model.scores == never_there.model.scores).all())
    True
    """

    accepts: ClassVar[Accepts] = Accepts(DataKind.TABLE, instead="Retrain(TorchLearner(ResNet18()))")
    assumes_requests_apart: ClassVar[bool] = False
    subtracts: ClassVar[bool] = True
    repair: ClassVar[str] = "their part in its counts was subtracted, and the model was computed again"
    penalty: float = 20.0
    most_cells: int = MOST_CELLS

    def __post_init__(self) -> None:
        check_settings(self, whole={"most_cells": 2}, positive=("penalty",), not_negative=())

    def train(self, data: Dataset, rng: Randomness) -> Trained:
        """Count the records in public cells and fit the model; no randomness is used."""
        check_start(data, rng)
        check_kind(data.schema, self)
        return self._count(public_cells(data.schema, most=self.most_cells), data)

    def count_files(
        self,
        source: str | Path | TableFile,
        schema: Schema,
        *,
        executor: Executor | None = None,
        folder: str | Path | None = None,
        progress: Progress = SILENT,
    ) -> CountedModel:
        """Count the records of a table in files, which may be larger than memory, and fit the model.

        The model and its counts are those of :meth:`train` on the same rows, bit for bit. They know no record ids: use
        :meth:`subtract` and :meth:`include` to let records leave and join.

        Parameters
        ----------
        source
            A Parquet, Arrow or CSV file, a folder of Parquet files, or another table that :class:`TableFile` reads.
        schema
            What the columns mean. Only features and the label are read.
        executor
            Where records are counted; by default in one process per core.
        folder
            Where a temporary folder lies, for counts on their way; on a cluster, on a disk that all machines share. By
            default the system's place for temporary files.
        progress
            Is told of the step ``count``.
        """
        check_kind(schema, self)
        cells, columns, total = public_cells(schema, most=self.most_cells), TableColumns(schema), None
        with records_in(folder) as place, progress.step("count"):
            chunks = chunks_of(source, columns, place)
            count = partial(_count_chunk, cells, columns, str(place))
            for done, (_, path) in enumerate((executor or LocalProcesses()).map(count, chunks), start=1):
                part = RidgeStatistics.load(path)
                Path(path).unlink()
                total = part if total is None else total.plus(part)
                advance(progress, done / len(chunks))
        if total is None:
            raise NothingRetained("the table has no record to train on: name another")
        return self._fit(cells, total, schema)

    def save(self, model: Model, path: Path) -> None:
        """Write the served model, which holds no counts."""
        LeafLearner().save(model, path)

    def load(self, path: Path) -> LeafModel:
        """Read a served model back."""
        return own(LeafLearner().load(path), LeafModel)

    def parts(self, trained: Trained) -> Mapping[str, Part]:
        """Return the counts."""
        statistics, schema = _memory(trained).statistics, trained.schema
        return {"counts": Part(statistics, lambda path: statistics.save(path, schema))}

    def restore(self, served: Path, parts: Mapping[str, Path], kept: KeptState) -> Trained:
        """Return the trained model from its file and that of its counts."""
        model, statistics, ids = self.load(served), RidgeStatistics.load(parts["counts"]), kept.data.id_set
        if statistics.cells != model.cells.count or statistics.count != len(ids):
            raise ParameterError(
                f"expected counts of {len(ids)} records in {model.cells.count} cells, got {statistics.count} in "
                f"{statistics.cells}: load the counts that were saved with this model"
            )
        return _trained(CountedModel(model, statistics), IdSet(ids), kept.data.schema)

    def forget(self, trained: Trained, retained: Dataset, rng: Randomness) -> Trained:
        """Count the retained records anew, and solve."""
        kept = kept_ids(trained, retained)
        return trained if trained.ids <= kept else self.update(trained, retained, rng)

    def update(self, trained: Trained, data: Dataset, rng: Randomness) -> Trained:
        """Count these records anew, and solve."""
        check_start(data, rng)
        check_same_table(trained, data)
        return self._count(_memory(trained).model.cells, data)

    def erase(self, trained: Trained, rows: Dataset) -> Trained:
        """Subtract the counts of records that leave, and solve; the records are not kept.

        Parameters
        ----------
        trained
            The model that knows them.
        rows
            The records that leave, with the values they came with. Changed values are refused where a count would fall
            below zero; other changes cannot be recognised.
        """
        ids, memory = ids_without(trained, rows), _memory(trained)
        if not ids:
            raise NothingRetained("no record is left to train on: keep at least one, or retire the model")
        return _trained(self.subtract(memory, rows), ids, trained.schema)

    def add(self, trained: Trained, rows: Dataset) -> Trained:
        """Add the counts of new records, and solve."""
        ids, memory = ids_with(trained, rows), _memory(trained)
        return _trained(self.include(memory, rows), ids, trained.schema)

    def subtract(self, counted: CountedModel, rows: Dataset) -> CountedModel:
        """Do the part of :meth:`erase` that takes equally long for any number of records: without their ids."""
        cells, schema = counted.model.cells, counted.model.schema
        return self._fit(cells, counted.statistics.minus(_counts(cells, rows)), schema)

    def include(self, counted: CountedModel, rows: Dataset) -> CountedModel:
        """Do the same part of :meth:`add`."""
        cells, schema = counted.model.cells, counted.model.schema
        return self._fit(cells, counted.statistics.plus(_counts(cells, rows)), schema)

    def _count(self, cells: LeafCells, data: Dataset) -> Trained:
        return _trained(self._fit(cells, _counts(cells, data), data.schema), IdSet(data.id_set), data.schema)

    def _fit(self, cells: LeafCells, statistics: RidgeStatistics, schema: Schema) -> CountedModel:
        scores = ridge_scores(statistics, cell_penalties(cells, self.penalty))
        return CountedModel(LeafModel(cells, scores, schema, effort=1), statistics)


def _trained(counted: CountedModel, ids: Set[RecordId], schema: Schema) -> Trained:
    return Trained(counted.model, schema, ids, ids, Released(), Exact(caveats=schema.caveats), counted)


def _count_chunk(cells: LeafCells, columns: TableColumns, folder: str, chunk: Chunk) -> str:
    """Count the records of a chunk; the counts are many numbers, and go through a file."""
    *features, label = columns.read(chunk)
    X, y = np.column_stack(features), label.astype(np.int64)
    path = Path(folder) / f"counts-{secrets.token_hex(8)}"
    RidgeStatistics.count_in(cells, X, y, classes=columns.schema.classes).save(path, columns.schema)
    return str(path)


def _counts(cells: LeafCells, data: Dataset) -> RidgeStatistics:
    return RidgeStatistics.count_in(cells, data.X, data.y, classes=data.schema.classes)


def _memory(trained: Trained) -> CountedModel:
    if not isinstance(trained.memory, CountedModel):
        raise ParameterError("this model was not trained by ExactTrees: forget with the method that trained it")
    return trained.memory
