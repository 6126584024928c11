"""The verdict's rule against repetition: how often it is wrong, what it finds, and that it does not flip.

Statistical tests count events in some hundred repetitions and compare with exact binomial bounds at 1e-6 each, so a
correct program fails such a test about once in a million seeds.
"""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom, norm

from eupg.audit.membership.audit import audit_predictions
from eupg.audit.membership.loss import LossAttack
from eupg.audit.membership.report import AuditReport, report
from eupg.audit.membership.resampling import Repeat, Resampling
from eupg.audit.membership.rmia import RMIA
from eupg.audit.membership.verdict import MARGIN, Outcome
from eupg.errors import DataError, ParameterError

ALARM = 1e-6
STATED = 0.052
# The stated error rate holds for the intervals alone: repeated audits can only make a verdict rarer.
WITHOUT_REPEATS = Resampling(())


def at_most(events, repetitions, share):
    return events <= binom.isf(ALARM, repetitions, share)


def people_of(sizes):
    return np.repeat(np.arange(len(sizes)), sizes)


def shift_for(points):
    """Return how far apart two normal distributions lie whose AUC is so many points above chance."""
    return np.sqrt(2) * norm.ppf(0.5 + points / 100)


def clustered(seed, points, *, persons=800, records=3, alike=0.8):
    """Return scores of people with several records that are alike; half of the people are members."""
    rng = np.random.default_rng(seed)
    people = people_of([records] * persons)
    members = people < persons // 2
    noise = np.sqrt(alike) * rng.normal(size=persons)[people] + np.sqrt(1 - alike) * rng.normal(size=len(people))
    return noise + shift_for(points) * members, members, people


def audited(seed, points, *, resampling=None, **options):
    scores, members, people = clustered(seed, points, **options)
    return report(scores, members, attack=LossAttack(), people=people, resampling=resampling)


def test_interval_allows_for_several_records_of_one_person():
    covered = as_if_independent = 0
    for seed in range(200):
        scores, members, people = clustered(seed, 0, persons=150)
        one = report(scores, members, attack=LossAttack(), people=people, resampling=WITHOUT_REPEATS)
        other = report(scores, members, attack=LossAttack(), resampling=WITHOUT_REPEATS)
        covered += one.low <= 50 <= one.high
        as_if_independent += other.low <= 50 <= other.high
    assert binom.ppf(ALARM / 2, 200, 0.95) <= covered <= binom.isf(ALARM / 2, 200, 0.95)
    assert as_if_independent < binom.ppf(ALARM / 2, 200, 0.95)


@pytest.mark.parametrize("points", [0, MARGIN, -MARGIN])
def test_model_that_is_not_beyond_the_margin_is_seldom_called_exposed(points):
    """Nothing to be found, and as much as the margin allows: the rule is most often wrong at the margin itself."""
    outcomes = [audited(seed, points, resampling=WITHOUT_REPEATS).outcome for seed in range(200)]
    assert at_most(outcomes.count(Outcome.EXPOSED), 200, STATED)


@pytest.mark.parametrize("points", [MARGIN, -MARGIN])
def test_model_that_is_exposed_by_the_margin_is_seldom_called_not_exposed(points):
    audits = (audited(s, points, persons=8_000, records=1, resampling=WITHOUT_REPEATS) for s in range(100))
    outcomes = [audit.outcome for audit in audits]
    assert at_most(outcomes.count(Outcome.NOT_EXPOSED), 100, STATED)


def test_harmless_model_is_called_not_exposed_on_the_same_sample_size():
    outcomes = [audited(seed, 0, persons=8_000, records=1).outcome for seed in range(30)]
    assert outcomes.count(Outcome.NOT_EXPOSED) > 10


def test_exposed_model_is_found():
    outcomes = [audited(seed, 12).outcome for seed in range(100)]
    assert outcomes.count(Outcome.EXPOSED) >= 95


def models_alike(seed, *, exposure=0.0, references=8, records=600, tilt=0.25):
    """Return an audit of a model and of a baseline that were trained alike, with reference models trained alike too.

    Every training gives a model a tilt of its own towards one kind of people, of whom there are more among the members.
    """
    rng = np.random.default_rng(seed)
    members = np.arange(2 * records) < records
    kind = rng.random(2 * records) < np.where(members, 0.7, 0.3)
    ease = rng.normal(0.5, 1.5, 2 * records)

    def says(more=0.0):
        margin = ease + rng.normal(0, 0.3, 2 * records) + tilt * rng.normal() * (kind - 0.5) + more * members
        p = 1 / (1 + np.exp(-margin))
        return np.stack([1 - p, p], axis=1)

    labels = np.ones(2 * records, dtype=int)
    others = np.stack([says() for _ in range(references)])
    return audit_predictions(
        says(exposure), labels, members, others, attack=RMIA(a=0.5, by_ratio=True), baseline=says(), name="it"
    )


