"""What a certificate claims: the guarantee as data, with the words a person reads.

The guarantee comes as ``Guarantee.to_json()`` writes it, so that reading a certificate needs none of the code that
protects or trains. A guarantee that says nothing is refused: a signed page would make it look like something.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self, cast

from eupg.certify.parts import Part, Text
from eupg.errors import CertificateRefused, ParameterError

SEEDED = "Reproducible run, not private: whoever knows the seed can undo the protection."
# From here on the factor e^ε is no longer a promise anyone would lean on.
_WEAK_EPSILON = math.log(100)
# What a guarantee calls its neighbours where even the presence of a unit, or of some of its records, is hidden.
_PART = "one unit's records replaced by any others, more or fewer"
_PRESENCE = ("one unit added or removed", _PART)


class Unit(StrEnum):
    """Whose data is spoken of: one record, or all records of a person."""

    RECORD = "record"
    PERSON = "person"


@dataclass(frozen=True, kw_only=True)
class Claim(Part):
    """The guarantee as data; one subclass for each notion that can be certified."""

    notion: str
    covers: tuple[str, ...]
    leaves_open: tuple[str, ...]
    caveats: tuple[str, ...]
    seeded: bool

    @classmethod
    def from_json(cls, values: Mapping[str, Any], *, where: str = "") -> Self:
        """Read the claim of whatever notion the values name."""
        where = where or "claim"
        notion = values.get("notion") if isinstance(values, Mapping) else None
        if notion == "none":
            raise CertificateRefused(
                f"{where}: nothing is claimed ({values.get('why')}), so nothing can be certified: train with a "
                "mechanism that protects, or retrain without the records"
            )
        kind = _NOTIONS.get(str(notion))
        if kind is None:
            raise ParameterError(f"{where}: expected the notion {', '.join(_NOTIONS)}; found {notion!r}")
        return cast(Self, super(Claim, kind).from_json(values, where=where))

    def strength(self, asked: Unit = Unit.RECORD) -> str:
        """Say how strong the claim is, in a few words and numbers, for whom the request asked for."""
        raise NotImplementedError

    def plain_words(self, asked: Unit = Unit.RECORD) -> str:
        """Say what now holds for whom the request asked for, to someone who never heard of the method."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class ExactClaim(Claim):
    """The model is one that could have been trained without the records."""

    def strength(self, asked: Unit = Unit.RECORD) -> str:
        """Say that nothing is left over."""
        return "exact"

    def plain_words(self, asked: Unit = Unit.RECORD) -> str:
        """Say that the model owes the records nothing."""
        but = ", but for what narrows the claim below" if self.caveats else ""
        return (
            "The model now in use was trained without the erased records, and nothing in it was computed from "
            f"them{but}. It is a model that could have come about had they never been there."
        )


@dataclass(frozen=True, kw_only=True)
class LinkingClaim(Claim):
    """Probabilistic k-anonymity: a bound on linking a record to its released row.

    ``shared`` is the share of all released records whose group has one value only, for each attribute left open.
    """

    k: int
    records: int
    shared: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k < 2 or self.records < 1:
            raise ParameterError(f"claim: expected k ≥ 2 and records ≥ 1, found k={self.k}, records={self.records}")
        if self.records >= self.k:
            raise CertificateRefused(
                f"claim: {self.records} records of one person under k={self.k} leave a bound of 1, which says nothing: "
                "train with a larger k, or retrain without the records"
            )

    def strength(self, asked: Unit = Unit.RECORD) -> str:
        """Name k and the bound for the erased records together."""
        return f"k = {self.k}, linked with probability at most {self.records}/{self.k}"

    def plain_words(self, asked: Unit = Unit.RECORD) -> str:
        """Say what was mixed, and what chance remains."""
        whose = "the erased record" if self.records == 1 else f"any of the {self.records} erased records"
        return (
            "The model now in use starts again from one that only ever saw a protected copy of the data, in which the "
            f"values of at least {self.k} similar records at a time were mixed. Under the assumptions below, "
            f"someone who sees the model links {whose} to its row of that copy with a chance of at most "
            f"{self.records} in {self.k}."
        )


