import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from eupg.errors import DataError, ParameterError
from eupg.protect.microaggregation.groups import within_group_sse
from eupg.protect.microaggregation.mdav import _exact, mdav, partitioned_mdav
from protect.oracle_mdav import plain_mean, textbook_mdav

slow_first_call = settings(deadline=None, max_examples=150)

small_integers = st.tuples(st.integers(1, 60), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(0, 3).map(float))
)


def normal(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def mixed(n, seed=0):
    """Numbers, many of them repeated, beside categories: one-hot columns scaled as the mechanism scales them."""
    rng = np.random.default_rng(seed)
    numbers = [rng.normal(size=n), rng.integers(0, 20, n) / 7.0, np.where(rng.random(n) < 0.9, 0.0, rng.exponential(n))]
    categories = [np.eye(c)[rng.integers(0, c, n)] / np.sqrt(2) for c in (2, 5, 9)]
    return np.column_stack([*numbers, *categories])


def test_groups_match_a_calculation_by_hand():
    # k=2, seven rows. The centroid is 88/7 = 12.6: farthest is 31, nearest to it 30 (group 0). Farthest from 31 is 1,
    # nearest to it 2 (group 1). Three rows are left, fewer than 2k: 3, 10 and 11 are the last group.
    X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [30.0], [31.0]])
    assert mdav(X, 2).tolist() == [1, 1, 2, 2, 2, 0, 0]


def test_between_2k_and_3k_rows_left_form_one_more_group_by_hand():
    # k=2, nine rows. Centroid 20: farthest is 60, nearest to it 51 (group 0); farthest from 60 is 0, then 2 (group 1).
    # Five rows are left, 2k to 3k−1. Their centroid is 67/5 = 13.4: farthest is 30, nearest to it 14 (group 2).
    X = np.array([[0.0], [2.0], [5.0], [7.0], [11.0], [14.0], [30.0], [51.0], [60.0]])
    assert mdav(X, 2).tolist() == [1, 1, 3, 3, 3, 2, 2, 0, 0]


def test_ties_go_to_the_lowest_index_by_hand():
    # k=2, centroid 0: all six rows are equally far, row 0 is taken, and of its duplicates 2 and 4 row 2 (group 0).
    # Farthest from row 0 are 1, 3 and 5: row 1 is taken, and of its duplicates row 3 (group 1). The rest is group 2.
    X = np.array([[-1.0], [1.0], [-1.0], [1.0], [-1.0], [1.0]])
    assert mdav(X, 2).tolist() == [0, 1, 0, 1, 2, 2]


@slow_first_call
@given(X=small_integers, k=st.integers(1, 12), width=st.integers(1, 70))
def test_labels_equal_the_textbook_on_data_full_of_ties(X, k, width):
    if len(X) >= k:
        assert _exact(X, k, width=width).tolist() == textbook_mdav(X, k).tolist()


@slow_first_call
@given(X=small_integers, k=st.integers(1, 12))
def test_every_group_has_k_to_2k_minus_1_rows(X, k):
    if len(X) >= k:
        sizes = np.bincount(mdav(X, k))
        assert sizes.sum() == len(X)
        assert sizes.min() >= k
        assert sizes.max() < 2 * k
        assert (sizes[:-1] == k).all()


@pytest.mark.parametrize("k", [2, 7, 100])
@pytest.mark.parametrize(
    "X",
    [
        normal(3000, 6),
        normal(3000, 6) + 1e7,
        normal(2500, 1),
        normal(700, 90),
        mixed(3000),
        np.random.default_rng(1).integers(0, 4, (3000, 5)).astype(np.float64),
        np.random.default_rng(2).lognormal(sigma=3, size=(3000, 3)),
        np.repeat(normal(60, 4), 50, axis=0),
    ],
    ids=["normal", "far from zero", "one column", "wide", "mixed", "integers", "skewed", "duplicates"],
)
def test_labels_equal_the_textbook(X, k):
    assert mdav(X, k).tolist() == textbook_mdav(X, k).tolist()


@pytest.mark.parametrize("X", [normal(5000, 8), mixed(5000)], ids=["normal", "mixed"])
def test_sse_equals_the_textbook_with_a_plain_mean(X):
    expected = within_group_sse(X, textbook_mdav(X, 10, centroid=plain_mean))
    assert within_group_sse(X, mdav(X, 10)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("X", [normal(4000, 10), mixed(4000)], ids=["normal", "mixed"])
def test_skipping_blocks_changes_no_group(X):
    searched_in_full = _exact(X, 15, width=len(X))
    for width in (1, 16, 64, 100):
        assert (_exact(X, 15, width=width) == searched_in_full).all()


def test_order_of_rows_does_not_matter_without_ties():
    X = normal(2000, 5)
    shuffle = np.random.default_rng(1).permutation(len(X))
    assert (mdav(X[shuffle], 9) == mdav(X, 9)[shuffle]).all()


def test_single_precision_groups_as_the_same_numbers_in_double():
    X = normal(4000, 12).astype(np.float32)
    assert (mdav(X, 20) == mdav(X.astype(np.float64), 20)).all()


def test_rounding_to_single_precision_barely_changes_the_sse():
    X = normal(4000, 12)
    single = within_group_sse(X, mdav(X.astype(np.float32), 20))
    assert single == pytest.approx(within_group_sse(X, mdav(X, 20)), rel=1e-3)


def test_same_input_gives_the_same_groups_and_is_untouched():
    X = mixed(1000)
    before = X.copy()
    X.setflags(write=False)
    assert (mdav(X, 5) == mdav(X, 5)).all()
    assert (partitioned_mdav(X, 5, cell=200) == partitioned_mdav(X, 5, cell=200)).all()
    assert (before == X).all()


def test_layout_and_number_type_do_not_matter():
    X = np.random.default_rng(0).integers(0, 50, (300, 4))
    expected = mdav(X.astype(np.float64), 7).tolist()
    for same in (X, X.tolist(), np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], X.astype(np.int8)):
        assert mdav(same, 7).tolist() == expected


