"""Repeat an audit on resampled people and reference models, to see how much of its result is luck.

No model is trained again: people and reference models are drawn with replacement from those at hand. The variance due
to the choice of reference models is estimated by leaving each one out (the jackknife). The variance due to training is
estimated by letting each reference model play the audited one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eupg.audit.membership.attack import Attack
from eupg.audit.membership.roc import People, auc, chance_of_hits, tpr_at_fpr
from eupg.audit.membership.signals import Floats, Mask, SignalKind, Signals
from eupg.errors import DataError

Rows = NDArray[np.int64]
Scores = tuple[Floats, Floats | None]
REPEATS = 10
# The low false-positive rates that are reported.
LOW_RATES = (0.01, 0.001)
# A finding at a low false-positive rate decides only if chance produces it in fewer than one audit in a thousand.
RARE = 0.001
# The draws protect nobody, and the same audit should give the same report.
_SEED = 0


@dataclass(frozen=True)
class Repeat:
    """The AUCs of one repeated audit, in percent.

    ``rare``: chance finds as many members at a low false-positive rate in fewer than one audit in a thousand, and the
    baseline shows no such finding.
    """

    auc: float
    baseline: float | None
    rare: bool


@dataclass(frozen=True)
class Resampling:
    """The repeated audits, and the variance due to the choice of reference models (of shares between 0 and 1).

    The first three variances are of the AUC, of the baseline's AUC and of their difference. ``model_variance`` is that
    of the AUC among models of the same recipe that never saw a scored record. All are None with too few reference
    models.
    """

    repeats: tuple[Repeat, ...]
    auc_variance: float | None = None
    baseline_variance: float | None = None
    gap_variance: float | None = None
    model_variance: float | None = None
    references: int = 0

    def of_baseline(self) -> Resampling:
        """Return the same repeats for the baseline alone."""
        repeats = tuple(Repeat(r.baseline, None, False) for r in self.repeats if r.baseline is not None)
        return Resampling(
            repeats, self.baseline_variance, model_variance=self.model_variance, references=self.references
        )


def numbered(people: NDArray[Any] | None, records: int) -> People:
    """Return a number for each record's person; by default every record belongs to a different person."""
    if people is None:
        return np.arange(records)
    if np.shape(people) != (records,):
        raise DataError(f"people must name the person of each of {records} records, got shape {np.shape(people)}")
    return np.asarray(np.unique(people, return_inverse=True)[1], dtype=np.int64)


def resample_scores(scores: Floats, baseline: Floats | None, members: Mask, people: People) -> Resampling:
    """Repeat an audit of which only the scores are known: other people, the same reference models."""

    def score(rows: Rows, _: np.random.Generator) -> Scores:
        return scores[rows], None if baseline is None else baseline[rows]

    return Resampling(_repeat(score, members, people))


@dataclass(frozen=True, eq=False)
class AuditSignals:
    """The signals of the audited model, of the baseline and of the reference models on all scored records."""

    target: Floats
    baseline: Floats | None
    references: Floats
    inside: Mask
    members: Mask
    kind: SignalKind

    def scores(self, attack: Attack, own: Floats, rows: Rows | None = None, models: Rows | None = None) -> Floats:
        """Return the attack's scores of one model, on these rows and with these reference models; by default all."""
        rows = np.arange(len(own)) if rows is None else rows
        models = np.arange(len(self.references)) if models is None else models
        target, members = own[rows], self.members[rows]
        if not len(self.references):
            return attack.score(Signals.without_references(target, kind=self.kind))
        references, inside = self.references[models][:, rows], self.inside[models][:, rows]
        others = Signals(target[~members], references[:, ~members], inside[:, ~members], kind=self.kind)
        return attack.score(Signals(target, references, inside, population=others, kind=self.kind))


def resample_audit(attack: Attack, signals: AuditSignals, people: People) -> Resampling:
    """Repeat an audit with other people and reference models, and estimate what the latter add to the variance."""
    units = _units(signals.inside)

    def score(rows: Rows, draw: np.random.Generator) -> Scores:
        models = _drawn_models(units, draw)
        own = signals.scores(attack, signals.target, rows, models)
        return own, None if signals.baseline is None else signals.scores(attack, signals.baseline, rows, models)

    return _with_variances(_repeat(score, signals.members, people), attack, signals, units)


def _repeat(score: Callable[[Rows, np.random.Generator], Scores], members: Mask, people: People) -> tuple[Repeat, ...]:
    draw = np.random.default_rng(_SEED)
    repeats = []
    for _ in range(REPEATS):
        rows, who = drawn_people(people, members, draw)
        repeats.append(_result(*score(rows, draw), members[rows], who, draw))
    return tuple(repeats)


