"""The audit's result: how well an attack told members from non-members, how sure that is, and what it means.

Shares are in percent throughout a report, and an AUC of 50 is chance. A report stands beside its baseline, the same
attack on a model that surely does not remember the records (retrained without them), because chance alone moves an
AUC, and because members and non-members may differ for reasons that have nothing to do with training.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, rankdata

from eupg.audit import verdict
from eupg.audit.attack import Attack
from eupg.audit.repeats import TAILS, People, Repeat, Repeats, numbered, one_record_each, repeats_of_scores
from eupg.audit.roc import (
    auc_interval,
    chance_of_hits,
    check_level,
    check_scores,
    clopper_pearson,
    delong,
    delong_difference,
    null_error,
    roc_curve,
    tpr_at_fpr,
)
from eupg.audit.signals import Floats, Mask
from eupg.audit.verdict import MARGIN, Outcome
from eupg.errors import DataError, ParameterError

__all__ = ["AuditReport", "Comparison", "Tail", "delong", "delong_difference", "report", "roc_curve", "tpr_at_fpr"]


@dataclass(frozen=True)
class Tail:
    """How many members are found when next to no non-member may be accused; all but ``chance`` in percent.

    Where people have several records, one of each person on either side counts, drawn at random.

    Parameters
    ----------
    at
        The false-positive rate allowed.
    fpr
        The one reached: that of the last threshold at or below it.
    tpr
        The share of members found there.
    low, high
        Its exact interval, the threshold taken as given.
    chance
        How often (0 to 1) members found by chance alone would be as many, or more.
    resolvable
        False when one non-member is more than the rate allowed: then no false alarm is allowed at all.
    """

    at: float
    fpr: float
    tpr: float
    low: float
    high: float
    chance: float
    resolvable: bool


@dataclass(frozen=True)
class Comparison:
    """How much further the AUC is than the baseline's, in percentage points, with its interval.

    ``paired`` is True where both scored the same records: their AUCs move together, and the interval allows for it.
    """

    difference: float
    low: float
    high: float
    paired: bool


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """What an attack could tell about who was in the training data, in numbers and in words.

    Made by :func:`report`. ``scores`` and ``mask`` (the members among them) stay with the object, for a plot or a
    paired comparison, and are never written out. Reports that were written before ``margin`` and what follows it was
    noted are read with the defaults.

    Examples
    --------
    >>> from eupg.audit.loss import LossAttack
    >>> scores = np.array([0.9, 0.8, 0.4, 0.7, 0.3, 0.2])
    >>> found = report(scores, np.array([1, 1, 1, 0, 0, 0], dtype=bool), attack=LossAttack())
    >>> round(found.auc, 1), round(found.null_error, 1)
    (88.9, 25.5)
    >>> AuditReport.from_json(found.to_json()) == found
    True
    """

    model: str
    attack: str
    parameters: Mapping[str, Any] = field(hash=False)
    members: int
    nonmembers: int
    level: float
    auc: float
    low: float
    high: float
    standard_error: float | None
    null_error: float
    tails: tuple[Tail, ...]
    baseline: AuditReport | None = None
    comparison: Comparison | None = None
    margin: float = MARGIN
    repeats: tuple[Repeat, ...] = ()
    member_people: int | None = None
    nonmember_people: int | None = None
    references: int | None = None
    reference_error: float | None = None
    model_error: float | None = None
    scores: Floats | None = field(default=None, compare=False, repr=False)
    mask: Mask | None = field(default=None, compare=False, repr=False)

    @property
    def from_chance(self) -> float:
        """How far the AUC is from chance on either side, in points."""
        return abs(self.auc - 50)

    @property
    def null_errors(self) -> float:
        """The same in standard errors of an attack that knows nothing: 2 or more is rare, once in twenty."""
        return self.from_chance / self.null_error

    @property
    def outcome(self) -> Outcome:
        """Whether the model is exposed, is not, or cannot be told to be either; the rule is in the module ``verdict``.

        Each of the two verdicts is wrong in at most a share 1 − level of audits, and in at most 0.2 % more by the low
        false-positive rates.
        """
        return verdict.outcome(self)

    @property
    def exposed(self) -> bool:
        """Whether the outcome is that members can be told apart, and better than in the baseline's model."""
        return self.outcome is Outcome.EXPOSED

    def verdict(self) -> str:
        """Say in words what was found."""
        return verdict.verdict(self)

    def sentence(self) -> str:
        """Say the numbers, the verdict, and what neither of them shows."""
        return verdict.sentence(self)

    def to_json(self) -> dict[str, Any]:
        """Return plain values that :meth:`from_json` reads back; without scores, which would be personal data."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("scores", "mask")}
        return values | {
            "parameters": dict(self.parameters),
            "tails": [asdict(t) for t in self.tails],
            "baseline": self.baseline.to_json() if self.baseline else None,
            "comparison": asdict(self.comparison) if self.comparison else None,
            "repeats": [asdict(r) for r in self.repeats],
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> AuditReport:
        """Read a report back from :meth:`to_json`."""
        try:
            nested = {
                "tails": tuple(Tail(**t) for t in values["tails"]),
                "baseline": cls.from_json(values["baseline"]) if values["baseline"] else None,
                "comparison": Comparison(**values["comparison"]) if values["comparison"] else None,
                "repeats": tuple(Repeat(**r) for r in values.get("repeats", ())),
            }
            return cls(**(dict(values) | nested))
        except (KeyError, TypeError) as error:
            raise DataError(f"not an audit report as to_json() writes it: {error}") from error


def report(
    scores: Floats,
    members: Mask,
    *,
    attack: Attack,
    model: str = "the audited model",
    baseline: AuditReport | None = None,
    level: float = 0.95,
    margin: float = MARGIN,
    people: NDArray[Any] | None = None,
    repeats: Repeats | None = None,
) -> AuditReport:
    """Turn an attack's scores into a report.

    Parameters
    ----------
    scores
        One number a record, higher for a likelier member.
    members
        True where the record is one that was (or was to be forgotten) in the training data; False where it never was.
    attack
        The attack that gave the scores, so that the report can name it and its parameters.
    model
        What the model is called in the words: "EUPG, k=30", "retraining".
    baseline
        The report of the same attack on a model that does not remember the records.
    level
        The confidence level of every interval.
    margin
        How many points of AUC matter: see :attr:`AuditReport.outcome`.
    people
        Whose each record is: records of one person are not independent. By default each is a person's only one.
    repeats
        What repeating the audit with other reference models showed; by default it is repeated with other people alone.
    """
    check_level(level)
    if not 0 <= margin < 50:
        raise ParameterError(f"margin must be points of AUC, from 0 to less than 50, got {margin!r}")
    scores, mask = check_scores(scores, members)
    who = numbered(people, len(scores))
    if repeats is None:
        beside = _paired_scores(baseline, mask)
        repeats = (
            repeats_of_scores(scores, beside, mask, who) if baseline is None or beside is not None else Repeats(())
        )
    m, n = len(np.unique(who[mask])), len(np.unique(who[~mask]))
    area, variance = delong(scores, mask, who)
    variance = _with_references(variance, repeats.auc_variance)
    low, high = auc_interval(area, variance, m, n, level=level)
    alone = AuditReport(
        model=model,
        attack=type(attack).__name__,
        parameters=_parameters(attack),
        members=int(mask.sum()),
        nonmembers=int((~mask).sum()),
        level=level,
        auc=100 * area,
        low=100 * low,
        high=100 * high,
        standard_error=100 * math.sqrt(variance) if 0 < variance < math.inf else None,
        null_error=100 * null_error(m, n),
        tails=_tails(scores, mask, who, level),
        margin=margin,
        repeats=repeats.each,
        member_people=m,
        nonmember_people=n,
        references=repeats.references,
        reference_error=_points(repeats.auc_variance),
        model_error=_points(repeats.model_variance),
        scores=scores,
        mask=mask,
    )
    if baseline is None:
        return alone
    return replace(alone, baseline=baseline, comparison=_compare(alone, baseline, who, repeats))


def _paired_scores(baseline: AuditReport | None, mask: Mask) -> Floats | None:
    """Return the baseline's scores where they are known and of the same records."""
    if baseline is None or baseline.mask is None or not np.array_equal(baseline.mask, mask):
        return None
    return baseline.scores


