"""The words that claims share: the caveats many of them carry, and how numbers are written for a person to read."""

from __future__ import annotations

import math

# Certificates list this among their assumptions, in the same words.
REQUESTS_APART = (
    "it is assumed that no erasure request was chosen by looking at a model fitted on these records: such a choice can "
    "carry what that model showed into the newest one"
)
# What every claim says where a table does not tell which records belong to one person.
NO_PERSON = (
    "the claim is record-level: no column names the person, so that each record counts as a person of its own, and "
    "other records of the same person are not known here"
)
SEEDED = "Reproducible run, not private: whoever knows the seed can undo the protection."
# The largest ε whose factor e^ε is written as a number: beyond it the number would overflow.
_LARGEST_WRITTEN = 700.0
# From here on the factor e^ε is no longer a promise anyone would lean on.
_WEAK_EPSILON = math.log(100)


def as_sentence(caveat: str) -> str:
    """Write a caveat of a claim as a sentence of its own."""
    return f"{caveat[:1].upper()}{caveat[1:]}."


def others_kept(records: int) -> str:
    """Return the caveat of a claim about records of a person of whom so many others are kept."""
    others = "1 other record" if records == 1 else f"{records} other records"
    are = "is" if records == 1 else "are"
    return f"the claim is record-level: it is about the forgotten records, while {others} of the same person {are} kept"


def percent(share: float) -> str:
    """Write a share in whole percent, without turning a few into none or most into all.

    Examples
    --------
    >>> percent(0.45), percent(0.0), percent(0.001), percent(0.999), percent(1.0)
    ('45 %', '0 %', 'under 1 %', 'over 99 %', '100 %')
    """
    if 0 < share < 0.005:
        return "under 1 %"
    if 0.995 < share < 1:
        return "over 99 %"
    return f"{100 * share:.0f} %"


def attributes(names: tuple[str, ...]) -> str:
    """Name the attribute, or count them where there are several."""
    return f"the attribute {names[0]}" if len(names) == 1 else f"{len(names)} attributes"


def factor(epsilon: float) -> str:
    """Write e^ε as a number, or as a power where the number is beyond what a person reads.

    Examples
    --------
    >>> factor(1.0), factor(12.0), factor(750.0)
    ('2.72', '1.63e+05', 'e^750')
    """
    return f"{math.exp(epsilon):.3g}" if epsilon < _LARGEST_WRITTEN else f"e^{epsilon:g}"


def power(epsilon: float, *, digits: int = 6) -> str:
    """Write e^ε as a power, and as a number too unless that is beyond what a person reads.

    Examples
    --------
    >>> power(1.0), power(750.0)
    ('e^1 ≈ 2.72', 'e^750')
    """
    written = f"e^{epsilon:.{digits}g}"
    return f"{written} ≈ {factor(epsilon)}" if epsilon < _LARGEST_WRITTEN else written


def weakness(epsilon: float) -> str:
    """Say that a factor of e^ε promises little where it is so large; nothing otherwise."""
    return " A factor this large promises little." if epsilon > _WEAK_EPSILON else ""
