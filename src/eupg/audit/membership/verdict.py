"""The verdict of an audit: the rule that decides it, and the words that report it.

The rule asks whether the AUC lies more than a margin of a few points from chance and, if there is a baseline, from the
baseline's AUC. **Exposed**: all intervals lie beyond the margin, on the same side. **Not exposed**: one of them lies
within the margin. **Inconclusive**: everything else. For the first two verdicts, ten repeats of the audit on resampled
people and reference models must all end on the same side of the margin.

If either true distance is within the margin, "exposed" requires an interval that misses the true value; if both are
beyond it, so does "not exposed". Each error occurs in at most a share 1 − level of audits, half of it from each
interval. The repeats only make verdicts rarer. Many members found at a low false-positive rate also mean "exposed";
chance does that in at most 0.2 % of audits.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from eupg.audit.membership.resampling import RARE

if TYPE_CHECKING:
    from eupg.audit.membership.report import AuditReport, Tail

# In points of AUC: of 100 pairs of a member and a non-member, two more are ranked correctly than by chance.
MARGIN = 2.0
# An audit that could miss this many points could hardly have found anything.
_BLIND = 10.0
_BELOW_CHANCE = (
    "An AUC below 50 is also a finding, because an attacker can reverse the score. Either the model is less confident "
    "about these records than about unseen ones (after excessive forgetting, for example), or the reference models "
    "left out members and non-members unequally often."
)
_LIMITS = (
    "This is what one attack found on these records, on average: a stronger attack may find more, a single record may "
    "be more exposed than the average, and nothing here proves forgetting."
)


class Outcome(StrEnum):
    """The conclusion of an audit."""

    EXPOSED = "exposed"
    NOT_EXPOSED = "not exposed"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class _Distance:
    """The distance of the AUC from chance or from the baseline, in points, with its interval and its repeats."""

    name: str
    value: float
    low: float
    high: float
    repeats: tuple[float, ...]

    @property
    def reach(self) -> float:
        return max(abs(self.low), abs(self.high))

    def __str__(self) -> str:
        side = "above" if self.value > 0 else "below"
        return f"{abs(self.value):.1f} points {side} {self.name} ({self.low:+.1f} to {self.high:+.1f})"


def judge(report: AuditReport) -> tuple[Outcome, str]:
    """Decide by the rule above; return the outcome and its reason."""
    if report.standard_error is None and report.auc == 50 and min(report.members, report.nonmembers) > 1:
        tied = f"{report.attack} gave every record the same score, so it could not have found anything"
        return Outcome.INCONCLUSIVE, tied
    margin, distances, times = report.margin, _distances(report), len(report.repeats)
    side = 1 if report.auc > 50 else -1
    where = " and ".join(str(distance) for distance in reversed(distances))
    beyond = all(side * d.low > margin and side * d.high > margin for d in distances)
    agreeing = sum(
        all(side * v > margin for v in values) for values in zip(*(d.repeats for d in distances), strict=True)
    )
    if beyond and agreeing == times:
        return Outcome.EXPOSED, f"the AUC is {where}"
    rare = _rare_tails(report)
    if rare and all(repeat.rare for repeat in report.repeats):
        tail = _tail_words(min(rare, key=lambda tail: tail.chance))
        return Outcome.EXPOSED, f"{tail}, which chance does in fewer than 1 of 1,000 audits; the AUC is {where}"
    if beyond:
        return Outcome.INCONCLUSIVE, f"only {agreeing} of {times} repeated audits agree; the AUC is {where}"
    if rare:
        return Outcome.INCONCLUSIVE, (
            f"many members are found with few false alarms, but not in every repeated audit; the AUC is {where}"
        )
    close = [(sum(abs(v) < margin for v in d.repeats), d) for d in distances if d.reach < margin]
    for agreeing, distance in close:
        if agreeing == times:
            return Outcome.NOT_EXPOSED, f"the AUC is within ±{distance.reach:.1f} points of {distance.name}"
    if close:
        agreeing = max(count for count, _ in close)
        return Outcome.INCONCLUSIVE, f"only {agreeing} of {times} repeated audits agree; the AUC is {where}"
    return (
        Outcome.INCONCLUSIVE,
        f"the AUC is {where}, which neither shows nor excludes exposure by {margin:g} points",
    )


def verdict(report: AuditReport) -> str:
    """State the outcome and its reason in one line."""
    outcome, reason = judge(report)
    return f"{outcome.capitalize()}: {reason}."


def figures(report: AuditReport) -> list[tuple[str, ...]]:
    """Return a table of the figures beside the baseline's; its first row names the models."""
    columns = [report, *([report.baseline] if report.baseline else [])]
    rows = [("", *(column.model for column in columns))]
    rows.append(("AUC", *(f"{c.auc:.1f} ({c.low:.1f} to {c.high:.1f})" for c in columns)))
    for i, tail in enumerate(report.tails):
        cells = (f"{c.tails[i].tpr:.2f} ({c.tails[i].low:.2f} to {c.tails[i].high:.2f})" for c in columns)
        rows.append((f"members found at {tail.at:g} % FPR", *cells))
    return rows


def notes(report: AuditReport) -> list[str]:
    """Return what belongs below the figures: units, attack, sample and remarks."""
    units = f"Percent, with {100 * report.level:g} % intervals; an AUC of 50 is chance."
    return [units, f"{_attack(report)}, {sample(report)}.", *remarks(report)]


