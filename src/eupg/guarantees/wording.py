"""The words that claims share: caveats that many of them carry, and how numbers are written."""

from __future__ import annotations

import math

# This caveat and the next are recognised by their words in claims that ledgers and certificates hold: keep the words.
# Certificates list it among their assumptions.
REQUESTS_APART = (
    "it is assumed that no erasure request was chosen by looking at a model fitted on these records: such a choice can "
    "carry what that model showed into the newest one"
)
# The caveat of every claim about a table that does not name people.
NO_PERSON = (
    "the claim is record-level: no column names the person, so that each record counts as a person of its own, and "
    "other records of the same person are not known here"
)
SEEDED = "Reproducible run, not private: whoever knows the seed can undo the protection."
# From this ε on, the factor e^ε would overflow as a number and is written as a power.
_LARGEST_WRITTEN = 700.0
# Above this ε, the factor e^ε is too large to rely on.
_WEAK_EPSILON = math.log(100)


def as_sentence(caveat: str) -> str:
    """Write a caveat of a claim as a sentence of its own."""
    return f"{caveat[:1].upper()}{caveat[1:]}."


def others_kept(records: int) -> str:
    """Return the caveat of a claim about some records of a person whose other records are kept."""
    others = "1 other record" if records == 1 else f"{records} other records"
    are = "is" if records == 1 else "are"
    return f"the claim is record-level: it is about the forgotten records, while {others} of the same person {are} kept"


def percent(share: float) -> str:
    """Write a share in whole percent, without rounding a few to none or most to all.

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
    """Write e^ε as a number, or as a power where the number would overflow.

    Examples
    --------
    >>> factor(1.0), factor(12.0), factor(750.0)
    ('2.72', '1.63e+05', 'e^750')
    """
    return f"{math.exp(epsilon):.3g}" if epsilon < _LARGEST_WRITTEN else f"e^{epsilon:g}"


def power(epsilon: float, *, digits: int = 6) -> str:
    """Write e^ε as a power, followed by the number where :func:`factor` writes one.

    Examples
    --------
    >>> power(1.0), power(750.0)
    ('e^1 ≈ 2.72', 'e^750')
    """
    written = f"e^{epsilon:.{digits}g}"
    return f"{written} ≈ {factor(epsilon)}" if epsilon < _LARGEST_WRITTEN else written


def weakness(epsilon: float) -> str:
    """Return a warning where the factor e^ε is so large that it promises little; otherwise nothing."""
    return " A factor this large promises little." if epsilon > _WEAK_EPSILON else ""


def secret_numbers(source: str) -> str:
    """Return the assumption that nobody knows the random numbers behind a model or copy."""
    return (
        f"The random numbers behind the {source} are secret: they came from the operating system and were not stored."
    )
