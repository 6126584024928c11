"""Run every method on the same records, the same requests and the same audit.

A repetition draws one forget set, of people, and fresh randomness for every method; the split into training and test
records stays fixed. Reference models of the audit are trained once per repetition, from scratch with the methods' own
learner, and shared by all methods. Seconds are wall time: one method at a time, and nothing but the stage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from eupg.audit.membership.audit import audit, references_for
from eupg.audit.membership.references import References
from eupg.compare.measuring import Once, measure_each
from eupg.compare.result import Audited, MethodComparison, MissingRun, Row, Run
from eupg.compare.rows import RETRAIN, SHORT_RETRAIN, unseeded
from eupg.data.dataset import Dataset
from eupg.data.sources import Source
from eupg.errors import DataError, ParameterError
from eupg.forget.durable import Rows, forget_rows
from eupg.forget.eupg import EUPG
from eupg.forget.retrain import Retrain
from eupg.forget.storage import storage
from eupg.forget.unlearner import Trained, Unlearner
from eupg.progress import SILENT, Progress, Timed
from eupg.rng import Randomness, Seeded

# Enough to load frameworks and compile kernels before anything is timed.
_WARM_UP = 4_000


def compare(
    source: Source,
    methods: Mapping[str, Unlearner],
    *,
    forget: float = 0.05,
    repetitions: int = 1,
    references: int = 8,
    seed: int = 0,
    progress: Progress = SILENT,
) -> MethodComparison:
    """Measure methods side by side.

    A run that fails does not end the others: it is listed as missing, with the reason. An interruption from the
    keyboard ends the comparison, and the runs made until then are returned. Only if there are none is the first error,
    or the interruption, raised.

    Parameters
    ----------
    source
        Training and test records, and the utility to measure.
    methods
        The methods by name; ``"Retrain"`` and ``"Short retrain"`` must be among them.
    forget
        The share of people who ask to be forgotten.
    repetitions
        The number of repetitions, each with another forget set and other randomness.
    references
        The number of reference models of the audit; 0 leaves it out.
    seed
        Makes the comparison repeatable. It protects nobody: a comparison is an experiment.
    progress
        Is told of every step.
    """
    _check(methods, forget, repetitions, references)
    everyone = np.unique(source.train.subjects)
    count = max(1, round(forget * len(everyone)))
    if count >= len(everyone):
        units = "people" if source.train.names_people else "records"
        raise DataError(f"{count} of {len(everyone)} {units} would be forgotten: lower the share to forget")
    for name, method in methods.items():
        with progress.step(f"{name}: warm up"):
            _warm_up(method, source.train)
    runs: list[tuple[str, int]] = []
    tasks: list[Callable[[], Run]] = []
    for repetition in range(repetitions):
        rng = Seeded(seed).stage(f"repetition {repetition}")
        asking = rng.stage("requests").generator().permutation(everyone)[:count]
        forgotten = source.train.where_subjects(asking)
        case = Once(partial(_Case.draw, source, forgotten, methods[RETRAIN], references, rng, progress))
        for name, method in methods.items():
            runs.append((name, repetition))
            tasks.append(partial(_run, case, name, method))
    measurements = measure_each(tasks)
    rows = {name: [run for i, run in measurements.results.items() if runs[i][0] == name] for name in methods}
    return MethodComparison(
        source.name,
        len(source.train),
        len(everyone),
        count,
        getattr(source.utility, "__name__", "utility"),
        repetitions,
        references,
        tuple(Row(name, tuple(measured)) for name, measured in rows.items() if measured),
        source.train.names_people,
        tuple(MissingRun(*runs[i], reason) for i, reason in measurements.reasons.items()),
        measurements.interrupted,
    )


def _run(case: Once[_Case], name: str, method: Unlearner) -> Run:
    return case().run(name, method)


def _check(methods: Mapping[str, Unlearner], forget: float, repetitions: int, references: int) -> None:
    missing = [name for name in (RETRAIN, SHORT_RETRAIN) if not isinstance(methods.get(name), Retrain)]
    if missing:
        raise ParameterError(
            f"a comparison needs its controls, and {missing[0]!r} is missing: add a Retrain under that name"
        )
    if not 0 < forget < 1:
        raise ParameterError(f"the share to forget must lie between 0 and 1, got {forget!r}: pass 0.05, for example")
    if repetitions < 1:
        raise ParameterError(f"a comparison needs at least one repetition, got {repetitions!r}")
    if references and (references < 4 or references % 2):
        raise ParameterError(f"an audit needs an even number of reference models, 4 or more, got {references!r}")


def _warm_up(method: Unlearner, data: Dataset) -> None:
    """Run once on a few records, so that no measured time includes loading or compiling."""
    few = data.select(np.arange(len(data)) < _WARM_UP)
    trained = method.train(few, Seeded(0))
    first = np.arange(len(few)) < 1
    forget_rows(method, trained, few.select(first), few.select(~first), Seeded(0))


@dataclass(frozen=True)
class _Case:
    """One repetition: who asks, who stays, the references of the audit, and the randomness all methods share."""

    source: Source
    members: Dataset
    gone: Rows
    references: References | None
    rng: Randomness
    progress: Progress

    @classmethod
    def draw(
        cls, source: Source, gone: Rows, recipe: Unlearner, models: int, rng: Randomness, progress: Progress
    ) -> _Case:
        members, retained = source.train.select(gone), source.train.select(~gone)
        references = None
        if models:
            seed = int(rng.stage("references").words(1)[0] >> np.uint64(32))
            with progress.step("audit: reference models"):
                references = references_for(
                    recipe, members, source.test, retained, models=models, seed=seed, step=_silent
                )
        return cls(source, members, gone, references, rng, progress)

    def run(self, name: str, method: Unlearner) -> Run:
        """Train, forget, and measure one method."""
        timed = Timed(self.progress, prefix=f"{name}: ")
        trained = _train(method, self.source.train, self.rng, timed)
        stored = storage(trained)
        leaving, retained = self.source.train.select(self.gone), self.source.train.select(~self.gone)
        with timed.step("forget"):
            after = forget_rows(method, trained, leaving, retained, self.rng)
        utility_before, audit_before = self._measure(name, "before", trained)
        utility_after, audit_after = self._measure(name, "after", after)
        claim = unseeded(after.claim)
        return Run(utility_before, utility_after, timed.seconds, stored, claim, audit_before, audit_after)

    def _measure(self, name: str, when: str, trained: Trained) -> tuple[float, Audited | None]:
        test, references = self.source.test, self.references
        utility = self.source.utility(trained.model.predict_proba(test.X), test.y)
        if references is None:
            return utility, None
        with self.progress.step(f"{name}: audit {when}"):
            report = audit(trained.model, self.members, test, references=references)
        return utility, Audited.of(report)


def _silent(done: int, total: int) -> None:
    del done, total


def _train(method: Unlearner, data: Dataset, rng: Randomness, progress: Progress) -> Trained:
    """Train, stage by stage where the method has stages."""
    if not isinstance(method, EUPG):
        with progress.step("train"):
            return method.train(data, rng)
    base = method.base(data, rng, progress=progress)
    with progress.step("finetune"):
        return method.resume(base, data, rng)