def table(report: AuditReport) -> str:
    """Return the verdict, a table of the figures beside the baseline's, and remarks."""
    rows = figures(report)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([verdict(report), "", *lines, "", *notes(report)])


def sentence(report: AuditReport) -> str:
    """Return the figures, the verdict, the rule and its limits as running text."""
    parts = [f"{_attack(report)} on {report.model}, {sample(report)}: {_area(report)}."]
    if report.baseline is not None:
        parts.append(f"For comparison, {report.baseline.model}: {_area(report.baseline)}.")
    parts.append(f"Chance alone has a standard error of {report.null_error:.1f} points.")
    for tail in report.tails:
        words = _tail_words(tail)
        parts.append(f"{words[0].upper()}{words[1:]}.")
    covered = "people" if report.reference_error is None else "people and of reference models"
    not_covered = f"The intervals cover the choice of {covered}, not the randomness of training the audited model."
    return " ".join([*parts, verdict(report), *remarks(report), rule(report), _LIMITS, not_covered])


def rule(report: AuditReport) -> str:
    """State how the verdict was reached, and how often it is wrong."""
    beside = "" if report.baseline is None else f" and from {report.baseline.model}"
    either = "the interval" if report.baseline is None else "one of the two intervals"
    agree = ""
    if report.repeats:
        resampled = "people and reference models" if report.references else "people"
        agree = f" The audit repeated {len(report.repeats)} times on resampled {resampled} must agree every time."
    wrong = f"{100 * (1 - report.level) + 0.2:.3g} %"
    return (
        f"Rule: exposed if the {100 * report.level:g} % interval of the distance from chance{beside} lies beyond "
        f"{report.margin:g} points of AUC, not exposed if {either} lies within {report.margin:g} points, otherwise "
        f"inconclusive.{agree} Either verdict is wrong in at most {wrong} of audits."
    )


def remarks(report: AuditReport) -> list[str]:
    """Return what a reader must know to interpret the verdict."""
    notes, outcome = [], judge(report)[0]
    if report.high < 50:
        notes.append(_BELOW_CHANCE)
    if report.baseline is None and outcome is Outcome.EXPOSED:
        notes.append(
            "Compare with a model retrained without these records: members may also differ from non-members in kind."
        )
    if report.comparison is not None and report.comparison.low <= 0 <= report.comparison.high and _off_chance(report):
        if report.baseline is not None and _off_chance(report.baseline):
            notes.append(
                "Both AUCs differ from chance: members and non-members differ in kind, and not because of training."
            )
        else:
            notes.append("The AUC's own interval excludes 50: score more records to rule out a small exposure.")
    if outcome is Outcome.INCONCLUSIVE and min(distance.reach for distance in _distances(report)) > _BLIND:
        notes.append("The intervals are too wide to find much: score more records.")
    if not all(tail.resolvable for tail in report.tails):
        smallest = f"{100 / report.nonmembers:.2g} %"
        notes.append(
            f"With {report.nonmembers:,} non-members the smallest observable false-positive rate is {smallest}: below "
            "it, no false alarm was allowed."
        )
    return notes


def sample(report: AuditReport) -> str:
    """Return the sizes of both sides, in records and people, and the number of reference models."""
    sides = []
    for name, records, people in (
        ("members", report.members, report.member_people),
        ("non-members", report.nonmembers, report.nonmember_people),
    ):
        several = f" (records of {people:,} people)" if people is not None and people < records else ""
        sides.append(f"{records:,} {name}{several}")
    references = f", {report.references:,} reference models" if report.references else ""
    return f"{sides[0]} against {sides[1]}{references}"


def _distances(report: AuditReport) -> list[_Distance]:
    """Return the distances that the rule is about, the one from the baseline first."""
    chance = _Distance(
        "chance", report.auc - 50, report.low - 50, report.high - 50, tuple(r.auc - 50 for r in report.repeats)
    )
    gap, baseline = report.comparison, report.baseline
    if gap is None or baseline is None:
        return [chance]
    repeats = tuple(r.auc - (50 if r.baseline is None else r.baseline) for r in report.repeats)
    return [_Distance(baseline.model, gap.difference, gap.low, gap.high, repeats), chance]


def _rare_tails(report: AuditReport) -> list[Tail]:
    """Return the low rates at which chance seldom finds as many members, unless it is the same in the baseline."""
    if report.baseline is not None and any(tail.chance < RARE for tail in report.baseline.tails):
        return []
    return [tail for tail in report.tails if tail.chance < RARE]


def _off_chance(report: AuditReport) -> bool:
    return not report.low <= 50 <= report.high


def _attack(report: AuditReport) -> str:
    values = {name: f"{v:g}" if isinstance(v, float) else str(v) for name, v in report.parameters.items()}
    return report.attack + (f" ({', '.join(f'{name} {v}' for name, v in values.items())})" if values else "")


def _area(report: AuditReport) -> str:
    how = "DeLong's" if report.standard_error is not None else "exact"
    return f"AUC {report.auc:.1f} % ({how} {100 * report.level:g} % interval {report.low:.1f} to {report.high:.1f})"


def _tail_words(tail: Tail) -> str:
    interval = f"{tail.low:.2f} to {tail.high:.2f}"
    return f"accusing at most {tail.at:g} % of non-members finds {tail.tpr:.2f} % of members ({interval})"
