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
        """Tell whether the other claim has the same caveats or more: having no influence implies every such claim."""
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
        """Say that nothing is left."""
        return "exact"

    def plain_words(self, asked: Unit = Unit.RECORD) -> str:
        """Say that the model contains nothing of the records."""
        limits = ", except for what limits the claim below" if self.caveats else ""
        return (
            "The model now in use is one that the same training could have produced if the erased records had never "
            f"been in the data{limits}. Nothing that was learnt from them is left in it."
        )
