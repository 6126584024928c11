import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eupg.errors import ParameterError, PrivacyError
from eupg.protect.channel import TOTAL, LaplaceChannel, TableChannel, randomised_response, within_ratio
from eupg.rng import Secret, Seeded


def worst_ratio(channel) -> Fraction:
    """Slow and obvious: every output, every two inputs, in exact fractions."""
    weights = channel.matrix().tolist()
    columns = list(zip(*weights, strict=True))
    return max(Fraction(max(c), min(c)) for c in columns)


@given(st.integers(1, 60), st.floats(1e-4, 200))
def test_laplace_rows_sum_exactly_and_the_claim_holds_over_all_inputs(size, epsilon):
    channel = LaplaceChannel.build(size, epsilon)
    assert all(sum(row) == TOTAL for row in channel.matrix().tolist())
    assert worst_ratio(channel) <= Fraction(math.exp(epsilon)) * Fraction(1 + 1e-12)


@given(st.integers(1, 40), st.floats(1e-4, 200))
def test_randomised_response_meets_its_claim_and_uses_nearly_all_of_it(size, epsilon):
    channel = randomised_response(size, epsilon)
    worst = worst_ratio(channel)
    assert all(sum(row) == TOTAL for row in channel.weights.tolist())
    assert worst <= Fraction(math.exp(epsilon)) * Fraction(1 + 1e-12)
    if size > 1 and epsilon < 30:
        assert math.log(worst) > epsilon * (1 - 1e-4)


@given(st.integers(0, 10**6), st.integers(2, 12), st.floats(0.01, 5))
def test_exponential_mechanism_meets_its_claim_for_any_utility(seed, size, epsilon):
    utility = np.random.default_rng(seed).uniform(-1, 1, (size, size))
    worst = worst_ratio(TableChannel.build(utility, epsilon))
    assert worst <= Fraction(math.exp(epsilon)) * Fraction(1 + 1e-12)


def test_exponential_mechanism_spends_the_budget_the_textbook_scale_leaves():
    utility = 2 * np.eye(5) - 1
    worst = worst_ratio(TableChannel.build(utility, 1.0))
    assert math.log(worst) > 0.999  # ε/(2·2) as scale would give a ratio of e^0.5 here


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 5.0])
def test_utility_that_cannot_tell_inputs_apart_gives_equal_rows(epsilon):
    weights = TableChannel.build(np.tile([1.0, 0.0, -1.0], (3, 1)), epsilon).weights
    assert (weights == weights[0]).all()


@pytest.mark.parametrize(
    ("size", "epsilon"), [(2**20, 1e-3), (2**20, 20.0), (2**20, 1000.0), (9, 50.0), (100_000, 1 / 12), (73_000, 300.0)]
)
def test_large_grids_pass_their_own_exact_check(size, epsilon):
    LaplaceChannel.build(size, epsilon).check()


@pytest.mark.parametrize("size", [2, 3, 10, 41])
def test_fast_check_agrees_with_the_full_matrix(size):
    channel = LaplaceChannel.build(size, 1.0)
    for position in (0, size // 2, size - 2):
        noise = channel.noise.copy()
        noise[position] += np.uint64(10**17)
        noise[-1] -= np.uint64(10**17 if position else 10**17 // 2)
        broken = LaplaceChannel(size, 1.0, noise)
        if worst_ratio(broken) > Fraction(math.e):
            with pytest.raises(PrivacyError, match="differ by more"):
                broken.check()
        else:
            broken.check()


def test_check_refuses_a_channel_built_for_a_larger_epsilon():
    loose = LaplaceChannel.build(50, 1.001)
    with pytest.raises(PrivacyError, match="not ε-private"):
        LaplaceChannel(50, 1.0, loose.noise).check()
    with pytest.raises(PrivacyError):
        TableChannel(1.0, randomised_response(5, 1.001).weights).check()


def test_check_refuses_rows_that_do_not_sum():
    noise = LaplaceChannel.build(5, 1.0).noise.copy()
    noise[1] += np.uint64(1)
    with pytest.raises(PrivacyError, match="sum to"):
        LaplaceChannel(5, 1.0, noise).check()
    weights = randomised_response(3, 1.0).weights.copy()
    weights[1, 1] -= np.uint64(1)
    with pytest.raises(PrivacyError, match="sum to"):
        TableChannel(1.0, weights).check()


def test_ratio_is_decided_in_exact_arithmetic():
    # One unit apart at 10^30: no float can tell these two apart.
    bound = math.floor(Fraction(math.e) * 10**15)
    within_ratio(bound, 10**15, 1.0)
    with pytest.raises(PrivacyError):
        within_ratio(bound + 3, 10**15, 1.0)


@pytest.mark.parametrize("channel", [LaplaceChannel.build(7, 1.5), randomised_response(7, 1.5)])
def test_samples_follow_the_weights(channel):
    """Chi-square per input at 1e-7: false alarm below 1e-6 over the test; catches a 2 % error in any large cell."""
    from scipy.stats import chisquare

    for code in range(channel.size):
        drawn = channel.sample(np.full(200_000, code), Seeded(code))
        seen = np.bincount(drawn, minlength=channel.size)
        expected = channel.matrix()[code].astype(float) / TOTAL * len(drawn)
        assert chisquare(seen, expected).pvalue > 1e-7
        assert chisquare(np.roll(seen, 1), expected).pvalue < 1e-7


def test_samples_stay_on_the_grid_from_real_entropy():
    channel = LaplaceChannel.build(100, 0.1)
    drawn = channel.sample(np.repeat([0, 99], 5000), Secret())
    assert drawn.min() == 0
    assert drawn.max() == 99


def test_single_value_passes_through():
    assert (LaplaceChannel.build(1, 1.0).sample(np.zeros(5, int), Seeded(1)) == 0).all()
    assert (randomised_response(1, 1.0).sample(np.zeros(5, int), Seeded(1)) == 0).all()


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan, "1"])
def test_epsilon_must_be_positive_and_finite(epsilon):
    with pytest.raises(ParameterError, match="positive finite"):
        LaplaceChannel.build(5, epsilon)


def test_grid_and_category_limits_name_the_remedy():
    with pytest.raises(ParameterError, match="coarser resolution"):
        LaplaceChannel.build(2**21, 1.0)
    with pytest.raises(ParameterError, match="merge rare ones"):
        randomised_response(5000, 1.0)
    with pytest.raises(ParameterError, match="square table of finite"):
        TableChannel.build(np.full((2, 2), np.nan), 1.0)


def test_discrete_laplace_agrees_with_opendp():
    """OpenDP's clamped discrete Laplace as oracle; chi-square at 1e-7, and another scale is told apart."""
    from scipy.stats import chi2_contingency

    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    size, epsilon, start = 6, 1.0, 2
    domain, metric = dp.atom_domain(T=dp.i32), dp.absolute_distance(T=dp.i32)
    oracle = dp.m.make_geometric(domain, metric, scale=(size - 1) / epsilon)
    theirs = np.clip([oracle(start) for _ in range(20_000)], 0, size - 1)
    ours = LaplaceChannel.build(size, epsilon).sample(np.full(200_000, start), Seeded(3))
    other = LaplaceChannel.build(size, 2 * epsilon).sample(np.full(200_000, start), Seeded(3))
    table = [np.bincount(theirs, minlength=size), np.bincount(ours, minlength=size)]
    assert chi2_contingency(table).pvalue > 1e-7
    table[1] = np.bincount(other, minlength=size)
    assert chi2_contingency(table).pvalue < 1e-7
