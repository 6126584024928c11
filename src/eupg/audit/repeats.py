"""The same audit once more, on other people and with other reference models: how much of a result is luck.

Serves ``report`` and ``predictions``. No model is trained again: people are drawn with replacement from those who were
scored, and reference models from those there are. What the choice of reference models adds to the variance is seen by
leaving each of them out (the jackknife), and what training another model adds, by letting each reference model play the
audited one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eupg.audit.attack import Attack
from eupg.audit.roc import auc, chance_of_hits, tpr_at_fpr
from eupg.audit.signals import Floats, Kind, Mask, Signals
from eupg.errors import DataError

People = NDArray[np.int64]
Rows = NDArray[np.int64]
REPEATS = 10
TAILS = (0.01, 0.001)
# A low false-positive rate alone makes a verdict only where chance would do so once in a thousand audits.
RARE = 0.001
# Draws protect nobody here, and the same audit should give the same words.
_SEED = 0


@dataclass(frozen=True)
class Repeat:
    """What one repeated audit found: AUCs in percent, and whether chance would rarely find as many members.

    Parameters
    ----------
    auc, baseline
        The AUC of the audited model and, if there is one, of the baseline's.
    rare
        Whether as many members as were found at a low false-positive rate are found by chance less than once in a
        thousand audits, and not in the baseline's model.
    """

    auc: float
    baseline: float | None
    rare: bool


@dataclass(frozen=True)
class Repeats:
    """What repeating an audit showed; variances are of shares between 0 and 1.

    Parameters
    ----------
    each
        The repeated audits.
    auc_variance, baseline_variance, gap_variance
        What the choice of reference models adds to the variance of both AUCs and of their difference; None where there
        are too few of them to tell.
    model_variance
        The variance of the AUC among models that were trained alike and never saw a scored record; None where there
        are none.
    references
        How many reference models there are.
    """

    each: tuple[Repeat, ...]
    auc_variance: float | None = None
    baseline_variance: float | None = None
    gap_variance: float | None = None
    model_variance: float | None = None
    references: int = 0

    def of_baseline(self) -> Repeats:
        """Return what the same repeats showed about the baseline's model alone."""
        each = tuple(Repeat(r.baseline, None, False) for r in self.each if r.baseline is not None)
        return Repeats(each, self.baseline_variance, model_variance=self.model_variance, references=self.references)


def numbered(people: NDArray[Any] | None, records: int) -> People:
    """Return a number for each record's person; by default each record is a person's only one."""
    if people is None:
        return np.arange(records)
    if np.shape(people) != (records,):
        raise DataError(f"people must name whose each of {records} records is, got an array of {np.shape(people)}")
    return np.asarray(np.unique(people, return_inverse=True)[1], dtype=np.int64)


def repeats_of_scores(scores: Floats, beside: Floats | None, members: Mask, people: People) -> Repeats:
    """Repeat an audit of which only the scores are known: other people, the same reference models."""
    draw = np.random.default_rng(_SEED)

    def once() -> Repeat:
        rows, who = drawn_again(people, members, draw)
        return _finding(scores[rows], None if beside is None else beside[rows], members[rows], who, draw)

    return Repeats(tuple(once() for _ in range(REPEATS)))


@dataclass(frozen=True, eq=False)
class Measured:
    """The signals of an audit: those of the model, of the baseline's model, and of the reference models."""

    target: Floats
    baseline: Floats | None
    references: Floats
    inside: Mask
    members: Mask
    kind: Kind

    def scores(self, attack: Attack, own: Floats, rows: Rows, models: Rows) -> Floats:
        """Return the attack's scores on these rows, with these reference models."""
        target, members = own[rows], self.members[rows]
        if not len(self.references):
            return attack.score(Signals.without_references(target, kind=self.kind))
        each, inside = self.references[models][:, rows], self.inside[models][:, rows]
        others = Signals(target[~members], each[:, ~members], inside[:, ~members], kind=self.kind)
        return attack.score(Signals(target, each, inside, population=others, kind=self.kind))


def repeats_of_audit(attack: Attack, measured: Measured, people: People) -> Repeats:
    """Repeat an audit with other people and other reference models, and say what the latter add to the variance."""
    draw = np.random.default_rng(_SEED)
    units = _units(measured.inside)

    def once() -> Repeat:
        (rows, who), models = drawn_again(people, measured.members, draw), _some_of(units, draw)
        own = measured.scores(attack, measured.target, rows, models)
        beside = None if measured.baseline is None else measured.scores(attack, measured.baseline, rows, models)
        return _finding(own, beside, measured.members[rows], who, draw)

    each = tuple(once() for _ in range(REPEATS))
    return _with_variances(each, attack, measured, units)