def _with_references(variance: float, more: float | None) -> float:
    """Add what the choice of reference models contributes, where the variance says anything at all."""
    return variance + (more or 0.0) if 0 < variance < math.inf else variance


def _points(variance: float | None) -> float | None:
    return None if variance is None else 100 * math.sqrt(variance)


def _tails(scores: Floats, mask: Mask, people: People, level: float) -> tuple[Tail, ...]:
    if len(np.unique(people)) < len(people):
        rows = one_record_each(people, mask, np.random.default_rng(0))
        scores, mask = scores[rows], mask[rows]
    return tuple(_tail(scores, mask, fpr, level) for fpr in TAILS)


def _tail(scores: Floats, mask: Mask, fpr: float, level: float) -> Tail:
    m, n = int(mask.sum()), int((~mask).sum())
    hits, alarms = tpr_at_fpr(scores, mask, fpr)
    low, high = clopper_pearson(hits, m, level=level)
    return Tail(
        at=100 * fpr,
        fpr=100 * alarms / n,
        tpr=100 * hits / m,
        low=100 * low,
        high=100 * high,
        chance=chance_of_hits(hits, m, n, fpr),
        resolvable=fpr * n >= 1 - 1e-9,
    )


def _compare(one: AuditReport, other: AuditReport, people: People, repeats: Repeats) -> Comparison:
    """Compare two AUCs; records in common are recognised by equal masks, and then taken to be in the same order.

    The variance is what the choice of people gives or, if that is more, what training two models anew would give; and
    what the choice of reference models adds.
    """
    if one.attack != other.attack:
        raise DataError(f"a baseline must come from the same attack: expected {one.attack}, got {other.attack}")
    difference, paired = one.auc - other.auc, False
    errors = [e for e in (one.standard_error, other.standard_error) if e is not None]
    variance = sum(e**2 for e in errors) if len(errors) == 2 else 0.0
    if one.scores is not None and other.scores is not None and one.mask is not None and other.mask is not None:
        paired = np.array_equal(one.mask, other.mask)
    if paired and one.scores is not None and other.scores is not None and one.mask is not None:
        if np.array_equal(rankdata(one.scores), rankdata(other.scores)):
            return Comparison(0.0, 0.0, 0.0, True)
        variance = 100**2 * delong_difference(one.scores, other.scores, one.mask, people)[1]
    if not 0 < variance < math.inf:
        # Where a variance says nothing, the two intervals together still bound the difference.
        return Comparison(difference, one.low - other.high, one.high - other.low, paired)
    variance = max(variance, 2 * 100**2 * (repeats.model_variance or 0.0)) + 100**2 * (repeats.gap_variance or 0.0)
    reach = float(norm.isf((1 - one.level) / 2)) * math.sqrt(variance)
    return Comparison(difference, difference - reach, difference + reach, paired)


def _parameters(attack: Attack) -> dict[str, Any]:
    return {f.name: getattr(attack, f.name) for f in fields(attack)} if is_dataclass(attack) else {}