@dataclass(frozen=True, kw_only=True)
class PrivateClaim(Claim):
    """(ε, δ)-differential privacy, for all of the erased records together."""

    epsilon: float
    delta: float
    records: int
    unit: Unit
    neighbours: Text

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_budget(self.epsilon, self.delta)
        if self.records < 1:
            raise ParameterError(f"claim: expected records ≥ 1, found {self.records}")

    @property
    def covers_presence(self) -> bool:
        """Whether the claim compares with a table in which the erased records never were."""
        return self.neighbours in _PRESENCE

    def strength(self, asked: Unit = Unit.RECORD) -> str:
        """Name ε, and whether it is that of a person or of the erased records."""
        spare = f", δ = {self.delta:g}" if self.delta else ""
        whose = "1 record" if self.records == 1 else f"{self.records} records together"
        level = asked
        if self.unit is Unit.PERSON:
            part = self.neighbours == _PART
            level = Unit.RECORD if part else Unit.PERSON
            whose = "the erased ones of a person who keeps others" if part else "however many records"
        return f"{level}-level ε = {self.epsilon:g}{spare} ({whose})"

    def _whose(self, asked: Unit) -> str:
        if self.strength(asked).startswith(Unit.PERSON):
            return "for this person"
        if self.unit is Unit.PERSON:
            return "for the erased records"
        return "for the erased record" if self.records == 1 else f"for {self.records} erased records together"

    def plain_words(self, asked: Unit = Unit.RECORD) -> str:
        """Say what was hidden by noise, and how much can still be learnt."""
        whose = self._whose(asked)
        spare = f", but for an added probability of {self.delta:g}" if self.delta else ""
        if self.covers_presence:
            return (
                "The model now in use starts again from one that was made under differential privacy: noise was added "
                "to everything that was taken from the records. Nothing which that model shows is more than "
                f"{_factor(self.epsilon)} times as likely, or as unlikely, as if the erased records had never been "
                f"there{spare} (ε = {self.epsilon:g} {whose}).{_weak(self.epsilon)}"
            )
        return (
            "The model now in use starts again from one that only ever saw a protected copy of the data, in which "
            "every covered value was drawn anew at random. Whatever the erased values were, nothing that copy shows "
            f"became more than {_factor(self.epsilon)} times as likely because of them{spare} "
            f"(ε = {self.epsilon:g} {whose}).{_weak(self.epsilon)}"
        )


@dataclass(frozen=True, kw_only=True)
class UnlearningClaim(Claim):
    """(ε, δ)-unlearning: the weights are nearly those of a model that never knew the records."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_budget(self.epsilon, self.delta)

    def strength(self, asked: Unit = Unit.RECORD) -> str:
        """Name the budget, which holds for everything that was forgotten together."""
        return f"ε = {self.epsilon:.4g}, δ = {self.delta:g} for all that was forgotten together"

    def plain_words(self, asked: Unit = Unit.RECORD) -> str:
        """Say how near the model is to one that never knew the records."""
        return (
            "The model now in use was trained on, with noise, on the records that were kept. No outcome is more than "
            f"{_factor(self.epsilon)} times as likely as if this had begun with a model that never knew the erased "
            f"records, but for an added probability of {self.delta:g}.{_weak(self.epsilon)}"
        )


_NOTIONS: dict[str, type[Claim]] = {
    "exact": ExactClaim,
    "probabilistic k-anonymity": LinkingClaim,
    "differential privacy": PrivateClaim,
    "(ε, δ)-unlearning": UnlearningClaim,
}


@dataclass(frozen=True, kw_only=True)
class Claimed(Part):
    """What is claimed for one request.

    Parameters
    ----------
    claim
        The guarantee for all of the person's records, as ``Trained.claim_for(records).to_json()`` gives it.
    sentence
        The same in words, as ``Guarantee.sentence()`` gives them.
    unit
        Whose presence the guarantee speaks of.
    neighbours
        Which two data sets it compares; None where it compares none, such as a bound on linking.
    never_seen_raw
        True when the model in use at the time of the request had never been fitted on these records directly.
    """

    claim: Claim
    sentence: Text
    unit: Unit
    neighbours: Text | None
    never_seen_raw: bool

    @classmethod
    def of(cls, claim: Mapping[str, Any], sentence: str, *, never_seen_raw: bool, seeded: bool = False) -> Claimed:
        """Take over a guarantee; a run that was seeded anywhere says so, whatever the guarantee says."""
        read = Claim.from_json(claim)
        if (seeded or read.seeded) and SEEDED not in sentence:
            sentence = f"{sentence} {SEEDED}"
        private = read if isinstance(read, PrivateClaim) else None
        return cls(
            claim=read,
            sentence=sentence,
            unit=private.unit if private else Unit.RECORD,
            neighbours=private.neighbours if private else None,
            never_seen_raw=never_seen_raw,
        )


def _check_budget(epsilon: float, delta: float) -> None:
    if epsilon < 0 or not 0 <= delta <= 1:
        raise ParameterError(f"claim: expected ε ≥ 0 and 0 ≤ δ ≤ 1, found ε={epsilon}, δ={delta}")
    if delta == 1:
        raise CertificateRefused("claim: δ=1 says nothing: lower δ, or retrain without the records")


def _factor(epsilon: float) -> str:
    return f"{math.exp(epsilon):.3g}" if epsilon < 700 else f"e^{epsilon:g}"


def _weak(epsilon: float) -> str:
    return " A factor this large promises little." if epsilon > _WEAK_EPSILON else ""
