import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.optimize import minimize

from eupg.protect.synthesis.marginals import _haar as haar
from eupg.protect.synthesis.marginals import agree, bins, draw, gather, independent, positive, shrink, smooth
from statistical.refuting import RARE, chi_square

NOISY = st.integers(-60, 100).map(float)


def tables(low: int = 1, high: int = 3):
    return arrays(np.float64, array_shapes(min_dims=low, max_dims=high, max_side=9), elements=NOISY)


@given(tables())
@settings(max_examples=50)
def test_positive_is_the_projection_onto_counts_of_the_same_sum(counts):
    """Karush, Kuhn and Tucker: one amount is taken off each cell that stays, and no other cell had more than that."""
    found, total = positive(counts), counts.sum(axis=-1)
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=-1), np.maximum(total, 0), atol=1e-6)
    for row, before in zip(found.reshape(-1, counts.shape[-1]), counts.reshape(-1, counts.shape[-1]), strict=True):
        if row.any():
            taken = (before - row)[row > 0]
            assert np.ptp(taken) < 1e-6
            assert (before[row == 0] <= taken.mean() + 1e-6).all()


def test_positive_agrees_with_a_general_solver():
    counts = np.array([30.0, -12.0, 4.0, 0.0, -3.0, 7.0])
    solved = minimize(
        lambda x: ((x - counts) ** 2).sum(),
        np.full(6, counts.sum() / 6),
        jac=lambda x: 2 * (x - counts),
        bounds=[(0, None)] * 6,
        constraints={"type": "eq", "fun": lambda x: x.sum() - counts.sum()},
    )
    np.testing.assert_allclose(positive(counts), solved.x, atol=1e-3)


@given(tables())
@settings(max_examples=50)
def test_positive_leaves_counts_alone_that_are_positive(counts):
    np.testing.assert_allclose(positive(np.abs(counts) + 1), np.abs(counts) + 1, atol=1e-9)


@given(tables(2, 3), st.data())
@settings(max_examples=50)
def test_agree_sums_to_the_goal_and_moves_no_other_difference(table, data):
    axis = data.draw(st.integers(0, table.ndim - 1))
    goal = data.draw(arrays(np.float64, table.sum(axis=axis).shape, elements=NOISY))
    found = agree(table, axis, goal)
    np.testing.assert_allclose(found.sum(axis=axis), goal, atol=1e-6)
    # The nearest such table: every cell of a sum moves by the same amount.
    assert (np.ptp(found - table, axis=axis) < 1e-6).all()


@st.composite
def cell_counts(draw) -> tuple[np.ndarray, int, int]:
    apart = draw(st.integers(0, 1))
    counts = draw(arrays(np.float64, (draw(st.integers(1 + apart, 60)), draw(st.integers(1, 3))), elements=NOISY))
    return counts, draw(st.integers(2, 12)), apart


@given(cell_counts(), st.booleans())
@settings(max_examples=100)
def test_bins_are_few_none_is_empty_and_missing_is_apart(case, ordered):
    counts, most, apart = case
    found = bins(counts, most, ordered=ordered, apart=apart)
    assert found.shape == (len(counts),)
    assert found.max() < most
    assert set(found.tolist()) == set(range(found.max() + 1))
    if ordered:
        assert (np.diff(found) >= 0).all()
    if apart:
        assert (found == found[-1]).sum() == 1


@pytest.mark.parametrize("ordered", [True, False])
def test_counts_that_are_all_noise_still_make_bins(ordered):
    for counts in (np.zeros((40, 2)), np.full((40, 2), -5.0)):
        found = bins(counts, 8, ordered=ordered, apart=1)
        assert np.bincount(found).tolist() == [6, 6, 6, 6, 6, 6, 3, 1]


@given(arrays(np.float64, (50, 1), elements=st.integers(0, 100).map(float)), st.integers(3, 12))
def test_bins_have_about_equal_counts(counts, most):
    counts[0] += 1
    mass = gather(counts, bins(counts, most, ordered=True))[:, 0]
    goal = counts.sum() / most
    assert (mass[:-1] < max(2 * goal, counts.max() + 1e-6)).all()


