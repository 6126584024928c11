"""Probabilistic k-anonymity: a bound on linking a record to its released row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from eupg.errors import ParameterError
from eupg.guarantees.exact import Exact
from eupg.guarantees.guarantee import Guarantee, Unit, check_records
from eupg.guarantees.no_guarantee import NoGuarantee
from eupg.guarantees.wording import attributes, percent, secret_numbers


@dataclass(frozen=True, kw_only=True)
class KAnonymous(Guarantee):
    """Probabilistic k-anonymity: a record is linked to its released row with probability at most ``records``/``k``.

    Parameters
    ----------
    k
        Size of the smallest group.
    records
        Number of records of one person that the claim is about.
    shared
        For each attribute that is released unchanged, the share of all released records whose group has only one value
        of it: anyone who learns the group of such a record learns the value. Measured when the release is made, None
        before. It describes the whole release and is not part of the claim, so it is ignored when claims are compared.

    Examples
    --------
    >>> KAnonymous(k=30).for_person(3).bound
    0.1
    """

    notion: ClassVar[str] = "probabilistic k-anonymity"
    k: int
    records: int = 1
    shared: Mapping[str, float] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 2:
            raise ParameterError(f"k must be a whole number of at least 2, got {self.k!r}")
        check_records(self.records)

    @property
    def bound(self) -> float:
        """Largest probability of linking any one of the person's records to its row."""
        return min(1.0, self.records / self.k)

    def _at_least(self, other: KAnonymous) -> bool:
        # For more records than this claim is about, it is used several times over.
        times = -(-other.records // self.records)
        return times * self.records * other.k <= other.records * self.k or other.bound >= 1

    def for_person(self, records: int) -> KAnonymous:
        """Return the claim for someone with that many records: the probabilities add up, at most."""
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

    def _core(self) -> str:
        whose = "a forgotten record" if self.records == 1 else f"any of a forgotten person's {self.records} records"
        chance = f"{self.records}/{self.k}" if self.bound < 1 else "1, so nothing is claimed"
        return (
            f"Probabilistic k-anonymity (k={self.k}): anyone who sees the model can link {whose} to its released row, "
            f"by {attributes(self.covers)}, with probability at most {chance}. This bounds linking; it covers neither "
            "membership nor values that a whole group shares. It assumes an adversary who does not know the other "
            "records of the group, the attributes released unchanged, or how these relate to the covered ones."
        )

    def _short(self) -> str:
        words = f"linking ≤ {self.records}/{self.k}"
        if not self.shared:
            return words
        name, share = max(self.shared.items(), key=lambda item: item[1])
        return f"{words}, {name} shared in the group by {percent(share)}"

    def _measured(self) -> list[str]:
        if not self.shared:
            return []
        values = ", ".join(f"{name} {percent(share)}" for name, share in self.shared.items())
        return [
            "Measured: share of all released records whose group has only one value, which anyone who learns the "
            f"group learns too: {values}."
        ]

    def strength(self, asked: Unit = Unit.RECORD) -> str:
        """Name k and the bound for the erased records together."""
        return f"k = {self.k}, linked with probability at most {self.records}/{self.k}"

    def plain_words(self, asked: Unit = Unit.RECORD) -> str:
        """Say what was shuffled, and what probability remains."""
        whose = "the erased record" if self.records == 1 else f"any of the {self.records} erased records"
        return (
            "All that the model now in use knows of the erased records comes from a protected copy of the data, in "
            f"which values were shuffled among at least {self.k} similar records at a time. Under the assumptions "
            f"below, someone who sees the model can link {whose} to its row of that copy with a probability of at most "
            f"{self.records} in {self.k}."
        )

    def why_empty(self) -> str | None:
        """Say that a bound of 1 promises nothing."""
        if self.bound < 1:
            return None
        return (
            f"{self.records} records of one person under k={self.k} give a bound of 1, which says nothing: "
            "train with a larger k, or retrain without the records"
        )

    def _secret(self) -> tuple[str, ...]:
        return (secret_numbers("protected copy"),)

    def _assumed(self) -> tuple[str, ...]:
        return (
            "Permutations are uniform and independent, groups have at least k records, and rows are shuffled. The "
            "adversary does not know the other records of the group, the attributes released unchanged, or how these "
            "relate to the covered ones.",
        )
