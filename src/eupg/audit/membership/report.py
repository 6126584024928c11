"""The result of an audit: how well an attack separated members from non-members, and how certain that is.

All shares are in percent, and an AUC of 50 is chance. A report stands beside its baseline, the same attack on a model
that cannot remember the records (retrained without them). Chance alone moves an AUC, and members may differ from
non-members for reasons that have nothing to do with training.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eupg.audit.intervals import check_level, clopper_pearson
from eupg.audit.membership import verdict
from eupg.audit.membership.attack import Attack
from eupg.audit.membership.resampling import LOW_RATES, Repeat, Resampling, numbered, one_record_each, resample_scores
from eupg.audit.membership.roc import (
    People,
    auc_interval,
    average_ranks,
    chance_of_hits,
    check_scores,
    delong,
    delong_difference,
    null_error,
    standard_errors,
    tpr_at_fpr,
)
from eupg.audit.membership.signals import Floats, Mask
from eupg.audit.membership.verdict import MARGIN, Outcome
from eupg.errors import DataError, ParameterError
from eupg.pages import card


@dataclass(frozen=True)
class Tail:
    """The share of members found (``tpr``, with its exact interval) at a low false-positive rate, in percent.

    ``at`` is the rate allowed, ``fpr`` that of the last threshold at or below it, and ``chance`` the probability (0 to
    1) that chance alone finds as many members. ``resolvable`` is False if a single non-member exceeds the rate, so that
    no false alarm was allowed. If people have several records, one random record per person and side counts.
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
    """The difference between the AUC and the baseline's, in percentage points, with its interval.

    ``paired``: both scored the same records, so the interval allows for their correlation.
    """

    difference: float
    low: float
    high: float
    paired: bool


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """What an attack revealed about membership in the training data; ``print`` shows the verdict and a table.

    Made by :func:`report`. ``scores`` and ``mask`` (the members) stay in memory for a plot or a paired comparison and
    are never written out. Fields from ``margin`` on have defaults so that reports of earlier versions can be read.

    Examples
    --------
    >>> from eupg.audit.membership.loss import LossAttack
    >>> scores = np.array([0.9, 0.8, 0.4, 0.7, 0.3, 0.2])
    >>> result = report(scores, np.array([1, 1, 1, 0, 0, 0], dtype=bool), attack=LossAttack())
    >>> round(result.auc, 1), round(result.null_error, 1)
    (88.9, 25.5)
    >>> AuditReport.from_json(result.to_json()) == result
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
        """The distance of the AUC from chance on either side, in points."""
        return abs(self.auc - 50)

    @property
    def outcome(self) -> Outcome:
        """Exposed, not exposed or inconclusive, by the rule of :mod:`eupg.audit.membership.verdict`.

        Either verdict is wrong in at most a share 1 − level of audits, plus 0.2 % for the low false-positive rates.
        """
        return verdict.judge(self)[0]

    @property
    def exposed(self) -> bool:
        """Whether members can be told apart, and better than in the baseline's model."""
        return self.outcome is Outcome.EXPOSED

    def verdict(self) -> str:
        """Return the outcome and its reason in one line."""
        return verdict.verdict(self)

    def sentence(self) -> str:
        """Return the figures, the verdict, its rule and its limits as running text, for a certificate."""
        return verdict.sentence(self)

    def __str__(self) -> str:
        """Return the verdict, then a small table."""
        return verdict.table(self)

    def __repr__(self) -> str:
        figures = f"AUC {self.auc:.1f} % ({self.low:.1f} to {self.high:.1f})"
        return f"<AuditReport: {self.outcome}; {self.attack} on {self.model}, {figures}>"

    def _repr_html_(self) -> str:
        header, *rows = verdict.figures(self)
        return card(self.verdict(), rows, header=header, notes=verdict.notes(self))

    def to_json(self) -> dict[str, Any]:
        """Return plain values for :meth:`from_json`, without scores, which are personal data."""
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
    resampling: Resampling | None = None,
) -> AuditReport:
    """Turn the scores of an attack into a report.

    Parameters
    ----------
    scores
        One number per record, higher for a likelier member.
    members
        True for records that were in the training data (or were to be forgotten), False for records that never were.
    attack, model
        The attack that gave the scores, and the name of the model, for the report.
    baseline
        The report of the same attack on a model that does not remember the records.
    level
        The confidence level of every interval.
    margin
        How many points of AUC matter: see :attr:`AuditReport.outcome`.
    people
        The person of each record: records of one person are not independent. By default all persons differ.
    resampling
        The audit repeated with other reference models; by default it is repeated with other people alone.
    """
    check_level(level)
    if not 0 <= margin < 50:
        raise ParameterError(f"margin must be points of AUC, from 0 to less than 50, got {margin!r}")
    scores, mask = check_scores(scores, members)
    who = numbered(people, len(scores))
    paired = _paired_scores(baseline, mask)
    if resampling is None:
        repeatable = baseline is None or paired is not None
        resampling = resample_scores(scores, paired, mask, who) if repeatable else Resampling(())
    m, n = len(np.unique(who[mask])), len(np.unique(who[~mask]))
    area, variance = delong(scores, mask, who)
    if 0 < variance < math.inf:
        variance += resampling.auc_variance or 0.0
    low, high = auc_interval(area, variance, m, n, level=level)
    alone = AuditReport(
        model=model,
        attack=type(attack).__name__,
        parameters={f.name: getattr(attack, f.name) for f in fields(attack)} if is_dataclass(attack) else {},
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
        repeats=resampling.repeats,
        member_people=m,
        nonmember_people=n,
        references=resampling.references,
        reference_error=_points(resampling.auc_variance),
        model_error=_points(resampling.model_variance),
        scores=scores,
        mask=mask,
    )
    if baseline is None:
        return alone
    return replace(alone, baseline=baseline, comparison=_compare(alone, baseline, paired, who, resampling))


