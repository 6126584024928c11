"""Advice from a frontier: which row to deploy, and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from eupg.guarantees import DifferentiallyPrivate, Exact, Guarantee
from eupg.plan.frontier import Frontier, Point

LOOKED = (
    "Method and settings were chosen by a plan that looked at the records, those of forgotten people among them; the "
    "claim does not cover what that choice reveals."
)

# Seconds of a whole year for which nobody would take a weaker claim.
_NEGLIGIBLE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a user demands of a row.

    Parameters
    ----------
    tolerance
        How many points of utility below full retraining are acceptable.
    notion
        The kind of claim that is required, such as :class:`~eupg.guarantees.DifferentiallyPrivate`; None for any.
    max_epsilon
        The largest ε. An exact claim meets it; k-anonymity, which bounds no ε, does not.
    max_seconds
        The most seconds that removing a person may take.
    """

    tolerance: float = 0.3
    notion: type[Guarantee] | None = None
    max_epsilon: float | None = None
    max_seconds: float | None = None

    def allow(self, point: Point) -> bool:
        """Tell whether a row meets every limit except that on utility."""
        claim = point.claim
        epsilon = 0.0 if isinstance(claim, Exact) else getattr(claim, "epsilon", math.inf)
        return (
            (self.notion is None or isinstance(claim, self.notion))
            and (self.max_epsilon is None or epsilon <= self.max_epsilon)
            and (self.max_seconds is None or not point.changes or point.erase_s <= self.max_seconds)
        )


@dataclass(frozen=True)
class Advice:
    """A recommendation.

    Parameters
    ----------
    point
        The recommended point; None if too little was measured, or nothing meets the limits.
    within
        Whether it is within the tolerance of full retraining.
    words
        The reasons for and against it.
    """

    point: Point | None
    within: bool
    words: str


def advise(frontier: Frontier, limits: Limits | None = None, *, requests_per_month: float = 10.0) -> Advice:
    """Recommend the row with the cheapest erasures among those that meet the limits and that no other row dominates.

    A row that claims more, and whose model changes no more often, is preferred if it costs less than a minute per year
    more.

    Parameters
    ----------
    frontier
        What was measured.
    limits
        What the user demands; by default at most 0.3 points below full retraining.
    requests_per_month
        How many people ask to be forgotten per month.
    """
    limits = limits or Limits()
    retrain = frontier.named("Retrain")
    if retrain is None or not frontier.points:
        words = ["No advice: full retraining, the yardstick, was not measured.", *_incomplete(frontier)]
        return Advice(None, False, " ".join(words))
    allowed = [p for p in frontier.points if limits.allow(p) and p.method is not None]
    if not allowed:
        words = ["No advice: no row meets your limits. Relax one of them.", *_incomplete(frontier)]
        return Advice(None, False, " ".join(words))
    good = [p for p in allowed if p.utility >= retrain.utility - limits.tolerance]
    best = [p for p in good or allowed if not any(other.dominates(p) for other in allowed)]
    chosen = min(best, key=lambda p: (p.expected_s, -p.utility)) if good else max(best, key=lambda p: p.utility)
    name = frontier.utility_name
    reason = (
        f"of the rows within {limits.tolerance:g} points of full retraining, none removes a person at a lower cost"
        if good
        else f"nothing that meets your limits comes within {limits.tolerance:g} points of full retraining, and this "
        "row comes closest"
    )
    stronger = _stronger(chosen, best, requests_per_month) if good else None
    if stronger is not None:
        reason = (
            f"it claims more than {chosen.name}, the cheapest of the rows within {limits.tolerance:g} points of full "
            "retraining, which would save less than a minute per year"
        )
        chosen = stronger
    shares = {1.0: "No erasure changes the model", 0.0: "Every erasure changes the model"}
    free = shares.get(chosen.free, f"{chosen.free:.1%} of erasures change nothing")
    words = [
        f"Take {chosen.name}: {reason}.",
        f"{name} {chosen.utility:.1f} (95 % interval {chosen.low:.1f} to {chosen.high:.1f}) against "
        f"{retrain.utility:.1f} for full retraining. {free}; one costs {_seconds(chosen.expected_s)} on average "
        f"instead of {_seconds(retrain.expected_s)}.",
    ]
    yearly = [_seconds(12 * requests_per_month * p.expected_s) for p in (chosen, retrain)]
    words.append(
        f"At {requests_per_month:g} requests per month that is {yearly[0]} per year, and {yearly[1]} with full "
        "retraining."
    )
    words += [*_against(frontier, chosen), *_incomplete(frontier)]
    words.append(f"The claim for a forgotten record would be: {chosen.claim.sentence()}")
    return Advice(chosen, bool(good), " ".join(words))


def _stronger(cheapest: Point, rows: Sequence[Point], requests_per_month: float) -> Point | None:
    """Return the best row that claims more than the cheapest and costs hardly more; None if there is none.

    Without this, seconds that vary from one measurement to the next could decide for a weaker claim.
    """
    dearer = [
        p
        for p in rows
        if p.claim.implies(cheapest.claim)
        and not cheapest.claim.implies(p.claim)
        and p.free >= cheapest.free
        and 12 * requests_per_month * (p.expected_s - cheapest.expected_s) < _NEGLIGIBLE_S
    ]
    return max(dearer, key=lambda p: p.utility, default=None)


def _incomplete(frontier: Frontier) -> list[str]:
    """Return a sentence on missing rows, if there are any."""
    count = len(frontier.unmeasured)
    if frontier.interrupted:
        return [f"The plan was interrupted: {count} of {count + len(frontier.points)} rows were not measured."]
    return [f"{count} of {count + len(frontier.points)} rows were not measured, for the reasons listed."] * (count > 0)


def _against(frontier: Frontier, chosen: Point) -> list[str]:
    """Return a sentence on the row of best utility, and one on what the short retrain would give."""
    words, better = [], max(frontier.points, key=lambda p: p.utility)
    if better.utility > chosen.utility and better.name != "Retrain":
        words.append(
            f"The best {frontier.utility_name} is that of {better.name}: {better.utility - chosen.utility:.1f} points "
            f"more, at {_seconds(better.expected_s)} per erasure."
        )
    short = frontier.named("Short retrain")
    if short is not None and short is not chosen and short is not better:
        gap, cost = short.utility - chosen.utility, f"at {_seconds(short.expected_s)} per erasure"
        words.append(
            f"The short retrain is exact and {abs(gap):.1f} points {'better' if gap >= 0 else 'worse'}, {cost}."
        )
    if not chosen.changes and isinstance(chosen.claim, DifferentiallyPrivate):
        words.append("The model never changes, so a comparison of before and after shows nothing.")
    return words


def _seconds(seconds: float) -> str:
    if seconds == 0:
        return "nothing"
    if seconds < 0.1:
        return f"{1000 * seconds:.2g} ms"
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
