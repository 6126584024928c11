"""The shape of every claim: what it covers, what narrows it, how two of them compare, and how it reads in words."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, ClassVar, Self, TypeVar

from eupg.errors import ParameterError

# Certificates list this among their assumptions, in the same words (eupg.certify.wording).
REQUESTS_APART = (
    "it is assumed that no erasure request was chosen by looking at a model fitted on these records: such a choice can "
    "carry what that model showed into the newest one"
)
G = TypeVar("G", bound="Guarantee")
# What every claim says where a table does not tell which records belong to one person.
NO_PERSON = (
    "the claim is record-level: no column names the person, so that each record counts as a person of its own, and "
    "other records of the same person are not known here"
)


class Unit(StrEnum):
    """Whose presence the claim is about."""

    RECORD = "record"
    PERSON = "person"


class Neighbours(StrEnum):
    """Which two data sets the claim compares."""

    SUBSTITUTION = "one unit's values replaced by any others"
    ADD_OR_REMOVE = "one unit added or removed"
    ALTERED = "one unit's records replaced by any others, more or fewer"


@dataclass(frozen=True, kw_only=True)
class Guarantee(ABC):
    """A claim about what remains of a forgotten record.

    Parameters
    ----------
    covers
        The attributes the claim speaks about.
    leaves_open
        Attributes that are released as they are.
    caveats
        Sentences that narrow the claim, such as bounds that were read from the data.
    seeded
        True when the randomness can be repeated from a known seed: then nothing is private.
    """

    notion: ClassVar[str]
    covers: tuple[str, ...] = ()
    leaves_open: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    seeded: bool = False

    @abstractmethod
    def _at_least(self, other: Self) -> bool:
        """Tell whether the parameters of this claim are as strong as the other's."""

    @abstractmethod
    def for_person(self, records: int) -> Guarantee:
        """Return the claim for someone with that many records (group privacy)."""

    def for_part(self) -> Guarantee:
        """Return the claim for records of a person who stays: who keeps others that were released with them."""
        return self

    def narrowed(self, caveat: str) -> Self:
        """Return the same claim with one more sentence that narrows it; a sentence it has already is not repeated."""
        # It comes first, where it is read: lists of what was read from the data can be long.
        return replace(self, caveats=both((caveat,), self.caveats))

    @abstractmethod
    def compose(self, other: Guarantee) -> Guarantee:
        """Return what holds when both releases of the same records are seen together."""

    @abstractmethod
    def _core(self) -> str:
        """Say the claim itself in plain words."""

    def implies(self, other: Guarantee) -> bool:
        """Tell whether whoever has this claim also has the other: a partial order, no across notions."""
        return (
            type(self) is type(other)
            and self._at_least(other)
            and set(self.covers) >= set(other.covers)
            and set(self.caveats) <= set(other.caveats)
            and self.seeded <= other.seeded
        )

    def sentence(self) -> str:
        """Say the claim in plain words, with everything that narrows it."""
        parts = [self._core()]
        if self.leaves_open:
            parts.append(f"Not covered, kept as it is: {', '.join(self.leaves_open)}.")
        parts += self._measured()
        parts += [f"{c[0].upper()}{c[1:]}." for c in self.caveats]
        if self.seeded:
            parts.append("Reproducible run, not private: whoever knows the seed can undo the protection.")
        return " ".join(parts)

    def _measured(self) -> list[str]:
        """Say what was measured when the release was made and bears on the claim; nothing for most notions."""
        return []

    def to_json(self) -> dict[str, Any]:
        """Return plain values that :func:`eupg.protect.guarantee.guarantee_from_json` reads back."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {"notion": self.notion} | {
            k: list(v) if isinstance(v, tuple) else str(v) if isinstance(v, StrEnum) else v for k, v in values.items()
        }


def both(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """Return what either of two lists holds, each once."""
    return tuple(dict.fromkeys((*first, *second)))


def assuming(claim: G, sentence: str, *, needed: bool) -> G:
    """Return the claim with this sentence among its caveats where it is needed, and without it where it is not."""
    others = tuple(c for c in claim.caveats if c != sentence)
    return replace(claim, caveats=(*others, sentence) if needed else others)


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


def check_budget(epsilon: float, delta: float) -> None:
    """Refuse what is no (ε, δ)."""
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise ParameterError(f"epsilon must be a finite number of at least 0, got {epsilon!r}")
    if not 0 <= delta <= 1:
        raise ParameterError(f"delta must lie between 0 and 1, got {delta!r}")


def check_records(records: int) -> None:
    """Refuse a person without records."""
    if records < 1:
        raise ParameterError(f"a person has at least one record, got {records}")


def grow(epsilon: float) -> str:
    """Write e^ε as a person reads it."""
    return f"{math.exp(epsilon):.3g}" if epsilon < 700 else "infinitely many"
