"""Who sits where, and how effort is spread over slices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eupg import Secret, Seeded
from eupg.forget.sisa.method import SISA
from eupg.forget.sisa.sharding import Sharding
from eupg.forget.sisa.stages import Plan
from eupg.guarantees import Exact, Unit
from eupg.guarantees.wording import REQUESTS_APART
from forget.families import FAST, Noting, late, place
from people import people


@given(st.integers(0, 99), st.integers(1, 6), st.integers(1, 6))
@settings(max_examples=25)
def test_all_records_of_a_person_share_a_shard_and_slice(seed, shards, slices):
    data = people(120)
    sharding = Sharding.draw(data, Seeded(seed), shards=shards, slices=slices, unit=Unit.PERSON, likelihood=None)
    places = sharding.places(data, None)
    assert all(len(set(places[data.subjects == person])) == 1 for person in set(data.subjects.tolist()))
    assert places.min() >= 0
    assert places.max() < shards * slices


def test_records_dealt_alone_spread_a_person_over_shards():
    data = people(300)
    sharding = Sharding.draw(data, Seeded(1), shards=5, slices=2, unit=Unit.RECORD, likelihood=None)
    places = sharding.places(data, None)
    assert any(len(set(places[data.subjects == person])) > 1 for person in set(data.subjects.tolist()))


def test_new_records_of_a_person_join_the_old_ones():
    data, rng = people(120), Seeded(1)
    sisa = SISA(FAST, effort=4, shards=4, slices=3)
    grown = sisa.update(sisa.train(data, rng), data.plus(late(data, "p7")), rng)
    assert {place(grown, r) for r in ("late-1", "late-2", "r21", "r22", "r23")} == {place(grown, "r21")}


def test_places_are_even():
    """4,000 people on 20 places: a place holds 200 ± 14; a false alarm in one of 10⁷ keys, and the key is fixed."""
    data = people(4000)
    sharding = Sharding.draw(data, Seeded(2), shards=5, slices=4, unit=Unit.RECORD, likelihood=None)
    counts = np.bincount(sharding.places(data, None), minlength=20)
    assert (np.abs(counts - 200) < 80).all()


def test_one_person_leaving_moves_nobody_else():
    data, rng = people(120), Seeded(1)
    sharding = Sharding.draw(data, rng, shards=3, slices=3, unit=Unit.PERSON, likelihood=None)
    left = data.without(data.of_subjects(["p3"]).ids)
    np.testing.assert_array_equal(sharding.places(data, None)[data.subjects != "p3"], sharding.places(left, None))


LIKELY = {f"p{i}": float(i) for i in range(40)}


@pytest.mark.parametrize("unit", Unit)
def test_the_likeliest_to_ask_sit_in_the_last_places(unit):
    data = people(120)
    likelihood = LIKELY if unit is Unit.PERSON else {f"r{i}": float(i) for i in range(120)}
    sharding = Sharding.draw(data, Seeded(1), shards=4, slices=5, unit=unit, likelihood=likelihood)
    places = sharding.places(data, likelihood)
    assert (np.diff(places) >= 0).all(), "records are in the order of their likelihood"
    np.testing.assert_array_equal(np.bincount(places), np.full(20, 6))


def test_people_of_the_same_likelihood_are_dealt_evenly():
    data = people(120)
    sharding = Sharding.draw(data, Seeded(1), shards=2, slices=2, unit=Unit.PERSON, likelihood={})
    np.testing.assert_array_equal(np.bincount(sharding.places(data, {})), np.full(4, 30))


def test_request_of_a_likely_person_retrains_little():
    data, learner = people(120), Noting(max_depth=2, threads=1)
    sisa = SISA(learner, effort=10, shards=4, slices=5, likelihood=LIKELY)
    trained = sisa.train(data, Seeded(1))
    for person, stages in (("p39", 1), ("p30", 5)):
        learner.calls.clear()
        sisa.forget(trained, data.without(data.of_subjects([person]).ids), Seeded(1))
        assert len(learner.calls) == stages, person


def test_claim_is_exact_and_says_when_places_follow_likelihoods():
    data = people(120)
    plain = SISA(FAST, effort=2, shards=2, slices=2).train(data, Secret())
    assert plain.claim_for(data.of_subjects(["p7"])) == Exact(caveats=(REQUESTS_APART,))
    ordered = SISA(FAST, effort=2, shards=2, slices=2, likelihood=LIKELY).train(data, Secret())
    claim = ordered.claim_for(data.of_subjects(["p7"]))
    assert isinstance(claim, Exact)
    assert "follows from the declared likelihoods of everyone" in claim.sentence()


@given(st.integers(1, 200), st.integers(1, 20))
def test_epochs_are_spread_so_that_a_shard_costs_what_plain_epochs_would(effort, slices):
    plan = Plan.of(effort, slices, accumulates=False)
    cost = sum((r + 1) / slices * epochs for r, epochs in enumerate(plan.efforts))
    assert len(plan.efforts) == len(plan.parts) == slices
    # Each stage is rounded by half an epoch at most at either end, and trains at least one.
    assert abs(cost - effort) <= 1 + (slices + 1) / 2 * (2 * effort < slices + 1)
    assert max(plan.efforts) - min(plan.efforts) <= 1
    assert plan.parts[0][0] == 0
    assert plan.parts[-1][1] == pytest.approx(1)
    assert all(a[1] == b[0] and a[0] < a[1] for a, b in zip(plan.parts, plan.parts[1:], strict=False))


@given(st.integers(1, 200), st.integers(1, 20))
def test_trees_are_dealt_out_evenly(effort, slices):
    efforts = Plan.of(effort, slices, accumulates=True).efforts
    assert sum(efforts) == max(effort, slices)
    assert max(efforts) - min(efforts) <= 1
