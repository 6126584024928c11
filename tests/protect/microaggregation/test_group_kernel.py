import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eupg.protect.microaggregation.cell_kernel import group_cell, means_of, principal_directions, singles
from eupg.protect.microaggregation.group_kernel import dissolve, divide_pairs, labels_of, near_pairs, pack_groups
from eupg.protect.microaggregation.groups import within_group_sse
from eupg.protect.microaggregation.mdav import mdav
from protect.oracle_mdav import textbook_mdav

slow_first_call = settings(deadline=None, max_examples=60)


def single(n, d, seed=0):
    return singles(np.random.default_rng(seed).normal(size=(n, d)), np.arange(n))


def random_groups(n, k, seed):
    """Groups of k to 2k−1 that have nothing to do with the values."""
    cuts = [0]
    rng = np.random.default_rng(seed)
    while n - cuts[-1] >= 2 * k:
        cuts.append(min(cuts[-1] + int(rng.integers(k, 2 * k)), n - k))
    return rng.permutation(np.searchsorted(cuts, np.arange(n), side="right") - 1)


def check_consistent(groups, table, k):
    """Each row is in one group, with its own values, and the sums are those of the rows."""
    labels = labels_of(groups, len(table))
    taken = groups.sizes[groups.sizes > 0]
    assert taken.min() >= k
    assert taken.max() < 2 * k
    assert sorted(np.bincount(labels)) == sorted(taken)
    for g, size in enumerate(groups.sizes):
        rows = groups.rows[g, :size]
        np.testing.assert_array_equal(groups.values[g, :, :size].T, table[rows])
        np.testing.assert_allclose(groups.sums[g], table[rows].sum(axis=0, dtype=np.float64), atol=1e-9)
    return labels


@slow_first_call
@given(n=st.integers(12, 300), d=st.integers(1, 5), k=st.integers(3, 9), seed=st.integers(0, 99))
def test_neither_move_raises_the_squares_or_loses_a_row(n, d, k, seed):
    if n < 2 * k:
        return
    table, labels = single(n, d, seed), random_groups(n, k, seed)
    groups = pack_groups(table, labels, int(labels.max()) + 1, 2 * k - 1)
    squares = within_group_sse(table, labels)
    for _ in range(2):
        for move in (lambda: dissolve(groups, 1.0), lambda: divide_pairs(groups, k, near_pairs(groups, 5), 2)):
            moved = move()
            labels = check_consistent(groups, table, k)
            after = within_group_sse(table, labels)
            assert after < squares if moved else after == pytest.approx(squares)
            squares = after


def test_two_groups_that_mix_two_clusters_are_divided_by_hand():
    # Rows at 0, 1, 2 and 10, 11, 12; each group holds some of both. The best division has squares 2 + 2.
    table = np.array([[0.0], [10.0], [1.0], [11.0], [2.0], [12.0]], np.float32)
    groups = pack_groups(table, np.array([0, 0, 0, 1, 1, 1]), 2, 5)
    assert divide_pairs(groups, 3, near_pairs(groups, 1), 4) == 1
    labels = labels_of(groups, 6)
    assert within_group_sse(table, labels) == 4.0
    assert len({*labels[[0, 2, 4]]}) == len({*labels[[1, 3, 5]]}) == 1


def test_sizes_move_within_k_and_2k_minus_1_by_hand():
    # Five rows near 0 and nine near 10; k=5, so at most nine in a group: the division moves from 7 and 7 to 5 and 9.
    table = np.array([[0.1 * i] for i in range(5)] + [[10 + 0.1 * i] for i in range(9)], np.float32)
    groups = pack_groups(table, np.repeat([0, 1], 7), 2, 9)
    divide_pairs(groups, 5, near_pairs(groups, 1), 2)
    assert labels_of(groups, 14).tolist() == [0] * 5 + [1] * 9


