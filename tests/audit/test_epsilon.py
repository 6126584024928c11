import json
import math

import numpy as np
import pytest
from scipy.stats import beta, binom

from eupg.audit.epsilon import EpsilonBound, audit_mechanism_epsilon, epsilon_lower_bound
from eupg.audit.intervals import binomial_bounds
from eupg.data.attribute import Categorical, Numeric, Role
from eupg.data.schema import Schema
from eupg.errors import DataError, ParameterError
from eupg.guarantees import DifferentiallyPrivate
from eupg.protect.channel import LaplaceChannel, randomised_response
from eupg.protect.kanonymity import ProbabilisticKAnonymity
from eupg.protect.local_dp import LocalDP
from eupg.protect.mechanism import Unprotected, rows_are_independent
from eupg.protect.pictures.pixel_dp import PixelDP
from eupg.protect.pictures.pixel_permutation import PixelPermutation
from eupg.protect.release import Release
from eupg.protect.synthesis.mechanism import DPSynthesis
from eupg.rng import Seeded
from people import SCHEMA

N = 100_000
SURE = 1 - 1e-6
HERE = {"age": 18, "income": 0, "health": "poor", "town": "A", "job": "x", "score": -1, "ill": "no"}
THERE = {"age": 90, "income": 5000, "health": "good", "town": "D", "job": "y", "score": 1, "ill": "no"}


def coin(epsilon: float, truth: int, n: int, seed: int) -> np.ndarray:
    """Randomised response between two answers."""
    honest = np.random.default_rng(seed).random(n) < 1 / (1 + math.exp(-epsilon))
    return np.where(honest, truth, 1 - truth)


@pytest.mark.parametrize(("hits", "trials", "error"), [(0, 20, 0.05), (3, 20, 0.025), (20, 20, 0.01), (40, 1000, 5e-7)])
def test_binomial_bounds_are_those_of_clopper_and_pearson(hits, trials, error):
    low, high = binomial_bounds(hits, trials, error=error)
    assert low == pytest.approx(beta.ppf(error, hits, trials - hits + 1) if hits else 0.0)
    assert high == pytest.approx(beta.isf(error, hits + 1, trials - hits) if hits < trials else 1.0)


def test_all_or_none_have_closed_forms():
    # None of n: (1 − p)ⁿ = error at the upper bound. All of n: pⁿ = error at the lower one.
    assert binomial_bounds(0, 10, error=0.1)[1] == pytest.approx(1 - 0.1 ** (1 / 10))
    assert binomial_bounds(10, 10, error=0.1)[0] == pytest.approx(0.1 ** (1 / 10))


def test_set_fixed_beforehand_is_counted_on_all_runs_and_shares_the_error():
    first, second = [1] * 60 + [0] * 40, [1] * 20 + [0] * 80
    found = epsilon_lower_bound(first, second, confidence=0.9, candidates=[{1}])
    # Error 0.1, over two directions and two counts each: 0.025 a count.
    expected = math.log(beta.ppf(0.025, 60, 41) / beta.isf(0.025, 21, 80))
    assert found.epsilon == pytest.approx(expected)
    assert (found.hits, found.runs, found.other_hits, found.other_runs) == (60, 100, 20, 100)
    assert not found.chosen_apart
    assert found.confidence == 0.9


def test_chosen_set_is_counted_on_the_other_half_of_the_runs():
    first, second = np.tile([7, 7, 7, 2], 50), np.tile([2, 2, 2, 7], 50)
    found = epsilon_lower_bound(first, second, confidence=0.95)
    assert found.chosen_apart
    assert found.runs == found.other_runs == 100
    assert found.outputs in ("an output in {7}", "an output in {2}", "an output below 7", "an output of at least 7")


def test_direction_is_found():
    # Only outputs of the second input are ever 3: the ratio is large from the second to the first.
    first, second = np.zeros(400, int), np.tile([0, 0, 3, 3], 100)
    found = epsilon_lower_bound(first, second)
    assert found.outputs in ("an output in {3}", "an output of at least 3")
    assert found.other_hits == 0
    lower = beta.ppf(0.025, found.hits, 200 - found.hits + 1)
    assert found.epsilon == pytest.approx(math.log(lower / beta.isf(0.025, 1, 200)))


def test_delta_is_taken_off_first():
    first, second = [1] * 60 + [0] * 40, [1] * 20 + [0] * 80
    found = epsilon_lower_bound(first, second, confidence=0.9, candidates=[{1}], delta=0.1)
    assert found.epsilon == pytest.approx(math.log((beta.ppf(0.025, 60, 41) - 0.1) / beta.isf(0.025, 21, 80)))
    assert epsilon_lower_bound(first, second, candidates=[{1}], delta=0.9).epsilon == 0.0


