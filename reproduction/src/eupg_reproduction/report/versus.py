"""Who beats whom: a method against its control on every set, said in one sentence that leaves nothing out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from eupg_reproduction.report.words import MISSING, listed, signed
from eupg_reproduction.spread import Spread


class Pair(NamedTuple):
    """A method's figure and its control's at one place, such as a data set."""

    place: str
    method: Spread | None
    control: Spread | None


def verdict(method: str, pairs: Sequence[Pair]) -> str:
    """Say where a method is beaten by its control, level with it (inside the two spreads) and ahead of it.

    Examples
    --------
    >>> pairs = [Pair("Adult", Spread(85.0, 0.1, 5), Spread(86.0, 0.1, 5)), Pair("Heart", Spread(73.0, 0.1, 5), None)]
    >>> verdict("EUPG", pairs)
    'EUPG is beaten on Adult (−1.00), level nowhere and ahead nowhere; Heart: not measured yet'
    """
    sides: dict[str, list[str]] = {"beaten": [], "level": [], "ahead": []}
    unknown = []
    for pair in pairs:
        if pair.method is None or pair.control is None:
            unknown.append(pair.place)
            continue
        sides[side(pair)].append(f"{pair.place} ({signed(pair.method.minus(pair.control))})")
    if len(unknown) == len(pairs):
        return f"{method}: {MISSING}"
    parts = [f"{word} {'on ' if places else ''}{listed(places)}" for word, places in sides.items()]
    text = f"{method} is {parts[0]}, {parts[1]} and {parts[2]}"
    return f"{text}; {listed(unknown)}: {MISSING}" if unknown else text


def side(pair: Pair) -> str:
    """Return ``beaten``, ``level`` or ``ahead`` of a pair that was measured."""
    assert pair.method is not None
    assert pair.control is not None
    if pair.method.agrees(pair.control):
        return "level"
    return "ahead" if pair.method.mean > pair.control.mean else "beaten"