def test_a_group_that_bridges_two_clusters_is_dissolved_by_hand():
    # Groups at 0 and at 10 have room for one more each; the third holds one row of each cluster.
    table = np.array([[0.0], [0.1], [10.0], [10.1], [0.2], [9.9]], np.float32)
    groups = pack_groups(table, np.array([0, 0, 1, 1, 2, 2]), 3, 3)
    assert dissolve(groups, 1.0) == 1
    assert labels_of(groups, 6).tolist() == [0, 0, 1, 1, 0, 1]


def test_a_group_without_room_around_it_stays():
    table = np.array([[0.0], [0.1], [10.0], [10.1], [0.2], [9.9]], np.float32)
    groups = pack_groups(table, np.array([0, 0, 1, 1, 2, 2]), 3, 2)
    assert dissolve(groups, 1.0) == 0


def test_near_pairs_are_those_of_all_distances_each_once():
    table = single(200, 3)
    labels = mdav(table, 5)
    groups = pack_groups(table, labels, 40, 9)
    centroids = means_of(table, np.arange(200), labels, 40)
    distance = ((centroids[:, None] - centroids) ** 2).sum(axis=2)
    np.fill_diagonal(distance, np.inf)
    expected = {frozenset((a, int(b))) for a in range(40) for b in np.argsort(distance[a])[:4]}
    pairs = [frozenset(map(int, pair)) for pair in near_pairs(groups, 4)]
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == expected


@pytest.mark.parametrize(("n", "k"), [(59, 5), (100, 7), (700, 10)])
def test_a_cell_is_grouped_as_the_textbook_says(n, k):
    table, labels = single(n, 3, seed=n), np.empty(n, np.int64)
    count = group_cell(table, np.arange(n), k, k, labels, 0)
    assert count == labels.max() + 1
    np.testing.assert_array_equal(labels, textbook_mdav(table, k))


@slow_first_call
@given(n=st.integers(5, 120), k=st.integers(5, 12), seed=st.integers(0, 50))
def test_a_cell_of_larger_groups_never_leaves_fewer_than_k_or_more_than_2k_minus_1(n, k, seed):
    if n >= k:
        labels = np.empty(n, np.int64)
        group_cell(single(n, 2, seed), np.arange(n), k + 1, k, labels, 0)
        sizes = np.bincount(labels)
        assert sizes.min() >= k
        assert sizes.max() < 2 * k


def test_principal_directions_are_those_of_the_covariance():
    X = np.random.default_rng(0).normal(size=(500, 6)) * [9.0, 5.0, 3.0, 1.0, 0.5, 0.2]
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    directions = principal_directions(X @ turn, 3)
    expected = np.linalg.eigh(np.cov((X @ turn).T))[1][:, ::-1][:, :3].T
    np.testing.assert_allclose(np.abs((directions * expected).sum(axis=1)), 1.0, atol=1e-6)


@pytest.mark.parametrize("columns", [1, 2, 6])
def test_directions_that_do_not_exist_are_zero(columns):
    column = np.random.default_rng(0).normal(size=(300, 1))
    directions = principal_directions(np.repeat(column, columns, axis=1), 4)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), [1, 0, 0, 0], atol=1e-9)
    assert not principal_directions(np.ones((300, columns)), 4).any()


def test_single_precision_is_taken_after_centring_and_scaling():
    X = 1e9 + np.random.default_rng(0).normal(size=(100, 3)) * 1e-3
    part = singles(X * 1e120, np.arange(100))
    assert 0.5 < np.abs(part).max() <= 1.0
    # The input itself is rounded at 1e9 · 2⁻⁵³, about 1e-7, which is 1e-4 of the spread.
    expected = (X - X.mean(axis=0)) / np.abs(X - X.mean(axis=0)).max()
    np.testing.assert_allclose(part / np.abs(part).max(), expected, atol=1e-3)
    assert not singles(np.full((5, 2), 3.0), np.arange(5)).any()
    assert np.isfinite(singles(np.array([[0.0], [5e-324]]), np.arange(2))).all()
