"""Noise against closed forms and another library's sampler.

All but two sources of randomness are seeded. The operating system's is tested at 1e-9, OpenDP's at 1e-7: both together
raise a false alarm less than once in a million runs.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency

from eupg.errors import ParameterError
from eupg.protect.noise.discrete import (
    below,
    bernoulli_exp,
    discrete_gaussian,
    discrete_laplace,
    exponential_choice,
    scale_at_least,
)
from eupg.rng import Randomness, Secret, Seeded
from statistical.refuting import RARE, chi_square

N = 200_000
# Below this two samples are called different.
LOW = 1e-7


class Script(Randomness):
    """Words that are given, one after the other."""

    seeded = True

    def __init__(self, *words):
        self.left = list(words)

    def stage(self, name):
        return self

    def words(self, count):
        return np.array([self.left.pop(0) for _ in range(count)], dtype=np.uint64)

    def generator(self):
        raise NotImplementedError


def laplace_chances(scale: float, reach: int) -> np.ndarray:
    z = np.abs(np.arange(-reach, reach + 1))
    return np.exp(-z / scale) * math.tanh(1 / (2 * scale))


def gaussian_chances(sigma: float, reach: int) -> np.ndarray:
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma**2))
    return weights / weights.sum()


def counted(drawn: np.ndarray, reach: int) -> np.ndarray:
    assert np.abs(drawn).max() <= reach, "a draw this far out has a chance below 1e-9"
    return np.bincount(drawn + reach, minlength=2 * reach + 1)


@pytest.mark.parametrize("scale", ["1/3", "1", "7/2", "50", "262144/1001"])
def test_discrete_laplace_has_the_probabilities_of_its_formula(scale):
    """P(z) = tanh(1/2t)·exp(−|z|/t): chi-square at 1e-9; a scale five percent off fails it."""
    exact = Fraction(scale)
    reach = math.ceil(25 * exact) + 1
    seen = counted(discrete_laplace(exact, N, Seeded(1)), reach)
    assert chi_square(seen, laplace_chances(float(exact), reach)) > RARE
    for off in (0.95, 1.05) if exact >= 1 else ():
        assert chi_square(seen, laplace_chances(float(exact) * off, reach)) < RARE


@pytest.mark.parametrize("sigma", ["1/2", "1", "7/2", "50", "262144/1001"])
def test_discrete_gaussian_has_the_probabilities_of_its_formula(sigma):
    """P(z) ∝ exp(−z²/2σ²): chi-square at 1e-9; a deviation three percent off fails it."""
    exact = Fraction(sigma)
    reach = math.ceil(9 * exact)
    seen = counted(discrete_gaussian(exact, N, Seeded(2)), reach)
    assert chi_square(seen, gaussian_chances(float(exact), reach)) > RARE
    for off in (0.97, 1.03):
        assert chi_square(seen, gaussian_chances(float(exact) * off, reach)) < RARE


def test_operating_system_randomness_gives_the_same_probabilities():
    """Two chi-square tests at 1e-9."""
    seen = counted(discrete_laplace(Fraction(3), N, Secret()), 80)
    assert chi_square(seen, laplace_chances(3.0, 80)) > RARE
    seen = counted(discrete_gaussian(Fraction(3), N, Secret()), 30)
    assert chi_square(seen, gaussian_chances(3.0, 30)) > RARE


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_noise_agrees_with_opendp(kind):
    """OpenDP's samplers as oracle; chi-square at 1e-7, and another scale is told apart."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    measure, metric = {
        "laplace": (dp.m.make_laplace, dp.l1_distance(T=int)),
        "gaussian": (dp.m.make_gaussian, dp.l2_distance(T=float)),
    }[kind]
    draw = {"laplace": discrete_laplace, "gaussian": discrete_gaussian}[kind]
    oracle = measure(dp.vector_domain(dp.atom_domain(T=int)), metric, scale=2.5)
    theirs = np.clip(oracle([0] * 10_000), -8, 8) + 8
    for scale, alike in (("5/2", True), ("2", False)):
        ours = np.clip(draw(Fraction(scale), N, Seeded(3)), -8, 8) + 8
        table = [np.bincount(sample, minlength=17) for sample in (theirs, ours)]
        assert (chi2_contingency(table).pvalue > LOW) == alike


@pytest.mark.parametrize("rate", ["0", "1/10", "2", "1/1000000000"])
def test_exponential_choice_has_the_probabilities_of_its_formula(rate):
    """P(i) ∝ exp(rate·score): chi-square at 1e-9."""
    scores, exact = [3, -1, 0, 3, 2], Fraction(rate)
    rng = Seeded(4)
    seen = np.bincount([exponential_choice(scores, exact, rng) for _ in range(3000)], minlength=5)
    assert chi_square(seen, np.exp(float(exact) * np.array(scores))) > RARE
    if rate == "1/10":
        assert chi_square(seen, np.exp(2 * 0.1 * np.array(scores))) < RARE


