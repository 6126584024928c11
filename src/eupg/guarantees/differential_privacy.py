"""(ε, δ)-differential privacy of a release, or of a base model, for a record or a person."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from eupg.guarantees.guarantee import BudgetGuarantee, Guarantee, Neighbours, Unit, check_records
from eupg.guarantees.no_guarantee import NoGuarantee
from eupg.guarantees.wording import attributes, factor, power, secret_numbers, weakness


@dataclass(frozen=True, kw_only=True)
class DifferentiallyPrivate(BudgetGuarantee):
    """(ε, δ)-differential privacy for one record or one person.

    Examples
    --------
    >>> DifferentiallyPrivate(epsilon=1.0).for_person(3).epsilon
    3.0
    """

    notion: ClassVar[str] = "differential privacy"
    delta: float = 0.0
    records: int = 1
    unit: Unit = Unit.RECORD
    neighbours: Neighbours = Neighbours.SUBSTITUTION

    def __post_init__(self) -> None:
        super().__post_init__()
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
        """Return the claim for some records of a person who stays: all are removed, and the others added back."""
        if self.unit is not Unit.PERSON or self.neighbours is not Neighbours.ADD_OR_REMOVE:
            return self
        delta = min(1.0, (1 + math.exp(min(self.epsilon, 700.0))) * self.delta)
        return replace(self, epsilon=2 * self.epsilon, delta=delta, neighbours=Neighbours.ALTERED)

    def compose(self, other: Guarantee) -> Guarantee:
        """Return what holds for two releases: budgets add up, on the attributes that both cover."""
        if not isinstance(other, DifferentiallyPrivate):
            return other.compose(self)
        if (self.unit, self.neighbours, self.records) != (other.unit, other.neighbours, other.records):
            return NoGuarantee(why="the two claims are about different units", seeded=self.seeded or other.seeded)
        return self._add(other)

    @property
    def covers_presence(self) -> bool:
        """Whether the claim compares with a table in which the erased records never were."""
        return self.neighbours is not Neighbours.SUBSTITUTION

    def _core(self) -> str:
        budget = f"ε={self.epsilon:g}" + (f", δ={self.delta:g}" if self.delta else "")
        return (
            f"Differential privacy ({budget}): {self._compared()}, no outcome of the protected computation becomes "
            f"more than {power(self.epsilon)} times as likely{self._spare()} (neighbours: {self.neighbours}; one "
            f"unit is a {self.unit})."
        )

    def _compared(self) -> str:
        several, on = self.records > 1, f"on {attributes(self.covers)}"
        if self.neighbours is Neighbours.ADD_OR_REMOVE:
            who = f"{self.records} records of a forgotten person were" if several else f"a {self.unit} was"
            return f"whether or not {who} in the data, whatever the values {on}"
        if self.neighbours is Neighbours.ALTERED:
            who = f"the forgotten records of a {self.unit} who stays were"
            return f"whether or not {who} in the data, whatever the values {on}"
        whose = f"person's {self.records} records" if several else self.unit
        return f"whatever the values of a forgotten {whose} {on}"

    def _short(self) -> str:
        return f"ε={self.epsilon:g}" + (f", δ={self.delta:g}" if self.delta else "") + f" per {self.unit}"

    def strength(self, asked: Unit = Unit.RECORD) -> str:
        """Name ε, and whether it is that of a person or of the erased records."""
        spare = f", δ = {self.delta:g}" if self.delta else ""
        whose = "1 record" if self.records == 1 else f"{self.records} records together"
        if self.unit is Unit.PERSON:
            part = self.neighbours is Neighbours.ALTERED
            whose = "the erased records of a person who keeps others" if part else "any number of records"
        return f"{self._level(asked)}-level ε = {self.epsilon:g}{spare} ({whose})"

    def plain_words(self, asked: Unit = Unit.RECORD) -> str:
        """Say what was hidden by noise, and how much can still be learnt."""
        times = f"more than {factor(self.epsilon)} times as likely"
        end = f"{self._spare()} (ε = {self.epsilon:g} {self._whose(asked)}).{weakness(self.epsilon)}"
        if self.covers_presence:
            return (
                "All that the model now in use knows of the erased records was learnt under differential privacy: "
                f"noise was added to everything that was taken from the records. No outcome of this is {times}, or as "
                f"unlikely, as it would be if the erased records had never been in the data{end}"
            )
        return (
            "All that the model now in use knows of the erased records comes from a protected copy of the data, in "
            "which every covered value was drawn anew at random. Whatever the erased values were, they made no content "
            f"of that copy {times}{end}"
        )

    def _level(self, asked: Unit) -> Unit:
        """Tell whose ε it is: a person's claim is about records only where the person keeps others."""
        if self.unit is not Unit.PERSON:
            return asked
        return Unit.RECORD if self.neighbours is Neighbours.ALTERED else Unit.PERSON

    def _whose(self, asked: Unit) -> str:
        if self._level(asked) is Unit.PERSON:
            return "for this person"
        if self.unit is Unit.PERSON:
            return "for the erased records"
        return "for the erased record" if self.records == 1 else f"for {self.records} erased records together"

    def _secret(self) -> tuple[str, ...]:
        return (secret_numbers("base model" if self.covers_presence else "protected copy"),)

    def _assumed(self) -> tuple[str, ...]:
        unchanged = f", and so is every value of {', '.join(self.leaves_open)}" if self.leaves_open else ""
        number = "The number of records is public and exact"
        if self.covers_presence:
            number = "The claim is about the model; it does not cover the number of records, which is recorded exactly"
        return (f"{number}{unchanged}.",)
