"""The cells of a private model: public grids and trees, and bins that follow from a noisy histogram.

Nothing here sees a record. Grids follow from the schema; trees follow from the schema and a fixed public seed, with
thresholds at quantiles of the histograms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Attribute, Listed, Missing, Numeric
from eupg.data.schema import Schema
from eupg.learn.leaves.cells import Cells, Grid, Question, Tree

Floats = NDArray[np.float64]
UNIFORM = (8, 32, 128)
LOGARITHMIC = (16, 128, 1024)
QUANTILES = (8, 32)
# An attribute with more points than the first has no uniform grids, with more than the second logarithmic ones.
_MOST_UNIFORM, _FEWEST_LOGARITHMIC = 2000, 256
_FINEST = 1024
TREES = 40
_DEPTH = 2
_PUBLIC_SEED = 9
# The squared weights of an attribute's grids add up to the square of the first, those of all trees to the second.
_NUMERIC, _OF_TREES = 1.5, 4.0
# Stands for the mass of a cell in which no noisy count is left.
_NOTHING = 1e-9


def histogram_grids(schema: Schema) -> dict[int, Grid]:
    """Return the finest grid of each numeric attribute that has two cells or more, by its column."""
    numeric = ((column, a) for column, a in enumerate(schema.features) if isinstance(a, Numeric))
    return {column: grid for column, a in numeric if (grid := _fine(a, column)).edges}


def private_cells(schema: Schema, masses: Mapping[int, Floats]) -> tuple[Cells, Floats]:
    """Return the cells of a model and the weight of each group.

    Parameters
    ----------
    schema
        What the columns mean.
    masses
        The :func:`consistent` histogram of each numeric attribute on its finest grid.
    """
    groups: list[Grid | Tree] = []
    weights: list[float] = []
    for column, attribute in enumerate(schema.features):
        own = _grids(attribute, column, masses.get(column))
        groups += own
        share = _NUMERIC / math.sqrt(max(len(own), 1)) if isinstance(attribute, Numeric) else 1.0
        weights += [share] * len(own)
    trees = _trees(schema, masses)
    groups += [Tree(), *trees]
    weights += [1.0] + [math.sqrt(_OF_TREES / TREES)] * len(trees)
    return Cells(tuple(groups)), np.array(weights)


def _grids(attribute: Attribute, column: int, mass: Floats | None) -> list[Grid]:
    """Return the grids of one attribute, each of two cells or more."""
    keep = attribute.missing is Missing.KEEP
    grids: list[Grid] = []
    if isinstance(attribute, Numeric):
        points = attribute.points
        if points <= _MOST_UNIFORM:
            sizes = sorted({min(size, points) for size in UNIFORM})
            grids += [_grid(attribute, column, _uniform(points, size)) for size in sizes]
        if points > _FEWEST_LOGARITHMIC:
            grids += [_grid(attribute, column, _logarithmic(points, size)) for size in LOGARITHMIC]
        if mass is not None:
            edges = _fine(attribute, column).edges
            bins = {len(cuts): cuts for cuts in (quantile_cuts(mass, size) for size in reversed(QUANTILES))}
            grids += [Grid(column, tuple(edges[i - 1] for i in cuts)) for _, cuts in sorted(bins.items())]
    elif isinstance(attribute, Listed):
        grids.append(Grid(column, tuple(i + 0.5 for i in range(len(attribute.categories) - 1))))
    return [Grid(column, g.edges, keep) for g in grids if len(g.edges) + keep > 0]


def _fine(attribute: Numeric, column: int) -> Grid:
    points = attribute.points
    if points <= _FINEST:
        return _grid(attribute, column, np.arange(1, points, dtype=np.float64))
    inner = _uniform if points <= _MOST_UNIFORM else _logarithmic
    return _grid(attribute, column, inner(points, _FINEST))


def _grid(attribute: Numeric, column: int, firsts: Floats) -> Grid:
    """Return cells that begin at these points of the attribute's public grid; edges lie halfway between points."""
    edges = np.unique(attribute.lower + (firsts - 0.5) * attribute.resolution)
    inside = edges[(edges > attribute.lower) & (edges <= attribute.upper)]
    return Grid(column, tuple(inside.tolist()))


def _uniform(points: int, size: int) -> Floats:
    return np.ceil(np.arange(1, size) * points / size - 1e-9)


def _logarithmic(points: int, size: int) -> Floats:
    return np.ceil(np.expm1(np.arange(1, size) / size * math.log1p(points)) - 1e-9)


def consistent(counts: Floats) -> Floats:
    """Return masses that are not negative and add up to one, from noisy counts.

    Going down a binary tree over the cells, each node's mass is divided between its halves in proportion to their noisy
    sums. Noise in sums of many cells evens out, so that a long stretch of empty cells gets little mass.
    """
    levels = [np.zeros(2 ** math.ceil(math.log2(max(len(counts), 1))))]
    levels[0][: len(counts)] = counts
    while len(levels[-1]) > 1:
        levels.append(levels[-1].reshape(-1, 2).sum(axis=1))
    mass = np.ones(1)
    for sums in levels[-2::-1]:
        halves = np.maximum(sums.reshape(-1, 2), _NOTHING)
        mass = (halves / halves.sum(axis=1, keepdims=True) * mass[:, None]).ravel()
    # Where nothing is left to divide by, cells beyond the last one get a part, too.
    inside = mass[: len(counts)]
    return np.asarray(inside / inside.sum(), dtype=np.float64)


def quantile_cuts(mass: Floats, size: int) -> tuple[int, ...]:
    """Return the cells at which a new bin begins, for about so many bins of equal mass; heavy cells stand alone."""
    share = float(mass.sum()) / size
    cuts: list[int] = []
    held = 0.0
    for i, cell in enumerate(mass.tolist()):
        if held > 0 and held + cell / 2 > share:
            cuts.append(i)
            held = 0.0
        held += cell
        if held >= share and i < len(mass) - 1:
            cuts.append(i + 1)
            held = 0.0
    return tuple(dict.fromkeys(cuts))


def _trees(schema: Schema, masses: Mapping[int, Floats]) -> list[Tree]:
    """Draw trees that ask about random attributes: quantiles of numbers, random halves of categories."""
    draw = np.random.default_rng(_PUBLIC_SEED)
    features = [column for column, a in enumerate(schema.features) if column in masses or _divides(a)]
    if not features:
        return []
    trees = []
    for _ in range(TREES):
        asked = draw.choice(features, min(_DEPTH, len(features)), replace=False)
        trees.append(Tree(tuple(_ask(schema.features[c], int(c), masses, draw) for c in asked)))
    return trees


def _divides(attribute: Attribute) -> bool:
    return isinstance(attribute, Listed) and len(attribute.categories) > 1


def _ask(attribute: Attribute, column: int, masses: Mapping[int, Floats], draw: np.random.Generator) -> Question:
    if isinstance(attribute, Listed):
        return Question(column, categories=tuple(np.flatnonzero(draw.random(len(attribute.categories)) < 0.5).tolist()))
    assert isinstance(attribute, Numeric)
    edges = _fine(attribute, column).edges
    reached = np.cumsum(masses[column])[:-1]
    above = int(np.searchsorted(reached, draw.random(), side="right"))
    return Question(column, cut=edges[min(above, len(edges) - 1)])
