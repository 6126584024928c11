"""The shape of every claim: what it covers, what narrows it, how two of them compare, and how it reads in words."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar, Self

from eupg.errors import ParameterError


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
        parts += [f"{c[0].upper()}{c[1:]}." for c in self.caveats]
        if self.seeded:
            parts.append("Reproducible run, not private: whoever knows the seed can undo the protection.")
        return " ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Return plain values that :func:`eupg.protect.guarantee.guarantee_from_json` reads back."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {"notion": self.notion} | {
            k: list(v) if isinstance(v, tuple) else str(v) if isinstance(v, StrEnum) else v for k, v in values.items()
        }


def both(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """Return what either of two lists holds, each once."""
    return tuple(dict.fromkeys((*first, *second)))


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