def _paired_scores(baseline: AuditReport | None, mask: Mask) -> Floats | None:
    """Return the baseline's scores if they are of the same records, recognised by equal masks, in the same order."""
    if baseline is None or baseline.mask is None or not np.array_equal(baseline.mask, mask):
        return None
    return baseline.scores


def _points(variance: float | None) -> float | None:
    return None if variance is None else 100 * math.sqrt(variance)


def _tails(scores: Floats, mask: Mask, people: People, level: float) -> tuple[Tail, ...]:
    if len(np.unique(people)) < len(people):
        rows = one_record_each(people, mask, np.random.default_rng(0))
        scores, mask = scores[rows], mask[rows]
    m, n = int(mask.sum()), int((~mask).sum())
    tails = []
    for fpr in LOW_RATES:
        hits, alarms = tpr_at_fpr(scores, mask, fpr)
        low, high = clopper_pearson(hits, m, level=level)
        shares = {"fpr": 100 * alarms / n, "tpr": 100 * hits / m, "low": 100 * low, "high": 100 * high}
        chance = chance_of_hits(hits, m, n, fpr)
        tails.append(Tail(at=100 * fpr, **shares, chance=chance, resolvable=fpr * n >= 1 - 1e-9))
    return tuple(tails)


def _compare(
    one: AuditReport, other: AuditReport, paired: Floats | None, people: People, resampling: Resampling
) -> Comparison:
    """Compare two AUCs.

    The variance is the larger of two: that of the choice of people, and that of training two models anew. What the
    choice of reference models contributes is added.
    """
    if one.attack != other.attack:
        raise DataError(f"a baseline must come from the same attack: expected {one.attack}, got {other.attack}")
    difference, variance = one.auc - other.auc, 0.0
    if paired is not None and one.scores is not None and one.mask is not None:
        if np.array_equal(average_ranks(one.scores), average_ranks(paired)):
            return Comparison(0.0, 0.0, 0.0, True)
        variance = 100**2 * delong_difference(one.scores, paired, one.mask, people)[1]
    elif one.standard_error is not None and other.standard_error is not None:
        variance = one.standard_error**2 + other.standard_error**2
    if not 0 < variance < math.inf:
        # Without a usable variance, the two intervals together still bound the difference.
        return Comparison(difference, one.low - other.high, one.high - other.low, paired is not None)
    training = 2 * 100**2 * (resampling.model_variance or 0.0)
    variance = max(variance, training) + 100**2 * (resampling.gap_variance or 0.0)
    reach = standard_errors(one.level) * math.sqrt(variance)
    return Comparison(difference, difference - reach, difference + reach, paired is not None)