def drawn_people(people: People, members: Mask, draw: np.random.Generator) -> tuple[Rows, People]:
    """Draw as many people as there are, with replacement; return all their records, and the person of each record.

    A person drawn twice counts as two. People with a member record and people without one are drawn separately, so that
    neither side comes out empty.
    """
    order = np.argsort(people, kind="stable")
    # People are numbered from 0, so counting them is faster than sorting.
    counts = np.bincount(people)
    starts = np.cumsum(counts) - counts
    among = np.bincount(people[members], minlength=len(counts)) > 0
    sides = (np.flatnonzero(among), np.flatnonzero((counts > 0) & ~among))
    chosen = np.concatenate([draw.choice(side, len(side)) for side in sides if len(side)])
    lengths = counts[chosen]
    before = np.cumsum(lengths) - lengths
    rows = order[np.repeat(starts[chosen] - before, lengths) + np.arange(lengths.sum())]
    return rows, np.repeat(np.arange(len(chosen)), lengths)


def one_record_each(people: People, members: Mask, draw: np.random.Generator) -> Rows:
    """Return one random record of each person on either side: records of one person are not independent."""
    shuffled = draw.permutation(len(people))
    keys = 2 * people[shuffled] + members[shuffled]
    return np.asarray(np.sort(shuffled[np.unique(keys, return_index=True)[1]]))


def _result(
    scores: Floats, baseline: Floats | None, members: Mask, people: People, draw: np.random.Generator
) -> Repeat:
    if members.all() or not members.any():
        # Every person has records on both sides, and this draw left one side empty.
        return Repeat(50.0, None if baseline is None else 50.0, False)
    rows = one_record_each(people, members, draw) if people.max() + 1 < len(people) else slice(None)
    rare = _rarest_hits(scores[rows], members[rows]) < RARE
    if baseline is None:
        return Repeat(100 * auc(scores, members), None, rare)
    rare = rare and _rarest_hits(baseline[rows], members[rows]) >= RARE
    return Repeat(100 * auc(scores, members), 100 * auc(baseline, members), rare)


def _rarest_hits(scores: Floats, members: Mask) -> float:
    """Return the least probability, over the low rates, that chance alone finds as many members."""
    m, n = int(members.sum()), int((~members).sum())
    return min(chance_of_hits(tpr_at_fpr(scores, members, fpr)[0], m, n, fpr) for fpr in LOW_RATES)


def _units(inside: Mask) -> list[Rows]:
    """Return which reference models are drawn together, so that every record stays outside of equally many.

    If no scored record is inside any, each model is a unit; complementary halves are drawn in pairs. Any other set is a
    single unit, and is not resampled.
    """
    models = np.arange(len(inside))
    if not inside.any():
        return list(models[:, None])
    if len(inside) % 2 == 0 and np.array_equal(inside[0::2], ~inside[1::2]):
        return list(models.reshape(-1, 2))
    return [models]


def _drawn_models(units: list[Rows], draw: np.random.Generator) -> Rows:
    """Draw reference models with replacement, but never one unit alone, which would have no spread."""
    if not units:
        return np.empty(0, dtype=np.int64)
    while True:
        chosen = draw.integers(len(units), size=len(units))
        if len(units) < 3 or len(np.unique(chosen)) > 1:
            return np.concatenate([units[i] for i in chosen])


def _with_variances(
    repeats: tuple[Repeat, ...], attack: Attack, signals: AuditSignals, units: list[Rows]
) -> Resampling:
    """Leave each unit of reference models out once, and compute the AUCs without it."""
    references = len(signals.references)
    remaining = references - (len(units[0]) if units else 0)
    if len(units) < 3 or remaining < max(attack.needs_out, attack.needs_in) * len(units[0]):
        return Resampling(repeats, references=references)
    target, baseline, strangers = [], [], []
    for i, unit in enumerate(units):
        rest = np.concatenate([other for j, other in enumerate(units) if j != i])

        def area(own: Floats, models: Rows = rest) -> float:
            return auc(signals.scores(attack, own, models=models), signals.members)

        target.append(area(signals.target))
        if signals.baseline is not None:
            baseline.append(area(signals.baseline))
        if len(unit) == 1:
            strangers.append(area(signals.references[unit[0]]))
    return Resampling(
        repeats,
        auc_variance=_jackknife(target),
        baseline_variance=_jackknife(baseline) if baseline else None,
        gap_variance=_jackknife(np.subtract(target, baseline)) if baseline else None,
        model_variance=float(np.var(strangers, ddof=1)) if strangers else None,
        references=references,
    )


def _jackknife(values: list[float] | Floats) -> float:
    return float((len(values) - 1) * np.var(values))
