import hashlib
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from eupg.errors import DataError, ParameterError
from eupg.protect.microaggregation import refined
from eupg.protect.microaggregation.groups import within_group_sse
from eupg.protect.microaggregation.mdav import mdav
from eupg.protect.microaggregation.refined import group_part, microaggregate

slow_first_call = settings(deadline=None, max_examples=60)
few_values = st.tuples(st.integers(5, 400), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(0, 3).map(float), fill=st.just(0.0))
)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Cut small tables as large ones are cut: parts of 16 groups of k, cells of 8."""
    for name, value in {"_PART_ROWS": 1, "_PART_GROUPS": 16, "_CELL_ROWS": 1, "_CELL_GROUPS": 8}.items():
        monkeypatch.setattr(refined, name, value)


@pytest.fixture
def real_parts(monkeypatch, small_parts):
    monkeypatch.undo()


def normal(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def clusters(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(12, 6))[rng.integers(0, 12, n)] * 3 + rng.normal(size=(n, 6))


def mixed(n, seed=0):
    """Numbers, some of them skewed or repeated, beside categories: one-hot columns scaled as the mechanism does."""
    rng = np.random.default_rng(seed)
    categories = [np.eye(c)[rng.integers(0, c, n)] / np.sqrt(2) for c in (2, 5)]
    return np.column_stack([rng.normal(size=(n, 3)), rng.lognormal(size=n), rng.integers(0, 20, n) / 6, *categories])


def sizes_are_right(groups, k):
    sizes = np.bincount(groups)
    return sizes.min() >= k and sizes.max() < 2 * k


def contents(X, groups):
    """The groups as collections of rows, whatever their numbers and whichever of equal rows they hold."""
    return sorted(sorted(map(tuple, X[groups == g])) for g in range(groups.max() + 1))


@slow_first_call
@given(X=few_values, k=st.integers(1, 12))
def test_every_row_is_in_one_group_of_k_to_2k_minus_1(X, k):
    if len(X) >= k:
        groups = microaggregate(X, k)
        assert groups.shape == (len(X),)
        assert sizes_are_right(groups, k)
        assert sizes_are_right(group_part(X, k), k)


@slow_first_call
@given(n=st.integers(10, 700), d=st.integers(1, 6), k=st.integers(5, 9), seed=st.integers(0, 99))
def test_groups_of_numbers_without_ties_have_k_to_2k_minus_1_rows_and_follow_a_permutation(n, d, k, seed):
    X = np.random.default_rng(seed).standard_t(2, size=(n, d))
    groups, shuffle = microaggregate(X, k), np.random.default_rng(seed).permutation(n)
    assert sizes_are_right(groups, k)
    np.testing.assert_array_equal(microaggregate(X[shuffle], k), groups[shuffle])


@slow_first_call
@given(X=few_values, k=st.integers(5, 9), seed=st.integers(0, 99))
def test_a_permutation_exchanges_equal_rows_at_most(X, k, seed):
    if len(X) >= k:
        shuffled = X[np.random.default_rng(seed).permutation(len(X))]
        assert contents(shuffled, microaggregate(shuffled, k)) == contents(X, microaggregate(X, k))


@pytest.mark.parametrize("X", [normal(5000, 4), mixed(5000)], ids=["normal", "mixed"])
def test_threads_change_no_group(X):
    expected = microaggregate(X, 10)
    for threads in (2, 3, 8):
        np.testing.assert_array_equal(microaggregate(X, 10, threads=threads), expected)


# Where tails are heavy or there is one column only, there is nothing to gain: the squares are equal within a percent.
EQUAL = ("skewed", "one column")
FIXED = {
    "normal": normal(9000, 10),
    "clusters": clusters(9000),
    "mixed": mixed(9000),
    "skewed": np.random.default_rng(2).lognormal(sigma=1.5, size=(9000, 3)),
    "integers": np.random.default_rng(1).integers(0, 9, (9000, 4)).astype(np.float64),
    "one column": normal(9000, 1),
}


@pytest.mark.usefixtures("real_parts")
@pytest.mark.parametrize("k", [5, 10, 30, 100])
@pytest.mark.parametrize("name", FIXED)
def test_squares_are_at_most_those_of_exact_mdav(name, k):
    X = FIXED[name]
    groups = microaggregate(X, k)
    assert sizes_are_right(groups, k)
    exact = within_group_sse(X, mdav(X, k))
    assert within_group_sse(X, groups) <= (1.005 if name in EQUAL else 1.0) * exact


@pytest.mark.usefixtures("real_parts")
def test_several_real_parts_are_tighter_than_exact_mdav():
    X = normal(70_000, 3)
    assert within_group_sse(X, microaggregate(X, 20, threads=2)) < 0.96 * within_group_sse(X, mdav(X, 20))


def test_borders_of_parts_cost_little(monkeypatch):
    """The second division mends what the first one cut: without it the squares are clearly larger."""
    X = normal(8000, 4)
    mended = within_group_sse(X, microaggregate(X, 10))
    monkeypatch.setattr(refined, "_SECOND_ROUNDS", 0)
    cut_up = within_group_sse(X, microaggregate(X, 10))
    assert mended < 0.95 * cut_up


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_small_groups_are_those_of_exact_mdav(k):
    X = normal(600, 3)
    np.testing.assert_array_equal(microaggregate(X, k), mdav(X, k))
    np.testing.assert_array_equal(group_part(X, k), mdav(X, k))


@pytest.mark.usefixtures("real_parts")
def test_one_part_by_itself_gets_the_groups_of_a_table_of_that_size():
    X = mixed(9000)
    groups, shuffle = group_part(X, 10), np.random.default_rng(3).permutation(9000)
    np.testing.assert_array_equal(groups, microaggregate(X, 10))
    assert contents(X[shuffle], group_part(X[shuffle], 10)) == contents(X, groups)


@pytest.mark.usefixtures("real_parts")
def test_a_part_may_be_larger_than_usual():
    assert sizes_are_right(group_part(normal(50_000, 2), 20), 20)


@pytest.mark.usefixtures("real_parts")
@pytest.mark.parametrize("columns", ["constant", "constant and large", "duplicate", "duplicate with another sign"])
def test_columns_that_add_nothing_cost_no_quality(columns):
    """Rows are put into another order with them, so the groups are others that are as good."""
    X = normal(20_000, 3)
    more = {
        "constant": np.full(20_000, 7.0),
        "constant and large": np.full(20_000, 1e9 / 7),
        "duplicate": np.column_stack([X, X]),
        "duplicate with another sign": np.column_stack([-X, X]),
    }[columns]
    groups = microaggregate(np.column_stack([X, more]), 20)
    assert sizes_are_right(groups, 20)
    assert within_group_sse(X, groups) == pytest.approx(within_group_sse(X, microaggregate(X, 20)), rel=0.02)


def test_rows_that_are_all_equal_are_grouped_in_order():
    groups = microaggregate(np.full((900, 2), 7.0), 10)
    assert sizes_are_right(groups, 10)
    assert within_group_sse(np.arange(900.0)[:, None], groups) < 900 * 20**2


@pytest.mark.parametrize("share", [0.5, 0.97, 1.0])
def test_equal_rows_that_fill_many_cells_stay_among_themselves(share):
    X = normal(4000, 3)
    X[: int(share * 4000)] = [1.0, 2.0, 3.0]
    groups = microaggregate(X, 10)
    assert sizes_are_right(groups, 10)
    whole = np.bincount(groups, (X == [1.0, 2.0, 3.0]).all(axis=1)) / np.bincount(groups)
    assert np.isin(whole, [0.0, 1.0]).mean() > 0.95


@pytest.mark.parametrize("exponent", [-480, -140, 60, 480])
def test_units_change_no_group(exponent):
    """Powers of two change no digit: from 1e-145 to 1e145, where squares in single precision would be 0 or infinite."""
    X = np.random.default_rng(0).standard_t(3, size=(3000, 4))
    X[0] = [100.0, -100.0, 100.0, 100.0]
    groups = microaggregate(X * 2.0**exponent, 10)
    assert sizes_are_right(groups, 10)
    squares = within_group_sse(X, groups)
    assert squares == pytest.approx(within_group_sse(X, microaggregate(X, 10)), rel=0.03)


def test_a_mean_far_from_zero_costs_no_quality():
    X = normal(3000, 4)
    near, far = (within_group_sse(X, microaggregate(X + shift, 10)) for shift in (0.0, 1e9))
    assert far == pytest.approx(near, rel=0.03)


def test_one_row_far_out_does_not_blur_the_others():
    """In single precision, relative to the whole table, all others would be equal."""
    X = normal(3000, 4)
    expected = within_group_sse(X[1:], microaggregate(X[1:], 10))
    X[0] = 1e12
    groups = microaggregate(X, 10)
    mates = groups != groups[0]
    assert within_group_sse(X[mates], groups[mates]) < 1.3 * expected


def test_single_precision_groups_as_the_same_numbers_in_double():
    X = normal(4000, 5).astype(np.float32)
    np.testing.assert_array_equal(microaggregate(X, 20), microaggregate(X.astype(np.float64), 20))


def test_input_is_untouched_and_zero_has_no_sign():
    X = mixed(2000)
    X[X == 0.0] = -0.0
    before = X.copy()
    X.setflags(write=False)
    np.testing.assert_array_equal(microaggregate(X, 5), microaggregate(np.where(X == 0, 0.0, X), 5))
    assert (np.signbit(X) == np.signbit(before)).all()


def test_a_snapshot_is_the_same_on_every_machine():
    """No BLAS, no fused operation and no vector width may change a label. Whole numbers, so that input is exact.

    A snapshot of this code: after a deliberate change of the algorithm, replace it.
    """
    i = np.arange(6000)
    X = np.column_stack([i * 7919 % 6007, i * i % 9973 / 4, i * 104729 % 8191 / 8, (i % 7 == 0) * 500.0])
    digest = hashlib.sha256(microaggregate(X, 7).astype("<i8").tobytes()).hexdigest()
    assert digest[:16] == "8c4750c34bf72f33"


@pytest.mark.parametrize("n", [10, 19])
def test_fewer_than_2k_rows_are_one_group(n):
    assert microaggregate(normal(n, 3), 10).tolist() == [0] * n


@pytest.mark.parametrize("group", [microaggregate, group_part])
def test_bad_input_is_refused(group):
    with pytest.raises(ParameterError, match=r"k must be a whole number of at least 1, got 2\.5"):
        group(normal(10, 2), 2.5)
    with pytest.raises(DataError, match="k=20 needs at least 20 records, got 12"):
        group(normal(12, 2), 20)
    with pytest.raises(DataError, match="finite numbers"):
        group(np.full((30, 2), np.nan), 5)
    with pytest.raises(ParameterError, match="threads must be a whole number of at least 1, got 0"):
        microaggregate(normal(30, 2), 5, threads=0)


def test_small_tables_do_not_load_the_compiler():
    script = (
        "import sys; from eupg.protect import microaggregate\n"
        "microaggregate([[1.0]] * 9, 5); sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
