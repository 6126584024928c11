"""Texts that have to fit: whole sentences while there is room, and a visible mark where text is left out."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

CUT = "[…]"
# A sentence begins with anything but a small letter or a digit: "approx. 3" and "e.g. this" do not begin one.
_END = re.compile(r"(?<=[.!?])\s+(?=[^\sa-z0-9])")
_LISTED = 6

Fits = Callable[[str], bool]


def fit(texts: Iterable[str], fits: Fits) -> str:
    """Return as many whole sentences as fit; the first is shortened in its middle if it does not fit by itself.

    Examples
    --------
    >>> fit(["One is here.", "Two is longer than that."], lambda text: len(text) <= 20)
    'One is here. […]'
    >>> fit(["Bounds of a, b, c, d, e, f were read from the data."], lambda text: len(text) <= 40)
    'Bounds of a, b, c, d, […] from the data.'
    """
    sentences = [s for text in texts for s in _END.split(" ".join(text.split())) if s]
    whole = " ".join(sentences)
    if fits(whole):
        return whole
    shown: list[str] = []
    for sentence in sentences:
        if not fits(" ".join([*shown, sentence, CUT])):
            break
        shown.append(sentence)
    return " ".join([*shown, CUT]) if shown else shorten(sentences[0], fits)


def shorten(sentence: str, fits: Fits) -> str:
    """Leave out words in the middle, so that a sentence keeps its beginning and its end."""
    if fits(sentence):
        return sentence
    words = sentence.split()

    def shortened(count: int) -> str:
        tail = count * 2 // 5
        return " ".join([*words[: count - tail], CUT, *words[len(words) - tail :]])

    count = _most(len(words) - 1, lambda n: fits(shortened(n)))
    if count:
        return shortened(count)
    # A text without spaces is cut anywhere.
    letters = _most(len(sentence), lambda n: fits(f"{sentence[:n]} {CUT}"))
    return f"{sentence[:letters]} {CUT}"


def listed(names: Sequence[str]) -> str:
    """List names; where there are many, count the last ones.

    Examples
    --------
    >>> listed(["a", "b"]), listed([f"x{i}" for i in range(9)])
    ('a, b', 'x0, x1, x2, x3, x4 and 4 more')
    """
    if len(names) <= _LISTED:
        return ", ".join(names)
    return f"{', '.join(names[: _LISTED - 1])} and {len(names) - _LISTED + 1} more"


def _most(largest: int, holds: Callable[[int], bool]) -> int:
    """Return the largest number for which the condition holds; once it fails, it must fail for every larger one."""
    return bisect_right(range(1, largest + 1), 0, key=lambda n: 0 if holds(n) else 1)
