"""Randomness: repeatable where a seed was given, never otherwise, and every order equally likely."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2

from eupg.errors import ParameterError
from eupg.rng import Randomness, Secret, Seeded

ALPHA = 1e-6
ORDERS = list(permutations(range(3)))


def chi_square(outcomes, possible):
    """Return the statistic of the outcomes against equal shares of all possible ones."""
    counts = np.array([sum(o == p for o in outcomes) for p in possible])
    expected = len(outcomes) / len(possible)
    return ((counts - expected) ** 2 / expected).sum()


def threshold(possible):
    """Return what the statistic exceeds by chance once in a million."""
    return chi2.isf(ALPHA, len(possible) - 1)


class Listed(Randomness):
    """Keys that a test wrote down, one list a draw."""

    seeded = True

    def __init__(self, *draws):
        self.draws = list(draws)

    def stage(self, name):
        return self

    def words(self, count):
        return np.array(self.draws.pop(0), dtype=np.uint64)

    def generator(self):
        raise NotImplementedError


def test_same_seed_and_stage_repeat():
    first, second = Seeded(7).stage("protect"), Seeded(7).stage("protect")
    np.testing.assert_array_equal(first.words(50), second.words(50))
    np.testing.assert_array_equal(first.permutation(50), second.permutation(50))


def test_stages_differ_by_name():
    root = Seeded(7)
    streams = [root, root.stage("a"), root.stage("b"), root.stage("a").stage("b"), root.stage("b").stage("a")]
    assert len({s.words(4).tobytes() for s in streams}) == len(streams)


def test_seeds_differ():
    assert not np.array_equal(Seeded(1).words(4), Seeded(2).words(4))


def test_stage_does_not_depend_on_what_was_drawn():
    fresh, used = Seeded(7), Seeded(7)
    used.words(1000)
    used.stage("other").words(10)
    np.testing.assert_array_equal(fresh.stage("x").words(5), used.stage("x").words(5))


def test_a_stream_goes_on_instead_of_repeating():
    stream = Seeded(7).stage("x")
    assert not np.array_equal(stream.words(4), stream.words(4))


def test_seeded_generator_starts_from_its_beginning_each_time():
    stage = Seeded(7).stage("weights")
    stage.words(9)
    assert stage.generator().random() == stage.generator().random()


def test_generator_and_words_are_different_streams():
    stage = Seeded(7).stage("x")
    drawn = stage.generator().integers(0, 2**63, size=4, dtype=np.uint64)
    assert not np.array_equal(drawn, stage.words(4))


def test_seeded_says_so_and_secret_does_not():
    assert Seeded(0).seeded
    assert Seeded(0).stage("x").seeded
    assert not Secret().seeded
    assert not Secret().stage("x").seeded


def test_repr_shows_seed_and_stage():
    assert repr(Seeded(7)) == "Seeded(7, root)"
    assert repr(Seeded(7).stage("protect").stage("noise")) == "Seeded(7, protect/noise)"


def test_numpy_integer_is_a_seed():
    np.testing.assert_array_equal(Seeded(np.int64(3)).words(3), Seeded(3).words(3))


@pytest.mark.parametrize("seed", [-1, 1.0, "7", None, True, np.float64(3)])
def test_seed_that_is_no_natural_number_is_refused(seed):
    with pytest.raises(ParameterError, match=r"non-negative integer, got .*: pass for example Seeded\(7\)"):
        Seeded(seed)


def test_secret_never_repeats():
    assert not np.array_equal(Secret().words(4), Secret().words(4))
    assert Secret().generator().random() != Secret().generator().random()


def test_secret_asks_the_operating_system(monkeypatch):
    asked = []
    monkeypatch.setattr("os.urandom", lambda count: asked.append(count) or b"\xff" * count)
    assert Secret().words(3).tolist() == [2**63 - 1] * 3
    assert asked == [24]


def unbalanced_bits(words):
    """Return the bits, of 63, that are set too often or too rarely for a fair coin; false alarm 1e-6 over all."""
    low, high = binom.ppf([ALPHA / 126, 1 - ALPHA / 126], len(words), 0.5)
    ones = [int(((words >> np.uint64(bit)) & np.uint64(1)).sum()) for bit in range(63)]
    return [bit for bit, count in enumerate(ones) if not low <= count <= high]


@pytest.mark.parametrize("source", [Seeded(11), Secret()])
def test_words_are_63_balanced_bits(source):
    """False alarm 1e-6; with 20,000 words a bit that is set in 54 % of them is missed less than once in a million."""
    words = source.words(20_000)
    assert words.dtype == np.uint64
    assert (words < 2**63).all()
    assert unbalanced_bits(words) == []


def test_bit_test_fails_on_a_biased_bit():
    biased = np.uint64(np.random.default_rng(5).random(20_000) < 0.54)
    assert unbalanced_bits(Seeded(11).words(20_000) & ~np.uint64(1) | biased) == [0]


@pytest.mark.parametrize("source", [Seeded(3), Secret()])
@pytest.mark.parametrize("count", [0, 1])
def test_nothing_and_one_item_have_one_order(source, count):
    assert source.permutation(count).tolist() == list(range(count))


@pytest.mark.parametrize("source", [Seeded(5), Secret()])
def test_every_order_of_three_is_equally_likely(source):
    """Chi-square over all 3! orders, false alarm 1e-6.

    With 6,000 draws one order at 1/6 + 0.05 is missed less than once in a thousand times.
    """
    drawn = [tuple(source.permutation(3).tolist()) for _ in range(6_000)]
    assert chi_square(drawn, ORDERS) < threshold(ORDERS)


def _ties_by_index(rng):
    return tuple(np.argsort(rng.integers(0, 4, 3), kind="stable").tolist())


def _first_stays(rng):
    return (0, *(1 + rng.permutation(2)).tolist())


def _one_swap_with_anyone(rng):
    order = [0, 1, 2]
    for i in range(3):
        j = rng.integers(3)
        order[i], order[j] = order[j], order[i]
    return tuple(order)


@pytest.mark.parametrize("broken", [_ties_by_index, _first_stays, _one_swap_with_anyone])
def test_order_test_fails_on_a_broken_permutation(broken):
    rng = np.random.default_rng(5)
    drawn = [broken(rng) for _ in range(6_000)]
    assert chi_square(drawn, ORDERS) > threshold(ORDERS)


def test_groups_are_permuted_independently_of_each_other():
    """Chi-square over the four outcomes of two groups of two, false alarm 1e-6; one coin for both groups fails."""
    groups, source = np.array([0, 1, 1, 0]), Seeded(5)
    drawn = [tuple(source.permutation_within(groups).tolist()) for _ in range(2_000)]
    possible = [(0, 1, 2, 3), (3, 1, 2, 0), (0, 2, 1, 3), (3, 2, 1, 0)]
    assert set(drawn) <= set(possible)
    assert chi_square(drawn, possible) < threshold(possible)
    one_coin = [possible[3 * (o in possible[:2])] for o in drawn]
    assert chi_square(one_coin, possible) > threshold(possible)


@given(groups=st.lists(st.integers(-3, 3), max_size=40), seed=st.integers(0, 2**32))
@settings(max_examples=80, deadline=None)
def test_permutation_within_moves_each_value_inside_its_group(groups, seed):
    groups = np.array(groups, dtype=np.int64)
    source = Seeded(seed).permutation_within(groups)
    np.testing.assert_array_equal(np.sort(source), np.arange(len(groups)))
    np.testing.assert_array_equal(groups[source], groups)


def test_equal_keys_in_a_group_are_drawn_again():
    source = Listed([5, 5, 1], [3, 2, 1])
    assert source.permutation(3).tolist() == [2, 1, 0]
    assert not source.draws


def test_equal_keys_in_different_groups_are_no_tie():
    source = Listed([5, 5, 1, 1], [0, 0, 0, 0])
    assert source.permutation_within(np.array([0, 1, 0, 1])).tolist() == [2, 3, 0, 1]
    assert len(source.draws) == 1