@pytest.mark.parametrize("n", [5, 9])
def test_fewer_than_2k_rows_are_one_group(n):
    assert mdav(normal(n, 3), 5).tolist() == [0] * n


def test_k_of_one_gives_every_row_its_own_group():
    assert sorted(mdav(normal(50, 3), 1)) == list(range(50))


@pytest.mark.parametrize("X", [np.zeros((100, 0)), np.full((100, 3), 7.0)], ids=["no columns", "one value"])
def test_rows_that_are_all_alike_are_grouped_in_order(X):
    assert mdav(X, 10).tolist() == np.repeat(np.arange(10), 10).tolist()


@pytest.mark.parametrize("k", [0, -3, 2.5, "3", True, None])
def test_k_that_is_no_whole_number_is_refused(k):
    with pytest.raises(ParameterError, match="k must be a whole number of at least 1, got"):
        mdav(normal(10, 2), k)


def test_fewer_than_k_rows_are_refused():
    expected = "k=20 needs at least 20 records, got 12: lower k or protect more records together"
    with pytest.raises(DataError, match=expected):
        mdav(normal(12, 2), 20)


@pytest.mark.parametrize(
    "bad",
    [np.nan, np.inf, -np.inf, 1e200, np.float32("nan"), np.float32("inf")],
    ids=lambda bad: f"{type(bad).__name__} {bad}",
)
def test_values_that_have_no_distance_are_refused(bad):
    X = normal(30, 2).astype(np.asarray(bad).dtype)
    X[17, 1] = bad
    with pytest.raises(DataError, match=r"finite numbers of at most 1e\+150, record 17 has another"):
        mdav(X, 3)


@pytest.mark.parametrize("X", [np.zeros(10), np.zeros((5, 2, 2)), 3.0])
def test_input_that_is_no_table_is_refused(X):
    with pytest.raises(DataError, match=r"expected a table of records by columns, got [013] dimensions"):
        mdav(X, 2)


def test_text_is_refused():
    with pytest.raises(DataError, match=r"expected numbers, got .*: encode categories first"):
        mdav([["a"], ["b"]], 2)


@slow_first_call
@given(X=small_integers, k=st.integers(1, 6), extra=st.integers(0, 10))
def test_partitioned_groups_have_k_to_2k_minus_1_rows(X, k, extra):
    if len(X) >= k:
        sizes = np.bincount(partitioned_mdav(X, k, cell=2 * k + extra))
        assert sizes.sum() == len(X)
        assert sizes.min() >= k
        assert sizes.max() < 2 * k


def test_partitioned_groups_are_nearly_as_tight():
    X = normal(20_000, 6)
    exact = within_group_sse(X, mdav(X, 20))
    assert exact < within_group_sse(X, partitioned_mdav(X, 20, cell=3000)) < 1.5 * exact


def test_one_cell_is_plain_mdav():
    X = normal(1000, 4)
    assert (partitioned_mdav(X, 10) == mdav(X, 10)).all()


def test_threads_change_no_group():
    X = normal(5000, 4)
    assert (partitioned_mdav(X, 10, cell=700, threads=3) == partitioned_mdav(X, 10, cell=700)).all()


def test_cell_smaller_than_two_groups_is_refused():
    with pytest.raises(ParameterError, match="a cell holds at least 2k=20 records, got cell=19"):
        partitioned_mdav(normal(100, 2), 10, cell=19)


def test_sse_matches_a_calculation_by_hand():
    # Group 7: centroid (1, 1), each row at squared distance 2. Group 3: one row, at its own centroid.
    assert within_group_sse([[0.0, 0.0], [2.0, 2.0], [9.0, 5.0]], [7, 7, 3]) == 4.0


def test_sse_needs_one_group_a_row():
    with pytest.raises(DataError, match="one group for each of the 10 records, got shape"):
        within_group_sse(normal(10, 2), [0, 1])


def test_importing_and_small_tables_do_not_load_the_compiler():
    script = "import sys; from eupg.protect import mdav; mdav([[1.0], [2.0]], 2); sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