def test_exponential_choice_among_many_takes_the_first_that_passes():
    """More positions than are tried at a time, only two of them likely: 3 to 1."""
    scores = np.full(5000, -1000)
    scores[[77, 4321]] = 10, 0
    rng, rate = Seeded(5), Fraction(11, 100)
    seen = [exponential_choice(scores.tolist(), rate, rng) for _ in range(150)]
    assert set(seen) == {77, 4321}
    assert chi_square(np.bincount(np.equal(seen, 77), minlength=2), np.array([1, math.exp(1.1)])) > RARE


def test_exponential_choice_survives_scores_and_rates_of_any_size():
    rng = Seeded(6)
    assert exponential_choice([0, 2**40, 5], Fraction(10) ** 30, rng) == 1
    assert exponential_choice([7], Fraction(1), rng) == 0
    assert exponential_choice([-(2**50), -(2**50) - 900], Fraction(1), rng) == 0


def test_rate_is_rounded_down_to_less_privacy_loss_never_up():
    """A rate too small to write counts as none: both are as likely, however far their scores are apart."""
    rng = Seeded(10)
    seen = [exponential_choice([0, -(2**34)], Fraction(1, 2**40), rng) for _ in range(1000)]
    assert chi_square(np.bincount(seen, minlength=2), np.ones(2)) > RARE


@pytest.mark.parametrize("gamma", ["0", "1/7", "1", "5/3", "4"])
def test_bernoulli_exp_succeeds_with_the_chance_of_its_formula(gamma):
    exact = Fraction(gamma)
    hits = bernoulli_exp(np.full(N, exact.numerator), exact.denominator, Seeded(7)).sum()
    chance = math.exp(-float(exact))
    assert chi_square(np.array([hits, N - hits]), np.array([chance, 1 - chance])) > RARE


def test_bernoulli_exp_of_different_chances_keeps_each_to_its_own():
    gammas = np.tile([0, 1, 9, 25], N // 4)
    hits = bernoulli_exp(gammas, 10, Seeded(8)).reshape(-1, 4).sum(axis=0)
    for seen, gamma in zip(hits, gammas, strict=False):
        chance = math.exp(-gamma / 10)
        assert chi_square(np.array([seen, N // 4 - seen]), np.array([chance, 1 - chance])) > RARE
    assert hits[0] == N // 4


@pytest.mark.parametrize("bound", [1, 2, 3, 1000, 2**41, 2**62 + 1, 2**63 - 1])
def test_below_gives_every_number_as_many_words(bound):
    """The words of the last, incomplete stretch are drawn again; all others count, one by one."""
    whole = 2**63 - 2**63 % bound
    assert below(np.array([bound]), Script(whole - 1)) == [bound - 1]
    assert below(np.array([bound]), Script(0)) == [0]
    for refused in {whole, 2**63 - 1} - {2**63} if whole < 2**63 else ():
        assert below(np.array([bound]), Script(refused, refused, bound // 2)) == [bound // 2]


@given(st.lists(st.integers(1, 2**62), min_size=1, max_size=20), st.integers(0, 2**32))
def test_below_stays_below_each_bound(bounds, seed):
    drawn = below(np.array(bounds), Seeded(seed))
    assert (drawn >= 0).all()
    assert (drawn < bounds).all()


@given(st.fractions(Fraction(1, 10**30), 2**20 - 1))
@settings(max_examples=100)
def test_scale_is_at_least_what_was_asked_and_hardly_more(scale):
    found = scale_at_least(scale)
    assert found >= scale
    assert found.numerator <= 2**20
    assert found <= scale * (1 + Fraction(1, 2**18)) + Fraction(1, 2**40)


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), Fraction(2**20), Fraction(10) ** 30])
def test_scale_out_of_reach_is_refused_with_the_remedy(scale):
    with pytest.raises(ParameterError, match="ask for a larger ε"):
        scale_at_least(scale)


@pytest.mark.parametrize("draw", [discrete_laplace, discrete_gaussian])
def test_scale_that_is_too_fine_is_refused(draw):
    with pytest.raises(ParameterError, match="round it up with scale_at_least"):
        draw(Fraction(2**21 + 1, 2**21), 1, Seeded(1))


@pytest.mark.parametrize("draw", [discrete_laplace, discrete_gaussian])
def test_noise_of_almost_no_scale_is_zero(draw):
    assert not draw(scale_at_least(Fraction(1, 10**300)), 1000, Seeded(1)).any()


@pytest.mark.parametrize("draw", [discrete_laplace, discrete_gaussian])
def test_widest_noise_has_its_spread_and_both_signs(draw):
    """Nothing overflows at the largest scale; the mean size of the noise is known to a percent."""
    drawn = draw(scale_at_least(Fraction(2**20 - 1)), 40_000, Seeded(9)) / 2**20
    assert np.abs(drawn).mean() == pytest.approx(1.0 if draw is discrete_laplace else math.sqrt(2 / math.pi), rel=0.02)
    assert (drawn > 0).mean() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("draw", [discrete_laplace, discrete_gaussian])
def test_no_draw_is_no_draw(draw):
    assert draw(Fraction(1), 0, Seeded(1)).tolist() == []