def test_leak_of_probability_delta_needs_its_delta():
    """A mechanism that shows its input once in fifty and is silent else has ε = 0 at δ = 0.02, and no ε without δ."""
    rng = np.random.default_rng(0)
    first, second = (np.where(rng.random(20_000) < 0.02, shown, 0) for shown in (1, 2))
    assert epsilon_lower_bound(first, second, confidence=SURE).contradicts(2.0)
    assert not epsilon_lower_bound(first, second, confidence=SURE, delta=0.02).contradicts(0.0)


def test_epsilon_of_1_withstands_and_1_1_is_refuted():
    """False alarm 1e-6; at n = 100,000 an ε ten percent over the claim is found, for outputs and for scores."""

    def channel(build):
        c = build
        return [c.sample(np.full(N, code), Seeded(s)) for s, code in enumerate((0, c.size - 1))]

    def noise(epsilon):
        # Laplace noise of scale 1/ε on the inputs 0 and 1: continuous, so compared by thresholds.
        rng = np.random.default_rng(5)
        return [at + rng.laplace(0, 1 / epsilon, N) for at in (0.0, 1.0)]

    for make in (
        lambda e: [coin(e, truth, N, truth) for truth in (0, 1)],
        lambda e: channel(LaplaceChannel.build(12, e)),
        noise,
    ):
        assert not epsilon_lower_bound(*make(1.0), confidence=SURE).contradicts(1.0)
        assert not epsilon_lower_bound(*make(1.0)[::-1], confidence=SURE).contradicts(1.0)
        assert epsilon_lower_bound(*make(1.1), confidence=SURE).contradicts(1.0)
        assert epsilon_lower_bound(*make(1.1)[::-1], confidence=SURE).contradicts(1.0)


def test_bound_is_close_below_the_truth():
    channel = randomised_response(6, 1.0)
    samples = [channel.sample(np.full(N, code), Seeded(code)) for code in (0, 5)]
    assert 0.9 < epsilon_lower_bound(*samples).epsilon <= 1.0


def test_bound_holds_with_the_stated_confidence():
    """Of 1,000 audits of an honest ε = 1 at confidence 0.8, at most a fifth may exceed it; false alarm 1e-6."""
    over = sum(
        epsilon_lower_bound(coin(1.0, 0, 400, 2 * s), coin(1.0, 1, 400, 2 * s + 1), confidence=0.8).contradicts(1.0)
        for s in range(1000)
    )
    assert over <= binom.isf(1e-6, 1000, 0.2)


def test_choosing_and_counting_on_the_same_runs_would_not_hold():
    """A hundred outputs, both inputs alike (ε = 0): halved runs keep the confidence, the same runs for both do not.

    Each of 200 audits may accuse with probability 0.2; false alarm 1e-6.
    """
    apart = same = 0
    for seed in range(200):
        first, second = np.random.default_rng(seed).integers(0, 100, (2, 1000))
        apart += epsilon_lower_bound(first, second, confidence=0.8).contradicts(0.0)
        favoured = np.flatnonzero(np.bincount(first, minlength=100) > np.bincount(second, minlength=100))
        same += epsilon_lower_bound(first, second, confidence=0.8, candidates=[favoured.tolist()]).contradicts(0.0)
    assert apart <= binom.isf(1e-6, 200, 0.2) < same


def test_sorted_samples_do_not_mislead():
    rng = np.random.default_rng(0)
    first, second = np.sort(rng.random((2, 10_000)))
    assert epsilon_lower_bound(first, second).epsilon < 0.01


