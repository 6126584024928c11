"""Records in files, larger than memory: the sums of answers, added up over parts by an executor.

All sums are of whole numbers, and all records of a person lie in one part, so that they are cut together there. So the
sums are those of the whole table in memory, bit by bit, whatever the parts and wherever they are computed. The cells of
each record are computed once per question and kept in files as short numbers, which every step reads in place.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from eupg.executor.executor import Executor, added_up, in_order
from eupg.forget.private_trees.noisy_answers import Design, Floats, HeldRecords, ResidualSums
from eupg.learn.leaves.cells import LeafCells
from eupg.protect.noise.discrete import Whole
from eupg.protect.streaming.record_parts import RecordPart


@dataclass(frozen=True)
class StreamedRecords:
    """Records in the parts of a run.

    Parameters
    ----------
    parts
        The records.
    together
        Whether a person's records are cut together; otherwise each record is a unit.
    folder
        Where files of the run lie.
    executor
        Where sums are computed.
    """

    parts: Sequence[RecordPart]
    together: bool
    folder: str
    executor: Executor

    def __len__(self) -> int:
        """Return the number of records."""
        return sum(part.rows for part in self.parts)

    def counts(self, cells: LeafCells, unit: int) -> Whole:
        """Count the units in each cell, times ``unit``."""
        return added_up(self.executor, partial(_counts, self.together, cells, unit), self.parts)

    def vectors(self, design: Design, bound: int) -> StreamedSums:
        """Prepare the vectors of a design."""
        return self._prepared(partial(_vectors, self.together, self.folder, design, bound))

    def groups(self, cells: LeafCells, classes: int, bound: int) -> StreamedSums:
        """Prepare questions about one group each."""
        return self._prepared(partial(_groups, self.together, self.folder, cells, classes, bound))

    def _prepared(self, prepare: partial[StoredSums]) -> StreamedSums:
        return StreamedSums(in_order(self.executor, prepare, self.parts), self.executor)


@dataclass(frozen=True)
class StoredSums:
    """The sums of one part, prepared: its arrays in files, by their names, and everything else."""

    arrays: dict[str, str]
    rest: dict[str, Any]

    @classmethod
    def of(cls, sums: ResidualSums, folder: str) -> StoredSums:
        """Write the arrays to files."""
        values = {field.name: getattr(sums, field.name) for field in fields(sums)}
        name = secrets.token_hex(8)
        arrays = {key: f"{Path(folder) / name}-{key}.npy" for key, v in values.items() if isinstance(v, np.ndarray)}
        for key, path in arrays.items():
            np.save(path, values[key])
        return cls(arrays, {key: value for key, value in values.items() if key not in arrays})

    def load(self) -> ResidualSums:
        """Map the files into memory: the system keeps those parts of them that it has room for."""
        # Copied on write, and never written to: a mapping that refuses writing would be compiled for by itself.
        arrays = {key: np.load(path, mmap_mode="c").view(np.ndarray) for key, path in self.arrays.items()}
        return ResidualSums(**arrays, **self.rest)


@dataclass(frozen=True)
class StreamedSums:
    """Sums of residuals over the cells, of all parts together."""

    parts: Sequence[StoredSums]
    executor: Executor

    @property
    def unit(self) -> float:
        """The value of one whole number, which is the same in all parts."""
        return float(self.parts[0].rest["unit"])

    def __call__(self, margins: Floats, weights: Whole) -> Whole:
        """Return the sums at these margins of cells, times the whole weight of each cell in the answer."""
        return added_up(self.executor, partial(_sums, margins, weights), self.parts)


def _held(together: bool, part: RecordPart) -> HeldRecords:
    X, y, people = part.read()
    return HeldRecords(X, y, people if together else None)


def _counts(together: bool, cells: LeafCells, unit: int, part: RecordPart) -> Whole:
    return _held(together, part).counts(cells, unit)


def _vectors(together: bool, folder: str, design: Design, bound: int, part: RecordPart) -> StoredSums:
    return StoredSums.of(_held(together, part).vectors(design, bound), folder)


def _groups(together: bool, folder: str, cells: LeafCells, classes: int, bound: int, part: RecordPart) -> StoredSums:
    return StoredSums.of(_held(together, part).groups(cells, classes, bound), folder)


def _sums(margins: Floats, weights: Whole, part: StoredSums) -> Whole:
    return part.load()(margins, weights)
