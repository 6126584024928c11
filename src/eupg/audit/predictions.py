"""An audit from predictions alone: what the model and its references said, who was a member, and the report.

Serves :func:`eupg.audit.membership.audit`, and whoever trains and keeps models on their own. No model is touched here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eupg.audit.attack import Attack
from eupg.audit.repeats import Measured, Repeats, numbered, repeats_of_audit
from eupg.audit.report import AuditReport, report
from eupg.audit.rmia import RMIA, tune_a
from eupg.audit.signals import Floats, Kind, Mask, Signals, check_balanced, check_members, measure
from eupg.audit.verdict import MARGIN
from eupg.errors import DataError, ParameterError

Labels = NDArray[np.int64]
# As many records as say clearly which value of RMIA's a is best.
TUNING_RECORDS = 5_000


@dataclass(frozen=True, eq=False)
class Tuning:
    """What the reference models say of records that some of them saw and some did not, to choose RMIA's ``a``.

    Parameters
    ----------
    probabilities
        (models, records, queries, classes), or without the queries where the audit has none.
    labels
        The class of each record.
    inside
        (models, records): whether the model was trained on the record.
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
    signal: Kind | None = None,
    baseline: ArrayLike | None = None,
    baseline_name: str = "retraining",
    name: str = "the audited model",
    people: NDArray[Any] | None = None,
    margin: float = MARGIN,
) -> AuditReport:
    """Ask how well members are told from non-members by what models said of them.

    Where each record was asked about once, the axis of the queries may be left out of all arrays.

    Parameters
    ----------
    target
        The audited model's probabilities, (records, queries, classes); query 0 is the record itself.
    labels
        The class of each record.
    members
        True for members, False for non-members, who are RMIA's population too.
    references
        The reference models' probabilities, (models, records, queries, classes). May be left out for an attack that
        needs none.
    inside
        (models, records): whether the reference model was trained on the record. By default none was.
    tuning
        The references' predictions on other records; needed to choose RMIA's ``a`` where the references saw all of the
        scored records or none.
    attack
        By default RMIA, offline, with its ``a`` tuned on the references.
    signal
        What is made of the probabilities; by default what suits the attack best. For networks on pictures,
        ``Kind.TAYLOR``.
    baseline, baseline_name
        The probabilities, as ``target``, of a model that surely does not remember the members, and its name.
    name
        What the model is called in the report.
    people
        Whose each record is; by default each is a person's only one.
    margin
        How many points of AUC matter for the verdict.

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
        each, saw = np.empty((0, *own.shape)), np.empty((0, len(own)), dtype=bool)
    else:
        each = _each(references, y, kind, own)
        saw = np.zeros(each.shape[:2], dtype=bool) if inside is None else np.asarray(inside)
        check_balanced(saw, mask)
        if needs_tuning(attack):
            attack = replace(attack, a=tune_a(_tuning(each, saw, tuning, kind)))
    its = None if baseline is None else measure_queries(baseline, y, kind=kind)
    measured = Measured(own, its, each, saw, mask, kind)
    who = numbered(people, len(own))
    repeats = repeats_of_audit(attack, measured, who)
    score = partial(_scored, attack, measured, signal=signal, people=who, margin=margin)
    beside = None if its is None else score(its, baseline_name, repeats.of_baseline())
    return score(own, name, repeats, baseline=beside)


def needs_tuning(attack: Attack) -> TypeGuard[RMIA]:
    """Tell whether the attack has an ``a`` that is still to be chosen."""
    return isinstance(attack, RMIA) and attack.a is None and not attack.online


def measure_queries(probabilities: ArrayLike, labels: Labels, *, kind: Kind) -> Floats:
    """Return the signal of every query, (records, queries), from (records, queries, classes) or (records, classes)."""
    p = np.asarray(probabilities)
    if p.ndim not in (2, 3) or not p.size:
        raise DataError(f"probabilities must be (records, queries, classes), at least one of each, got {p.shape}")
    p = p[:, None] if p.ndim == 2 else p
    if np.shape(labels) != p.shape[:1]:
        raise DataError(f"{len(p)} records need as many labels, got {np.shape(labels)}: pass one a record")
    found = measure(p.reshape(-1, p.shape[2]), np.repeat(labels, p.shape[1]), kind=kind)
    return found.reshape(p.shape[:2])


def _kind(attack: Attack, signal: Kind | None) -> Kind:
    if signal is not None and signal not in attack.kinds:
        usable = " or ".join(f"Kind.{kind.name}" for kind in attack.kinds)
        raise ParameterError(f"{type(attack).__name__} takes {usable} as signal, got {signal!r}: choose one of these")
    return attack.kinds[0] if signal is None else signal


def _each(references: ArrayLike, labels: Labels, kind: Kind, own: Floats) -> Floats:
    """Return the references' signals, (models, records, queries); one model at a time, since its classes take room."""
    models = np.asarray(references)
    found = np.stack([measure_queries(p, labels, kind=kind) for p in models]) if len(models) else models
    if found.shape[1:] != own.shape:
        raise DataError(
            f"the references must be asked what the model is, {own.shape} records and queries, got {found.shape[1:]}: "
            "predict both with the same queries"
        )
    return found


def _tuning(each: Floats, inside: Mask, apart: Tuning | None, kind: Kind) -> Signals:
    """Return signals of records that some references saw and some did not; they stand in for the target's."""
    if apart is not None:
        each = np.stack([measure_queries(p, apart.labels, kind=kind) for p in apart.probabilities])
        inside = np.asarray(apart.inside)
    rows = np.flatnonzero(inside.any(axis=0) & ~inside.all(axis=0))[:TUNING_RECORDS]
    if not len(rows):
        raise DataError(
            "RMIA's a is tuned on records that some reference models saw and some did not, and there is none: pass "
            "tuning, the references' predictions on such records, or a value, RMIA(a=0.5)"
        )
    return Signals(each[0, rows], each[:, rows], inside[:, rows], kind=kind)


def _scored(
    attack: Attack,
    measured: Measured,
    target: Floats,
    name: str,
    repeats: Repeats,
    *,
    signal: Kind | None,
    people: NDArray[np.int64],
    margin: float,
    baseline: AuditReport | None = None,
) -> AuditReport:
    """Score one model's signals and report on it."""
    rows, models = np.arange(len(target)), np.arange(len(measured.references))
    made = report(
        measured.scores(attack, target, rows, models),
        measured.members,
        attack=attack,
        model=name,
        baseline=baseline,
        margin=margin,
        people=people,
        repeats=repeats,
    )
    queries = target.shape[1]
    more = ({} if signal is None else {"signal": str(signal)}) | ({} if queries == 1 else {"queries": queries})
    return replace(made, parameters={**made.parameters, **more}) if more else made
