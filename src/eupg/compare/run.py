"""Run every method on the same records, the same requests and the same audit.

A repetition draws one forget set, of people, and fresh randomness for every method; the split into training and test
records stays fixed. Reference models of the audit are trained once a repetition, from scratch with the methods' own
learner, and shared by all methods. Seconds are wall time, one method at a time, with nothing but the stage inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from eupg.audit.membership import audit, references_for
from eupg.audit.references import References
from eupg.compare.result import Audited, Comparison, Row, Run
from eupg.data.dataset import Dataset
from eupg.data.sources import Source
from eupg.errors import DataError, ParameterError
from eupg.forget.eupg import EUPG
from eupg.forget.protected_training import ProtectedTraining
from eupg.forget.retrain import Retrain
from eupg.forget.storage import storage
from eupg.forget.unlearner import Trained, Unlearner
from eupg.rng import Randomness, Seeded
from eupg.watch import Watch, stopwatch, unwatched

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
    watch: Watch = unwatched,
) -> Comparison:
    """Measure methods side by side.

    Parameters
    ----------
    source
        Training and test records, and the utility to measure.
    methods
        The methods by name; ``"Retrain"`` and ``"Short retrain"`` must be among them.
    forget
        The share of people who ask to be forgotten.
    repetitions
        How often, each time with another forget set and other randomness.
    references
        Reference models of the audit; 0 leaves it out.
    seed
        Makes the comparison repeatable. It protects nobody: a comparison is an experiment.
    watch
        Told of every step.
    """
    _check(methods, forget, repetitions, references)
    everyone = np.unique(source.train.subjects)
    count = max(1, round(forget * len(everyone)))
    if count >= len(everyone):
        units = "people" if source.train.names_people else "records"
        raise DataError(f"{count} of {len(everyone)} {units} would be forgotten: leave at least one, or lower forget")
    for name, method in methods.items():
        watch(f"{name}: warm up", lambda method=method: _warm_up(method, source.train))  # type: ignore[misc]
    rows: dict[str, list[Run]] = {name: [] for name in methods}
    for repetition in range(repetitions):
        rng = Seeded(seed).stage(f"repetition {repetition}")
        asking = rng.stage("requests").generator().permutation(everyone)[:count]
        case = _Case.draw(source, source.train.where_subjects(asking), methods["Retrain"], references, rng, watch)
        for name, method in methods.items():
            rows[name].append(case.run(name, method))
    return Comparison(
        source.name,
        len(source.train),
        len(everyone),
        count,
        getattr(source.utility, "__name__", "utility"),
        repetitions,
        references,
        tuple(Row(name, tuple(runs)) for name, runs in rows.items()),
        source.train.names_people,
    )


def _check(methods: Mapping[str, Unlearner], forget: float, repetitions: int, references: int) -> None:
    missing = [name for name in ("Retrain", "Short retrain") if not isinstance(methods.get(name), Retrain)]
    if missing:
        raise ParameterError(
            f"a comparison needs its controls, and {missing[0]!r} is missing: add a Retrain by that name"
        )
    if not 0 < forget < 1:
        raise ParameterError(f"forget is a share between 0 and 1, got {forget!r}")
    if repetitions < 1:
        raise ParameterError(f"at least one repetition is needed, got {repetitions!r}")
    if references and (references < 4 or references % 2):
        raise ParameterError(f"an audit needs an even number of reference models, 4 or more, got {references!r}")


def _warm_up(method: Unlearner, data: Dataset) -> None:
    """Run once on a few records, so that loading and compiling are in nobody's time."""
    few = data.select(np.arange(len(data)) < _WARM_UP)
    trained = method.train(few, Seeded(0))
    method.forget(trained, few.without(few.ids[:1].tolist()), Seeded(0))


@dataclass(frozen=True)
class _Case:
    """One repetition: who asks, who stays, the references of the audit, and the randomness all methods share."""

    source: Source
    members: Dataset
    retained: Dataset
    references: References | None
    rng: Randomness
    watch: Watch

    @classmethod
    def draw(
        cls, source: Source, gone: np.ndarray, recipe: Unlearner, models: int, rng: Randomness, watch: Watch
    ) -> _Case:
        members, retained = source.train.select(gone), source.train.select(~gone)

        def train() -> References:
            seed = int(rng.stage("references").words(1)[0] >> np.uint64(32))
            return references_for(recipe, members, source.test, retained, models=models, seed=seed, step=_silent)

        references = watch("audit: reference models", train) if models else None
        return cls(source, members, retained, references, rng, watch)

    def run(self, name: str, method: Unlearner) -> Run:
        """Train, forget, and measure one method."""
        seconds: dict[str, float] = {}
        timed = stopwatch(self.watch, seconds, of=f"{name}: ")
        trained = _train(method, self.source.train, self.rng, timed)
        kept = storage(trained)
        after = timed("forget", lambda: method.forget(trained, self.retained, self.rng))
        found = [self._measure(name, when, t) for when, t in (("before", trained), ("after", after))]
        (before, audit_before), (later, audit_after) = found
        return Run(before, later, seconds, kept, after.claim, audit_before, audit_after)

    def _measure(self, name: str, when: str, trained: Trained) -> tuple[float, Audited | None]:
        test, references = self.source.test, self.references
        utility = self.source.utility(trained.model.predict_proba(test.X), test.y)
        if references is None:
            return utility, None
        report = self.watch(
            f"{name}: audit {when}", lambda: audit(trained.model, self.members, test, references=references)
        )
        return utility, Audited.of(report)


def _silent(done: int, total: int) -> None:
    del done, total


def _train(method: Unlearner, data: Dataset, rng: Randomness, timed: Watch) -> Trained:
    """Train, stage by stage where the method has stages."""
    if not isinstance(method, EUPG):
        return timed("train", lambda: method.train(data, rng))
    mechanism = method.mechanism
    if isinstance(mechanism, ProtectedTraining):
        trained, claim = timed("pretrain", lambda: method.base(data, rng))
        return timed("finetune", lambda: method.resume(trained, claim, data, rng))
    release = timed("protect", lambda: mechanism.protect(data, rng.stage("protect")))
    base = timed(
        "pretrain",
        lambda: method.learner.fit(release, effort=method.pretrain, rng=rng.stage("pretrain").generator()),
    )
    return timed("finetune", lambda: method.resume(base, release.guarantee, data, rng))
