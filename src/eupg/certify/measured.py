"""What was measured for one request, each result beside what it does not show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from eupg.certify.parts import Part, Text
from eupg.errors import ParameterError
from eupg.guarantees.wording import percent


class Kind(StrEnum):
    """What a measurement is about."""

    MEMBERSHIP = "membership attack"
    LINKAGE = "linkage attack"
    EFFECTIVE_K = "effective k"
    CONSTANT_COLUMNS = "constant columns"
    SHARED_VALUES = "shared values"
    NEAR_DUPLICATES = "near-duplicates"
    EXPOSURE = "exposure"
    OTHER = "other"


_DOES_NOT_SHOW = {
    Kind.MEMBERSHIP: "A stronger attack may find more, and one record be more exposed than the average.",
    Kind.LINKAGE: "A bound that was not broken by this attack is not proved by it.",
    Kind.EFFECTIVE_K: "Whether anyone does know all retained records.",
    Kind.CONSTANT_COLUMNS: "What the values that groups share give away about the people in them.",
    Kind.SHARED_VALUES: "Whose groups these are, and what values that are mostly the same in a group give away.",
    Kind.NEAR_DUPLICATES: "Other dependencies, such as relatives in the data.",
    Kind.EXPOSURE: "What an attack that was not tried would find.",
    Kind.OTHER: "Anything beyond the numbers given.",
}
# One value for each record has no place in a certificate: it would be about the people who are still in the data.
_PERSONAL = frozenset(("distances", "ids", "mask", "scores", "subjects"))
_SHOWN_COLUMNS = 3
_CONSTANT_FROM = 0.05


@dataclass(frozen=True, kw_only=True)
class Measurement(Part):
    """One result of a measurement, with its limits.

    Parameters
    ----------
    kind
        What it is about.
    result
        The finding in one short line.
    sentence
        The finding in full.
    numbers
        The numbers behind it, as the report's ``to_json()`` gives them; no value of single records.
    does_not_show
        What a reader might think it shows.
    """

    kind: Kind
    result: Text
    sentence: Text
    numbers: Mapping[str, Any]
    does_not_show: Text

    def __post_init__(self) -> None:
        super().__post_init__()
        personal = sorted(_PERSONAL.intersection(_keys(self.numbers)))
        if personal:
            raise ParameterError(
                f"Measurement.numbers: expected numbers about all records together, found {', '.join(personal)}: "
                "pass the report's to_json(), which leaves them out"
            )

    @classmethod
    def of(cls, kind: Kind, result: str, sentence: str, numbers: Mapping[str, Any]) -> Measurement:
        """Take over any finding, with the usual limits of its kind."""
        return cls(kind=kind, result=result, sentence=sentence, numbers=numbers, does_not_show=_DOES_NOT_SHOW[kind])

    @classmethod
    def missing(cls, kind: Kind, reason: str) -> Measurement:
        """Say that something was not measured, and why: a gap that is named is better than none that is seen."""
        worst = " Take the effective k to be 1." if kind is Kind.EFFECTIVE_K else ""
        said = f"Not measured: {reason.rstrip('.')}.{worst}"
        return cls.of(kind, said, said, {})

    @classmethod
    def audit(cls, report: Mapping[str, Any], sentence: str) -> Measurement:
        """Take over ``AuditReport.to_json()`` and its sentence; its figures are about all members together."""
        beside = report.get("baseline")
        without = f"; {beside['model']}: {beside['auc']:.1f} %" if beside else ""
        result = (
            f"{report['attack']}: AUC {report['auc']:.1f} % ({report['low']:.1f} to {report['high']:.1f}; "
            f"50 is chance{without}), of the batch of {report['members']:,} records against {report['nonmembers']:,}"
        )
        told = f"Of the batch of {report['members']:,} records forgotten together, not of one person: {sentence}"
        return cls.of(Kind.MEMBERSHIP, result, told, report)

    @classmethod
    def effective_k(cls, minimum: int, median: float, alone: float, *, k: int, sentence: str) -> Measurement:
        """Say among how many one request's records hide from someone who knows every retained record."""
        result = f"minimum {minimum}, median {median:g}; {alone:.0%} of these erased records stand alone (k = {k})"
        numbers = {"k": k, "minimum": minimum, "median": median, "alone": alone}
        return cls.of(Kind.EFFECTIVE_K, result, f"{sentence[0].upper()}{sentence[1:].rstrip('.')}.", numbers)

    @classmethod
    def constant_columns(cls, shares: Mapping[str, float]) -> Measurement:
        """Name the attributes that have one value only in many groups: there a permutation does nothing."""
        worst = sorted(((n, s) for n, s in shares.items() if s >= _CONSTANT_FROM), key=lambda item: -item[1])
        named = [f"{name} in {share:.0%}" for name, share in worst]
        more = f"; {len(named) - _SHOWN_COLUMNS} more columns" if len(named) > _SHOWN_COLUMNS else ""
        where = " of the release's groups"
        result = ", ".join(named[:_SHOWN_COLUMNS]) + where + more if named else f"none in 5 %{where} or more"
        sentence = "Where a group holds one value only, a permutation hides nothing: "
        sentence += f"{', '.join(named)} of the groups." if named else "no attribute in 5 % of the groups or more."
        return cls.of(Kind.CONSTANT_COLUMNS, result, sentence, dict(shares))

    @classmethod
    def shared_values(cls, shares: Mapping[str, float]) -> Measurement:
        """Say for each attribute that is left open how many records are in a group that has one value of it only."""
        worst = sorted(shares.items(), key=lambda item: -item[1])
        named = [f"{name} {percent(share)}" for name, share in worst]
        more = f"; {len(named) - _SHOWN_COLUMNS} more columns" if len(named) > _SHOWN_COLUMNS else ""
        where = "of all released records, those in a group with one value only: "
        result = where + ", ".join(named[:_SHOWN_COLUMNS]) + more if named else "nothing was released unchanged"
        sentence = "No attribute was released unchanged."
        if named:
            sentence = (
                "Share of all released records, not of this person's group, that are in a group with one value only: "
                f"{', '.join(named)}. Whoever learns the group of such a record learns the value, whatever k is."
            )
        return cls.of(Kind.SHARED_VALUES, result, sentence, dict(shares))

    @classmethod
    def near_duplicates(cls, report: Mapping[str, Any], sentence: str, *, batch: bool = False) -> Measurement:
        """Take over ``DuplicateReport.to_json()`` and its sentence: about one request, or about a whole batch."""
        identical, near = report["same_label"] + report["other_label"], report["near"]
        among = f"among the {report['retained']:,} retained"
        if report["forgotten"] == 1:
            twin = "an identical twin" if identical else "a near twin" if near else "no identical or near twin"
            result = f"the erased record has {twin} {among}"
        else:
            whose = "of the batch " if batch else ""
            have = "has" if identical == 1 else "have"
            result = (
                f"{identical:,} {whose}of {report['forgotten']:,} erased records {have} an identical twin {among}, "
                f"{near:,} a near one"
            )
        if batch:
            sentence = (
                f"Of the batch of {report['forgotten']:,} records forgotten together, not of one person: {sentence}"
            )
        return cls.of(Kind.NEAR_DUPLICATES, result, sentence, report)


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            yield from _keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner)
