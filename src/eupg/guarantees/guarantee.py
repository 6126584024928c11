"""What every guarantee has in common: coverage, caveats, comparison, words and JSON.

A guarantee names the attributes it covers, its unit (a record or a person), which data sets count as neighbours, and
what it leaves open. It is known before any record is seen. ``docs/guarantees.md`` holds the proof behind each class.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, ClassVar, Self, TypeVar

from eupg.errors import ParameterError
from eupg.guarantees.wording import REQUESTS_APART, SEEDED, as_sentence

G = TypeVar("G", bound="Guarantee")
_NO_RELATION = (
    "No relation between erased and retained records is known; near-duplicates were counted, relatives were not."
)
_CHOSEN_UNSEEN = (
    "The schema, method and settings were chosen without looking at the records, except where they are listed as read "
    "from the data or as not covered."
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
        The attributes that the claim covers.
    leaves_open
        Attributes that are released unchanged.
    caveats
        Sentences that narrow the claim, such as bounds that were read from the data.
    seeded
        True when the randomness can be repeated from a known seed: then nothing is private.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"strict": True, "extra": "forbid"}
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
        """Return the claim for some records of a person whose other released records are retained."""
        return self

    def narrowed(self, caveat: str) -> Self:
        """Return the same claim with one more caveat; one that it already has is not repeated."""
        # It comes first, where it is read: lists of what was read from the data can be long.
        return replace(self, caveats=both((caveat,), self.caveats))

    @abstractmethod
    def compose(self, other: Guarantee) -> Guarantee:
        """Return what holds when both releases of the same records are seen together."""

    def implies(self, other: Guarantee) -> bool:
        """Tell whether this claim includes the other: a partial order, False across notions."""
        return (
            type(self) is type(other)
            and self._at_least(other)
            and set(self.covers) >= set(other.covers)
            and set(self.caveats) <= set(other.caveats)
            and self.seeded <= other.seeded
        )

    @property
    def label(self) -> str:
        """The claim in a few words, for a column of a table or a point of a figure."""
        if not self.leaves_open:
            return self._short()
        names = self.leaves_open[0] if len(self.leaves_open) == 1 else f"{len(self.leaves_open)} attributes"
        return f"{self._short()}, {names} not covered"

    def sentence(self) -> str:
        """Return the claim in words, with everything that narrows it."""
        parts = [self._core()]
        if self.leaves_open:
            parts.append(f"Released unchanged, so not covered: {', '.join(self.leaves_open)}.")
        parts += self._measured()
        parts += map(as_sentence, self.caveats)
        if self.seeded:
            parts.append(SEEDED)
        return " ".join(parts)

    @abstractmethod
    def strength(self, asked: Unit = Unit.RECORD) -> str:
        """Return the strength of the claim in a few words and numbers, for the unit named in the request."""

    @abstractmethod
    def plain_words(self, asked: Unit = Unit.RECORD) -> str:
        """Say what now holds for the unit named in the request, to a reader who does not know the method."""

    def why_empty(self) -> str | None:
        """Say why the claim promises nothing and what to do instead; None where it promises something."""
        return None

    def assumptions(self, *, seeded: bool) -> tuple[str, ...]:
        """Return the assumptions of the claim; ``seeded`` tells whether any randomness of the run can be repeated."""
        first = (SEEDED,) if seeded else ()
        requests = (as_sentence(REQUESTS_APART),) if REQUESTS_APART in self.caveats else ()
        secret = () if seeded else self._secret()
        return (*first, _NO_RELATION, *requests, _CHOSEN_UNSEEN, *secret, *self._assumed())

    def to_json(self) -> dict[str, Any]:
        """Return plain values that :func:`eupg.guarantees.guarantee_from_json` reads back; None is left out."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {"notion": self.notion} | {
            name: list(value) if isinstance(value, tuple) else str(value) if isinstance(value, StrEnum) else value
            for name, value in values.items()
            if value is not None
        }

    @abstractmethod
    def _core(self) -> str:
        """State the claim itself."""

    def _short(self) -> str:
        return self.notion

    def _measured(self) -> list[str]:
        """Return measurements of the release that bear on the claim; none for most notions."""
        return []

    def _secret(self) -> tuple[str, ...]:
        """Say which random numbers have to stay secret; nothing for a claim that rests on none."""
        return ()

    def _assumed(self) -> tuple[str, ...]:
        """Return what only this notion assumes."""
        return ()


def both(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """Return the entries of two lists, each once."""
    return tuple(dict.fromkeys((*first, *second)))


def assuming(claim: G, sentence: str, *, needed: bool) -> G:
    """Return the claim with this sentence among its caveats where it is needed, and without it where it is not."""
    others = tuple(caveat for caveat in claim.caveats if caveat != sentence)
    return replace(claim, caveats=(*others, sentence) if needed else others)


def check_records(records: int) -> None:
    """Refuse a person without records."""
    if records < 1:
        raise ParameterError(f"a person has at least one record, got {records}")


@dataclass(frozen=True, kw_only=True)
class BudgetGuarantee(Guarantee):
    """A claim whose strength is a budget (ε, δ)."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon >= 0):
            raise ParameterError(f"epsilon must be a finite number of at least 0, got {self.epsilon!r}")
        if not 0 <= self.delta <= 1:
            raise ParameterError(f"delta must lie between 0 and 1, got {self.delta!r}")

    def why_empty(self) -> str | None:
        """Say that δ = 1 promises nothing."""
        return "δ=1 says nothing: lower δ, or retrain without the records" if self.delta == 1 else None

    def _add(self, other: Self) -> Self:
        """Return what holds for two releases: budgets add up, on the attributes that both cover."""
        return replace(
            self,
            epsilon=self.epsilon + other.epsilon,
            delta=min(1.0, self.delta + other.delta),
            covers=tuple(name for name in self.covers if name in other.covers),
            leaves_open=both(self.leaves_open, other.leaves_open),
            caveats=both(self.caveats, other.caveats),
            seeded=self.seeded or other.seeded,
        )

    def _spare(self) -> str:
        return f", apart from an added probability of {self.delta:g}" if self.delta else ""
