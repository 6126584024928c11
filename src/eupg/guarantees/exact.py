"""The strongest claim: the model is one that could have been trained without the records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from eupg.guarantees.guarantee import Guarantee, Unit, both, check_records


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
