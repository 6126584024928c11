"""What is claimed about a forgotten record or person, stated so that a machine can compare it and a person read it.

A guarantee says what it covers, its unit (a record or a person), which data sets count as neighbours, and what it
leaves open. It is known before any record is seen. ``docs/guarantees.md`` holds the proof behind each class.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
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
    # Whether the claim stands when exact statistics of the retained records become known beside the release.
    withstands_subtraction: ClassVar[bool] = True
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
        """Return plain values that :func:`guarantee_from_json` reads back."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {"notion": self.notion} | {
            k: list(v) if isinstance(v, tuple) else str(v) if isinstance(v, StrEnum) else v for k, v in values.items()
        }


@dataclass(frozen=True, kw_only=True)
class Exact(Guarantee):
    """The model is one that could have been trained without the record: nothing of it remains."""

    notion: ClassVar[str] = "exact"

    def implies(self, other: Guarantee) -> bool:
        """Tell that having no influence at all implies every claim with the same or more caveats."""
        return set(self.caveats) <= set(other.caveats)

    def _at_least(self, other: Exact) -> bool:
        return True

    def for_person(self, records: int) -> Guarantee:
        """Return this claim: no number of records leaves a trace."""
        _check_records(records)
        return self

    def compose(self, other: Guarantee) -> Guarantee:
        """Return the other claim with this one's caveats: this side reveals nothing else."""
        return replace(other, caveats=_both(self.caveats, other.caveats))

    def _core(self) -> str:
        return "Exact: the model was trained without the forgotten records, and nothing computed from them is left."


@dataclass(frozen=True, kw_only=True)
class NoGuarantee(Guarantee):
    """Nothing is claimed; ``why`` says the reason."""

    notion: ClassVar[str] = "none"
    why: str = "the records were used as they are"

    def _at_least(self, other: NoGuarantee) -> bool:
        return True

    def for_person(self, records: int) -> Guarantee:
        """Return this claim: there is nothing to weaken."""
        _check_records(records)
        return self

    def compose(self, other: Guarantee) -> Guarantee:
        """Return this claim: nothing cannot become more."""
        return replace(self, seeded=self.seeded or other.seeded)

    def _core(self) -> str:
        return f"No guarantee: {self.why}."