def drawn_again(people: People, members: Mask, draw: np.random.Generator) -> tuple[Rows, People]:
    """Draw as many people as there are, with replacement; return all of their records, and whose each of them is.

    Somebody who was drawn twice counts as two. People with a record among the members, and the others, are drawn apart,
    so that neither side comes out empty.
    """
    order = np.argsort(people, kind="stable")
    counts = np.bincount(people)
    starts = np.cumsum(counts) - counts
    # People are numbered from 0 on, so counting tells who is there, faster than sorting.
    among = np.bincount(people[members], minlength=len(counts)) > 0
    first, second = np.flatnonzero(among), np.flatnonzero((counts > 0) & ~among)
    chosen = np.concatenate([draw.choice(side, len(side)) for side in (first, second) if len(side)])
    lengths = counts[chosen]
    before = np.cumsum(lengths) - lengths
    rows = order[np.repeat(starts[chosen] - before, lengths) + np.arange(lengths.sum())]
    return rows, np.repeat(np.arange(len(chosen)), lengths)


def one_record_each(people: People, members: Mask, draw: np.random.Generator) -> Rows:
    """Return one record of each person on either side, drawn at random: records of one person are not independent."""
    shuffled = draw.permutation(len(people))
    keys = 2 * people[shuffled] + members[shuffled]
    return np.asarray(np.sort(shuffled[np.unique(keys, return_index=True)[1]]))


def tail_chances(scores: Floats, members: Mask) -> list[float]:
    """Return how often chance alone finds as many members at each low false-positive rate."""
    m, n = int(members.sum()), int((~members).sum())
    return [chance_of_hits(tpr_at_fpr(scores, members, fpr)[0], m, n, fpr) for fpr in TAILS]


def _finding(scores: Floats, beside: Floats | None, members: Mask, people: People, draw: np.random.Generator) -> Repeat:
    if members.all() or not members.any():
        # Everybody is on both sides, and this draw left one of them empty.
        return Repeat(50.0, None if beside is None else 50.0, False)
    rows = one_record_each(people, members, draw) if people.max() + 1 < len(people) else slice(None)
    rare = min(tail_chances(scores[rows], members[rows])) < RARE
    if beside is None:
        return Repeat(100 * auc(scores, members), None, rare)
    rare = rare and min(tail_chances(beside[rows], members[rows])) >= RARE
    return Repeat(100 * auc(scores, members), 100 * auc(beside, members), rare)


def _units(inside: Mask) -> list[Rows]:
    """Return which reference models are drawn together, so that every record stays outside of equally many.

    Where no scored record is inside any, each model stands alone; complementary halves come in pairs. Any other set is
    one unit, and is not drawn from.
    """
    models = np.arange(len(inside))
    if not inside.any():
        return list(models[:, None])
    if len(inside) % 2 == 0 and np.array_equal(inside[0::2], ~inside[1::2]):
        return list(models.reshape(-1, 2))
    return [models]


def _some_of(units: list[Rows], draw: np.random.Generator) -> Rows:
    """Draw reference models with replacement; not one alone, whose spread would be none."""
    if not units:
        return np.empty(0, dtype=np.int64)
    while True:
        chosen = draw.integers(len(units), size=len(units))
        if len(units) < 3 or len(np.unique(chosen)) > 1:
            return np.concatenate([units[i] for i in chosen])


def _with_variances(each: tuple[Repeat, ...], attack: Attack, measured: Measured, units: list[Rows]) -> Repeats:
    """Leave each unit of reference models out once and see what becomes of the AUCs."""
    references = len(measured.references)
    left = references - (len(units[0]) if units else 0)
    if len(units) < 3 or left < max(attack.needs_out, attack.needs_in) * len(units[0]):
        return Repeats(each, references=references)
    members, rows = measured.members, np.arange(len(measured.members))
    target, baseline, strangers = [], [], []
    for i in range(len(units)):
        rest = np.concatenate([unit for j, unit in enumerate(units) if j != i])
        area = _area(attack, measured, rows, rest, members)
        target.append(area(measured.target))
        if measured.baseline is not None:
            baseline.append(area(measured.baseline))
        if len(units[i]) == 1:
            strangers.append(area(measured.references[units[i][0]]))
    gaps = np.subtract(target, baseline) if baseline else None
    return Repeats(
        each,
        auc_variance=_jackknife(np.array(target)),
        baseline_variance=_jackknife(np.array(baseline)) if baseline else None,
        gap_variance=None if gaps is None else _jackknife(gaps),
        model_variance=float(np.var(strangers, ddof=1)) if strangers else None,
        references=references,
    )


def _area(attack: Attack, measured: Measured, rows: Rows, models: Rows, members: Mask) -> Callable[[Floats], float]:
    return lambda own: auc(measured.scores(attack, own, rows, models), members)


def _jackknife(values: Floats) -> float:
    return float((len(values) - 1) * np.var(values))
