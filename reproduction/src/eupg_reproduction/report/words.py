"""How the report writes numbers: means with deviations, differences, ranges, counts and lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from eupg_reproduction.report.tidy import REPEATS
from eupg_reproduction.spread import Spread

MISSING, NONE = "not measured yet", "–"
# The tables of people; NAMES includes the pictures.
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


def shown(spread: Spread | None, decimals: int = 2, *, of: int = REPEATS) -> str:
    """Return mean and deviation, and the number of repetitions unless it is the usual five.

    Examples
    --------
    >>> shown(Spread(94.1, 0.2, 5)), shown(Spread(94.1, 0.2, 4)), shown(Spread(94.1, 0.2, 3), of=3)
    ('94.10 ± 0.20', '94.10 ± 0.20 (4 of 5)', '94.10 ± 0.20 (3 runs)')
    >>> shown(Spread(94.1, 0.2, 2), of=3), shown(Spread(94.1, 0.0, 1), of=1)
    ('94.10 ± 0.20 (2 of 3)', '94.10 (1 run)')
    """
    if spread is None:
        return MISSING
    text = f"{spread.mean:.{decimals}f}"
    if spread.count > 1 or of == REPEATS:
        text += f" ± {spread.std:.{decimals}f}"
    if spread.count != of:
        return f"{text} ({spread.count} of {of})"
    return text if of == REPEATS else f"{text} ({of} run{'s' if of > 1 else ''})"


def signed(difference: float, decimals: int = 2) -> str:
    """Return a difference with its sign; zero after rounding has none.

    Examples
    --------
    >>> signed(0.254), signed(-1.0), signed(-0.001)
    ('+0.25', '−1.00', '0.00')
    """
    text = f"{abs(difference):.{decimals}f}"
    return text if float(text) == 0 else ("+" if difference > 0 else "−") + text


def span(values: Iterable[float | None], decimals: int = 1, *, sign: bool = False) -> str:
    """Return the range of the known values, or the value if they are all alike.

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


def listed(words: Sequence[str], empty: str = "nowhere") -> str:
    """Return words as one list.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b", "c"]), listed([])
    ('a', 'a, b and c', 'nowhere')
    """
    if len(words) < 2:
        return words[0] if words else empty
    return f"{', '.join(words[:-1])} and {words[-1]}"


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{100 * share:g} %"


def of_all(count: int, total: int, *, share: bool = False) -> str:
    """Return a count of a total.

    Examples
    --------
    >>> of_all(3, 4), of_all(3, 4, share=True), of_all(0, 0)
    ('3 of 4', '3 of 4 (75 %)', 'not measured yet')
    """
    return MISSING if not total else f"{count} of {total}" + (f" ({100 * count / total:.0f} %)" if share else "")


def ratio(value: float | None) -> str:
    """Return a speed-up.

    Examples
    --------
    >>> ratio(14.76), ratio(0.33), ratio(1543.0)
    ('14.8×', '0.33×', '1,540×')
    """
    if value is None or pd.isna(value):
        return MISSING
    if value >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}×"
    return f"{value:.1f}×" if value >= 1 else f"{value:.2f}×"
