"""The privacy budget of a workspace: what each release has spent, what all have spent together, and the limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from eupg.errors import PrivacyError
from eupg.guarantees import DifferentiallyPrivate, Guarantee, Involvement, claim_for_person
from eupg.manage.ledger.transaction import Snapshot
from eupg.validation import check_below_one, check_positive

LIMIT = "budget.limit"


@dataclass(frozen=True)
class Spent:
    """An amount of privacy budget: (ε, δ) for one person, or for one record where no column names the person."""

    epsilon: float
    delta: float

    @classmethod
    def of(cls, claims: Sequence[Guarantee]) -> Spent | None:
        """Return what releases spend together on someone who is in all of them; None without differential privacy."""
        claim = claim_for_person(Involvement(released=(1,) * len(claims)), claims)
        return cls(claim.epsilon, claim.delta) if isinstance(claim, DifferentiallyPrivate) else None

    def __str__(self) -> str:
        return f"ε = {self.epsilon:.6g}" + (f", δ = {self.delta:.3g}" if self.delta else "")

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


@dataclass(frozen=True)
class WorkspaceBudget:
    """What the releases of a workspace have spent.

    Parameters
    ----------
    releases
        What each release spent, the first one first; None for releases without differential privacy.
    total
        What all of them spent together on someone who is in each; None if one is without differential privacy.
    limit
        What the total may not exceed, if a limit is set.
    """

    releases: tuple[Spent | None, ...]
    total: Spent | None
    limit: Spent | None = None

    @classmethod
    def of(cls, claims: Sequence[Guarantee], snapshot: Snapshot) -> WorkspaceBudget:
        """Return the budget of releases with these claims, and the limit that the ledger holds."""
        return cls(tuple(Spent.of([claim]) for claim in claims), Spent.of(claims), limit_in(snapshot))

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def limit_in(snapshot: Snapshot) -> Spent | None:
    """Return the newest limit in a ledger."""
    entry = snapshot.last(LIMIT)
    if entry is None:
        return None
    amounts: Any = entry.body
    return Spent(float(amounts["epsilon"]), float(amounts["delta"]))


def new_limit(epsilon: float, delta: float) -> Spent:
    """Return a limit, if the numbers make sense."""
    check_positive("epsilon", epsilon)
    check_below_one("delta", delta)
    return Spent(float(epsilon), float(delta))


def check_limit(claims: Sequence[Guarantee], limit: Spent | None) -> None:
    """Refuse a release after which the total would exceed the limit."""
    if limit is None:
        return
    total = Spent.of(claims)
    if total is None:
        raise PrivacyError(
            f"the limit is {limit}, and the next release would not be differentially private: remove the limit, or "
            "use a mechanism with a budget"
        )
    # Sums of budgets are exact up to a few rounding errors; a limit of 3 allows three releases of 1.
    if total.epsilon > limit.epsilon * (1 + 1e-9) or total.delta > limit.delta * (1 + 1e-9):
        raise PrivacyError(
            f"with one more release the total would be {total}, beyond the limit of {limit}: people added since the "
            "last release can be served without one (eupg add), or raise the limit"
        )
