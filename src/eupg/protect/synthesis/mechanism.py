"""Differential privacy for whole records: a synthetic table drawn from noisy counts.

The model is a tree-augmented naive Bayes network: the label, and every feature given the label and one other feature.
Four questions are asked of the records, each answered with exact noise (:mod:`eupg.protect.noise.discrete`): their
number, the counts of each feature and class, the pairs of features that depend on each other, and the counts of each
chosen pair and class. All else is computed from the answers. ``docs/guarantees.md`` holds the proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from eupg.data.attribute import Listed, Numeric
from eupg.data.dataset import Dataset
from eupg.data.kind import Accepts, DataKind, check_kind
from eupg.data.schema import Schema
from eupg.data.table_file import TableFile
from eupg.errors import DataError, ParameterError
from eupg.executor.executor import Executor, opened
from eupg.executor.processes import LocalProcesses
from eupg.guarantees import DifferentiallyPrivate
from eupg.progress import SILENT, Progress
from eupg.protect.cells import Cells
from eupg.protect.release import Release
from eupg.protect.streaming.record_parts import PART, gather, records_in
from eupg.protect.streaming.steps import Steps
from eupg.protect.synthesis.budget import Budget
from eupg.protect.synthesis.model import Countable, CountableTable, SynthesisModel
from eupg.protect.synthesis.streamed import StreamedTable
from eupg.protect.units import random_rank, unit_claim
from eupg.rng import Randomness, Secret
from eupg.validation import check_positive, check_whole

_MOST_CATEGORIES = 20_000
_MOST_FEATURES = 500
# Beyond this many steps, floating-point numbers cannot distinguish one step from the next.
_MOST_STEPS = 2**53


@dataclass(frozen=True)
class DPSynthesis:
    """Release a synthetic table with differential privacy for a whole person: attributes, label and presence.

    Parameters
    ----------
    epsilon
        Budget of one person, or of one record where the schema names no person.
    delta
        0 for pure ε-differential privacy (discrete Laplace noise); above 0 for the (ε, δ) form (discrete Gaussian
        noise), which is better for tables of many columns.
    max_records
        Largest number of records used per person; further ones are dropped at random. The noise grows with it.
    rows
        Number of synthetic rows to draw; by default a noisy count of the records.
    """

    accepts: ClassVar[Accepts] = Accepts(DataKind.TABLE, instead="PixelDP")
    epsilon: float = 1.0
    delta: float = 0.0
    max_records: int = 1
    rows: int | None = None

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        if not (isinstance(self.delta, (int, float, np.floating)) and 0 <= self.delta < 1):
            raise ParameterError(f"delta must be 0, or a small probability such as 1e-6, got {self.delta!r}")
        check_whole("max_records", self.max_records, at_least=1)
        check_whole("rows", 1 if self.rows is None else self.rows, at_least=1)

    def guarantee(self, schema: Schema) -> DifferentiallyPrivate:
        """Return the claim: (ε, δ) for one person, on all attributes and the label."""
        check_kind(schema, self)
        declared = (f"the number of rows, {self.rows}, was declared and not counted",) if self.rows else ()
        return unit_claim(self.epsilon, self.delta, schema, declared)

    def protect(self, data: Dataset, rng: Randomness) -> Release:
        """Ask the four questions, and draw a table from the answers."""
        check_kind(data.schema, self)
        records = at_most(data, self.max_records, rng.stage("drop"))
        return self._drawn(CountableTable(records), len(records), rng)

    def protect_files(
        self,
        source: str | Path | TableFile,
        schema: Schema,
        *,
        rng: Randomness | None = None,
        executor: Executor | None = None,
        folder: str | Path | None = None,
        progress: Progress = SILENT,
        part: int = PART,
    ) -> Release:
        """Release a synthetic table of a table in files, which may be larger than memory.

        The release is that of :meth:`protect` on the same rows, bit for bit with the same seed. It has to fit into
        memory: declare fewer ``rows`` where the table does not. While it runs, records lie in files of a temporary
        folder, which is erased at the end and after an error.

        Parameters
        ----------
        source
            A Parquet, Arrow or CSV file, a folder of Parquet files, or another table that :class:`TableFile` reads.
        schema
            What the columns mean. Only features, the label and the names of people are read.
        rng
            Secret randomness by default. A seed repeats the run, and the claim then says that it is not private.
        executor
            Where the tasks run; by default in one process per core. It does not change a bit of the release.
        folder
            Where the temporary folder lies: on a disk with room for about two copies of the table, and on a cluster,
            on one that all machines share. By default the system's place for temporary files. There, what a killed
            process leaves is erased by the next; in a folder of your own, by you.
        progress
            Is told of the steps.
        part
            Records that one task holds in memory, about.
        """
        check_kind(schema, self)
        check_whole("part", part, at_least=1)
        rng = Secret() if rng is None else rng
        with records_in(folder) as records, opened(executor or LocalProcesses()) as processes:
            steps = Steps(processes, progress)
            drop = rng.stage("drop")
            parts = gather(source, schema, records, most=self.max_records, rng=drop, steps=steps, part=part)
            table = StreamedTable(schema, parts, processes)
            with progress.step("count"):
                return self._drawn(table, len(table), rng)

    def _drawn(self, records: Countable, count: int, rng: Randomness) -> Release:
        # An empty table is not refused: that would distinguish it from a table with a single person.
        varying = _varying(records.schema)
        budget = Budget.split(self.epsilon, self.delta, self.max_records, len(varying))
        total = max(1, count + int(budget.count.draw(1, rng.stage("count"))[0]))
        model = SynthesisModel.ask(records, varying, budget, total, rng)
        X, y = model.draw(total if self.rows is None else self.rows, rng.stage("draw").generator())
        return Release.shuffled(records, X, y, self.guarantee(records.schema), rng)


def at_most(data: Dataset, records: int, rng: Randomness) -> Dataset:
    """Keep at most this many records of each person, chosen at random.

    Where the schema names no person, a record is the unit and all are kept: otherwise removing one record could let
    another one in, and change two.
    """
    return data.select(random_rank(data, rng) < records)


def _varying(schema: Schema) -> list[int]:
    """Return the features that can take more than one value; refuse schemas that are too large for the method."""
    for attribute in (*schema.features, schema.label):
        if isinstance(attribute, Listed) and attribute.points > _MOST_CATEGORIES:
            raise ParameterError(
                f"column {attribute.name!r} has {attribute.points} categories, and synthesis takes up to "
                f"{_MOST_CATEGORIES}: merge rare ones into one"
            )
        if isinstance(attribute, Numeric) and (attribute.upper - attribute.lower) / attribute.resolution > _MOST_STEPS:
            raise ParameterError(
                f"column {attribute.name!r} has more than {_MOST_STEPS} steps of {attribute.resolution:g} between its "
                "bounds, too many to tell apart: declare a coarser resolution, or closer bounds"
            )
    varying = [j for j, attribute in enumerate(schema.features) if Cells.of(attribute, 2).size > 1]
    if not varying:
        raise DataError("no feature of the schema can take two values, so there is nothing to draw: declare more")
    if len(varying) > _MOST_FEATURES:
        raise ParameterError(
            f"the schema has {len(varying)} features, and synthesis takes up to {_MOST_FEATURES}, since all share the "
            "budget: drop those that matter least"
        )
    return varying
