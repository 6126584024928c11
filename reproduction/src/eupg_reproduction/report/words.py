"""Figures in words and in tables: how the report shows a mean, a difference, a range, and what is missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from eupg_reproduction.report.book import REPEATS
from eupg_reproduction.spread import Spread

MISSING = "not measured yet"
NONE = "–"
# The tables of people, over which sections go; NAMES has the pictures too.
SETS = {"adult": "Adult", "heart": "Heart", "credit": "Credit"}
NAMES = {**SETS, "cifar10": "CIFAR-10"}
MODELS = {
    "mlp": "MLP",
    "xgboost": "XGBoost",
    "lightgbm": "LightGBM",
    "logistic": "logistic regression",
    "resnet18": "ResNet-18",
}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table.

    Examples
    --------
    >>> print(table(["a", "b"], [["1", "2"]]))
    | a | b |
    | --- | --- |
    | 1 | 2 |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def shown(found: Spread | None, decimals: int = 2, *, of: int = REPEATS) -> str:
    """Show mean and deviation, and from how many repetitions where these are not five.

    Parameters
    ----------
    found
        What was measured.
    decimals
        How exactly.
    of
        How many repetitions there are to be. Where that is less than five, a single value is shown without a deviation.

    Examples
    --------
    >>> shown(Spread(94.1, 0.2, 5)), shown(Spread(94.1, 0.2, 4)), shown(Spread(94.1, 0.2, 3), of=3)
    ('94.10 ± 0.20', '94.10 ± 0.20 (4 of 5)', '94.10 ± 0.20 (3 runs)')
    >>> shown(Spread(94.1, 0.2, 2), of=3), shown(Spread(94.1, 0.0, 1), of=1)
    ('94.10 ± 0.20 (2 of 3)', '94.10 (1 run)')
    """
    if found is None:
        return MISSING
    return _spread(found, decimals, of) + _runs(found.count, of)


def _spread(found: Spread, decimals: int, of: int) -> str:
    text = f"{found.mean:.{decimals}f}"
    # What was run once has no deviation; five are the rule, and zero of one of them is told by the count.
    return text if found.count == 1 and of < REPEATS else f"{text} ± {found.std:.{decimals}f}"


def _runs(count: int, of: int) -> str:
    """Say how many repetitions there are, unless it is all of the usual five."""
    if count != of:
        return f" ({count} of {of})"
    return "" if of == REPEATS else f" ({of} run{'s' if of > 1 else ''})"


def met(good: object) -> str:
    """Say whether a goal is met; None is a goal that was not measured yet."""
    return MISSING if good is None else "yes" if good else "no"


def mean(found: Spread | None, decimals: int = 1) -> str:
    """Show the mean alone."""
    return MISSING if found is None else f"{found.mean:.{decimals}f}"


def signed(difference: float, decimals: int = 2) -> str:
    """Show a difference with its sign; what rounds to nothing has none.

    Examples
    --------
    >>> signed(0.254), signed(-1.0), signed(-0.001)
    ('+0.25', '−1.00', '0.00')
    """
    text = f"{abs(difference):.{decimals}f}"
    if float(text) == 0:
        return text
    return ("+" if difference > 0 else "−") + text


def against(ours: Spread | None, paper: Spread | None, *, of: int = REPEATS) -> list[str]:
    """Return four cells: ours, the paper's, the difference, and whether it lies inside the two spreads."""
    if paper is None:
        return [shown(ours, of=of), NONE, NONE, NONE]
    if ours is None:
        return [MISSING, str(paper), NONE, NONE]
    return [shown(ours, of=of), str(paper), signed(ours.minus(paper)), "yes" if ours.agrees(paper) else "no"]


def span(values: Iterable[float | None], decimals: int = 1, *, sign: bool = False) -> str:
    """Say from where to where values go; one value where they are all alike.

    Examples
    --------
    >>> span([1.24, 0.86]), span([0.51, 0.52]), span([]), span([-0.3, 0.2], sign=True), span([None, 1.0])
    ('0.9 to 1.2', '0.5', 'not measured yet', '−0.3 to +0.2', '1.0')
    """
    known = sorted(value for value in values if value is not None)
    if not known:
        return MISSING
    ends = [signed(v, decimals) if sign else f"{v:.{decimals}f}" for v in (known[0], known[-1])]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def most(values: Iterable[float | None], decimals: int = 2) -> str:
    """Say how far values lie from zero at most.

    Examples
    --------
    >>> most([0.02, -0.11, None]), most([])
    ('0.11', 'not measured yet')
    """
    known = [abs(value) for value in values if value is not None]
    return f"{max(known):.{decimals}f}" if known else MISSING


def listed(words: Sequence[str], nothing: str = "nowhere") -> str:
    """Put words into one list.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b", "c"]), listed([])
    ('a', 'a, b and c', 'nowhere')
    """
    if not words:
        return nothing
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def percent(share: float) -> str:
    """Show a share in percent.

    Examples
    --------
    >>> percent(0.005), percent(0.9)
    ('0.5 %', '90 %')
    """
    return f"{100 * share:g} %"


def seconds(value: float | None) -> str:
    """Show a time with three figures.

    Examples
    --------
    >>> seconds(0.012345), seconds(1.2345), seconds(123.45)
    ('0.0123', '1.23', '123')
    """
    if value is None:
        return MISSING
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def timing(found: Spread | None, *, of: int = REPEATS) -> str:
    """Show a time with three figures, and its deviation with as many decimals; runs are told only where not five.

    Examples
    --------
    >>> timing(Spread(9.51, 0.125, 5)), timing(Spread(0.0301, 0.002, 5)), timing(Spread(417.3, 0.44, 5))
    ('9.51 ± 0.12', '0.0301 ± 0.0020', '417 ± 0')
    >>> timing(Spread(417.3, 0.0, 1), of=1)
    '417 (1 run)'
    """
    if found is None:
        return MISSING
    decimals = max(0, 2 - math.floor(math.log10(found.mean))) if found.mean > 0 else 2
    return _spread(found, decimals, of) + (_runs(found.count, of) if of < REPEATS else "")


def ratio(value: float | None) -> str:
    """Show how many times faster.

    Examples
    --------
    >>> ratio(14.76), ratio(0.33), ratio(1543.0)
    ('14.8×', '0.33×', '1,540×')
    """
    if value is None:
        return MISSING
    if value >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}×"
    return f"{value:.1f}×" if value >= 1 else f"{value:.2f}×"
