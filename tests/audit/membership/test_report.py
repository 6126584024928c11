"""The report: its intervals against repetition, its words against the numbers.

Statistical tests count events in 400 repetitions and compare with exact binomial bounds at 1e-6 each, so a correct
program fails such a test about once in a million seeds; a nominal 95 % that really is 88 % or less is mostly caught.
"""

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from eupg.audit.membership.lira import LiRA
from eupg.audit.membership.loss import LossAttack
from eupg.audit.membership.report import AuditReport, report
from eupg.audit.membership.resampling import Resampling
from eupg.audit.membership.rmia import RMIA
from eupg.audit.membership.roc import auc, chance_of_hits, delong, roc_curve
from eupg.audit.membership.signals import SignalKind, Signals
from eupg.errors import DataError, ParameterError

REPEATS, ALARM = 400, 1e-6
# Intervals and low rates do not depend on the repeated audits, and without them a verdict is given more often.
WITHOUT_REPEATS = Resampling(())


def plausible(events, share):
    """Tell whether so many events in 400 agree with that share."""
    return binom.ppf(ALARM / 2, REPEATS, share) <= events <= binom.isf(ALARM / 2, REPEATS, share)


def two_sides(seed, m=200, n=200, shift=0.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=m + n) + shift * (np.arange(m + n) < m), np.arange(m + n) < m


def loss_report(scores, members, **options):
    return report(scores, members, attack=LossAttack(), **options)


def test_interval_covers_chance_in_the_stated_share(simulate):
    """Models that never saw the records, attacked by LiRA with 8 reference models; half the width must fail."""
    covered = narrow = alarms = 0
    for seed in range(REPEATS):
        signals, members = simulate(seed, records=200, remembers=0.0)
        found = report(LiRA().score(signals), members, attack=LiRA(), resampling=WITHOUT_REPEATS)
        covered += found.low <= 50 <= found.high
        narrow += abs(found.auc - 50) <= (found.high - found.low) / 4
        alarms += found.exposed
    assert plausible(covered, 0.95)
    assert not plausible(narrow, 0.95)
    # Exposure by mistake: 5 % by the AUC, at most 0.2 % by the low rates.
    assert alarms <= binom.isf(ALARM, REPEATS, 0.052)


def test_rmia_is_near_chance_too_on_a_model_that_never_saw_the_records(simulate):
    covered = 0
    for seed in range(REPEATS):
        signals, members = simulate(seed, records=200, remembers=0.0, kind=SignalKind.PROBABILITY)
        scores = RMIA(a=0.7, by_ratio=True).score(signals)
        found = report(scores, members, attack=RMIA(a=0.7), resampling=WITHOUT_REPEATS)
        covered += found.low <= 50 <= found.high
    assert plausible(covered, 0.95)


def test_shuffled_members_give_chance(simulate):
    """The same scores that expose the members say nothing once the mask is shuffled."""
    signals, members = simulate(1)
    scores = LiRA().score(signals)
    assert loss_report(scores, members).exposed
    rng, covered = np.random.default_rng(4), 0
    for _ in range(REPEATS):
        found = loss_report(scores, rng.permutation(members), resampling=WITHOUT_REPEATS)
        covered += found.low <= 50 <= found.high
    assert plausible(covered, 0.95)


def test_attack_with_a_broken_sign_is_caught_and_explained(simulate):
    signals, members = simulate(2)

    @dataclass(frozen=True)
    class Backwards(LiRA):
        def score(self, signals: Signals):
            return -super().score(signals)

    found = report(Backwards().score(signals), members, attack=Backwards())
    assert found.high < 50
    assert found.exposed
    assert "points below chance" in found.verdict()
    assert "an attacker can reverse the score" in found.sentence()
    assert "left out members and non-members unequally often" in found.sentence()
    right = report(LiRA().score(signals), members, attack=LiRA())
    assert "reverse the score" not in right.sentence()


def test_unequal_out_counts_alone_look_like_exposure(simulate):
    """Why check_balanced refuses them: 1 OUT model for members, 7 for non-members, and nothing is remembered."""
    members, models = np.arange(6000) < 3000, np.arange(8)[:, None]
    equal, unequal = models > np.full(6000, 3), models > np.where(members, 0, 6)
    verdicts = []
    for inside in (equal, unequal):
        signals, _ = simulate(3, records=6000, remembers=0.0, kind=SignalKind.PROBABILITY, inside=inside)
        verdicts.append(report(RMIA(a=1.0, by_ratio=True).score(signals), members, attack=RMIA(a=1.0)))
    assert [v.exposed for v in verdicts] == [False, True]
    assert verdicts[1].tails[0].low > 2


