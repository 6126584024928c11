"""(ε, δ)-unlearning: the weights are nearly those of a model that never knew the records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from eupg.guarantees.exact import Exact
from eupg.guarantees.guarantee import BudgetGuarantee, Guarantee, Unit, check_records
from eupg.guarantees.no_guarantee import NoGuarantee
from eupg.guarantees.wording import factor, power, weakness


@dataclass(frozen=True, kw_only=True)
class CertifiedUnlearning(BudgetGuarantee):
    """(ε, δ)-unlearning: the new model could nearly as well have come from one trained without the forgotten records.

    The claim is about the model's weights, not about data. It compares the same noisy steps on the same retained
    records, started once from the model that knew the forgotten records and once from one that did not. It covers
    everything that is forgotten at once, however many records.
    """

    notion: ClassVar[str] = "(ε, δ)-unlearning"

    def _at_least(self, other: CertifiedUnlearning) -> bool:
        return self.epsilon <= other.epsilon and self.delta <= other.delta

    def for_person(self, records: int) -> CertifiedUnlearning:
        """Return this claim: it covers everything that was forgotten together."""
        check_records(records)
        return self

    def compose(self, other: Guarantee) -> Guarantee:
        """Return what holds when two such models are seen: budgets add up."""
        if isinstance(other, CertifiedUnlearning):
            return self._add(other)
        if isinstance(other, Exact):
            return other.compose(self)
        return NoGuarantee(why="the two models carry claims of different kinds", seeded=self.seeded or other.seeded)

    def _core(self) -> str:
        return (
            f"(ε, δ)-unlearning (ε={self.epsilon:.4g}, δ={self.delta:g}): for anyone who sees the model's weights, no "
            f"outcome is more than {power(self.epsilon, digits=4)} times as likely{self._spare()}, as it would be if "
            "the same noisy steps had started from a model that was trained without the forgotten records, and vice "
            "versa. The claim holds for all forgotten records together."
        )

    def _short(self) -> str:
        return f"({self.epsilon:.3g}, {self.delta:g})-unlearning"

    def strength(self, asked: Unit = Unit.RECORD) -> str:
        """Name the budget, which holds for everything that was forgotten together."""
        return f"ε = {self.epsilon:.4g}, δ = {self.delta:g} for all forgotten records together"

    def plain_words(self, asked: Unit = Unit.RECORD) -> str:
        """Say how close the model is to one that never knew the records."""
        return (
            "The model now in use was trained further, with noise, on the retained records. No outcome is more than "
            f"{factor(self.epsilon)} times as likely as it would be if this had started from a model that never knew "
            f"the erased records{self._spare()}.{weakness(self.epsilon)}"
        )

    def _secret(self) -> tuple[str, ...]:
        return ("The noise in training is secret: it came from the operating system and was not stored.",)
