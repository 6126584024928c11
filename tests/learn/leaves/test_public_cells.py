"""Public cells follow from the schema, and number no more than they may."""

import numpy as np
import pytest

from eupg.data.attribute import Categorical, Missing, Numeric, Ordinal, Role
from eupg.data.schema import Schema
from eupg.errors import DataError
from eupg.learn.leaves.cells import Grid, Tree
from eupg.learn.leaves.public_cells import MOST_CELLS, cell_penalties, public_cells
from people import SCHEMA, people

LABEL = Categorical(name="ill", role=Role.LABEL, categories=("no", "yes"))


def numbers(count: int, upper: float = 1000) -> Schema:
    return Schema((*(Numeric(name=f"n{i}", lower=0, upper=upper) for i in range(count)), LABEL))


@pytest.mark.parametrize("most", [100, 150, 500, MOST_CELLS])
def test_there_are_no_more_cells_than_asked_for(most):
    cells = public_cells(SCHEMA, most=most)
    assert most / 4 < cells.count <= most
    assert sum(isinstance(group, Tree) for group in cells.groups) > 1


def test_they_are_the_same_every_time():
    assert public_cells(SCHEMA) == public_cells(SCHEMA)


def test_every_record_lies_in_one_cell_of_each_group_missing_values_too():
    cells = public_cells(SCHEMA)
    codes = cells.codes(people(300).X)
    assert ((codes >= cells.offsets) & (codes < cells.offsets + cells.sizes)).all()


def test_more_columns_get_coarser_grids():
    finest = [max(g.size for g in public_cells(numbers(n)).groups if isinstance(g, Grid)) for n in (2, 12, 60)]
    assert finest[0] > finest[1] > finest[2] >= 2


def test_small_amounts_are_told_apart_on_a_logarithmic_grid():
    cells = public_cells(numbers(3, upper=10**6))
    small = cells.codes(np.array([[float(v)] * 3 for v in range(12)]))
    assert len(np.unique(small, axis=0)) == 12


def test_a_table_with_too_many_columns_is_refused():
    with pytest.raises(DataError, match="declare fewer features"):
        public_cells(numbers(600))


def test_a_long_list_of_categories_shares_cells():
    towns = Categorical(name="town", categories=tuple(f"t{i}" for i in range(5000)))
    cells = public_cells(Schema((towns, LABEL)))
    assert cells.count <= MOST_CELLS
    grid = next(group for group in cells.groups if isinstance(group, Grid))
    assert len(np.unique(grid.codes(np.arange(5000.0)[:, None]))) == grid.size > 500


@pytest.mark.parametrize(
    "feature",
    [
        Numeric(name="a", lower=3, upper=3),
        Numeric(name="a", lower=3, upper=3, missing=Missing.KEEP),
        Numeric(name="a", lower=0, upper=1),
        Categorical(name="a", categories=("x",)),
        Categorical(name="a", categories=("x", "y")),
        Ordinal(name="a", categories=("x", "y")),
        Numeric(name="a", lower=-1e300, upper=1e300, resolution=1e285),
    ],
    ids=lambda feature: f"{feature.kind} {feature.missing}",
)
def test_every_group_but_the_first_divides(feature):
    cells = public_cells(Schema((feature, LABEL)))
    assert cells.groups[0] == Tree()
    assert all(group.size > 1 for group in cells.groups[1:])


def test_leaves_of_trees_have_six_times_the_penalty_of_other_cells():
    cells = public_cells(SCHEMA, most=150)
    leaf = np.repeat([isinstance(group, Tree) and len(group.questions) > 0 for group in cells.groups], cells.sizes)
    assert 0 < leaf.sum() < cells.count
    np.testing.assert_array_equal(cell_penalties(cells, 5.0), np.where(leaf, 30.0, 5.0))


def test_few_thresholds_lie_near_a_bound():
    """Those of attributes without logarithmic thresholds: of 16 points, more at the fifth to ninth than beyond."""
    trees = [group for group in public_cells(numbers(6, upper=15)).groups if isinstance(group, Tree)]
    cuts = np.array([question.cut for tree in trees for question in tree.questions])
    assert len(cuts) > 200
    assert ((cuts > 2) & (cuts < 9)).mean() > 0.7
    assert (cuts > 13).mean() < 0.02


def test_every_question_divides_the_values_that_can_occur():
    possible = {a.name: np.arange(len(a.categories)) for a in SCHEMA.features if hasattr(a, "categories")}
    for tree in (group for group in public_cells(SCHEMA).groups if isinstance(group, Tree)):
        for question in tree.questions:
            attribute = SCHEMA.features[question.column]
            values = possible.get(attribute.name)
            if values is None:
                assert isinstance(attribute, Numeric)
                values = np.array([attribute.lower, attribute.upper])
            X = np.zeros((len(values), len(SCHEMA.features)))
            X[:, question.column] = values
            assert 0 < question.passed(X).sum() < len(values), question