def test_tail_chance_is_honest_and_sharp():
    """Under the null it is below 5 % in at most 5 % of audits; the best attack makes it nearly zero."""
    audits = (loss_report(*two_sides(seed, 200, 300), resampling=WITHOUT_REPEATS) for seed in range(REPEATS))
    chances = [audit.tails[0].chance for audit in audits]
    assert sum(c < 0.05 for c in chances) <= binom.isf(ALARM, REPEATS, 0.05)
    assert sum(c < 0.3 for c in chances) >= binom.ppf(ALARM, REPEATS, 0.1)
    assert chance_of_hits(200, 200, 300, 0.01) < 1e-50


def test_few_members_surely_found_are_exposed_though_the_auc_is_chance():
    """One member in a hundred stands above everybody; the AUC cannot see it."""
    scores, members = two_sides(5, 2000, 2000)
    scores[:20] += 10
    scores[20:40] -= 10
    found = loss_report(scores, members)
    assert found.low < 50 < found.high
    assert found.exposed
    assert found.verdict().startswith("Exposed: accusing at most")


@pytest.mark.parametrize("sign", [1, -1])
def test_perfect_separation_keeps_an_interval(sign):
    found = loss_report(sign * np.r_[np.ones(30), np.zeros(50)], np.arange(80) < 30)
    assert found.standard_error is None
    assert (found.auc, found.exposed) == ((100, True) if sign > 0 else (0, True))
    bound = 100 * 0.025 ** (1 / 30)
    assert (found.low, found.high) == pytest.approx((bound, 100) if sign > 0 else (0, 100 - bound))
    assert "exact 95 % interval" in found.sentence()


def test_all_ties_say_nothing():
    found = loss_report(np.ones(40), np.arange(40) < 20)
    assert (found.auc, found.exposed, found.standard_error) == (50, False, None)
    assert found.low < 30 < 70 < found.high
    assert found.verdict().startswith("Inconclusive: LossAttack gave every record the same score")


def test_a_single_member_is_too_few_to_tell():
    scores, members = two_sides(6, 1, 500, shift=2.0)
    found = loss_report(scores, members)
    assert not found.exposed
    assert found.high - found.low > 60
    assert "too wide to find much" in found.sentence()


def test_too_few_nonmembers_for_a_rate_are_noted():
    few, many = loss_report(*two_sides(7, 400, 400)), loss_report(*two_sides(7, 400, 1000))
    assert [t.resolvable for t in few.tails] == [True, False]
    assert [t.resolvable for t in many.tails] == [True, True]
    assert "With 400 non-members the smallest observable false-positive rate is 0.25 %" in few.sentence()
    assert "smallest observable" not in many.sentence()


def test_level_widens_every_interval():
    scores, members = two_sides(8)
    narrow, wide = loss_report(scores, members, level=0.8), loss_report(scores, members, level=0.99)
    ratio = norm.isf(0.005) / norm.isf(0.1)
    assert (wide.high - wide.low) / (narrow.high - narrow.low) == pytest.approx(ratio)
    assert wide.tails[0].high > narrow.tails[0].high
    assert "99 % interval" in wide.sentence()
    with pytest.raises(ParameterError, match="level"):
        loss_report(scores, members, level=95)


def test_nearly_equal_models_are_no_more_exposed_and_pairing_narrows_it():
    rng = np.random.default_rng(90)
    scores, members = two_sides(9, 500, 500)
    base = loss_report(scores, members, model="retraining")
    close = scores + rng.normal(0, 0.1, 1000)
    paired = loss_report(close, members, baseline=base)
    apart = loss_report(close, members, baseline=replace(base, scores=None, mask=None))
    assert paired.comparison.paired
    assert not apart.comparison.paired
    assert paired.comparison.high - paired.comparison.low < 0.2 * (apart.comparison.high - apart.comparison.low)
    assert not paired.exposed
    reach = max(abs(paired.comparison.low), abs(paired.comparison.high))
    assert paired.verdict() == f"Not exposed: the AUC is within ±{reach:.1f} points of retraining."
    assert "For comparison, retraining: AUC" in paired.sentence()


def test_paired_interval_covers_no_difference_in_the_stated_share():
    """Two models whose scores share most of their noise; taking them as independent would cover nearly always."""
    covered = unpaired = 0
    for seed in range(REPEATS):
        rng = np.random.default_rng(seed)
        shared, members = rng.normal(size=300) + 0.5 * (np.arange(300) < 150), np.arange(300) < 150
        a, b = (shared + rng.normal(0, 0.5, 300) for _ in range(2))
        base = loss_report(b, members, resampling=WITHOUT_REPEATS)
        gap = loss_report(a, members, baseline=base, resampling=WITHOUT_REPEATS).comparison
        covered += gap.low <= 0 <= gap.high
        gap = loss_report(a, members, baseline=replace(base, scores=None)).comparison
        unpaired += gap.low <= 0 <= gap.high
    assert plausible(covered, 0.95)
    assert not plausible(unpaired, 0.95)


