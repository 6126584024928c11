"""What is claimed about a forgotten record or person, stated so that a machine can compare it and a person read it.

A guarantee says what it covers, its unit (a record or a person), which data sets count as neighbours, and what it
leaves open. It is known before any record is seen. ``docs/guarantees.md`` holds the proof behind each class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from eupg.errors import ParameterError
from eupg.protect.claim import (
    Guarantee,
    Neighbours,
    Unit,
    attributes,
    both,
    check_budget,
    check_records,
    grow,
    percent,
)

__all__ = [
    "CertifiedUnlearning",
    "DifferentiallyPrivate",
    "Exact",
    "Guarantee",
    "KAnonymous",
    "Neighbours",
    "NoGuarantee",
    "Unit",
    "guarantee_from_json",
]


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
        check_records(records)
        return self

    def compose(self, other: Guarantee) -> Guarantee:
        """Return the other claim with this one's caveats: this side reveals nothing else."""
        return replace(other, caveats=both(self.caveats, other.caveats))

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
        check_records(records)
        return self

    def compose(self, other: Guarantee) -> Guarantee:
        """Return this claim: nothing cannot become more."""
        return replace(self, seeded=self.seeded or other.seeded)

    def _core(self) -> str:
        return f"No guarantee: {self.why}."


@dataclass(frozen=True, kw_only=True)
class KAnonymous(Guarantee):
    """Probabilistic k-anonymity: a record is linked to its released row with probability at most ``records``/``k``.

    Parameters
    ----------
    k
        Smallest group.
    records
        How many records of one person the claim speaks of.
    shared
        For each attribute that is left open, the share of all released records whose group has one value of it only:
        whoever learns the group of such a record learns the value. Measured when the release is made, None before. It
        is a figure of the whole release and no part of the claim, so that it does not count when claims are compared.

    Examples
    --------
    >>> KAnonymous(k=30).for_person(3).bound
    0.1
    """

    notion: ClassVar[str] = "probabilistic k-anonymity"
    k: int
    records: int = 1
    shared: tuple[tuple[str, float], ...] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 2:
            raise ParameterError(f"k must be a whole number of at least 2, got {self.k!r}")
        check_records(self.records)

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
        check_records(records)
        return replace(self, records=self.records * records)

    def compose(self, other: Guarantee) -> Guarantee:
        """Return what holds for two releases: nothing in general, since their groups can be intersected."""
        if isinstance(other, Exact):
            return other.compose(self)
        return NoGuarantee(
            why="a k-anonymous release can be intersected with another release of the same records; no bound is known",
            seeded=self.seeded or other.seeded,
        )

    def _measured(self) -> list[str]:
        if not self.shared:
            return []
        values = ", ".join(f"{name} {percent(share)}" for name, share in self.shared)
        return [
            "Measured on the whole release, the share of records whose group has one value only, which whoever learns "
            f"the group learns too: {values}."
        ]

    def to_json(self) -> dict[str, Any]:
        """Return plain values; what was not measured is left out."""
        plain = super().to_json()
        del plain["shared"]
        return plain if self.shared is None else plain | {"shared": dict(self.shared)}

    def _core(self) -> str:
        whose = "a forgotten record" if self.records == 1 else f"any of a forgotten person's {self.records} records"
        chance = f"{self.records}/{self.k}" if self.bound < 1 else "1, so nothing is claimed"
        return (
            f"Probabilistic k-anonymity (k={self.k}): whoever sees the model links {whose} to its released row, by "
            f"{attributes(self.covers)}, with probability at most {chance}. It bounds linking, not membership and "
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
        check_budget(self.epsilon, self.delta)
        check_records(self.records)

    def _at_least(self, other: DifferentiallyPrivate) -> bool:
        unit = self.unit is other.unit or self.unit is Unit.PERSON
        same = unit and self.neighbours is other.neighbours
        mine = self if self.unit is Unit.PERSON else self.for_person(-(-other.records // self.records))
        if self.unit is not other.unit:
            mine = mine.for_part()
        # The same δ reached in two ways may differ in its last digits.
        return same and mine.epsilon <= other.epsilon and mine.delta <= other.delta * (1 + 1e-12)

    def for_person(self, records: int) -> DifferentiallyPrivate:
        """Return the claim for someone with that many records: r·ε and r·e^((r−1)ε)·δ."""
        check_records(records)
        if self.unit is Unit.PERSON:
            return self
        # A delta past 1 claims nothing more, and exp() would overflow on the way there.
        growth = math.exp(min((records - 1) * self.epsilon, 700.0)) if self.delta else 0.0
        delta = min(1.0, records * growth * self.delta)
        return replace(self, epsilon=records * self.epsilon, delta=delta, records=records * self.records)

    def for_part(self) -> DifferentiallyPrivate:
        """Return the claim for records of a person who stays: taken out with all, and put back with the others."""
        if self.unit is not Unit.PERSON or self.neighbours is not Neighbours.ADD_OR_REMOVE:
            return self
        delta = min(1.0, (1 + math.exp(min(self.epsilon, 700.0))) * self.delta)
        return replace(self, epsilon=2 * self.epsilon, delta=delta, neighbours=Neighbours.ALTERED)

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
            leaves_open=both(self.leaves_open, other.leaves_open),
            caveats=both(self.caveats, other.caveats),
            seeded=self.seeded or other.seeded,
        )

    def _core(self) -> str:
        budget = f"ε={self.epsilon:g}" + (f", δ={self.delta:g}" if self.delta else "")
        spare = f", but for an added probability of {self.delta:g}" if self.delta else ""
        return (
            f"Differential privacy ({budget}): {self._compared()}, no outcome of the release becomes more than "
            f"e^{self.epsilon:g} ≈ {grow(self.epsilon)} times as likely{spare} (neighbours: {self.neighbours}; one "
            f"unit is a {self.unit})."
        )

    def _compared(self) -> str:
        on, several = f"on {attributes(self.covers)}", self.records > 1
        if self.neighbours is Neighbours.ADD_OR_REMOVE:
            who = f"{self.records} records of a forgotten person were" if several else f"a {self.unit} was"
            return f"whether {who} there or not, with whatever values {on}"
        if self.neighbours is Neighbours.ALTERED:
            return (
                f"whether the forgotten records of a {self.unit} who stays were there or not, with whatever values {on}"
            )
        whose = (
            f"the values of a forgotten person's {self.records} records"
            if several
            else f"a forgotten {self.unit}'s values"
        )
        return f"whatever {whose} {on} were"


@dataclass(frozen=True, kw_only=True)
class CertifiedUnlearning(Guarantee):
    """(ε, δ)-unlearning: the new model could nearly as well have come from one trained without the forgotten records.

    A claim about the model's weights, not about data: it compares the same noisy steps on the same retained records,
    begun once with the model that knew the forgotten records and once with one that did not. It covers all that is
    forgotten at once, however many records.
    """

    notion: ClassVar[str] = "(ε, δ)-unlearning"
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)

    def _at_least(self, other: CertifiedUnlearning) -> bool:
        return self.epsilon <= other.epsilon and self.delta <= other.delta

    def for_person(self, records: int) -> CertifiedUnlearning:
        """Return this claim: it is about everything that was forgotten together."""
        check_records(records)
        return self

    def compose(self, other: Guarantee) -> Guarantee:
        """Return what holds when two such models are seen: budgets add up."""
        if not isinstance(other, CertifiedUnlearning):
            return (
                other.compose(self)
                if isinstance(other, Exact)
                else NoGuarantee(
                    why="the two models carry claims of different kinds", seeded=self.seeded or other.seeded
                )
            )
        return replace(
            self,
            epsilon=self.epsilon + other.epsilon,
            delta=min(1.0, self.delta + other.delta),
            covers=tuple(a for a in self.covers if a in other.covers),
            leaves_open=both(self.leaves_open, other.leaves_open),
            caveats=both(self.caveats, other.caveats),
            seeded=self.seeded or other.seeded,
        )

    def _core(self) -> str:
        times, spare = f"e^{self.epsilon:.4g} ≈ {grow(self.epsilon)} times", f"an added probability of {self.delta:g}"
        return (
            f"(ε, δ)-unlearning (ε={self.epsilon:.4g}, δ={self.delta:g}): for whoever sees the model's weights, no "
            f"outcome is more than {times} as likely, but for {spare}, as if the same noisy steps had begun with a "
            "model that was trained without the forgotten records; nor the other way round. It holds for everything "
            "that was forgotten, together."
        )


_NOTIONS: dict[str, type[Guarantee]] = {
    c.notion: c for c in (Exact, NoGuarantee, KAnonymous, DifferentiallyPrivate, CertifiedUnlearning)
}


def guarantee_from_json(values: Mapping[str, Any]) -> Guarantee:
    """Read a guarantee back from :meth:`Guarantee.to_json`."""
    data = dict(values)
    kind = _NOTIONS.get(data.pop("notion", ""))
    if kind is None:
        raise ParameterError(f"unknown notion in {values!r}: expected one of {sorted(_NOTIONS)}")
    for name, enum in (("unit", Unit), ("neighbours", Neighbours)):
        if name in data:
            data[name] = enum(data[name])
    if isinstance(data.get("shared"), Mapping):
        data["shared"] = list(data["shared"].items())
    arguments: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
    return kind(**arguments)
