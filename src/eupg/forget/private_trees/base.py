"""Differentially private leaves: a base model for tables that is served as it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from eupg.data.dataset import Dataset
from eupg.data.kind import Accepts, DataKind, check_kind
from eupg.data.schema import Schema
from eupg.data.table_file import TableFile
from eupg.errors import NothingRetained, ParameterError
from eupg.executor.executor import Executor, opened
from eupg.executor.processes import LocalProcesses
from eupg.forget.private_trees.budget import Budget, GaussianBudget
from eupg.forget.private_trees.noisy_answers import HeldRecords, RecordAnswers
from eupg.forget.private_trees.noisy_training import NoisyTraining
from eupg.forget.private_trees.streamed import StreamedRecords
from eupg.forget.private_trees.sweeps import PrivateSweeps
from eupg.forget.private_trees.training import PrivateDescent
from eupg.forget.protected_training import without_names
from eupg.forget.unlearner import check_start
from eupg.guarantees import DifferentiallyPrivate
from eupg.learn.learner import Learner, Model
from eupg.learn.leaves.learner import LeafLearner, LeafModel
from eupg.progress import SILENT, Progress
from eupg.protect.streaming.record_parts import PART, gather, records_in
from eupg.protect.streaming.steps import Steps
from eupg.protect.units import unit_claim
from eupg.rng import Randomness, Secret
from eupg.validation import check_whole


@dataclass(frozen=True)
class PrivateTrees(NoisyTraining):
    """Train the base model on public cells with noisy gradients, so that it hardly depends on any one person.

    Takes the place of a mechanism in :class:`~eupg.forget.eupg.EUPG`, with :class:`~eupg.learn.leaves.learner.
    LeafLearner`. The model adds up one number per cell of public grids, categories and small random trees. It satisfies
    (ε, δ)-differential privacy for everything about a person: their presence, all attributes and the label. Served as
    it is (``exposure=0``), it never has to change when a person is erased.

    Parameters
    ----------
    epsilon, delta
        The claim. With ``delta=0`` it is pure ε-differential privacy, at some cost in utility.
    max_records
        The most records used per person; of a person with more, a random choice. They are cut together, so that the
        noise does not grow with their number. Ignored if the schema names no person.

    Examples
    --------
    >>> from eupg.forget.eupg import EUPG
    >>> from eupg.learn.leaves.learner import LeafLearner
    >>> method = EUPG(PrivateTrees(epsilon=1.0), LeafLearner(), pretrain=1, finetune=0, exposure=0)
    >>> method.sees_raw
    False
    """

    accepts: ClassVar[Accepts] = Accepts(DataKind.TABLE, instead="PixelDP, which protects the pictures themselves")

    def guarantee(self, schema: Schema) -> DifferentiallyPrivate:
        """Return the claim: (ε, δ) for one person, on all attributes and the label."""
        check_kind(schema, self)
        return unit_claim(self.epsilon, self.delta, schema, self.caveats)

    def check_learner(self, learner: Learner) -> None:
        """Refuse a learner that cannot save a model of leaves."""
        if not isinstance(learner, LeafLearner):
            raise ParameterError(
                f"PrivateTrees makes models of leaves, which {type(learner).__name__} cannot save: use LeafLearner()"
            )

    def pretrain(
        self, data: Dataset, learner: Learner, *, effort: int, rng: Randomness
    ) -> tuple[Model, DifferentiallyPrivate]:
        """Train the base model from noisy answers alone."""
        check_start(data, rng)
        self.check_learner(learner)
        claim = replace(self.guarantee(data.schema), seeded=rng.seeded)
        schema, secret = without_names(data.schema), rng.stage("protect")
        X, y, people = self.used_records(data, secret)
        answers = RecordAnswers(HeldRecords(X, y, people), self.budget, secret.stage("noise"))
        return _training(schema, self.budget).fit(answers, effort=effort), claim

    def pretrain_files(
        self,
        source: str | Path | TableFile,
        schema: Schema,
        *,
        effort: int = 1,
        rng: Randomness | None = None,
        executor: Executor | None = None,
        folder: str | Path | None = None,
        progress: Progress = SILENT,
        part: int = PART,
    ) -> tuple[LeafModel, DifferentiallyPrivate]:
        """Train the base model on a table in files, which may be larger than memory.

        The result is that of :meth:`pretrain` on the same rows, bit for bit with the same seed. While training runs,
        records lie in files of a temporary folder, which is erased at the end and after an error.

        Parameters
        ----------
        source
            A Parquet, Arrow or CSV file, a folder of Parquet files, or another table that :class:`TableFile` reads.
        schema
            What the columns mean. Only features, the label and the names of people are read.
        effort
            As in :meth:`pretrain`: it is noted in the model, which does not depend on it.
        rng
            Secret randomness by default. A seed repeats the run, and the claim then says that it is not private.
        executor
            Where the tasks run; by default in one process per core. It does not change a bit of the model.
        folder
            Where the temporary folder lies: on a disk with room for about two copies of the table plus a hundred bytes
            per record, and on a cluster, on one that all machines share. By default the system's place for temporary
            files. There, what a killed process leaves is erased by the next; in a folder of your own, by you.
        progress
            Is told of the steps.
        part
            Records that one task holds in memory, about.
        """
        rng = Secret() if rng is None else rng
        check_whole("part", part, at_least=1)
        claim = replace(self.guarantee(schema), seeded=rng.seeded)
        secret, units = rng.stage("protect"), self.records_per_unit(schema)
        with records_in(folder) as records, opened(executor or LocalProcesses()) as processes:
            steps, choice = Steps(processes, progress), secret.stage("records")
            parts = gather(source, schema, records, most=units, rng=choice, steps=steps, part=part)
            if not parts:
                raise NothingRetained("the table has no record to train on: name another")
            streamed = StreamedRecords(parts, units > 1, str(records), processes)
            answers = RecordAnswers(streamed, self.budget, secret.stage("noise"), progress)
            with progress.step("train"):
                return _training(without_names(schema), self.budget).fit(answers, effort=effort), claim


def _training(schema: Schema, budget: Budget) -> PrivateDescent | PrivateSweeps:
    return PrivateDescent(schema, budget) if isinstance(budget, GaussianBudget) else PrivateSweeps(schema, budget)
