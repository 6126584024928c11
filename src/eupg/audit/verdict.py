"""An audit report in words: what was found, against what, by which rule, and what that does not show.

The rule asks whether the AUC lies more than a margin of a few points from chance and, where there is one, from the
baseline's AUC. **Exposed**: both intervals lie beyond the margin, on the same side. **Not exposed**: one of them lies
within the margin on both sides. **Inconclusive**: everything else. Either of the first two needs the audit repeated ten
times, on people and reference models drawn anew, to end on the same side of the margin every time.

If the true distance from chance or from the baseline is at most the margin, the first verdict needs an interval that
misses it; if both are beyond the margin, the second one does. Each happens in at most a share 1 − level of audits: half
of that for the interval from chance, and half of it for the other. Repetition only makes verdicts rarer. A model can
also be exposed by many members found at a low false-positive rate, which chance does in at most 0.2 % of audits.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from eupg.audit.repeats import RARE, Repeat

if TYPE_CHECKING:
    from eupg.audit.report import AuditReport, Tail

# Of 100 pairs of a member and a non-member, two more told apart than by chance.
MARGIN = 2.0
# An audit that could miss this many points could hardly have found anything.
_BLIND = 10.0


class Outcome(StrEnum):
    """What an audit concludes."""

    EXPOSED = "exposed"
    NOT_EXPOSED = "not exposed"
    INCONCLUSIVE = "inconclusive"


def outcome(report: AuditReport) -> Outcome:
    """Decide by the rule above."""
    if _all_tied(report):
        return Outcome.INCONCLUSIVE
    if _exposed_by_area(report) or _exposed_by_tail(report):
        return Outcome.EXPOSED
    if _within_margin(report) and not _rare_tail(report):
        return Outcome.NOT_EXPOSED
    return Outcome.INCONCLUSIVE


def verdict(report: AuditReport) -> str:
    """Say what was found, by which rule, in a few sentences."""
    if _all_tied(report):
        return f"Says nothing: {report.attack} gave every record the same score, so it could not have found anything."
    parts = [_conclusion(report)]
    if report.high < 50:
        parts.append(
            "An AUC below 50 counts too: whoever turns the score round learns as much. Either the model has become "
            "less sure of these records than of ones it never saw (forgetting that went too far, say), or the "
            "reference models left out members and non-members unequally often."
        )
    parts.append(rule(report))
    return " ".join(parts)


def rule(report: AuditReport) -> str:
    """Say how the verdict was reached, how often it is wrong, and on which sample."""
    level, beside = f"{100 * report.level:g} %", "" if report.baseline is None else f" and from {report.baseline.model}"
    either = "the interval" if report.baseline is None else "one of the two intervals"
    times = len(report.repeats)
    agree = ""
    if times:
        anew = "people and reference models" if report.references else "people"
        agree = f", and the audit repeated {times} times on {anew} drawn anew must agree every time"
    wrong = f"{100 * (1 - report.level) + 0.2:.2g} %"
    return (
        f"Rule: exposed if the {level} interval of the distance from chance{beside} lies beyond {report.margin:g} "
        f"points of AUC, not exposed if {either} lies within {report.margin:g} points, otherwise inconclusive{agree}. "
        f"Either verdict is wrong in at most {wrong} of audits. Sample: {_sample(report)}."
    )


def _sample(report: AuditReport) -> str:
    sides = []
    for name, records, people in (
        ("members", report.members, report.member_people),
        ("non-members", report.nonmembers, report.nonmember_people),
    ):
        several = f" (records of {people:,} people)" if people is not None and people < records else ""
        sides.append(f"{records:,} {name}{several}")
    references = f", {report.references:,} reference models" if report.references else ""
    return f"{sides[0]} against {sides[1]}{references}"


def sentence(report: AuditReport) -> str:
    """Say the numbers, the verdict, and its limits."""
    given = ", ".join(f"{k} {_plain(v)}" for k, v in report.parameters.items())
    parts = [
        f"{report.attack}{f' ({given})' if given else ''} on {report.model}, {report.members:,} members against "
        f"{report.nonmembers:,} non-members: {_area(report)}; {report.from_chance:.1f} points from chance, which is "
        f"{report.null_errors:.1f} times the standard error of {report.null_error:.1f} points that chance alone gives."
    ]
    parts += [f"{_found(tail)[0].upper()}{_found(tail)[1:]}{_unresolved(report, tail)}." for tail in report.tails]
    if report.baseline is not None:
        parts.append(f"For comparison, {report.baseline.model}: {_area(report.baseline)}.")
    parts.append(verdict(report))
    parts.append(
        "This is what one attack found on these records, on average: a stronger attack may find more, a single record "
        "may be more exposed than the average, and nothing here proves forgetting. The intervals cover the choice of "
        f"{_covered(report)}, not the randomness of training the audited model."
    )
    return " ".join(parts)


def _covered(report: AuditReport) -> str:
    if report.reference_error is None:
        return "people"
    return "people and of reference models"


def _conclusion(report: AuditReport) -> str:
    if _exposed_by_area(report):
        return _exposed_words(report)
    if _exposed_by_tail(report):
        found = _found(min(_rare_tails(report), key=lambda tail: tail.chance))
        return (
            f"Exposed at few false alarms: {found}, as chance does less than once in 1,000 audits. "
            f"By the AUC: {_by_area_words(report)}"
        )
    if outcome(report) is Outcome.NOT_EXPOSED:
        return f"Not exposed by more than {report.margin:g} points. {_by_area_words(report)}"
    return f"Inconclusive: {_why_not(report)}. {_by_area_words(report)}"


def _exposed_words(report: AuditReport) -> str:
    if report.baseline is None:
        side = "above" if report.auc > 50 else "below"
        return (
            f"Exposed: the AUC is {report.from_chance:.1f} points {side} chance, and its interval excludes "
            f"{report.margin:g} points and less. Compare it with a model retrained without these records: members may "
            "also differ from non-members in kind."
        )
    return f"Exposed: the AUC differs from chance, and by {_apart(report)}."


def _why_not(report: AuditReport) -> str:
    """Say what stands between this audit and a verdict."""
    times = len(report.repeats)
    if _interval_beyond(report):
        agreeing = max(sum(_beyond(repeat, side, report.margin) for repeat in report.repeats) for side in (1, -1))
        return f"only {agreeing} of {times} repeated audits agree"
    if _rare_tail(report):
        return "many members are found at few false alarms, but not in every repeated audit"
    if _interval_within(report):
        ways = [way for way in _ways(report) if _interval_inside(report, way)]
        agreeing = max(sum(_inside(repeat, way, report.margin) for repeat in report.repeats) for way in ways)
        return f"only {agreeing} of {times} repeated audits agree"
    return f"a distance of {report.margin:g} points lies within what the intervals leave open"


def _by_area_words(report: AuditReport) -> str:
    """Say where the AUC stands, whatever the verdict."""
    if report.baseline is None or report.comparison is None:
        return f"{_near_chance(report)}." if not _off_chance(report) else f"{_off_words(report)}."
    gap, baseline = report.comparison, report.baseline
    if _differs(report):
        if _off_chance(report):
            return f"The AUC differs from chance, and by {_apart(report)}."
        return f"{_near_chance(report)}, though it is {_apart(report)}."
    found = f"By its AUC no more exposed than {baseline.model}, {_within(gap.low, gap.high)}."
    if outcome(report) is not Outcome.NOT_EXPOSED:
        found = f"The AUC is not told apart from that of {baseline.model}, {_within(gap.low, gap.high)}."
    if _off_chance(report) and _off_chance(baseline):
        return (
            f"{found} Both AUCs differ from chance: where even the baseline's does, members and non-members differ in "
            "kind, and not because of training."
        )
    if _off_chance(report):
        return f"{found} Its own interval excludes 50, so a small exposure is not ruled out: score more records."
    return found


def _apart(report: AuditReport) -> str:
    gap, baseline = report.comparison, report.baseline
    assert gap is not None
    assert baseline is not None
    return f"{abs(gap.difference):.1f} points ({gap.low:+.1f} to {gap.high:+.1f}) from {baseline.model}"


def _off_words(report: AuditReport) -> str:
    side = "above" if report.auc > 50 else "below"
    return (
        f"The AUC is {report.from_chance:.1f} points ({report.low - 50:+.1f} to {report.high - 50:+.1f}) {side} chance"
    )


def _exposed_by_area(report: AuditReport) -> bool:
    if not _interval_beyond(report):
        return False
    side = 1 if report.auc > 50 else -1
    return all(_beyond(repeat, side, report.margin) for repeat in report.repeats)


def _interval_beyond(report: AuditReport) -> bool:
    """Tell whether all intervals lie beyond the margin on one side."""
    intervals = [_from_chance(report)]
    if report.comparison is not None:
        intervals.append((report.comparison.low, report.comparison.high))
    return all(low > report.margin for low, _ in intervals) or all(high < -report.margin for _, high in intervals)


def _beyond(repeat: Repeat, side: int, margin: float) -> bool:
    distances = [repeat.auc - 50] + ([] if repeat.baseline is None else [repeat.auc - repeat.baseline])
    return all(side * distance > margin for distance in distances)


def _within_margin(report: AuditReport) -> bool:
    return any(
        _interval_inside(report, way) and all(_inside(repeat, way, report.margin) for repeat in report.repeats)
        for way in _ways(report)
    )


def _interval_within(report: AuditReport) -> bool:
    return any(_interval_inside(report, way) for way in _ways(report))


def _ways(report: AuditReport) -> tuple[str, ...]:
    """Return what the AUC may be shown to be close to."""
    return ("chance",) if report.comparison is None else ("baseline", "chance")


def _interval_inside(report: AuditReport, way: str) -> bool:
    low, high = _from_chance(report)
    if way == "baseline":
        assert report.comparison is not None
        low, high = report.comparison.low, report.comparison.high
    return -report.margin < low and high < report.margin


def _inside(repeat: Repeat, way: str, margin: float) -> bool:
    against = repeat.baseline if way == "baseline" and repeat.baseline is not None else 50.0
    return abs(repeat.auc - against) < margin


def _from_chance(report: AuditReport) -> tuple[float, float]:
    return report.low - 50, report.high - 50


def _exposed_by_tail(report: AuditReport) -> bool:
    return _rare_tail(report) and all(repeat.rare for repeat in report.repeats)


def _rare_tail(report: AuditReport) -> bool:
    return bool(_rare_tails(report)) and (report.baseline is None or not _rare_tails(report.baseline))


def _rare_tails(report: AuditReport) -> list[Tail]:
    return [tail for tail in report.tails if tail.chance < RARE]


def _off_chance(report: AuditReport) -> bool:
    return not report.low <= 50 <= report.high


def _differs(report: AuditReport) -> bool:
    return report.comparison is not None and not report.comparison.low <= 0 <= report.comparison.high


def _all_tied(report: AuditReport) -> bool:
    return report.standard_error is None and report.auc == 50 and min(report.members, report.nonmembers) > 1


def _near_chance(report: AuditReport) -> str:
    return f"The AUC is not told apart from chance, {_within(report.low - 50, report.high - 50)}"


def _within(low: float, high: float) -> str:
    reach = max(abs(low), abs(high))
    return f"within ±{reach:.1f} points" + (", too wide to find much: score more records" if reach > _BLIND else "")


def _area(report: AuditReport) -> str:
    how = "DeLong's" if report.standard_error is not None else "an exact"
    return f"AUC {report.auc:.1f} % ({how} {100 * report.level:g} % interval {report.low:.1f} to {report.high:.1f})"


def _found(tail: Tail) -> str:
    interval = f"{tail.low:.2f} to {tail.high:.2f}"
    return f"accusing at most {tail.at:g} % of non-members finds {tail.tpr:.2f} % of members ({interval})"


def _unresolved(report: AuditReport, tail: Tail) -> str:
    if tail.resolvable:
        return ""
    return (
        f"; with {report.nonmembers:,} non-members the smallest rate that can be seen is {100 / report.nonmembers:.2g} "
        "%, so no false alarm was allowed"
    )


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
