"""Measurements for one request, each result next to what it does not show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from eupg.certify.parts import CertificatePart, JsonObject, Text, strict_dataclass
from eupg.errors import ParameterError
from eupg.guarantees.wording import percent


class MeasurementKind(StrEnum):
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
    MeasurementKind.MEMBERSHIP: "What a stronger attack would find, or how exposed a single record is.",
    MeasurementKind.LINKAGE: "That the bound holds: another attack may break it.",
    MeasurementKind.EFFECTIVE_K: "Whether anyone actually knows all retained records.",
    MeasurementKind.CONSTANT_COLUMNS: "What the values shared by a group reveal about the people in it.",
    MeasurementKind.SHARED_VALUES: "Whose groups these are, or what values that are almost constant in a group reveal.",
    MeasurementKind.NEAR_DUPLICATES: "Other dependencies, such as relatives in the data.",
    MeasurementKind.EXPOSURE: "What an attack that was not tried would find.",
    MeasurementKind.OTHER: "Anything beyond the given numbers.",
}
# A value per record has no place in a certificate: it would be about the people who are still in the data.
_PERSONAL = frozenset(("distances", "ids", "mask", "scores", "subjects"))
_SHOWN_COLUMNS = 3
_CONSTANT_FROM = 0.05


@strict_dataclass
class Measurement(CertificatePart):
    """One result of a measurement, with its limits.

    Parameters
    ----------
    kind
        What it is about.
    result, sentence
        The finding in one short line, and in full.
    numbers
        The numbers behind it, as the report's ``to_json()`` returns them; no values of single records.
    does_not_show
        What a reader might wrongly conclude from it.
    """

    kind: MeasurementKind
    result: Text
    sentence: Text
    numbers: JsonObject
    does_not_show: Text

    def __post_init__(self) -> None:
        personal = sorted(_PERSONAL.intersection(_keys(self.numbers)))
        if personal:
            raise ParameterError(
                f".numbers: expected numbers about all records together, found {', '.join(personal)}: "
                "pass the report's to_json(), which leaves them out"
            )

    @classmethod
    def of(cls, kind: MeasurementKind, result: str, sentence: str, numbers: Mapping[str, Any]) -> Measurement:
        """Take over any finding, with the usual limits of its kind."""
        return cls(kind=kind, result=result, sentence=sentence, numbers=numbers, does_not_show=_DOES_NOT_SHOW[kind])

    @classmethod
    def missing(cls, kind: MeasurementKind, reason: str) -> Measurement:
        """Say that something was not measured, and why: a gap has to be visible."""
        worst = " Take the effective k to be 1." if kind is MeasurementKind.EFFECTIVE_K else ""
        sentence = f"Not measured: {reason.rstrip('.')}.{worst}"
        return cls.of(kind, sentence, sentence, {})

    @classmethod
    def audit(cls, report: Mapping[str, Any], sentence: str) -> Measurement:
        """Take over ``AuditReport.to_json()`` and its sentence; its figures are about all members together."""
        baseline = report.get("baseline")
        control = f"; {baseline['model']}: {baseline['auc']:.1f} %" if baseline else ""
        result = (
            f"{report['attack']}: AUC {report['auc']:.1f} % ({report['low']:.1f} to {report['high']:.1f}; "
            f"50 is chance{control}), for the batch of {report['members']:,} records against {report['nonmembers']:,}"
        )
        return cls.of(MeasurementKind.MEMBERSHIP, result, _of_batch(report["members"], sentence), report)

    @classmethod
    def effective_k(cls, minimum: int, median: float, alone: float, *, k: int, sentence: str) -> Measurement:
        """Say among how many records those of one request hide from someone who knows every retained record."""
        result = f"minimum {minimum}, median {median:g}; {alone:.0%} of these erased records stand alone (k = {k})"
        numbers = {"k": k, "minimum": minimum, "median": median, "alone": alone}
        return cls.of(MeasurementKind.EFFECTIVE_K, result, f"{sentence[0].upper()}{sentence[1:].rstrip('.')}.", numbers)

    @classmethod
    def constant_columns(cls, shares: Mapping[str, float]) -> Measurement:
        """Name the attributes with only one value in many groups: there a permutation does nothing."""
        columns = [f"{name} in {share:.0%}" for name, share in _largest_first(shares) if share >= _CONSTANT_FROM]
        where = "of the release's groups"
        result = _first(columns, where) if columns else f"none in 5 % {where} or more"
        named = f"{', '.join(columns)} of the groups" if columns else "no attribute in 5 % of the groups or more"
        sentence = f"Where a group has only one value, a permutation hides nothing: {named}."
        return cls.of(MeasurementKind.CONSTANT_COLUMNS, result, sentence, dict(shares))

    @classmethod
    def shared_values(cls, shares: Mapping[str, float]) -> Measurement:
        """Give, per attribute that is released unchanged, the share of records whose group has only one value of it."""
        columns = [f"{name} {percent(share)}" for name, share in _largest_first(shares)]
        result, sentence = "nothing was released unchanged", "No attribute was released unchanged."
        if columns:
            result = f"share of all released records in a group with only one value: {_first(columns)}"
            sentence = (
                "Share of all released records, not of this person's group, that are in a group with only one value: "
                f"{', '.join(columns)}. Anyone who learns the group of such a record learns the value, whatever k is."
            )
        return cls.of(MeasurementKind.SHARED_VALUES, result, sentence, dict(shares))

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
        sentence = _of_batch(report["forgotten"], sentence) if batch else sentence
        return cls.of(MeasurementKind.NEAR_DUPLICATES, result, sentence, report)


def _of_batch(records: int, sentence: str) -> str:
    return f"For the batch of {records:,} records forgotten together, not for one person: {sentence}"


def _largest_first(shares: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(shares.items(), key=lambda item: -item[1])


def _first(columns: list[str], where: str = "") -> str:
    """Name the first few columns and count the others."""
    more = f"; {len(columns) - _SHOWN_COLUMNS} more columns" if len(columns) > _SHOWN_COLUMNS else ""
    return f"{', '.join(columns[:_SHOWN_COLUMNS])} {where}".rstrip() + more


def _keys(value: Any) -> Iterator[str]:
    for inner in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _keys(inner)
    if isinstance(value, Mapping):
        yield from value