def test_cell_that_fills_a_bin_keeps_it_to_itself():
    counts = np.full((20, 1), 5.0)
    counts[7] = 500
    found = bins(counts, 6, ordered=True)
    assert (found == found[7]).sum() == 1


def test_cells_without_order_come_together_by_what_they_say_about_the_class():
    rng = np.random.default_rng(0)
    lean = rng.permutation(np.repeat([0.1, 0.9], 20))
    counts = 500 * np.column_stack([lean, 1 - lean])
    found = bins(counts, 2, ordered=False)
    assert len(set(zip(found.tolist(), lean.tolist(), strict=True))) == 2


@given(arrays(np.float64, (12, 3), elements=NOISY), arrays(np.int64, 12, elements=st.integers(0, 4)))
def test_gather_sums_the_rows_of_each_bin(counts, bin_of):
    found = gather(counts, bin_of)
    for each in range(len(found)):
        np.testing.assert_allclose(found[each], counts[bin_of == each].sum(axis=0))


def test_independent_features_multiply_within_each_class():
    first, second = np.array([[6.0, 2.0], [0.0, 4.0]]), np.array([[4.0, 4.0], [1.0, 3.0]])
    np.testing.assert_allclose(independent(first, second), [[[3, 3], [1, 1]], [[0, 0], [1, 3]]])
    assert not independent(np.zeros((1, 2)), np.zeros((1, 2))).any()


@given(tables(2, 3), st.floats(0, 500))
@settings(max_examples=50)
def test_shrinking_takes_from_differences_what_noise_would_explain(differences, variance):
    found = shrink(differences, variance)
    assert (np.abs(found) <= np.abs(differences)).all()
    for row, before in zip(found, differences, strict=True):
        # The mean square that is left is what exceeds the noise, and none where nothing does.
        spread = (before**2).mean()
        left = max(0.0, 1 - variance / spread) if spread else 0.0
        np.testing.assert_allclose(row, before * left, atol=1e-6)


@pytest.mark.parametrize("size", [2, 3, 7, 8, 32])
def test_steps_are_an_orthonormal_basis(size):
    basis, level = haar(size)
    np.testing.assert_allclose(basis @ basis.T, np.eye(size), atol=1e-12)
    assert level[0] == 0
    np.testing.assert_allclose(basis[0], basis[0, 0])
    assert (level[1:] >= 1).all()


@given(arrays(np.float64, (2, 13), elements=NOISY), st.booleans())
def test_smoothing_without_noise_changes_nothing(differences, ordered):
    np.testing.assert_allclose(smooth(differences, 0.0, ordered=ordered), differences, atol=1e-6)


def test_smoothing_takes_noise_out_of_fine_scales_and_keeps_a_real_slope():
    rng = np.random.default_rng(3)
    slope = np.linspace(-100, 100, 32)
    noisy = slope + rng.normal(0, 20, (50, 32))
    smoothed, shrunk = (smooth(noisy, 400.0, ordered=ordered) for ordered in (True, False))
    error = [float(((x - slope) ** 2).mean()) for x in (smoothed, shrunk, noisy)]
    assert error[0] < 0.7 * error[1]
    assert error[1] <= 1.01 * error[2]


def test_draw_follows_the_weights_of_its_row_and_never_takes_an_empty_column():
    weights = np.array([[0, 3, 1, 0], [5, 0, 0, 0], [0, 0, 0, 0], [0, 0, 2, 2]], dtype=float)
    rows = np.repeat(np.arange(4), 20_000)
    drawn = draw(weights, rows, np.random.default_rng(0))
    weights[2] = 1
    for each in range(4):
        assert chi_square(np.bincount(drawn[rows == each], minlength=4), weights[each]) > RARE


class Edge:
    """Random numbers at the very ends of their range."""

    def __init__(self, value):
        self.value = value

    def random(self, count):
        return np.full(count, self.value)


@given(arrays(np.float64, (6, 5), elements=st.integers(0, 3).map(float)), st.sampled_from([0.0, 1 - 2**-53]))
def test_draw_at_the_edge_of_a_row_stays_in_it(weights, value):
    rows = np.arange(6)
    drawn = draw(weights, rows, Edge(value))
    for each, column in zip(rows, drawn, strict=True):
        assert weights[each, column] > 0 or not weights[each].any()
