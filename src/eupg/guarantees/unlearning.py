"""(ε, δ)-unlearning: the weights are nearly those of a model that never knew the records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from eupg.guarantees.exact import Exact
from eupg.guarantees.guarantee import Guarantee, Unit, both, check_budget, check_records, empty_budget
from eupg.guarantees.no_guarantee import NoGuarantee
from eupg.guarantees.wording import factor, power, weakness


@dataclass(frozen=True, kw_only=True)
class CertifiedUnlearning(Guarantee):
    """(ε, δ)-unlearning: the new model could nearly as well have come from one trained without the forgotten records.

    A claim about the model's weights, not about data: it compares the same noisy steps on the same retained records,
    begun once with the model that knew the forgotten records and once with one that did not. It covers all that is
    forgotten at once, however many records.
    """

    notion: ClassVar[str] = "(ε, δ)-unlearning"
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)

    def _at_least(self, other: CertifiedUnlearning) -> bool:
        return self.epsilon <= other.epsilon and self.delta <= other.delta

    def for_person(self, records: int) -> CertifiedUnlearning:
        """Return this claim: it is about everything that was forgotten together."""
        check_records(records)
        return self

    def compose(self, other: Guarantee) -> Guarantee:
        """Return what holds when two such models are seen: budgets add up."""
        if not isinstance(other, CertifiedUnlearning):
            return (
                other.compose(self)
                if isinstance(other, Exact)
                else NoGuarantee(
                    why="the two models carry claims of different kinds", seeded=self.seeded or other.seeded
                )
            )
        return replace(
            self,
            epsilon=self.epsilon + other.epsilon,
            delta=min(1.0, self.delta + other.delta),
            covers=tuple(a for a in self.covers if a in other.covers),
            leaves_open=both(self.leaves_open, other.leaves_open),
            caveats=both(self.caveats, other.caveats),
            seeded=self.seeded or other.seeded,
        )

    def _core(self) -> str:
        times, spare = f"{power(self.epsilon, digits=4)} times", f"an added probability of {self.delta:g}"
        return (
            f"(ε, δ)-unlearning (ε={self.epsilon:.4g}, δ={self.delta:g}): for whoever sees the model's weights, no "
            f"outcome is more than {times} as likely, but for {spare}, as if the same noisy steps had begun with a "
            "model that was trained without the forgotten records; nor the other way round. It holds for everything "
            "that was forgotten, together."
        )

    def strength(self, asked: Unit = Unit.RECORD) -> str:
        """Name the budget, which holds for everything that was forgotten together."""
        return f"ε = {self.epsilon:.4g}, δ = {self.delta:g} for all that was forgotten together"

    def plain_words(self, asked: Unit = Unit.RECORD) -> str:
        """Say how near the model is to one that never knew the records."""
        return (
            "The model now in use was trained on, with noise, on the records that were kept. No outcome is more than "
            f"{factor(self.epsilon)} times as likely as if this had begun with a model that never knew the erased "
            f"records, but for an added probability of {self.delta:g}.{weakness(self.epsilon)}"
        )

    def why_empty(self) -> str | None:
        """Say that δ = 1 promises nothing."""
        return empty_budget(self.delta)

    def _secret(self) -> tuple[str, ...]:
        return ("The noise in training is secret: drawn from the system, stored nowhere.",)
