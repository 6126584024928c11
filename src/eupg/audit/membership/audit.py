"""A membership audit from end to end: train reference models, collect signals, attack, report.

Members are the records in question, such as a forget set; non-members were never used. :func:`audit` starts from
models, :func:`audit_predictions` from what models predicted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eupg.audit.membership.attack import Attack
from eupg.audit.membership.queries import Queries, predictions
from eupg.audit.membership.reference_store import ReferenceStore
from eupg.audit.membership.references import (
    ReferenceRecipe,
    References,
    Step,
    complementary_halves,
    recipe_of,
    train_references,
)
from eupg.audit.membership.report import AuditReport, report
from eupg.audit.membership.resampling import AuditSignals, Resampling, numbered, resample_audit
from eupg.audit.membership.rmia import RMIA, tune_a
from eupg.audit.membership.signals import (
    Floats,
    Labels,
    Mask,
    SignalKind,
    Signals,
    check_balanced,
    check_members,
    measure_queries,
)
from eupg.audit.membership.verdict import MARGIN
from eupg.data.dataset import Dataset
from eupg.errors import DataError, ParameterError
from eupg.executor import Executor
from eupg.learn.learner import Model
from eupg.rng import Seeded

# Enough records to see which value of RMIA's a is best.
_TUNING_RECORDS = 5_000


def audit(
    model: Model,
    members: Dataset,
    nonmembers: Dataset,
    *,
    references: int | References = 8,
    attack: Attack | None = None,
    queries: Queries | None = None,
    signal: SignalKind | None = None,
    others: Dataset | None = None,
    recipe: ReferenceRecipe | None = None,
    baseline: Model | None = None,
    baseline_name: str = "retraining",
    name: str = "the audited model",
    margin: float = MARGIN,
    seed: int = 0,
    jobs: int | None = None,
    executor: Executor | None = None,
    store: ReferenceStore | None = None,
    step: Step | None = None,
) -> AuditReport:
    """Measure how well an attacker can tell which records a model was trained on.

    Parameters
    ----------
    model
        The model to audit.
    members, nonmembers
        Records in question, and records that were never used; no record may be in both.
    references
        The number of reference models to train, which must be even, or reference models trained before.
    attack
        By default offline RMIA, with its ``a`` tuned on the reference models.
    queries
        Altered copies of each record to query as well, such as ``PictureQueries()``. By default the record alone, or
        the queries of prepared ``references``.
    signal
        The signal computed from a model's probabilities; by default the attack's preferred one. For networks on
        pictures use ``SignalKind.TAYLOR``.
    others
        Further training records, the retained ones. With them the reference models learn from about half as many
        records as the model did, and a model retrained on them alone is the baseline.
    recipe
        How the model was trained: its EUPG or Retrain object. By default its learner, from scratch, at its effort.
    baseline, baseline_name
        A model that cannot remember the members, instead of one retrained on ``others``, and its name in the report.
    name
        The name of the model in the report.
    margin
        How many points of AUC matter for the verdict: see :attr:`AuditReport.outcome`.
    seed, jobs, executor, store, step
        As in :func:`eupg.audit.membership.references.train_references`.
    """
    attack = RMIA() if attack is None else attack
    scored = _together(members, nonmembers)
    if attack.needs_in + attack.needs_out == 0:
        trained = None
    elif isinstance(references, References):
        trained = references
    else:
        recipe = recipe or recipe_of(model)
        trained = references_for(
            recipe,
            members,
            nonmembers,
            others,
            models=references,
            online=attack.needs_in > 0,
            queries=queries,
            seed=seed,
            jobs=jobs,
            executor=executor,
            store=store,
            step=step,
        )
    queries = _same_queries(queries, trained)
    if baseline is None and others is not None and len(others):
        baseline = (recipe or recipe_of(model)).train(others, Seeded(seed).stage("baseline")).model
    inside, probabilities = (None, None) if trained is None else trained.on(scored.ids)
    return audit_predictions(
        predictions(model, scored, queries),
        scored.y,
        np.arange(len(scored)) < len(members),
        probabilities,
        inside,
        tuning=None if trained is None else _tuning_records(trained, scored),
        attack=attack,
        signal=signal,
        baseline=None if baseline is None else predictions(baseline, scored, queries),
        baseline_name=baseline_name,
        name=name,
        people=scored.subjects,
        margin=margin,
    )


def references_for(
    recipe: ReferenceRecipe,
    members: Dataset,
    nonmembers: Dataset,
    others: Dataset | None = None,
    *,
    models: int = 8,
    online: bool = False,
    queries: Queries | None = None,
    seed: int = 0,
    jobs: int | None = None,
    executor: Executor | None = None,
    store: ReferenceStore | None = None,
    step: Step | None = None,
) -> References:
    """Train the reference models of an audit, to pass to several audits as ``references``.

    An offline attack needs models trained without the scored records. If there are enough others, no model is trained
    on a scored record. Each record then has twice as many usable models as with halves of everything, at the same cost.
    """
    parts = [members, nonmembers, *([others] if others is not None else [])]
    pool = parts[0]
    for part in parts[1:]:
        pool = pool.plus(part)
    groups = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    inside = complementary_halves(groups, models, Seeded(seed).stage("halves").generator())
    if not online and others is not None and len(others) >= len(members):
        inside[:, groups < 2] = False
    return train_references(
        recipe, pool, inside, seed=seed, queries=queries, jobs=jobs, executor=executor, store=store, step=step
    )


@dataclass(frozen=True, eq=False)
class Tuning:
    """Predictions of the reference models on records that some of them saw and some did not, to choose RMIA's ``a``.

    ``probabilities`` and ``inside`` are shaped like the arguments of :func:`audit_predictions`.
    """

    probabilities: NDArray[np.floating[Any]]
    labels: Labels
    inside: Mask


def audit_predictions(
    target: ArrayLike,
    labels: ArrayLike,
    members: Mask,
    references: ArrayLike | None = None,
    inside: Mask | None = None,
    *,
    tuning: Tuning | None = None,
    attack: Attack | None = None,
    signal: SignalKind | None = None,
    baseline: ArrayLike | None = None,
    baseline_name: str = "retraining",
    name: str = "the audited model",
    people: NDArray[Any] | None = None,
    margin: float = MARGIN,
) -> AuditReport:
    """Measure how well members can be told from non-members by the predictions of models.

    With one query per record, the axis of the queries may be left out of all arrays.

    Parameters
    ----------
    target
        The audited model's probabilities, (records, queries, classes); query 0 is the record itself.
    labels
        The class of each record.
    members
        True for members, False for non-members, who are also RMIA's population.
    references
        The reference models' probabilities, (models, records, queries, classes), for an attack that needs them.
    inside
        (models, records): whether the reference model was trained on the record. By default none was.
    tuning
        The reference models' predictions on other records, needed to choose RMIA's ``a`` if they saw all of the scored
        records or none.
    attack, signal, baseline_name, name, margin
        As in :func:`audit`.
    baseline
        The probabilities of a model that cannot remember the members, as ``target``.
    people
        The person of each record; by default all persons differ.

    Examples
    --------
    >>> sure, unsure = [0.9, 0.1], [0.6, 0.4]
    >>> target = np.array([sure, sure, unsure, unsure])
    >>> references = np.array([[unsure] * 4, [unsure] * 4])
    >>> members = np.array([True, True, False, False])
    >>> audit_predictions(target, np.zeros(4, dtype=int), members, references, attack=RMIA(a=0.5)).auc
    100.0
    """
    attack = RMIA() if attack is None else attack
    kind = _kind(attack, signal)
    y = np.asarray(labels)
    own = measure_queries(target, y, kind=kind)
    mask = check_members(members, len(own))
    if references is None:
        if attack.needs_in + attack.needs_out:
            raise DataError(f"{type(attack).__name__} needs reference models' predictions: pass references")
        measured, saw = np.empty((0, *own.shape)), np.empty((0, len(own)), dtype=bool)
    else:
        measured = _measure_references(references, y, kind, own)
        saw = np.zeros(measured.shape[:2], dtype=bool) if inside is None else np.asarray(inside)
        check_balanced(saw, mask)
        if isinstance(attack, RMIA) and attack.needs_tuning:
            attack = replace(attack, a=tune_a(_tuning_signals(measured, saw, tuning, kind)))
    beside = None if baseline is None else measure_queries(baseline, y, kind=kind)
    signals = AuditSignals(own, beside, measured, saw, mask, kind)
    who = numbered(people, len(own))
    resampling = resample_audit(attack, signals, who)
    extra = {"signal": str(signal)} if signal is not None else {}
    queries = {"queries": own.shape[1]} if own.shape[1] > 1 else {}

    def scored(values: Floats, model: str, repeated: Resampling, baseline: AuditReport | None = None) -> AuditReport:
        scores = signals.scores(attack, values)
        result = report(
            scores, mask, attack=attack, model=model, baseline=baseline, margin=margin, people=who, resampling=repeated
        )
        return replace(result, parameters={**result.parameters, **extra, **queries})

    control = None if beside is None else scored(beside, baseline_name, resampling.of_baseline())
    return scored(own, name, resampling, control)


def _together(members: Dataset, nonmembers: Dataset) -> Dataset:
    if not len(members) or not len(nonmembers):
        empty = "members" if not len(members) else "non-members"
        raise DataError(f"an audit compares members with non-members, but there are no {empty}: pass at least one")
    both = np.intersect1d(members.ids, nonmembers.ids)
    if len(both):
        raise DataError(
            f"{len(both)} ids are among members and non-members, first {str(both[0])!r}: a record is one or the other; "
            "if two tables number their rows alike, give them different ids"
        )
    return members.plus(nonmembers)


def _same_queries(queries: Queries | None, trained: References | None) -> Queries | None:
    """Return the queries of the reference models, which the model must be asked too."""
    if trained is None or queries == trained.queries:
        return queries
    if queries is not None:
        raise ParameterError(
            f"the reference models were queried with {trained.queries or 'the records alone'}, got {queries} for the "
            "model: train them with the same queries, or leave queries out"
        )
    return trained.queries


def _tuning_records(trained: References, scored: Dataset) -> Tuning:
    """Return predictions on records that some models saw and some did not, preferably on others than the scored."""
    mixed = trained.inside.any(axis=0) & ~trained.inside.all(axis=0)
    apart = mixed & ~np.isin(trained.pool.ids, scored.ids)
    rows = np.flatnonzero(apart if apart.any() else mixed)[:_TUNING_RECORDS]
    return Tuning(trained.probabilities[:, rows], trained.pool.y[rows], trained.inside[:, rows])


def _tuning_signals(measured: Floats, inside: Mask, tuning: Tuning | None, kind: SignalKind) -> Signals:
    """Return signals of records that some models saw and some did not; the first model stands in for the target."""
    if tuning is not None:
        measured = np.stack([measure_queries(p, tuning.labels, kind=kind) for p in tuning.probabilities])
        inside = np.asarray(tuning.inside)
    rows = np.flatnonzero(inside.any(axis=0) & ~inside.all(axis=0))[:_TUNING_RECORDS]
    if not len(rows):
        raise DataError(
            "RMIA's a is tuned on records that some reference models saw and some did not, but there are none: pass "
            "tuning, the reference models' predictions on such records, or a value, RMIA(a=0.5)"
        )
    return Signals(measured[0, rows], measured[:, rows], inside[:, rows], kind=kind)


def _kind(attack: Attack, signal: SignalKind | None) -> SignalKind:
    if signal is not None and signal not in attack.kinds:
        usable = " or ".join(f"SignalKind.{kind.name}" for kind in attack.kinds)
        raise ParameterError(f"{type(attack).__name__} takes {usable} as signal, got {signal!r}: choose one of these")
    return attack.kinds[0] if signal is None else signal


def _measure_references(references: ArrayLike, labels: Labels, kind: SignalKind, own: Floats) -> Floats:
    """Return the reference models' signals, (models, records, queries); one model at a time, to save memory."""
    models = np.asarray(references)
    measured = np.stack([measure_queries(p, labels, kind=kind) for p in models]) if len(models) else models
    if measured.shape[1:] != own.shape:
        raise DataError(
            f"the reference models must answer the same {own.shape} records and queries as the model, got "
            f"{measured.shape[1:]}: predict both with the same queries"
        )
    return measured
