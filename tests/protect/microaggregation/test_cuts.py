import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eupg.protect.microaggregation.cuts import cut


def normal(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(1, 900),
    d=st.integers(1, 4),
    least=st.integers(1, 12),
    levels=st.sampled_from([2, 5, 1000]),
    heavy=st.booleans(),
    seed=st.integers(0, 50),
)
def test_parts_have_the_right_sizes_and_hold_each_row_once(n, d, least, levels, heavy, seed):
    X = np.round(normal(n, d, seed) ** (3 if heavy else 1) * levels / 5)
    parts = cut(X, np.arange(n), most=4 * least, least=least)
    assert sorted(np.concatenate(parts)) == list(range(n))
    sizes = [len(part) for part in parts]
    assert max(sizes) <= 4 * least
    assert len(parts) == 1 or min(sizes) >= least


def test_a_cut_goes_through_the_gap_between_clusters():
    X = normal(4000, 3)
    X[1500:, 1] += 50
    parts = cut(X, np.arange(4000), most=2600, least=10)
    assert sorted(map(len, parts)) == [1500, 2500]


def test_a_gap_across_the_columns_is_used():
    X = normal(4000, 2)
    X[2000:] += 20 * np.array([1.0, -1.0])
    sides = [set(part < 2000) for part in cut(X, np.arange(4000), most=2100, least=10)]
    assert sorted(map(len, sides)) == [1, 1]


def test_heavy_tails_are_set_apart_first():
    X = normal(4000, 3)
    X[:200] *= 100
    parts = cut(X, np.arange(4000), most=1000, least=10)
    far = next(part for part in parts if 0 in part)
    assert np.isin(np.arange(200), far).mean() > 0.95
    assert len(far) <= 600


def test_light_tails_are_not_set_apart():
    X = normal(4000, 3)
    away = np.linalg.norm(X, axis=1)
    outermost = np.argsort(away)[-100:]
    assert max(np.isin(outermost, part).mean() for part in cut(X, np.arange(4000), most=2500, least=10)) < 0.8


@pytest.mark.parametrize("quantile", [0.5, 1 / 3])
def test_equal_rows_are_divided_in_order(quantile):
    parts = cut(np.ones((1000, 2)), np.arange(1000), most=300, least=10, quantile=quantile)
    assert [len(part) for part in parts] == [250] * 4
    assert all((np.diff(part) == 1).all() for part in parts)


def test_another_quantile_cuts_elsewhere():
    X = normal(4000, 3)
    first, second = (cut(X, np.arange(4000), most=2900, least=10, quantile=q) for q in (0.5, 0.3))
    assert {len(part) for part in first} != {len(part) for part in second}