def old_rule(one: AuditReport) -> bool:
    """Tell what an audit says that allows for the choice of records alone, and has no margin."""
    beside = report(one.baseline.scores, one.mask, attack=RMIA(), resampling=WITHOUT_REPEATS)
    one = report(one.scores, one.mask, attack=RMIA(), baseline=beside, resampling=WITHOUT_REPEATS)
    gap = one.comparison
    return not one.low <= 50 <= one.high and not gap.low <= 0 <= gap.high


def test_two_models_trained_alike_do_not_get_opposite_verdicts():
    """Without a margin and without the spread among models, one of two such models is often called exposed."""
    audits = [models_alike(seed) for seed in range(120)]
    assert not at_most(sum(old_rule(one) for one in audits), 120, STATED)
    outcomes = [one.outcome for one in audits]
    assert at_most(outcomes.count(Outcome.EXPOSED), 120, STATED)
    flips = sum({Outcome.EXPOSED, Outcome.NOT_EXPOSED} == {a, b} for a, b in pairwise(outcomes))
    assert flips == 0
    exposed = [models_alike(seed, exposure=1.0).outcome for seed in range(40)]
    assert exposed.count(Outcome.EXPOSED) >= 38


def test_spread_among_reference_models_widens_the_comparison():
    alike, tilted = models_alike(1, tilt=0.0), models_alike(1, tilt=0.6)
    assert alike.references == tilted.references == 8
    assert tilted.model_error > 2 * alike.model_error
    width = tilted.comparison.high - tilted.comparison.low
    assert width > 2 * 1.96 * np.sqrt(2) * tilted.model_error * 0.99
    assert alike.reference_error > 0


@pytest.mark.parametrize(
    ("verdict", "one_that_disagrees"),
    [(Outcome.EXPOSED, Repeat(51.0, 50.0, False)), (Outcome.NOT_EXPOSED, Repeat(54.0, 50.0, False))],
)
def test_verdict_that_repeated_audits_do_not_agree_on_is_inconclusive(verdict, one_that_disagrees):
    rng = np.random.default_rng(3)
    members = np.arange(4000) < 2000
    scores = rng.normal(size=4000)
    beside = report(scores, members, attack=LossAttack(), model="retraining")
    more = 0.5 * members if verdict is Outcome.EXPOSED else 0.01 * rng.normal(size=4000)
    one = report(scores + more, members, attack=LossAttack(), baseline=beside)
    assert one.outcome is verdict
    assert len(one.repeats) == 10
    torn = replace(one, repeats=(*one.repeats[:9], one_that_disagrees))
    assert torn.outcome is Outcome.INCONCLUSIVE
    assert "Inconclusive: only 9 of 10 repeated audits agree" in torn.verdict()


def test_verdict_names_rule_error_rate_and_sample():
    scores, members, people = clustered(5, 0)
    beside = report(scores, members, attack=LossAttack(), model="retraining", people=people)
    words = report(scores, members, attack=LossAttack(), baseline=beside, people=people).sentence()
    assert "lies beyond 2 points of AUC" in words
    assert "The audit repeated 10 times on resampled people must agree every time" in words
    assert "Either verdict is wrong in at most 5.2 % of audits" in words
    assert "1,200 members (records of 400 people) against 1,200 non-members (records of 400 people)" in words
    assert "8 reference models" in models_alike(2).sentence()
    wider = report(scores, members, attack=LossAttack(), margin=5, level=0.9, people=people).sentence()
    assert "lies beyond 5 points" in wider
    assert "at most 10.2 % of audits" in wider


def test_report_that_was_written_before_there_was_a_margin_is_read():
    one = audited(1, 0)
    written = one.to_json()
    later = {
        "margin", "repeats", "member_people", "nonmember_people", "references", "reference_error", "model_error",
    }  # fmt: skip
    back = AuditReport.from_json({name: value for name, value in written.items() if name not in later})
    assert (back.auc, back.low, back.high, back.margin, back.repeats) == (one.auc, one.low, one.high, MARGIN, ())
    assert back.outcome in Outcome
    assert AuditReport.from_json(json.loads(json.dumps(written))) == one


def test_impossible_margins_and_people_are_refused():
    scores, members, people = clustered(1, 0)
    with pytest.raises(ParameterError, match="margin must be points of AUC"):
        report(scores, members, attack=LossAttack(), margin=50)
    with pytest.raises(DataError, match="the person of each of 2400 records"):
        report(scores, members, attack=LossAttack(), people=people[:5])


def test_large_samples_decide_and_still_do_not_contradict_each_other():
    """Pairs of models that remember a little alike: without a margin one is called exposed and its twin is not."""
    pairs = [[models_alike(2 * i + j, exposure=0.03, records=4000, tilt=0.02) for j in (0, 1)] for i in range(12)]
    assert any(old_rule(one) != old_rule(other) for one, other in pairs)
    outcomes = [{one.outcome, other.outcome} for one, other in pairs]
    assert sum(Outcome.NOT_EXPOSED in both for both in outcomes) >= 6
    assert not any({Outcome.EXPOSED, Outcome.NOT_EXPOSED} <= both for both in outcomes)
