"""What every guarantee is: what it covers, what narrows it, how two of them compare, how it reads, and its JSON.

A guarantee says what it covers, its unit (a record or a person), which data sets count as neighbours, and what it
leaves open. It is known before any record is seen. ``docs/guarantees.md`` holds the proof behind each class.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, ClassVar, Self, TypeVar

from eupg.errors import ParameterError
from eupg.guarantees.wording import REQUESTS_APART, SEEDED, as_sentence
from eupg.strict import check_keys, checked, field_kinds, optional_fields

G = TypeVar("G", bound="Guarantee")
_NO_RELATION = (
    "No relation between erased and retained records is known; near-duplicates are counted, relatives are not."
)
_CHOSEN_UNSEEN = (
    "Schema, method and settings were chosen without looking at the records, but for what is listed as read from the "
    "data, or as not covered."
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
        parts += map(as_sentence, self.caveats)
        if self.seeded:
            parts.append(SEEDED)
        return " ".join(parts)

    @abstractmethod
    def strength(self, asked: Unit = Unit.RECORD) -> str:
        """Say how strong the claim is, in a few words and numbers, for the unit that the request asked for."""

    @abstractmethod
    def plain_words(self, asked: Unit = Unit.RECORD) -> str:
        """Say what now holds for the unit that the request asked for, to someone who never heard of the method."""

    def why_empty(self) -> str | None:
        """Say why the claim promises nothing and what to do instead; None where it promises something."""
        return None

    def assumptions(self, *, seeded: bool) -> tuple[str, ...]:
        """Return what the claim takes for granted.

        ``seeded`` tells whether any randomness of the run can be repeated.
        """
        first = (SEEDED,) if seeded else ()
        requests = (as_sentence(REQUESTS_APART),) if REQUESTS_APART in self.caveats else ()
        secret = () if seeded else self._secret()
        return (*first, _NO_RELATION, *requests, _CHOSEN_UNSEEN, *secret, *self._assumed())

    def _secret(self) -> tuple[str, ...]:
        """Say which random numbers have to stay secret; nothing for a claim that rests on none."""
        return ()

    def _assumed(self) -> tuple[str, ...]:
        """Say what this notion alone takes for granted."""
        return ()

    def _measured(self) -> list[str]:
        """Say what was measured when the release was made and bears on the claim; nothing for most notions."""
        return []

    def to_json(self) -> dict[str, Any]:
        """Return plain values that :func:`eupg.guarantees.guarantee_from_json` reads back."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {"notion": self.notion} | {
            k: list(v) if isinstance(v, tuple) else str(v) if isinstance(v, StrEnum) else v for k, v in values.items()
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any], *, where: str = "claim") -> Self:
        """Read a guarantee of this notion; a field that is missing, unknown or malformed is refused with its place."""
        kinds = cls._json_kinds()
        check_keys(values, {"notion", *kinds}, where, optional=optional_fields(cls))
        if values["notion"] != cls.notion:
            raise ParameterError(f"{where}.notion: expected {cls.notion!r}, found {values['notion']!r}")
        read = {name: checked(values[name], kind, f"{where}.{name}") for name, kind in kinds.items() if name in values}
        try:
            return cls(**cls._arguments(read))
        except ParameterError as error:
            raise ParameterError(f"{where}: {error}") from error

    @classmethod
    def _json_kinds(cls) -> dict[str, Any]:
        """Return the type that each field has in JSON."""
        return field_kinds(cls)

    @classmethod
    def _arguments(cls, read: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of the class from the values that were read."""
        return read


def both(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """Return what either of two lists holds, each once."""
    return tuple(dict.fromkeys((*first, *second)))


def assuming(claim: G, sentence: str, *, needed: bool) -> G:
    """Return the claim with this sentence among its caveats where it is needed, and without it where it is not."""
    others = tuple(c for c in claim.caveats if c != sentence)
    return replace(claim, caveats=(*others, sentence) if needed else others)


def check_budget(epsilon: float, delta: float) -> None:
    """Refuse numbers that are not an (ε, δ)."""
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise ParameterError(f"epsilon must be a finite number of at least 0, got {epsilon!r}")
    if not 0 <= delta <= 1:
        raise ParameterError(f"delta must lie between 0 and 1, got {delta!r}")


def check_records(records: int) -> None:
    """Refuse a person without records."""
    if records < 1:
        raise ParameterError(f"a person has at least one record, got {records}")


def empty_budget(delta: float) -> str | None:
    """Say why a budget promises nothing; None where it promises something."""
    return "δ=1 says nothing: lower δ, or retrain without the records" if delta == 1 else None
