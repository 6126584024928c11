import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eupg.data.attribute import Categorical, Missing, Numeric, Ordinal
from eupg.protect.cells import Cells

NUMBERS = np.random.default_rng(0)


@st.composite
def numerics(draw, most_points: int = 3000) -> Numeric:
    """Draw bounds and resolutions, also such that the upper bound lies between two steps."""
    resolution = draw(st.sampled_from([0.1, 0.3, 1.0, 2.5, 100.0]))
    lower = draw(st.integers(-2000, 2000)) * draw(st.sampled_from([resolution, 0.0, 1 / 3]))
    steps = draw(st.integers(0, most_points - 2)) + draw(st.sampled_from([0.0, 0.0, 0.5, 0.1]))
    missing = draw(st.sampled_from([Missing.KEEP, Missing.REFUSE]))
    return Numeric(name="v", lower=lower, upper=lower + steps * resolution, resolution=resolution, missing=missing)


def grid(attribute: Numeric) -> np.ndarray:
    return np.minimum(attribute.lower + np.arange(attribute.points) * attribute.resolution, attribute.upper)


@given(numerics(), st.integers(2, 128))
def test_every_grid_value_lies_in_exactly_one_cell_and_cells_keep_its_order(attribute, most):
    cells = Cells.of(attribute, most)
    assert cells.starts[0] == 0
    assert cells.starts[-1] == attribute.points
    assert (np.diff(cells.starts) > 0).all()
    codes = cells.code(grid(attribute))
    assert np.bincount(codes, minlength=cells.known).tolist() == np.diff(cells.starts).tolist()
    assert (np.diff(codes) >= 0).all()


@given(numerics(), st.integers(2, 128), st.integers(0, 2**32))
def test_drawn_value_lies_in_its_cell_and_on_the_public_grid(attribute, most, seed):
    cells = Cells.of(attribute, most)
    codes = np.repeat(np.arange(cells.size), 5)
    drawn = cells.draw(codes, np.random.default_rng(seed))
    np.testing.assert_array_equal(cells.code(drawn), codes)
    assert np.isin(drawn[~np.isnan(drawn)], grid(attribute)).all()


@given(st.integers(-1000, 1000), st.integers(1, 5000), st.integers(2, 64))
def test_integers_stay_integers_within_bounds(lower, span, most):
    cells = Cells.of(Numeric(name="v", lower=lower, upper=lower + span), most)
    drawn = cells.draw(NUMBERS.integers(0, cells.size, 200), NUMBERS)
    np.testing.assert_array_equal(drawn, np.rint(drawn))
    assert drawn.min() >= lower
    assert drawn.max() <= lower + span


@given(numerics(most_points=20), st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_value_between_two_points_goes_to_the_nearer_one(attribute, shares):
    cells = Cells.of(attribute, 128)
    values = attribute.lower + np.array(shares) * (attribute.upper - attribute.lower)
    apart = np.abs(values[:, None] - grid(attribute)[None, :])
    chosen = apart[np.arange(len(values)), cells.code(values)]
    assert (chosen <= apart.min(axis=1) + 1e-9 * attribute.resolution).all()


def test_upper_bound_off_the_grid_has_a_cell_of_its_own():
    cells = Cells.of(Numeric(name="v", lower=0, upper=1, resolution=0.3), 128)
    assert cells.code(np.array([0.9, 0.94, 0.96, 1.0])).tolist() == [3, 3, 4, 4]


@pytest.mark.parametrize("attribute", [Ordinal, Categorical])
def test_categories_each_have_their_cell_and_missing_the_last(attribute):
    cells = Cells.of(attribute(name="c", categories=tuple("abc"), missing=Missing.KEEP), 2)
    assert (cells.size, cells.known, cells.ordered) == (4, 3, attribute is Ordinal)
    assert cells.code(np.array([2, np.nan, 0])).tolist() == [2, 3, 0]
    np.testing.assert_array_equal(cells.draw(np.array([3, 1]), NUMBERS), [np.nan, 1])


def test_missing_has_no_cell_unless_the_schema_keeps_it():
    assert Cells.of(Numeric(name="v", lower=0, upper=9), 128).size == 10
    kept = Cells.of(Numeric(name="v", lower=0, upper=9, missing=Missing.KEEP), 128)
    assert kept.size == 11
    assert kept.code(np.array([np.nan, 9.0])).tolist() == [10, 9]


@given(numerics(most_points=100_000), st.integers(4, 128))
def test_about_as_many_cells_as_asked_for(attribute, most):
    assert Cells.of(attribute, most).known <= min(attribute.points, most + 4)


@pytest.mark.parametrize(("lower", "upper"), [(0, 1_000_000), (1, 1_000_000), (100, 1_000_000)])
def test_wide_bounds_get_cells_that_grow_with_the_value(lower, upper):
    """A cell is never much wider than the value it starts at: an income of 500 is not thrown in with one of 50,000."""
    cells = Cells.of(Numeric(name="income", lower=lower, upper=upper), 64)
    edges = lower + cells.starts
    inner = edges[(edges > 20) & (edges < upper)]
    assert (inner[1:] / inner[:-1] < 1.5).all()
    assert np.diff(edges)[-2] > 1000 * np.diff(edges)[0]


def test_wide_bounds_on_both_sides_of_zero_grow_both_ways():
    cells = Cells.of(Numeric(name="balance", lower=-100_000, upper=100_000), 64)
    edges = cells.starts - 100_000
    for side in (edges[edges > 20], -edges[edges < -20][::-1]):
        inner = side[side < 99_000]
        assert (inner[1:] / inner[:-1] < 2).all()
    assert {0, 1} <= set(edges.tolist()), "zero has a cell of its own"


def test_narrow_bounds_get_equal_cells():
    widths = np.diff(Cells.of(Numeric(name="weight", lower=30, upper=300, resolution=0.1), 27).starts)
    assert widths.max() - widths.min() <= 1


def test_draws_are_uniform_within_a_cell():
    cells = Cells.of(Numeric(name="v", lower=0, upper=99), 10)
    drawn = cells.draw(np.full(20_000, 9), np.random.default_rng(1))
    values, counts = np.unique(drawn, return_counts=True)
    assert len(values) == np.diff(cells.starts)[9]
    assert counts.min() > 0.85 * 20_000 / len(values)