def test_many_distinct_outputs_are_ranked_not_listed_one_by_one():
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 5000, 20_000), rng.integers(1000, 6000, 20_000)
    found = epsilon_lower_bound(first, second, confidence=SURE)
    assert found.epsilon > 3
    assert found.outputs.startswith("an output")
    assert "more" not in found.outputs
    odd = epsilon_lower_bound(first // 50 * 2, second // 50 * 2 + 1, confidence=SURE)
    assert odd.epsilon > 5
    assert "and 94 more" in odd.outputs


def test_infinite_scores_are_scores():
    first, second = np.tile([np.inf, 0.0], 500), np.tile([-np.inf, 0.0], 500)
    assert epsilon_lower_bound(first, second).epsilon > 3


def test_thresholds_can_be_fixed_beforehand():
    rng = np.random.default_rng(0)
    first, second = rng.normal(1, 1, 5000), rng.normal(0, 1, 5000)
    found = epsilon_lower_bound(first, second, candidates=[2.0])
    assert found.outputs in ("an output of at least 2", "an output below 2")
    assert found.epsilon > 1.5


class SpendsEverywhere(LocalDP):
    """Forgets to split the budget: each attribute gets all of ε."""

    def _channels(self, schema, embeddings):
        return LocalDP(self.epsilon * len(schema.features))._channels(schema, embeddings)


SMALL = Schema(
    (
        Numeric(name="v", lower=0, upper=4),
        Categorical(name="town", categories=("a", "b", "c")),
        Categorical(name="ill", role=Role.LABEL, categories=("no", "yes")),
    )
)


@pytest.mark.parametrize(
    ("schema", "here", "there"),
    [(SCHEMA, HERE, THERE), (SMALL, {"v": 0, "town": "a", "ill": "no"}, {"v": 4, "town": "c", "ill": "no"})],
    ids=["scored", "counted"],
)
def test_local_dp_withstands_and_a_budget_spent_on_every_attribute_is_refuted(schema, here, there):
    """False alarm 1e-6 a run; whole records, too many to count in the first table, few enough in the second."""
    for mechanism, broken in ((LocalDP(1.0), False), (SpendsEverywhere(1.0), True)):
        found = audit_mechanism_epsilon(mechanism, schema, here, there, 20_000, Seeded(1), confidence=SURE)
        assert found.contradicts(mechanism.guarantee(schema)) is broken


def test_leak_in_how_attributes_go_together_is_found():
    """Each attribute alone tells nothing; the two of them together give the record away."""

    class Ciphered(LocalDP):
        def protect(self, data, rng):
            key = rng.words(len(data)).astype(float) % 3
            X = np.column_stack([key, (data.X[:, 1] + key) % 3])
            return Release.shuffled(data, X, data.y, self.guarantee(data.schema), rng)

    here, there = ({"v": 0, "town": town, "ill": "no"} for town in "ab")
    found = audit_mechanism_epsilon(Ciphered(1.0), SMALL, here, there, 4000, Seeded(1), confidence=SURE)
    assert found.epsilon > 3


def test_missing_against_present_is_within_the_budget():
    gone = THERE | {"job": None, "score": None}
    found = audit_mechanism_epsilon(LocalDP(1.0), SCHEMA, THERE, gone, 20_000, Seeded(2), confidence=SURE)
    assert not found.contradicts(1.0)


def test_label_is_audited_where_it_is_covered_and_refused_where_not():
    well, ill = ({"v": 0, "town": "a", "ill": answer} for answer in ("no", "yes"))
    labelled = LocalDP(1.0, label_epsilon=2.0)
    found = audit_mechanism_epsilon(labelled, SMALL, well, ill, 20_000, Seeded(3), confidence=SURE)
    assert found.contradicts(1.5)
    assert not found.contradicts(2.0)
    with pytest.raises(ParameterError, match=r"differ in 'ill', which the claim leaves open: give both the same value"):
        audit_mechanism_epsilon(LocalDP(1.0), SMALL, well, ill, 100, Seeded(0))


def test_mechanism_audit_refuses_what_it_cannot_judge():
    with pytest.raises(ParameterError, match=r"got a claim of probabilistic k-anonymity: audit linkage instead"):
        audit_mechanism_epsilon(ProbabilisticKAnonymity(5), SCHEMA, HERE, THERE, 100, Seeded(0))
    for n in (3, 10.0, True):
        with pytest.raises(ParameterError, match="n must be a whole number of at least 4, got"):
            audit_mechanism_epsilon(LocalDP(1.0), SCHEMA, HERE, THERE, n, Seeded(0))  # type: ignore[arg-type]
    with pytest.raises(DataError, match="the table has no column 'income'"):
        audit_mechanism_epsilon(LocalDP(1.0), SCHEMA, {"age": 1}, THERE, 100, Seeded(0))
    with pytest.raises(ParameterError, match="confidence must be a number from 0 to below 1, got 1"):
        audit_mechanism_epsilon(LocalDP(1.0), SCHEMA, HERE, THERE, 100, Seeded(0), confidence=1)

    class Halves(LocalDP):
        def protect(self, data, rng):
            whole = super().protect(data, rng)
            return Release(whole.schema, whole.X[::2].copy(), whole.y[::2].copy(), whole.guarantee)

    with pytest.raises(DataError, match="expected one row per record, got 50 rows for 100"):
        audit_mechanism_epsilon(Halves(1.0), SCHEMA, HERE, THERE, 100, Seeded(0))


def test_only_mechanisms_that_treat_each_record_on_its_own_have_independent_rows():
    assert rows_are_independent(LocalDP(1.0))
    assert rows_are_independent(PixelDP(1.0))
    learnt = LocalDP(1.0, unsafe_learn_embeddings=True)
    for mechanism in (DPSynthesis(), ProbabilisticKAnonymity(5), PixelPermutation(5), Unprotected(), learnt):
        assert not rows_are_independent(mechanism)


def test_rows_that_depend_on_each_other_are_not_taken_for_runs():
    """A hundred synthetic rows are drawn from one set of answers: one run, whatever their number."""
    message = (
        r"DPSynthesis does not state that its rows are independent.* 100 rows are one run.* to epsilon_lower_bound"
    )
    with pytest.raises(ParameterError, match=message):
        audit_mechanism_epsilon(DPSynthesis(1.0, rows=100), SCHEMA, HERE, THERE, 100, Seeded(0))


def test_rows_of_one_synthesis_taken_for_runs_would_refute_a_claim_that_holds():
    """Why they are refused: both inputs are alike (ε = 0), and each release's noise moves all of its rows together."""

    class SaysSo(DPSynthesis):
        rows_are_independent = True

    same = {"v": 2, "town": "b", "ill": "no"}
    found = audit_mechanism_epsilon(SaysSo(0.02, rows=2000), SMALL, same, same, 2000, Seeded(0), confidence=SURE)
    assert found.contradicts(0.02)


def test_claim_is_compared_with_its_delta():
    found = EpsilonBound(1.0, 0.01, 0.95, "an output in {1}", 5, 10, 1, 10, True)
    assert found.contradicts(DifferentiallyPrivate(epsilon=0.9, delta=0.01))
    assert found.contradicts(DifferentiallyPrivate(epsilon=0.9))
    assert not found.contradicts(DifferentiallyPrivate(epsilon=1.0, delta=0.01))
    assert not found.contradicts(1.0)
    with pytest.raises(ParameterError, match=r"allows delta=0.1, the bound only 0.01: compute the bound with"):
        found.contradicts(DifferentiallyPrivate(epsilon=0.5, delta=0.1))


def test_report_reads_well_and_is_plain():
    found = epsilon_lower_bound([1] * 7500 + [0] * 2500, [1] * 2500 + [0] * 7500, delta=0.001)
    text = found.sentence()
    assert "With 95 % confidence ε at δ=0.001 is at least 1.0" in text
    assert "of 5,000 runs on one input" in text
    assert "chosen on other runs than those counted" in text
    assert "never prove one" in text
    assert json.loads(json.dumps(found.to_json()))["runs"] == 5000


@pytest.mark.parametrize(
    ("first", "second", "options", "error", "message"),
    [
        ([], [1, 2], {}, DataError, "the first sample must be a list of outputs, one per run, got shape"),
        ([1, 2], [[1, 2]], {}, DataError, "the second sample must be a list of outputs, one per run, got shape"),
        ([1, 2], ["a", "b"], {}, DataError, "must hold whole numbers or scores, got <U1: number the outputs"),
        ([1.0, np.nan], [1.0, 2.0], {}, DataError, "the first sample has 1 scores that are NaN"),
        ([1, 2], [1.0, 2.0], {}, DataError, "the same kind of output, got int64 and float64: convert one"),
        ([1], [1, 2], {}, DataError, "half of the runs choose and half are counted, got 1 and 2: run at least 4 each"),
        ([1, 2], [1, 2], {"confidence": 1.0}, ParameterError, "confidence must be a number from 0 to below 1, got 1.0"),
        ([1, 2], [1, 2], {"delta": -0.1}, ParameterError, "delta must be a number from 0 to below 1, got -0.1"),
        ([1, 2], [1, 2], {"candidates": []}, ParameterError, "at least one set of outputs, got none"),
        ([1, 2], [1, 2], {"candidates": [1]}, ParameterError, "a collection of whole numbers for outputs, got 1"),
        ([1.0], [2.0], {"candidates": [{1}]}, ParameterError, "a threshold for scores, got {1}"),
    ],
)
def test_unusable_input_is_refused(first, second, options, error, message):
    with pytest.raises(error, match=message):
        epsilon_lower_bound(first, second, **options)
