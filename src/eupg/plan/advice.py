"""Read a frontier: which point to take, in a sentence, and where the control is better."""

from __future__ import annotations

from dataclasses import dataclass

from eupg.plan.frontier import Frontier, Point

LOOKED = (
    "Guarantee, exposure and learner were chosen by a plan that looked at the records, those of forgotten people among "
    "them; the claim does not cover what that choice reveals."
)


@dataclass(frozen=True)
class Advice:
    """A recommendation.

    Parameters
    ----------
    point
        What to take; None where too little was measured to recommend anything.
    within
        Whether it is within the tolerance of full retraining.
    words
        The reason, and what speaks against it.
    """

    point: Point | None
    within: bool
    words: str


def advise(frontier: Frontier, *, tolerance: float = 0.3, requests_a_month: float = 10.0) -> Advice:
    """Recommend the cheapest erasures among the points within the tolerance of full retraining.

    Parameters
    ----------
    frontier
        What was measured.
    tolerance
        How many points of utility may be given up against full retraining.
    requests_a_month
        How many people ask.
    """
    retrain, mine = frontier.named("Retrain"), [p for p in frontier.points if not p.is_control]
    if retrain is None or not mine:
        lacking = "full retraining, the yardstick, was not measured" if mine else "no guarantee was measured"
        return Advice(None, False, " ".join([f"No advice: {lacking}.", *_incomplete(frontier)]))
    good = [p for p in mine if p.utility >= retrain.utility - tolerance]
    chosen = min(good, key=lambda p: (p.expected_s, -p.utility)) if good else max(mine, key=lambda p: p.utility)
    words = (
        []
        if good
        else [
            f"Nothing protected comes within {tolerance:g} points of full retraining here: prefer an exact control. "
            "If you cannot afford one:"
        ]
    )
    words += [
        f"Take {chosen.name}: {frontier.utility_name} {chosen.utility:.1f} against {retrain.utility:.1f} for full "
        f"retraining; {chosen.free:.1%} of erasures need no training, and one costs {_seconds(chosen.expected_s)} on "
        f"average instead of {_seconds(retrain.expected_s)}."
    ]
    yearly = [_seconds(12 * requests_a_month * p.expected_s) for p in (chosen, retrain)]
    words.append(
        f"At {requests_a_month:g} requests a month that is {yearly[0]} of training a year, with full retraining "
        f"{yearly[1]}."
    )
    words += [*_against(frontier, chosen), *_incomplete(frontier)]
    words.append(f"What would be claimed for whoever is forgotten: {chosen.claim.sentence()}")
    return Advice(chosen, bool(good), " ".join(words))


def _incomplete(frontier: Frontier) -> list[str]:
    """Say that rows are missing."""
    count = len(frontier.unmeasured)
    if frontier.interrupted:
        return [f"The plan was interrupted: {count} of {count + len(frontier.points)} rows were not measured."]
    return [f"{count} of {count + len(frontier.points)} rows were not measured, for the reasons listed."] * (count > 0)


def _against(frontier: Frontier, chosen: Point) -> list[str]:
    """Say plainly which exact controls do better."""
    words, short = [], frontier.named("Short retrain")
    if short is not None:
        gap, cost = short.utility - chosen.utility, f"at {_seconds(short.expected_s)} an erasure, each time"
        words.append(
            f"The short retrain is exact and {gap:.1f} points better, {cost}: if you can afford that, take it."
            if gap >= 0
            else f"The short retrain is exact and {-gap:.1f} points worse, {cost}."
        )
    alike = [p for p in frontier.points if p.is_control and p.exposure is not None and p.exposure == chosen.exposure]
    for point in alike:
        if point.utility >= chosen.utility:
            words.append(
                f"Training from scratch on the same {point.exposure:.1%} of {frontier.units} is exact for all others "
                f"and {point.utility - chosen.utility:.1f} points better: the protected base does not pay at this "
                "exposure."
            )
    return words


def _seconds(seconds: float) -> str:
    if seconds == 0:
        return "nothing"
    if seconds < 0.1:
        return f"{1000 * seconds:.2g} ms"
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
