"""The accounting of noisy steps: against closed forms, an independent library, and chains computed on a grid."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from eupg.guarantees.gaussian import gaussian_delta, gaussian_epsilon, gaussian_ratio
from eupg.learn.noisy_finetuning import GradientClipping, ModelClipping

GOLDEN = json.loads((Path(__file__).parent / "gaussian_accounting.json").read_text(encoding="utf-8"))
CASES = GOLDEN["gaussian"]["cases"]
STEPS = st.builds(
    GradientClipping,
    start=st.floats(0.01, 10),
    gradient=st.floats(0.001, 10),
    decay=st.floats(0, 10),
    step_size=st.floats(0.001, 0.1),
    steps=st.integers(1, 200),
)


@pytest.mark.parametrize("case", GOLDEN["decided"]["cases"], ids=lambda case: case["what"])
def test_figures_that_were_worked_out_before(case):
    found = {
        "ratio": lambda: gaussian_ratio(1.0, 1e-5),
        "order": lambda: gaussian_ratio(1.0, 1e-5) ** 2 / 2,
        "published": lambda: gaussian_epsilon(math.sqrt(2.0), 1e-5),
    }[case["what"]]()
    assert found == pytest.approx(case["value"], abs=case["tolerance"])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_delta_is_the_closed_form(case):
    """δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ), here by integrating max(0, p − e^ε·q) itself."""
    ratio, epsilon = case["ratio"], case["epsilon"]
    crossing = epsilon / ratio + ratio / 2  # beyond this point p exceeds e^ε·q
    whole, _ = quad(
        lambda x: norm.pdf(x - ratio) - math.exp(epsilon) * norm.pdf(x), crossing, crossing + 40, epsabs=1e-13
    )
    assert gaussian_delta(ratio, epsilon) == pytest.approx(whole, rel=1e-6, abs=1e-12)
    assert gaussian_delta(ratio, epsilon) == pytest.approx(case["delta"], rel=GOLDEN["gaussian"]["tolerance"])


@pytest.mark.parametrize("ratio", [0.05, 0.268, 1.0, math.sqrt(2), 3.0])
def test_independent_library_agrees_from_both_sides(ratio):
    """Discretised privacy losses, rounded up and rounded down, enclose our figures; both ways round of the conversion.

    An interval of h moves ε by h at most, so a larger error than 1e-3 in ε would be seen. Rényi accounting is an upper
    bound and must lie above.
    """
    spread, step = 1 / ratio, 1e-3
    above = privacy_loss_distribution.from_gaussian_mechanism(
        spread, value_discretization_interval=step, use_connect_dots=False
    )
    below = privacy_loss_distribution.from_gaussian_mechanism(
        spread, value_discretization_interval=step, use_connect_dots=False, pessimistic_estimate=False
    )
    for delta in (1e-7, 1e-5, 1e-2):
        found, low = gaussian_epsilon(ratio, delta), below.get_epsilon_for_delta(delta)
        assert low - 1e-9 <= found <= above.get_epsilon_for_delta(delta) + 1e-9
        assert found - low <= 1.01 * step
        if found:
            assert gaussian_ratio(found, delta) == pytest.approx(ratio, rel=1e-6)
            assert RdpAccountant().compose(dp_event.GaussianDpEvent(spread)).get_epsilon(delta) >= found
    for epsilon in (0.1, 1.0, 4.0):
        found = gaussian_delta(ratio, epsilon)
        # The library cuts tails off at about 1e-15.
        low, high = below.get_delta_for_epsilon(epsilon), above.get_delta_for_epsilon(epsilon)
        assert low - 1e-14 <= found <= high + 1e-14


@given(STEPS, st.floats(0.05, 8), st.sampled_from([1e-9, 1e-5, 1e-2]))
def test_calibrated_noise_is_that_of_the_formula(noise, epsilon, delta):
    """σ² = [2C0·ρ^T + (2C1/λ)(1 − ρ^T)]²·γλ(2 − γλ) / [2·ε_R·(1 − ρ^2T)], with ε_R = μ²/2; and its limit for λ = 0."""
    renyi = gaussian_ratio(epsilon, delta) ** 2 / 2
    share, rest = noise.step_size * noise.decay, (1 - noise.step_size * noise.decay) ** noise.steps
    if share > 1e-4:
        reach = 2 * noise.start * rest + 2 * noise.gradient / noise.decay * (1 - rest)
        variance = reach**2 * share * (2 - share) / (2 * renyi * (1 - rest**2))
    elif share == 0:
        variance = (2 * noise.start + 2 * noise.step_size * noise.gradient * noise.steps) ** 2 / (
            2 * renyi * noise.steps
        )
    else:
        return
    assert noise.sigma(epsilon, delta) == pytest.approx(math.sqrt(variance), rel=1e-6)


def test_no_decay_is_the_limit_of_little_decay():
    none, little = (GradientClipping(1.0, 0.1, decay, 0.1, 20).sigma(1.0, 1e-5) for decay in (0.0, 1e-9))
    assert little == pytest.approx(none, rel=1e-6)


def test_one_step_is_the_gaussian_mechanism():
    noise = GradientClipping(start=2.0, gradient=0.5, decay=1.0, step_size=0.1, steps=1)
    assert noise.reach == pytest.approx(2 * 2.0 * 0.9 + 2 * 0.1 * 0.5)
    assert gaussian_delta(noise.reach / noise.sigma(1.0, 1e-5), 1.0) == pytest.approx(1e-5, rel=1e-6)
    clipped = ModelClipping(radius=2.0, step_size=0.1, steps=1)
    assert gaussian_delta(4.0 / clipped.sigma(1.0, 1e-5), 1.0) == pytest.approx(1e-5, rel=1e-6)


@given(STEPS, st.floats(0.05, 8), st.sampled_from([1e-9, 1e-5, 1e-2]))
def test_calibration_errs_on_the_safe_side_and_hardly(noise, epsilon, delta):
    sigma = noise.sigma(epsilon, delta)
    assert gaussian_delta(noise.ratio(sigma), epsilon) <= delta
    assert gaussian_delta(noise.ratio(sigma * 0.999), epsilon) > delta
    assert noise.epsilon(sigma, delta) == pytest.approx(epsilon, rel=1e-5)


@given(st.floats(0.01, 10), st.integers(1, 100), st.floats(0.05, 8), st.sampled_from([1e-9, 1e-5, 1e-2]))
def test_model_clipping_spends_one_factor_of_delta_a_step(radius, steps, epsilon, delta):
    noise = ModelClipping(radius, 0.1, steps)
    sigma = noise.sigma(epsilon, delta)
    assert gaussian_delta(2 * radius / sigma, epsilon) ** steps <= delta
    assert gaussian_delta(2 * radius / (sigma * 0.999), epsilon) ** steps > delta
    assert noise.epsilon(sigma, delta) == pytest.approx(epsilon, rel=1e-4)


@given(STEPS)
def test_each_step_can_afford_the_shift_it_is_charged(noise):
    """The proof absorbs the distance z of two runs bit by bit, a_t at step t, so that Σ a_t²/σ² = μ².

    z shrinks by ρ, grows by 2γ·C1 and loses a_t ≤ that at each step, and must end at 0 without going below.
    """
    weights = noise.keeps ** np.arange(noise.steps)[::-1]
    shifts = noise.reach * weights / (weights**2).sum()
    apart = 2 * noise.start
    for shift in shifts:
        apart = noise.keeps * apart + 2 * noise.step_size * noise.gradient - shift
        assert apart >= -1e-9 * noise.reach
    assert apart == pytest.approx(0.0, abs=1e-9 * noise.reach)
    assert math.sqrt((shifts**2).sum()) == pytest.approx(noise.ratio(1.0))


def chain(move, start: float, sigma: float, steps: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return grid and density of x ← move(x) + N(0, σ²) after some steps in one dimension, by plain integration."""
    grid = np.linspace(-15, 15, 1501)
    width = grid[1] - grid[0]
    kernel = norm.pdf(grid[:, None], move(grid)[None, :], sigma) * width
    density = norm.pdf(grid, move(np.array([start]))[0], sigma)
    for _ in range(steps - 1):
        density = kernel @ density
    return grid, density, width


