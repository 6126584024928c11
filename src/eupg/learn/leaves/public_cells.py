"""Cells that depend on no record: grids and trees that follow from the schema and a fixed public seed.

Numbers get uniform grids and one logarithmic grid, which starts at the attribute's lower bound. The logarithmic grid
serves attributes most of whose values lie near that bound, such as amounts and counts. It is as fine as the number of
cells allows. The rest of the cells goes to random trees, whose thresholds lie rather below the middle of the range than
near a bound: bounds are generous, and most amounts are small.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from eupg.data.attribute import Attribute, Categorical, Listed, Missing, Numeric
from eupg.data.schema import Schema
from eupg.errors import DataError
from eupg.learn.leaves.cells import Grid, Group, LeafCells, Question, Tree
from eupg.learn.leaves.counting import Floats
from eupg.learn.leaves.grids import logarithmic_starts, numeric_grid, uniform_starts

# The system of so many cells is solved in about a tenth of a second.
MOST_CELLS = 1800
# Grids have up to this part of the cells.
_GRIDS = 0.45
_UNIFORM = (8, 32)
_FINENESS = (1024, 768, 512, 384, 320, 256, 224, 192, 160, 128, 112, 96, 80, 64, 56, 48, 40, 32, 24, 16, 8, 4, 2)
# Attributes with fewer points have uniform grids alone.
_FEWEST_LOGARITHMIC = 17
_DEPTH = 4
# The penalty of a leaf of a tree is so many times that of a cell of a grid.
_LEAF_PENALTY = 6.0
_PUBLIC_SEED = 9


def public_cells(schema: Schema, *, most: int = MOST_CELLS) -> LeafCells:
    """Return cells for the records of a table: one for everyone, grids in up to 45 % of them, trees.

    Parameters
    ----------
    schema
        What the columns mean: bounds, resolutions and categories.
    most
        The most cells.

    Examples
    --------
    >>> from eupg.data.attribute import Role
    >>> label = Categorical(name="ill", role=Role.LABEL, categories=("no", "yes"))
    >>> cells = public_cells(Schema((Numeric(name="age", lower=0, upper=120), label)))
    >>> [group.size for group in cells.groups[:4]]
    [1, 8, 32, 121]
    """
    grids = _grids_within(schema, int(_GRIDS * most))
    trees = (most - 1 - sum(grid.size for grid in grids)) // 2**_DEPTH
    return LeafCells((Tree(), *grids, *_trees(schema, trees)))


def cell_penalties(cells: LeafCells, penalty: float) -> Floats:
    """Return the penalty of each cell, given that of a cell of a grid."""
    each = [penalty * (_LEAF_PENALTY if isinstance(g, Tree) and g.questions else 1.0) for g in cells.groups]
    return np.repeat(each, cells.sizes)


def _grids_within(schema: Schema, most: int) -> list[Group]:
    """Return the finest grids that have at most so many cells together."""
    for fineness in _FINENESS:
        grids = [grid for column, a in enumerate(schema.features) for grid in _grids(a, column, fineness)]
        if sum(grid.size for grid in grids) <= most:
            return grids
    raise DataError(
        f"{len(schema.features)} features have {sum(grid.size for grid in grids)} cells even on the coarsest grids, "
        f"and at most {most} can be used: declare fewer features, or use Retrain"
    )


def _grids(attribute: Attribute, column: int, fineness: int) -> Iterator[Group]:
    """Yield the different grids of one attribute, each of two cells or more and of at most so many."""
    missing = attribute.missing is Missing.KEEP
    grids: list[Grid] = []
    if isinstance(attribute, Numeric):
        points = attribute.points
        starts = [uniform_starts(points, min(size, fineness, points)) for size in _UNIFORM]
        if points >= _FEWEST_LOGARITHMIC:
            starts.append(logarithmic_starts(points, fineness))
        grids = [numeric_grid(attribute, column, cells) for cells in starts]
    elif isinstance(attribute, Listed):
        categories = len(attribute.categories)
        # Neighbours in a long list share a cell, where there is not one for each.
        grids = [Grid(column, tuple((uniform_starts(categories, min(fineness, categories)) - 0.5).tolist()))]
    for grid in dict.fromkeys(grids):
        if len(grid.edges) + missing > 0:
            yield Grid(column, grid.edges, missing)


def _trees(schema: Schema, count: int) -> list[Group]:
    """Draw trees that ask about different random attributes."""
    draw = np.random.default_rng(_PUBLIC_SEED)
    features = [column for column, a in enumerate(schema.features) if _divides(a)]
    if not features:
        return []
    trees: list[Group] = []
    for _ in range(count):
        asked = draw.choice(features, min(_DEPTH, len(features)), replace=False)
        trees.append(Tree(tuple(_question(schema.features[c], int(c), draw) for c in asked)))
    return trees


def _divides(attribute: Attribute) -> bool:
    if isinstance(attribute, Numeric):
        return attribute.points > 1
    return isinstance(attribute, Listed) and len(attribute.categories) > 1


def _question(attribute: Attribute, column: int, draw: np.random.Generator) -> Question:
    """Draw a threshold, uniformly or logarithmically; of categories in no order, one of them or a random half."""
    if isinstance(attribute, Numeric):
        points = attribute.points
        # The second of four random places: its density is highest at a third of the range.
        place = np.sort(draw.random(4))[1]
        logarithmic = draw.random() < 0.5 and points >= _FEWEST_LOGARITHMIC
        reached = math.expm1(place * math.log1p(points)) if logarithmic else place * (points - 1)
        first = min(max(math.ceil(reached), 1), points - 1)
        return Question(column, cut=attribute.lower + (first - 0.5) * attribute.resolution)
    assert isinstance(attribute, Listed)
    categories = len(attribute.categories)
    if not isinstance(attribute, Categorical):
        return Question(column, cut=float(draw.integers(1, categories)) - 0.5)
    if draw.random() < 0.5:
        return Question(column, categories=(int(draw.integers(categories)),))
    # In a random order the first fails and the second passes, so that the question divides the list.
    order = draw.permutation(categories)
    passing = [order[1], *order[2:][draw.random(categories - 2) < 0.5]]
    return Question(column, categories=tuple(sorted(map(int, passing))))