def test_exposure_is_judged_against_the_baseline():
    scores, members = two_sides(10, 1000, 1000)
    base = loss_report(scores, members, model="retraining")
    assert not base.exposed
    worse = loss_report(scores + 0.5 * members, members, baseline=base)
    assert worse.exposed
    assert worse.verdict().startswith("Exposed: the AUC is")
    assert "points above chance" in worse.verdict()
    assert "points above retraining" in worse.verdict()
    # Members who differ in kind are found in any model: that is not memory.
    unlike = loss_report(scores + 0.5 * members, members, model="retraining")
    same = loss_report(scores + 0.5 * members, members, baseline=unlike)
    assert unlike.exposed
    assert not same.exposed
    assert "differ in kind" in same.sentence()
    closer = loss_report(scores, members, baseline=unlike)
    assert not closer.exposed
    assert "points below retraining" in closer.verdict()


def test_two_perfect_separations_are_not_equal_to_the_last_digit():
    members, rng = np.arange(40) < 20, np.random.default_rng(16)
    base = loss_report(members + 0.5 * rng.random(40), members)
    gap = loss_report(members + 0.5 * rng.random(40), members, baseline=base).comparison
    assert gap.difference == 0
    assert gap.low < -10 < 10 < gap.high


def test_the_same_ranking_is_no_difference_at_all():
    scores, members = two_sides(17)
    gap = loss_report(np.exp(scores), members, baseline=loss_report(scores, members)).comparison
    assert (gap.difference, gap.low, gap.high) == (0, 0, 0)


def test_baseline_of_another_attack_is_refused():
    scores, members = two_sides(11)
    with pytest.raises(DataError, match="expected LiRA, got LossAttack"):
        report(scores, members, attack=LiRA(), baseline=loss_report(scores, members))


def test_report_survives_json_without_scores():
    scores, members = two_sides(12)
    base = report(scores, members, attack=RMIA(a=0.3), model="retraining")
    found = report(scores + members, members, attack=RMIA(a=0.4), baseline=base)
    text = json.dumps(found.to_json(), allow_nan=False)
    back = AuditReport.from_json(json.loads(text))
    assert back == found
    assert back.sentence() == found.sentence()
    assert "scores" not in text
    assert back.scores is None
    assert back.parameters == {"gamma": 1.0, "a": 0.4, "online": False, "by_ratio": False}
    broken: dict[str, Any]
    for broken in ({}, {"tails": []}, found.to_json() | {"extra": 1}, found.to_json() | {"tails": [{"at": 1}]}):
        with pytest.raises(DataError, match="not an audit report"):
            AuditReport.from_json(broken)


def test_sentence_says_what_it_does_not_show():
    words = loss_report(*two_sides(13)).sentence()
    for limit in (
        "a stronger attack may find more",
        "nothing here proves forgetting",
        "not the randomness of training",
    ):
        assert limit in words


@pytest.mark.parametrize(
    ("scores", "members", "cause"),
    [
        (np.array([0.1, np.nan]), np.array([True, False]), "1 of 2 scores are NaN"),
        (np.array([[0.1], [0.2]]), np.array([True, False]), "one number per record"),
        (np.array([0.1, 0.2]), np.array([True, True]), "no non-members"),
        (np.array([0.1, 0.2]), np.array([True]), "shape"),
    ],
)
def test_bad_scores_are_refused_by_name(scores, members, cause):
    for function in (loss_report, roc_curve, delong, auc):
        with pytest.raises(DataError, match=cause):
            function(scores, members)


def test_printed_report_starts_with_the_verdict_and_has_one_column_per_model():
    scores, members = two_sides(18)
    base = loss_report(scores, members, model="retraining")
    lines = str(loss_report(scores + members, members, model="EUPG", baseline=base)).splitlines()
    assert lines[0].startswith("Exposed: the AUC is ")
    assert lines[2].split() == ["EUPG", "retraining"]
    assert [line.split("  ")[0] for line in lines[3:6]] == [
        "AUC", "members found at 1 % FPR", "members found at 0.1 % FPR",
    ]  # fmt: skip
    assert f"{base.auc:.1f} ({base.low:.1f} to {base.high:.1f})" in lines[3]
    assert "LossAttack, 200 members against 200 non-members." in lines
    assert len(str(base).splitlines()[2].split()) == 1
