"""An audit report in words: what was found, against what, and what that does not show."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eupg.audit.report import AuditReport, Tail

# A low false-positive rate alone makes a verdict only where chance would do so once in a thousand audits.
_RARE = 0.001


def exposed(report: AuditReport) -> bool:
    """Tell whether members can be told apart, and from the baseline's model not as well."""
    apart = _off_chance(report) or bool(_rare_tails(report))
    if report.baseline is None or report.comparison is None:
        return apart
    more = _differs(report) and _off_chance(report)
    return more or (bool(_rare_tails(report)) and not _rare_tails(report.baseline))


def verdict(report: AuditReport) -> str:
    """Say what was found, in one or a few sentences."""
    if _all_tied(report):
        return f"Says nothing: {report.attack} gave every record the same score, so it could not have found anything."
    parts = [_alone(report) if report.baseline is None else _beside(report, report.baseline)]
    rare = _rare_tails(report)
    if rare:
        parts.append(
            f"A few are found with near certainty: {_found(rare[-1])}, which chance does less than once in 1,000 audits."
        )
    if report.high < 50:
        parts.append(
            "An AUC below 50 is exposure too: whoever turns the score round learns as much. Either the model has become "
            "less sure of these records than of ones it never saw (forgetting that went too far), or the reference "
            "models left out members and non-members unequally often."
        )
    return " ".join(parts)


def sentence(report: AuditReport) -> str:
    """Say the numbers, the verdict, and its limits."""
    given = ", ".join(f"{k} {_plain(v)}" for k, v in report.parameters.items())
    parts = [
        f"{report.attack}{f' ({given})' if given else ''} on {report.model}, {report.members:,} members against "
        f"{report.nonmembers:,} non-members: {_area(report)}; {report.from_chance:.1f} points from chance, which is "
        f"{report.null_errors:.1f} times the standard error of {report.null_error:.1f} points that knowing nothing has."
    ]
    parts += [f"{_found(tail)[0].upper()}{_found(tail)[1:]}{_unresolved(report, tail)}." for tail in report.tails]
    if report.baseline is not None:
        parts.append(f"For comparison, {report.baseline.model}: {_area(report.baseline)}.")
    parts.append(verdict(report))
    parts.append(
        "This is what one attack found on these records, on average: a stronger attack may find more, a single record "
        "may be more exposed than the average, and nothing here is a proof of forgetting."
    )
    return " ".join(parts)


def _alone(report: AuditReport) -> str:
    if _off_chance(report):
        side = "above" if report.auc > 50 else "below"
        return (
            f"Exposed: the AUC is {report.from_chance:.1f} points {side} chance, and its interval excludes 50. Compare it "
            "with a model retrained without these records: members may also differ from non-members in kind."
        )
    return f"Not told apart from chance, within ±{_reach(report.low - 50, report.high - 50)} points."


def _beside(report: AuditReport, baseline: AuditReport) -> str:
    gap = report.comparison
    assert gap is not None
    if not _differs(report):
        found = f"No more exposed than {baseline.model}, within ±{_reach(gap.low, gap.high)} points."
        if _off_chance(report) and _off_chance(baseline):
            found += (
                " Both AUCs differ from chance: where even the baseline's does, members and non-members differ in kind, "
                "and not because of training."
            )
        elif _off_chance(report):
            found += " Its own interval excludes 50, so the audit cannot rule out a small exposure: score more records."
        return found
    apart = f"{abs(gap.difference):.1f} points ({gap.low:+.1f} to {gap.high:+.1f}) from {baseline.model}"
    if _off_chance(report):
        return f"Exposed: the AUC differs from chance, and by {apart}."
    return (
        f"Not told apart from chance, within ±{_reach(report.low - 50, report.high - 50)} points, though it is {apart}."
    )


def _off_chance(report: AuditReport) -> bool:
    return not report.low <= 50 <= report.high


def _differs(report: AuditReport) -> bool:
    return report.comparison is not None and not report.comparison.low <= 0 <= report.comparison.high


def _all_tied(report: AuditReport) -> bool:
    return report.standard_error is None and report.auc == 50 and min(report.members, report.nonmembers) > 1


def _rare_tails(report: AuditReport) -> list[Tail]:
    return [tail for tail in report.tails if tail.chance < _RARE]


def _reach(low: float, high: float) -> str:
    return f"{max(abs(low), abs(high)):.1f}"


def _area(report: AuditReport) -> str:
    how = "DeLong's" if report.standard_error is not None else "an exact"
    return f"AUC {report.auc:.1f} % ({how} {100 * report.level:g} % interval {report.low:.1f} to {report.high:.1f})"


def _found(tail: Tail) -> str:
    return (
        f"accusing at most {tail.at:g} % of non-members finds {tail.tpr:.2f} % of members ({tail.low:.2f} to "
        f"{tail.high:.2f})"
    )


def _unresolved(report: AuditReport, tail: Tail) -> str:
    if tail.resolvable:
        return ""
    return (
        f"; with {report.nonmembers:,} non-members the smallest rate that can be seen is {100 / report.nonmembers:.2g} %, "
        "so no false alarm was allowed"
    )


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
