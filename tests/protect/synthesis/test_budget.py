"""The budget of a synthesis, question by question, added up in exact arithmetic; and what the accounting rests on."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from eupg.errors import ParameterError
from eupg.guarantees.gaussian import gaussian_delta
from eupg.protect.synthesis.budget import Budget, Noise, concentrated
from eupg.protect.synthesis.questions import Binned, choose_tree, pair_score
from eupg.rng import Seeded

EPSILONS, RECORDS = st.floats(0.05, 200), st.integers(1, 20)


def costs(budget: Budget, records: int, features: int) -> list[tuple[Noise | Fraction, int]]:
    """Return every question with how often it is asked; the dearer of the two ways to ask about a feature."""
    cut = [(budget.cut, features), (budget.bins, features)]
    single = [(budget.single, features)]
    ways = [sum(times / n.scale**power for n, times in way) for way in (single, cut) for power in (1, 2)]
    dearer = cut if ways[2:] > ways[:2] else single
    pairs = [(budget.choice, features - 1), (budget.pair, features - 1)] if features > 1 else []
    return [(budget.count, 1), *dearer, *pairs]


def epsilon_of(question: Noise | Fraction, records: int) -> Fraction:
    return records / question.scale if isinstance(question, Noise) else 2 * question * records


def rho_of(question: Noise | Fraction, records: int) -> Fraction:
    return epsilon_of(question, records) ** 2 / (2 if isinstance(question, Noise) else 8)


@given(EPSILONS, RECORDS, st.integers(1, 100))
def test_pure_budgets_add_up_to_epsilon_exactly_and_hardly_less(epsilon, records, features):
    budget = Budget.split(epsilon, 0.0, records, features)
    spent = sum(epsilon_of(q, records) * times for q, times in costs(budget, records, features))
    assert Fraction(epsilon) * Fraction(9999, 10000) < spent <= Fraction(epsilon)


def implied_delta(rho: float, epsilon: float) -> float:
    """Return the least δ that ρ implies: inf over α of exp((α−1)(αρ−ε))·(1−1/α)^α/(α−1) (Canonne, Kamath, Steinke)."""

    def logarithm(size: float) -> float:
        above = math.exp(size)
        return above * ((1 + above) * rho - epsilon) - size - (1 + above) * math.log1p(1 / above)

    rough = min(np.linspace(-9, 16, 500), key=logarithm)
    return math.exp(minimize_scalar(logarithm, bounds=(rough - 0.1, rough + 0.1), method="bounded").fun)


@given(st.floats(0.1, 20), st.sampled_from([1e-9, 1e-6, 1e-2]), RECORDS, st.integers(1, 100))
@settings(max_examples=30)
def test_concentrated_budgets_add_up_to_what_implies_epsilon(epsilon, delta, records, features):
    budget = Budget.split(epsilon, delta, records, features)
    spent = float(sum(rho_of(q, records) * times for q, times in costs(budget, records, features)))
    assert 0.999 * concentrated(epsilon, delta) < spent <= concentrated(epsilon, delta)
    assert implied_delta(spent, epsilon) <= delta
    # Were all questions Gaussian, this would be their exact δ: less than what the conversion allows.
    assert gaussian_delta(math.sqrt(2 * spent), epsilon) <= delta


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-6), (1.0, 1e-6), (4.0, 1e-9), (0.1, 1e-5)])
def test_conversion_agrees_with_opendp(epsilon, delta):
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    sigma = math.sqrt(1 / (2 * concentrated(epsilon, delta)))
    space = dp.atom_domain(T=int), dp.absolute_distance(T=float)
    approximate = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=sigma))
    assert approximate.map(1.0).epsilon(delta) == pytest.approx(epsilon, rel=1e-3)
    assert approximate.map(1.0).epsilon(delta) <= epsilon


@pytest.mark.parametrize("epsilon", [1e-5, 1e-3, 0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("delta", [1e-15, 1e-6, 1e-2, 0.3])
def test_conversion_is_safe_by_its_formula_and_hardly_more_could_be_spent(epsilon, delta):
    rho = concentrated(epsilon, delta)
    assert implied_delta(rho, epsilon) <= delta
    if epsilon >= 1e-3:
        assert implied_delta(1.01 * rho, epsilon) > delta or rho > 0.99 * epsilon


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-8, 1e-300), (1e-9, 1e-6)])
def test_budget_too_small_for_any_noise_is_refused(epsilon, delta):
    with pytest.raises(ParameterError, match="ask for a larger ε"):
        Budget.split(epsilon, delta, 1, 3)


@pytest.mark.parametrize("epsilon", [1, np.int64(1), np.float32(1), np.float64(1)])
def test_any_kind_of_number_is_the_same_budget(epsilon):
    assert Budget.split(epsilon, 0.0, np.int64(2), 3) == Budget.split(1.0, 0.0, 2, 3)


CODES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 1)), max_size=30)


@given(CODES, CODES.filter(len), st.integers(0, 2**32), st.floats(0, 10))
def test_score_moves_by_at_most_one_for_each_record(records, more, seed, noise):
    rng = np.random.default_rng(seed)
    singles = [rng.uniform(0, 12, (size, 2)) for size in (3, 4)]

    def score(rows: list) -> int:
        codes = np.array(rows, dtype=np.int64).reshape(-1, 3)
        return pair_score(Binned([codes[:, 0], codes[:, 1]], codes[:, 2], singles), (0, 1), noise)

    assert abs(score(records + more[:1]) - score(records)) <= 1
    assert abs(score(records + more) - score(records)) <= len(more)


@pytest.mark.parametrize("noise", [0.0, 3.0])
def test_score_is_the_distance_from_independence_less_the_cost_of_noise(noise):
    binned = Binned([np.array([0, 0, 1, 1])] * 2, np.zeros(4, dtype=int), [np.full((2, 1), 2.0)] * 2)
    assert pair_score(binned, (0, 1), noise) == 4 - 4 * noise


def test_tree_connects_all_features_by_one_pair_less():
    rng = np.random.default_rng(0)
    binned = Binned([rng.integers(0, 2, 50) for _ in range(7)], np.zeros(50, dtype=int), [np.full((2, 1), 25.0)] * 7)
    pairs = choose_tree(binned, Budget.split(1.0, 0.0, 1, 7), Seeded(1))
    assert len(pairs) == 6
    part = {i: {i} for i in range(7)}
    for first, second in pairs:
        assert part[first] is not part[second]
        joined = part[first] | part[second]
        part.update(dict.fromkeys(joined, joined))
    assert part[0] == set(range(7))
