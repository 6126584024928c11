"""Exact unlearning on public features: a linear model that follows from sums, from which a person is subtracted.

Pictures and texts are read as vectors of public features in whole numbers (:mod:`eupg.data.vector`). A ridge regression
on them depends on the records through sums of whole numbers alone. Erasing a person subtracts their part and solves a
system of fixed size again: the result is the model of records they were never among.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from eupg.data.dataset import Dataset, RecordId
from eupg.data.ids import IdSet
from eupg.data.kind import Accepts, DataKind, check_kind
from eupg.data.schema import Schema
from eupg.data.vector import GRID
from eupg.errors import NothingRetained, ParameterError
from eupg.forget.durable import KeptState, Part
from eupg.forget.released import Released
from eupg.forget.storage import Storage
from eupg.forget.unlearner import Trained, check_same_table, check_start, ids_with, ids_without, kept_ids
from eupg.guarantees import Exact
from eupg.learn.heads.model import HeadLearner, HeadModel
from eupg.learn.heads.sums import FeatureSums
from eupg.learn.learner import Model, check_settings
from eupg.learn.leaves.ridge import ridge_scores
from eupg.rng import Randomness
from eupg.temporary import TemporaryFolder

# Of the link from predictions to probabilities, for two classes and for more. Chosen on held-out training records, as
# is the penalty (docs/decisions/public-features.md).
_SLOPE, _SLOPE_OF_MORE = 4.0, 12.0


@dataclass(frozen=True, eq=False)
class SummedHead:
    """A model and the sums it follows from: the memory of :class:`ExactHead`."""

    model: HeadModel
    sums: FeatureSums

    def storage(self) -> Storage:
        """Return the size of the two files: the model and the sums."""
        with TemporaryFolder() as folder:
            model, sums = folder / "model", folder / "sums"
            HeadLearner().save(self.model, model)
            self.sums.save(sums, self.model.schema)
            return Storage(2, model.stat().st_size + sums.stat().st_size)


@dataclass(frozen=True)
class ExactHead:
    """Forget pictures or texts exactly, by subtraction: the time hardly depends on the number of records.

    The records are public features (:func:`~eupg.protect.features.encoder.encode_records`). Nothing is kept per person;
    the sums over all records are kept, and are personal data as the records are.

    :meth:`forget` adds up the retained records anew and never sees the others. :meth:`erase` needs only the records
    that leave, subtracts their part and drops them. Both give the same model, bit for bit.

    The claim is about the newest model. Whoever holds the versions before and after the erasure of one person can
    compare them.

    Parameters
    ----------
    penalty
        Of the ridge regression: every weight is pulled towards zero as if by so many records.

    Examples
    --------
    >>> import numpy as np
    >>> from eupg import Dataset, Seeded
    >>> from eupg.data import Categorical, Role, Schema, Vector
    >>> from eupg.data.vector import on_grid
    >>> label = Categorical(name="kind", role=Role.LABEL, categories=("ham", "spam"))
    >>> schema = Schema((Vector(name="text", dimension=2, encoder="toy", digest="0"), label))
    >>> angles, names = np.arange(60.0), np.arange(60).astype(str)
    >>> X = on_grid(np.column_stack([np.sin(angles), np.cos(angles)]))
    >>> data = Dataset(schema, X, (X[:, 0] > 0).astype(int), names, names)
    >>> method = ExactHead()
    >>> trained = method.train(data, Seeded(1))
    >>> erased = method.erase(trained, data.select(data.ids == "7"))
    >>> never_there = method.train(data.without(["7"]), Seeded(2))
    >>> bool((erased.model.weights == never_there.model.weights).all())
    True
    """

    accepts: ClassVar[Accepts] = Accepts(
        DataKind.VECTORS, instead="ExactTrees for tables, or encode_records first for pictures"
    )
    assumes_requests_apart: ClassVar[bool] = False
    subtracts: ClassVar[bool] = True
    repair: ClassVar[str] = "their part in its sums was subtracted, and the model was computed again"
    penalty: float = 0.3

    def __post_init__(self) -> None:
        check_settings(self, whole={}, positive=("penalty",))

    def train(self, data: Dataset, rng: Randomness) -> Trained:
        """Add up the records and fit the model; no randomness is used."""
        check_start(data, rng)
        check_kind(data.schema, self)
        return _trained(self._fit(_sums(data), data.schema), IdSet(data.id_set), data.schema)

    def save(self, model: Model, path: Path) -> None:
        """Write the served model, which holds no sums."""
        HeadLearner().save(model, path)

    def load(self, path: Path) -> HeadModel:
        """Read a served model back."""
        return HeadLearner().load(path)

    def parts(self, trained: Trained) -> Mapping[str, Part]:
        """Return the sums."""
        sums, schema = _memory(trained).sums, trained.schema
        return {"sums": Part(sums, lambda path: sums.save(path, schema))}

    def restore(self, served: Path, parts: Mapping[str, Path], kept: KeptState) -> Trained:
        """Return the trained model from its file and that of its sums."""
        model, sums, ids = self.load(served), FeatureSums.load(parts["sums"]), kept.data.id_set
        if sums.dimension != len(model.weights) - 1 or sums.count != len(ids):
            raise ParameterError(
                f"expected sums of {len(ids)} records and {len(model.weights) - 1} features, got {sums.count} and "
                f"{sums.dimension}: load the sums that were saved with this model"
            )
        return _trained(SummedHead(model, sums), IdSet(ids), kept.data.schema)

    def forget(self, trained: Trained, retained: Dataset, rng: Randomness) -> Trained:
        """Add up the retained records anew, and solve."""
        kept = kept_ids(trained, retained)
        return trained if trained.ids <= kept else self.update(trained, retained, rng)

    def update(self, trained: Trained, data: Dataset, rng: Randomness) -> Trained:
        """Add up these records anew, and solve."""
        _memory(trained)
        check_same_table(trained, data)
        return self.train(data, rng)

    def erase(self, trained: Trained, rows: Dataset) -> Trained:
        """Subtract the part of records that leave, and solve; the records are not kept.

        Parameters
        ----------
        trained
            The model that knows them.
        rows
            The records that leave, with the features they came with: those that the workspace holds, not features that
            were computed again.
        """
        ids, memory = ids_without(trained, rows), _memory(trained)
        if not ids:
            raise NothingRetained("no record is left to train on: keep at least one, or retire the model")
        return _trained(self._fit(memory.sums.minus(_sums(rows)), memory.model.schema), ids, trained.schema)

    def add(self, trained: Trained, rows: Dataset) -> Trained:
        """Add the part of new records, and solve."""
        ids, memory = ids_with(trained, rows), _memory(trained)
        return _trained(self._fit(memory.sums.plus(_sums(rows)), memory.model.schema), ids, trained.schema)

    def _fit(self, sums: FeatureSums, schema: Schema) -> SummedHead:
        slope = _SLOPE if schema.classes == 2 else _SLOPE_OF_MORE
        return SummedHead(HeadModel(ridge_scores(sums, self.penalty, unit=GRID, slope=slope), None, schema, 1), sums)


def _trained(summed: SummedHead, ids: Set[RecordId], schema: Schema) -> Trained:
    return Trained(summed.model, schema, ids, ids, Released(), Exact(caveats=schema.caveats), summed)


def _sums(data: Dataset) -> FeatureSums:
    return FeatureSums.of(data.X, data.y, classes=data.schema.classes)


def _memory(trained: Trained) -> SummedHead:
    if not isinstance(trained.memory, SummedHead):
        raise ParameterError("this model was not trained by ExactHead: forget with the method that trained it")
    return trained.memory
