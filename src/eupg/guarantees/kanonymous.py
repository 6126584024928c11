"""Probabilistic k-anonymity: a bound on linking a record to its released row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from eupg.errors import ParameterError
from eupg.guarantees.exact import Exact
from eupg.guarantees.guarantee import Guarantee, Unit, check_records
from eupg.guarantees.no_guarantee import NoGuarantee
from eupg.guarantees.wording import attributes, percent


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

    @classmethod
    def _json_kinds(cls) -> dict[str, Any]:
        return super()._json_kinds() | {"shared": Mapping[str, float] | None}

    @classmethod
    def _arguments(cls, read: dict[str, Any]) -> dict[str, Any]:
        shared = read.get("shared")
        return read | {"shared": None if shared is None else tuple(shared.items())}

    def _core(self) -> str:
        whose = "a forgotten record" if self.records == 1 else f"any of a forgotten person's {self.records} records"
        chance = f"{self.records}/{self.k}" if self.bound < 1 else "1, so nothing is claimed"
        return (
            f"Probabilistic k-anonymity (k={self.k}): whoever sees the model links {whose} to its released row, by "
            f"{attributes(self.covers)}, with probability at most {chance}. It bounds linking, not membership and "
            "not what group-mates share, and assumes an adversary who knows neither a group-mate's record, nor what is "
            "kept as it is, nor how the two go together."
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

    def why_empty(self) -> str | None:
        """Say that a bound of 1 promises nothing."""
        if self.bound < 1:
            return None
        return (
            f"{self.records} records of one person under k={self.k} leave a bound of 1, which says nothing: "
            "train with a larger k, or retrain without the records"
        )

    def _secret(self) -> tuple[str, ...]:
        return ("The random numbers behind the protected copy are secret: drawn from the system, stored nowhere.",)

    def _assumed(self) -> tuple[str, ...]:
        return (
            "Permutations are uniform and independent, groups have at least k records and rows are shuffled; the "
            "adversary knows neither the group-mates' records nor what is kept as it is, nor how the two go together.",
        )
