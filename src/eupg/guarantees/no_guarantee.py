"""The absence of a claim, with its reason."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from eupg.guarantees.guarantee import Guarantee, Unit, check_records


@dataclass(frozen=True, kw_only=True)
class NoGuarantee(Guarantee):
    """Nothing is claimed; ``why`` gives the reason."""

    notion: ClassVar[str] = "none"
    why: str = "the records were used as they are"

    def _at_least(self, other: NoGuarantee) -> bool:
        return True

    def for_person(self, records: int) -> Guarantee:
        """Return this claim: there is nothing to weaken."""
        check_records(records)
        return self

    def compose(self, other: Guarantee) -> Guarantee:
        """Return this claim: another release adds nothing to it."""
        return replace(self, seeded=self.seeded or other.seeded)

    def _core(self) -> str:
        return f"No guarantee: {self.why}."

    def strength(self, asked: Unit = Unit.RECORD) -> str:
        """Say that there is none."""
        return "no guarantee"

    def plain_words(self, asked: Unit = Unit.RECORD) -> str:
        """Say that nothing is claimed, and why."""
        return f"Nothing is claimed about the erased records: {self.why}."

    def why_empty(self) -> str:
        """Say that there is nothing to certify."""
        return (
            f"nothing is claimed ({self.why}), so nothing can be certified: train with a mechanism that protects, or "
            "retrain without the records"
        )