@dataclass(frozen=True, kw_only=True)
class KAnonymous(Guarantee):
    """Probabilistic k-anonymity: a record is linked to its released row with probability at most ``records``/``k``.

    Examples
    --------
    >>> KAnonymous(k=30).for_person(3).bound
    0.1
    """

    notion: ClassVar[str] = "probabilistic k-anonymity"
    withstands_subtraction: ClassVar[bool] = False
    k: int
    records: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 2:
            raise ParameterError(f"k must be a whole number of at least 2, got {self.k!r}")
        _check_records(self.records)

    @property
    def bound(self) -> float:
        """Largest probability of linking any one of the person's records to its row."""
        return min(1.0, self.records / self.k)

    def _at_least(self, other: KAnonymous) -> bool:
        # For more records than this claim speaks of, it is used several times over.
        times = -(-other.records // self.records)
        return times * self.records * other.k <= other.records * self.k or other.bound >= 1

    def for_person(self, records: int) -> KAnonymous:
        """Return the claim for someone with that many records: the chances add up, at most."""
        _check_records(records)
        return replace(self, records=self.records * records)

    def compose(self, other: Guarantee) -> Guarantee:
        """Return what holds for two releases: nothing in general, since their groups can be intersected."""
        if isinstance(other, Exact):
            return other.compose(self)
        return NoGuarantee(
            why="a k-anonymous release can be intersected with another release of the same records; no bound is known",
            seeded=self.seeded or other.seeded,
        )

    def _core(self) -> str:
        whose = "a forgotten record" if self.records == 1 else f"any of a forgotten person's {self.records} records"
        chance = f"{self.records}/{self.k}" if self.bound < 1 else "1, so nothing is claimed"
        return (
            f"Probabilistic k-anonymity (k={self.k}): whoever sees the model links {whose} to its released row, by "
            f"{len(self.covers)} attributes, with probability at most {chance}. It bounds linking, not membership and "
            "not what group-mates share, and assumes an adversary who knows neither a group-mate's record, nor what is "
            "kept as it is, nor how the two go together."
        )


@dataclass(frozen=True, kw_only=True)
class DifferentiallyPrivate(Guarantee):
    """(ε, δ)-differential privacy for one record or one person.

    Examples
    --------
    >>> DifferentiallyPrivate(epsilon=1.0).for_person(3).epsilon
    3.0
    """

    notion: ClassVar[str] = "differential privacy"
    epsilon: float
    delta: float = 0.0
    records: int = 1
    unit: Unit = Unit.RECORD
    neighbours: Neighbours = Neighbours.SUBSTITUTION

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon >= 0):
            raise ParameterError(f"epsilon must be a finite number of at least 0, got {self.epsilon!r}")
        if not 0 <= self.delta <= 1:
            raise ParameterError(f"delta must lie between 0 and 1, got {self.delta!r}")
        _check_records(self.records)

    def _at_least(self, other: DifferentiallyPrivate) -> bool:
        unit = self.unit is other.unit or self.unit is Unit.PERSON
        same = unit and self.neighbours is other.neighbours
        mine = self if self.unit is Unit.PERSON else self.for_person(-(-other.records // self.records))
        return same and mine.epsilon <= other.epsilon and mine.delta <= other.delta

    def for_person(self, records: int) -> DifferentiallyPrivate:
        """Return the claim for someone with that many records: r·ε and r·e^((r−1)ε)·δ."""
        _check_records(records)
        if self.unit is Unit.PERSON:
            return self
        # A delta past 1 claims nothing more, and exp() would overflow on the way there.
        growth = math.exp(min((records - 1) * self.epsilon, 700.0)) if self.delta else 0.0
        delta = min(1.0, records * growth * self.delta)
        return replace(self, epsilon=records * self.epsilon, delta=delta, records=records * self.records)

    def compose(self, other: Guarantee) -> Guarantee:
        """Return what holds for two releases: budgets add up, on the attributes both cover."""
        if not isinstance(other, DifferentiallyPrivate):
            return other.compose(self)
        if (self.unit, self.neighbours, self.records) != (other.unit, other.neighbours, other.records):
            return NoGuarantee(why="the two releases speak of different units", seeded=self.seeded or other.seeded)
        return replace(
            self,
            epsilon=self.epsilon + other.epsilon,
            delta=min(1.0, self.delta + other.delta),
            covers=tuple(a for a in self.covers if a in other.covers),
            leaves_open=_both(self.leaves_open, other.leaves_open),
            caveats=_both(self.caveats, other.caveats),
            seeded=self.seeded or other.seeded,
        )

    def _core(self) -> str:
        budget = f"ε={self.epsilon:g}" + (f", δ={self.delta:g}" if self.delta else "")
        whose = f"a forgotten {self.unit}'s values"
        if self.records > 1:
            whose = f"the values of a forgotten person's {self.records} records"
        spare = f", but for an added probability of {self.delta:g}" if self.delta else ""
        return (
            f"Differential privacy ({budget}): whatever {whose} on {len(self.covers)} attributes were, no outcome of "
            f"the release becomes more than e^{self.epsilon:g} ≈ {_grow(self.epsilon)} times as likely{spare} "
            f"(neighbours: {self.neighbours}; one unit is a {self.unit})."
        )


_NOTIONS: dict[str, type[Guarantee]] = {c.notion: c for c in (Exact, NoGuarantee, KAnonymous, DifferentiallyPrivate)}


def guarantee_from_json(values: Mapping[str, Any]) -> Guarantee:
    """Read a guarantee back from :meth:`Guarantee.to_json`."""
    data = dict(values)
    kind = _NOTIONS.get(data.pop("notion", ""))
    if kind is None:
        raise ParameterError(f"unknown notion in {values!r}: expected one of {sorted(_NOTIONS)}")
    for name, enum in (("unit", Unit), ("neighbours", Neighbours)):
        if name in data:
            data[name] = enum(data[name])
    arguments: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
    return kind(**arguments)


def _both(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def _check_records(records: int) -> None:
    if records < 1:
        raise ParameterError(f"a person has at least one record, got {records}")


def _grow(epsilon: float) -> str:
    return f"{math.exp(epsilon):.3g}" if epsilon < 700 else "infinitely many"
