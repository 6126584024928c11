"""Exact discrete noise of a large spread: its distribution, and the Gaussian's distance from the rounded one."""

import numpy as np
import pytest
from scipy.stats import chisquare, laplace, norm

from eupg.protect.noise import fast as module
from eupg.protect.noise.fast import SPREAD, distance, exact_gaussian, exact_laplace
from eupg.rng import Secret, Seeded
from statistical.refuting import RARE


def discrete(spread: float, reach: int, power: int = 2) -> np.ndarray:
    weights = np.exp(-(np.abs(np.arange(-reach, reach + 1) / spread) ** power) / power)
    return weights / weights.sum()


@pytest.mark.parametrize("rng", [Seeded(3), Secret()], ids=["seeded", "secret"])
@pytest.mark.parametrize(
    ("draw", "shape"), [(exact_gaussian, norm), (exact_laplace, laplace)], ids=["gauss", "laplace"]
)
def test_draws_have_the_shape_and_spread(draw, shape, rng):
    drawn = draw(200_000, rng) / SPREAD
    bins = np.histogram(shape.cdf(drawn), np.linspace(0, 1, 65))[0]
    assert chisquare(bins).pvalue > RARE
    tails = [(np.abs(drawn) > far).sum() for far in (2, 3)]
    expected = [len(drawn) * 2 * shape.sf(far) for far in (2, 3)]
    assert np.abs((np.array(tails) - expected) / np.sqrt(expected)).max() < 6


@pytest.mark.parametrize("draw", [exact_gaussian, exact_laplace])
def test_low_bits_are_as_random_as_high_ones(draw):
    drawn = draw(100_000, Seeded(4))
    assert chisquare(np.bincount(drawn & 63, minlength=64)).pvalue > RARE
    # Neither sign nor size tells the other draws.
    assert abs(np.corrcoef(drawn[:-1].astype(float), drawn[1:].astype(float))[0, 1]) < 0.02


@pytest.mark.parametrize("bits", [0, 1, 2])
@pytest.mark.parametrize(("draw", "power"), [(exact_gaussian, 2), (exact_laplace, 1)], ids=["gauss", "laplace"])
def test_a_small_spread_has_the_exact_probabilities(draw, power, bits, monkeypatch):
    """The same code, not compiled, with a spread at which every single outcome can be counted."""
    monkeypatch.setattr(module, "BITS", bits)
    for name in ("_one_in", "_exp_minus", "_fill"):
        monkeypatch.setattr(module, name, getattr(module, name).py_func)
    drawn = draw(15_000, Seeded(5))
    reach = 20 * 2**bits
    chance = discrete(2.0**bits, reach, power)
    counts = np.bincount(np.clip(drawn, -reach, reach) + reach, minlength=2 * reach + 1)
    likely = chance * len(drawn) > 5
    found = np.append(counts[likely], counts[~likely].sum())
    wanted = np.append(chance[likely], chance[~likely].sum()) * len(drawn)
    assert chisquare(found, wanted * found.sum() / wanted.sum()).pvalue > 1e-6


@pytest.mark.parametrize("draw", [exact_gaussian, exact_laplace])
def test_running_out_of_random_words_changes_no_draw(draw, monkeypatch):
    at_once = draw(3_000, Seeded(6))
    monkeypatch.setattr(module, "_WORDS", 1)
    monkeypatch.setattr(module, "_CHUNK", 16)
    assert (draw(3_000, Seeded(6)) == at_once).all()


@pytest.mark.parametrize("spread", [16.0, 64.0])
def test_distance_from_the_rounded_gaussian_is_bounded_and_not_by_far_too_much(spread):
    reach = int(12 * spread)
    grid = np.arange(-reach, reach + 1)
    rounded = norm.cdf((grid + 0.5) / spread) - norm.cdf((grid - 0.5) / spread)
    apart = np.abs(rounded - discrete(spread, reach)).sum() / 2
    # As the bound says for the spread in use.
    assert apart < distance(1) * (SPREAD / spread) ** 2 < 1.5 * apart


def test_distances_of_draws_add_up():
    assert distance(1000) == pytest.approx(1000 * distance(1))