def overshoot(p: np.ndarray, q: np.ndarray, epsilon: float, width: float) -> float:
    """Return δ(ε): how far p exceeds e^ε·q, in all."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * width)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("drive", [1.0, -1.0], ids=["apart", "together"])
def test_gradient_clipping_bounds_the_exact_chain(epsilon, steps, drive):
    """In one dimension, with gradients that drive two runs apart (or together), δ is computed outright."""
    noise, sigma = GradientClipping(start=1.0, gradient=0.6, decay=0.2, step_size=1.0, steps=steps), 0.8

    def move(x: np.ndarray) -> np.ndarray:
        return noise.keeps * x + noise.step_size * noise.gradient * drive * np.sign(x)

    (_, p, width), (_, q, _) = (chain(move, side * noise.start, sigma, steps) for side in (1.0, -1.0))
    assert p.sum() * width == pytest.approx(1.0, abs=1e-6)
    bound = gaussian_delta(noise.ratio(sigma), epsilon)
    assert overshoot(p, q, epsilon, width) <= bound + 1e-4
    if steps == 1 and drive > 0:
        assert overshoot(p, q, epsilon, width) == pytest.approx(bound, rel=1e-3)


def test_gradient_clipping_bound_is_nearly_reached_where_gradients_drive_two_runs_apart():
    noise, sigma = GradientClipping(start=2.0, gradient=0.2, decay=0.2, step_size=1.0, steps=2), 1.0

    def move(x: np.ndarray) -> np.ndarray:
        return noise.keeps * x + noise.gradient * np.sign(x)

    (_, p, width), (_, q, _) = (chain(move, side * noise.start, sigma, 2) for side in (1.0, -1.0))
    assert overshoot(p, q, 0.5, width) > 0.97 * gaussian_delta(noise.ratio(sigma), 0.5)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("steps", [1, 2, 5, 10])
def test_gradient_clipping_bound_is_exact_without_gradients(epsilon, steps):
    noise, sigma = GradientClipping(start=2.0, gradient=1e-12, decay=0.2, step_size=1.0, steps=steps), 0.7
    (_, p, width), (_, q, _) = (chain(lambda x: noise.keeps * x, side * noise.start, sigma, steps) for side in (1, -1))
    bound = gaussian_delta(noise.ratio(sigma), epsilon)
    assert overshoot(p, q, epsilon, width) == pytest.approx(bound, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_model_clipping_bounds_the_exact_chain(epsilon, steps):
    noise, sigma = ModelClipping(radius=1.0, step_size=1.0, steps=steps), 0.8

    def move(x: np.ndarray) -> np.ndarray:
        return noise.radius * np.sign(x)  # the farthest apart that clipping lets two points be

    (_, p, width), (_, q, _) = (chain(move, side, sigma, steps) for side in (1.0, -1.0))
    found, bound = overshoot(p, q, epsilon, width), gaussian_delta(2 * noise.radius / sigma, epsilon) ** steps
    assert found <= bound + 1e-4
    if steps == 1:
        assert found == pytest.approx(bound, rel=1e-2)
    if epsilon == 0:
        # Total variation contracts by exactly this factor in a chain of two points.
        assert found == pytest.approx(bound, rel=0.05)
