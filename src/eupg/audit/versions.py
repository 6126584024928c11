"""What someone learns who holds both the model from before an erasure and the one from after it.

Every claim is about the newest model alone. A model that was fitted on a person is slightly more confident about that
person's label, and if few people left at once, hardly anything else changed between two versions. This comparison needs
no reference models, since the earlier version is one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from scipy.special import stdtrit

from eupg.audit.intervals import Interval, check_level, clopper_pearson
from eupg.audit.membership.roc import auc_interval, delong, placements, roc_curve
from eupg.audit.membership.signals import Floats, SignalKind, measure
from eupg.data.dataset import Dataset
from eupg.errors import DataError, ParameterError
from eupg.learn.learner import Model


@dataclass(frozen=True, kw_only=True)
class VersionsReport:
    """How well erased people are recognised by comparing two versions of a model; shares in percent.

    Made by :func:`compare_versions`; :meth:`over` combines several erasures.

    Parameters
    ----------
    erasures
        Number of pairs of versions compared.
    erased, others
        Number of people erased over all erasures, and of people they were compared with (the fewest of any erasure).
    auc
        The probability that an erased person ranks above one of the others, ties counting half. 50 is chance.
    low, high, level
        Its interval, and the confidence level.
    changed
        Whether the two versions answered differently for anybody. If not, nobody can be recognised.
    fpr, tpr
        The ROC curve: shares of the others and of the erased above each threshold.
    placements
        For each erased person the share of the others with a lower score, ties counting half. These describe single
        people and are never written out.
    """

    erasures: int
    erased: int
    others: int
    auc: float
    low: float
    high: float
    level: float
    changed: bool
    fpr: Floats = field(compare=False, repr=False)
    tpr: Floats = field(compare=False, repr=False)
    placements: Floats = field(compare=False, repr=False)

    @classmethod
    def over(cls, reports: Sequence[VersionsReport]) -> VersionsReport:
        """Combine several erasures: the mean of their AUCs, with Student's interval over the erasures.

        One erased person is a single observation: only several erasures show how well single people are recognised.
        """
        if not reports:
            raise ParameterError("expected reports of one erasure or more, got none: compare two versions first")
        if len(reports) == 1:
            return reports[0]
        level = check_level(reports[0].level)
        shares = np.array([report.auc / 100 for report in reports])
        changed = any(report.changed for report in reports)
        low, high = _mean_interval(shares, level) if changed else (0.5, 0.5)
        grid = np.linspace(0, 1, 1001)
        curves = [np.interp(grid, report.fpr, report.tpr) for report in reports]
        return cls(
            erasures=sum(report.erasures for report in reports),
            erased=sum(report.erased for report in reports),
            others=min(report.others for report in reports),
            auc=100 * float(shares.mean()),
            low=100 * low,
            high=100 * high,
            level=level,
            changed=changed,
            fpr=grid,
            tpr=np.mean(curves, axis=0),
            placements=np.concatenate([report.placements for report in reports]),
        )

    def sentence(self) -> str:
        """State the result in plain words, with its limits."""
        people = f"{self.erased:,} {'person' if self.erased == 1 else 'people'}"
        erasures = "one erasure" if self.erasures == 1 else f"{self.erasures:,} erasures"
        start = f"Before and after: {people} erased in {erasures}, compared with {self.others:,} others."
        if not self.changed:
            return f"{start} Both versions give the same answers, so comparing them tells nothing about who was erased."
        return (
            f"{start} Someone who holds both versions of the model, and ranks people by how much more confident the "
            f"earlier one was about their label, ranks an erased person above another in {self.auc:.1f} % of cases "
            f"({100 * self.level:g} % interval {self.low:.1f} to {self.high:.1f}; 50 is chance). Claims cover the "
            "newest model alone. A stronger comparison may find more, and a single person may be easier to recognise "
            "than the average."
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values, without the curve and without anything about single people."""
        omitted = {"fpr", "tpr", "placements"}
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in omitted}


def compare_versions(
    before: Model, after: Model, erased: Dataset, others: Dataset, *, level: float = 0.95
) -> VersionsReport:
    """Measure how well people who were erased between two versions of a model can be recognised from both.

    People are ranked by how much the log-odds of their label fell from the earlier version to the later one, on
    average over their records.

    Parameters
    ----------
    before, after
        The model that was served before the erasure, and the one served after it.
    erased
        All records of the people who were erased.
    others
        Records of people who were not erased between the two versions.
    level
        The confidence level of the interval. It is wide for one erased person: combine the reports of several erasures
        with :meth:`VersionsReport.over`.

    Examples
    --------
    >>> from eupg import EUPG, Seeded, sources
    >>> from eupg.learn import SklearnLearner
    >>> from eupg.protect import ProbabilisticKAnonymity
    >>> data = sources.rand_hie().train
    >>> person = data.of_subjects(["125024"])
    >>> others = data.without(person.ids)
    >>> method = EUPG(ProbabilisticKAnonymity(k=30), SklearnLearner(), pretrain=2, finetune=0)
    >>> before = method.train(data, Seeded(7))
    >>> after = method.forget(before, others, Seeded(7))
    >>> compare_versions(before.model, after.model, person, others).changed  # the base model is served unchanged
    False
    """
    check_level(level)
    _check_people(erased, others)
    scores = np.concatenate([_drops(before, after, erased), _drops(before, after, others)])
    count = len(np.unique(erased.subjects))
    members = np.arange(len(scores)) < count
    area, variance = delong(scores, members)
    changed = bool(np.any(scores != 0))
    low, high = auc_interval(area, variance, count, len(scores) - count, level=level) if changed else (0.5, 0.5)
    fpr, tpr = roc_curve(scores, members)
    return VersionsReport(
        erasures=1,
        erased=count,
        others=len(scores) - count,
        auc=100 * area,
        low=100 * low,
        high=100 * high,
        level=level,
        changed=changed,
        fpr=fpr,
        tpr=tpr,
        placements=placements(scores, members)[0],
    )


def _drops(before: Model, after: Model, data: Dataset) -> Floats:
    """Return for each person the mean drop in the log-odds of their labels."""
    signals = [
        measure(np.asarray(model.predict_proba(data.X)), data.y, kind=SignalKind.MARGIN) for model in (before, after)
    ]
    person = np.unique(data.subjects, return_inverse=True)[1]
    return np.asarray(np.bincount(person, signals[0] - signals[1]) / np.bincount(person))


def _check_people(erased: Dataset, others: Dataset) -> None:
    for name, data in (("erased", erased), ("others", others)):
        if not len(data):
            raise DataError(f"{name} must hold the records of one person or more, got none")
    both = np.intersect1d(erased.subjects, others.subjects)
    if len(both):
        raise DataError(
            f"{len(both)} people are among the erased and the others, first {str(both[0])!r}: a person was erased or "
            "was not; leave all records of the erased out of the others"
        )


def _mean_interval(shares: Floats, level: float) -> Interval:
    mean, count = float(shares.mean()), len(shares)
    spread = float(shares.std(ddof=1))
    if spread < 1e-12:
        return clopper_pearson(mean * count, count, level=level)
    reach = float(-stdtrit(count - 1, (1 - level) / 2)) * spread / math.sqrt(count)
    return max(0.0, mean - reach), min(1.0, mean + reach)
