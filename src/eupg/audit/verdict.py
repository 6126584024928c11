"""An audit report in words: what was found, against what, and what that does not show."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eupg.audit.report import AuditReport, Tail

# A low false-positive rate alone makes a verdict only where chance would do so once in a thousand audits.
_RARE = 0.001
# An audit that could miss this many points could hardly have found anything.
_BLIND = 10.0


def exposed(report: AuditReport) -> bool:
    """Tell whether members can be told apart, and better than they can be from the baseline's model."""
    return _by_area(report) or _by_tail(report)


def verdict(report: AuditReport) -> str:
    """Say what was found, in one or a few sentences."""
    if _all_tied(report):
        return f"Says nothing: {report.attack} gave every record the same score, so it could not have found anything."
    parts = []
    if _by_tail(report) and not _by_area(report):
        found = _found(min(_rare_tails(report), key=lambda tail: tail.chance))
        parts.append(f"Exposed at few false alarms: {found}, as chance does less than once in 1,000 audits.")
    parts.append(_alone(report) if report.baseline is None else _beside(report, report.baseline))
    if report.high < 50:
        parts.append(
            "An AUC below 50 counts too: whoever turns the score round learns as much. Either the model has become "
            "less sure of these records than of ones it never saw (forgetting that went too far, say), or the "
            "reference models left out members and non-members unequally often."
        )
    return " ".join(parts)


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
        "records, not the randomness of training."
    )
    return " ".join(parts)


def _alone(report: AuditReport) -> str:
    if _off_chance(report):
        side = "above" if report.auc > 50 else "below"
        return (
            f"Exposed: the AUC is {report.from_chance:.1f} points {side} chance, and its interval excludes 50. Compare "
            "it with a model retrained without these records: members may also differ from non-members in kind."
        )
    return _near_chance(report) + "."


def _beside(report: AuditReport, baseline: AuditReport) -> str:
    gap = report.comparison
    assert gap is not None
    if _differs(report):
        apart = f"{abs(gap.difference):.1f} points ({gap.low:+.1f} to {gap.high:+.1f}) from {baseline.model}"
        if _off_chance(report):
            return f"Exposed: the AUC differs from chance, and by {apart}."
        return f"{_near_chance(report)}, though it is {apart}: training with other seeds would tell whether that stays."
    found = f"By its AUC no more exposed than {baseline.model}, {_within(gap.low, gap.high)}."
    if _off_chance(report) and _off_chance(baseline):
        return (
            f"{found} Both AUCs differ from chance: where even the baseline's does, members and non-members differ in "
            "kind, and not because of training."
        )
    if _off_chance(report):
        return f"{found} Its own interval excludes 50, so a small exposure is not ruled out: score more records."
    return found


def _by_area(report: AuditReport) -> bool:
    return _off_chance(report) and (report.baseline is None or _differs(report))


def _by_tail(report: AuditReport) -> bool:
    return bool(_rare_tails(report)) and (report.baseline is None or not _rare_tails(report.baseline))


def _rare_tails(report: AuditReport) -> list[Tail]:
    return [tail for tail in report.tails if tail.chance < _RARE]


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
