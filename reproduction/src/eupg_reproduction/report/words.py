"""Figures in words: how the report shows a mean, a difference, a range, who beats whom, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pandas as pd

from eupg_reproduction.report.tidy import REPEATS
from eupg_reproduction.spread import Spread

MISSING, NONE = "not measured yet", "–"
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
SHORT, EUPG = "Short retrain", ("EUPG k=30", "EUPG ε=1")


def markdown(table: pd.DataFrame) -> str:
    """Return a table as Markdown.

    Examples
    --------
    >>> print(markdown(pd.DataFrame([{"a": "1", "b": "2"}])))
    | a | b |
    | --- | --- |
    | 1 | 2 |
    """
    lines = [list(table.columns), ["---"] * table.shape[1], *table.to_numpy().tolist()]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def shown(found: Spread | None, decimals: int = 2, *, of: int = REPEATS) -> str:
    """Show mean and deviation, and from how many repetitions where these are not five, which is the rule.

    Examples
    --------
    >>> shown(Spread(94.1, 0.2, 5)), shown(Spread(94.1, 0.2, 4)), shown(Spread(94.1, 0.2, 3), of=3)
    ('94.10 ± 0.20', '94.10 ± 0.20 (4 of 5)', '94.10 ± 0.20 (3 runs)')
    >>> shown(Spread(94.1, 0.2, 2), of=3), shown(Spread(94.1, 0.0, 1), of=1)
    ('94.10 ± 0.20 (2 of 3)', '94.10 (1 run)')
    """
    return MISSING if found is None else _spread(found, decimals, of) + _runs(found.count, of)


def _spread(found: Spread, decimals: int, of: int) -> str:
    text = f"{found.mean:.{decimals}f}"
    # What was run once has no deviation; five are the rule, and zero of one of them is told by the count.
    return text if found.count == 1 and of < REPEATS else f"{text} ± {found.std:.{decimals}f}"


def _runs(count: int, of: int) -> str:
    if count != of:
        return f" ({count} of {of})"
    return "" if of == REPEATS else f" ({of} run{'s' if of > 1 else ''})"


def met(good: object) -> str:
    """Say whether a goal is met; None is a goal that was not measured yet."""
    return MISSING if good is None else "yes" if good else "no"


def signed(difference: float, decimals: int = 2) -> str:
    """Show a difference with its sign; what rounds to nothing has none.

    Examples
    --------
    >>> signed(0.254), signed(-1.0), signed(-0.001)
    ('+0.25', '−1.00', '0.00')
    """
    text = f"{abs(difference):.{decimals}f}"
    return text if float(text) == 0 else ("+" if difference > 0 else "−") + text


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
    """Say how far values lie from zero at most."""
    known = [abs(value) for value in values if value is not None]
    return f"{max(known):.{decimals}f}" if known else MISSING


def listed(words: Sequence[str], nothing: str = "nowhere") -> str:
    """Put words into one list.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b", "c"]), listed([])
    ('a', 'a, b and c', 'nowhere')
    """
    if len(words) < 2:
        return words[0] if words else nothing
    return f"{', '.join(words[:-1])} and {words[-1]}"


def percent(share: float) -> str:
    """Show a share in percent."""
    return f"{100 * share:g} %"


def of_all(good: int, total: int, *, share: bool = False) -> str:
    """Show a count of how many there are.

    Examples
    --------
    >>> of_all(3, 4), of_all(3, 4, share=True), of_all(0, 0)
    ('3 of 4', '3 of 4 (75 %)', 'not measured yet')
    """
    return MISSING if not total else f"{good} of {total}" + (f" ({100 * good / total:.0f} %)" if share else "")


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


class Judged(NamedTuple):
    """Who is ahead at one place: ``ahead``, ``level``, ``beaten``, ``one run`` or, where one is missing, None."""

    place: str
    side: str | None
    difference: float | None

    def named(self, decimals: int = 2) -> str:
        """Name the place, with the difference."""
        return f"{self.place} ({signed(self.difference or 0.0, decimals)})"


def judge(place: str, ours: Spread | None, control: Spread | None) -> Judged:
    """Hold a figure against its control's; level is inside the two spreads."""
    if ours is None or control is None:
        return Judged(place, None, None)
    side = "level" if ours.agrees(control) else "ahead" if ours.mean > control.mean else "beaten"
    return Judged(place, side, ours.minus(control))


def verdict(method: str, places: Sequence[Judged], *, word: str = "on") -> str:
    """Say where a method is beaten by its control, level with it and ahead of it; every place is named.

    Examples
    --------
    >>> places = [judge("Adult", Spread(85.0, 0.1, 5), Spread(86.0, 0.1, 5)), Judged("Heart", None, None)]
    >>> verdict("EUPG", places)
    'EUPG is beaten on Adult (−1.00), level nowhere and ahead nowhere; Heart: not measured yet'
    >>> verdict("EUPG", [Judged("the recipe", "one run", 2.0)], word="under")
    'EUPG: under the recipe +2.00 in a single run, too few to judge'
    """
    unknown = [one.place for one in places if one.side is None]
    if len(unknown) == len(places):
        return f"{method}: {MISSING}"
    sides = {side: [one.named() for one in places if one.side == side] for side in ("beaten", "level", "ahead")}
    words = [f"{side} {f'{word} ' if some else ''}{listed(some)}" for side, some in sides.items()]
    single = [f"{word} {o.place} {signed(o.difference or 0.0)} in a single run" for o in places if o.side == "one run"]
    parts = [f"{method} is {words[0]}, {words[1]} and {words[2]}"] if any(sides.values()) else []
    parts += [f"{'' if parts else f'{method}: '}{listed(single)}, too few to judge"] if single else []
    return "; ".join(parts + ([f"{listed(unknown)}: {MISSING}"] if unknown else []))


def sentences(verdicts: Iterable[str]) -> str:
    """Put verdicts one after another, each on a line of a list."""
    return "\n".join(f"  - {one}." for one in verdicts)
