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
from eupg.learn.leaves.cells import Grid, LeafCells, Question, Tree

Floats = NDArray[np.float64]
UNIFORM = (8, 32, 128)
LOGARITHMIC = (16, 128, 1024)
QUANTILES = (8, 32)
# An attribute with more points than the first has no uniform grids; one with more than the second has logarithmic ones.
_MOST_UNIFORM, _FEWEST_LOGARITHMIC = 2000, 256
_FINEST = 1024
TREES = 40
_DEPTH = 2
_PUBLIC_SEED = 9
# The squared weights of an attribute's grids add up to the square of the first, those of all trees to the second.
_NUMERIC, _OF_TREES = 1.5, 4.0
# The mass of a cell whose noisy count is not positive.
_NOTHING = 1e-9


def histogram_grids(schema: Schema) -> dict[int, Grid]:
    """Return the finest grid of each numeric attribute that has two cells or more, by its column."""
    numeric = ((column, a) for column, a in enumerate(schema.features) if isinstance(a, Numeric))
    return {column: grid for column, a in numeric if (grid := _fine(a, column)).edges}


def private_cells(schema: Schema, masses: Mapping[int, Floats]) -> tuple[LeafCells, Floats]:
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
    return LeafCells(tuple(groups)), np.array(weights)


def histogram_cells(schema: Schema) -> LeafCells:
    """Return one cell for all records, then the finest grid of each attribute that has two cells or more."""
    grids: list[Grid] = []
    for column, attribute in enumerate(schema.features):
        keep = attribute.missing is Missing.KEEP
        if isinstance(attribute, Listed):
            grids.append(_listed(attribute, column, keep))
        elif isinstance(attribute, Numeric):
            grids.append(Grid(column, _fine(attribute, column).edges, keep))
    return LeafCells((Tree(), *(grid for grid in grids if grid.size > 1)))


def binned_cells(
    schema: Schema, fine: LeafCells, counts: Floats, records: float, bins: int
) -> tuple[LeafCells, Floats]:
    """Return the cells of :func:`histogram_cells` with about so many bins per number, and the count of each cell.

    Bins have equal mass, where a cell counts as one bin's mass at most: what surrounds a heavy cell is divided, too.
    """
    groups, parts = [fine.groups[0]], [np.array([records])]
    for group, part in zip(fine.groups[1:], fine.parts(counts)[1:], strict=True):
        own, count = group, part
        if isinstance(group, Grid) and isinstance(schema.features[group.column], Numeric):
            own, count = _binned(group, part, records, bins)
        groups.append(own)
        parts.append(count)
    return LeafCells(tuple(groups)), np.concatenate(parts)


def _binned(grid: Grid, counts: Floats, records: float, bins: int) -> tuple[Grid, Floats]:
    size = len(grid.edges) + 1
    mass = consistent(counts[:size])
    cuts = quantile_cuts(np.minimum(mass, 1 / bins), bins)
    own = Grid(grid.column, tuple(grid.edges[i - 1] for i in cuts), grid.missing)
    return own, np.append(np.add.reduceat(mass, [0, *cuts]) * records, counts[size:])


def _listed(attribute: Listed, column: int, keep: bool) -> Grid:
    return Grid(column, tuple(i + 0.5 for i in range(len(attribute.categories) - 1)), keep)


def _grids(attribute: Attribute, column: int, mass: Floats | None) -> list[Grid]:
    """Return the grids of one attribute, each of two cells or more."""
    keep = attribute.missing is Missing.KEEP
    grids: list[Grid] = []
    if isinstance(attribute, Numeric):
        points = attribute.points
        if points <= _MOST_UNIFORM:
            sizes = sorted({min(size, points) for size in UNIFORM})
            grids += [numeric_grid(attribute, column, uniform_starts(points, size)) for size in sizes]
        if points > _FEWEST_LOGARITHMIC:
            grids += [numeric_grid(attribute, column, logarithmic_starts(points, size)) for size in LOGARITHMIC]
        if mass is not None:
            edges = _fine(attribute, column).edges
            bins = {len(cuts): cuts for cuts in (quantile_cuts(mass, size) for size in reversed(QUANTILES))}
            grids += [Grid(column, tuple(edges[i - 1] for i in cuts)) for _, cuts in sorted(bins.items())]
    elif isinstance(attribute, Listed):
        grids.append(_listed(attribute, column, keep))
    return [Grid(column, g.edges, keep) for g in grids if len(g.edges) + keep > 0]


def _fine(attribute: Numeric, column: int) -> Grid:
    points = attribute.points
    if points <= _FINEST:
        return numeric_grid(attribute, column, np.arange(1, points, dtype=np.float64))
    inner = uniform_starts if points <= _MOST_UNIFORM else logarithmic_starts
    return numeric_grid(attribute, column, inner(points, _FINEST))


def numeric_grid(attribute: Numeric, column: int, starts: Floats) -> Grid:
    """Return cells that begin at these points of the attribute's public grid; edges lie halfway between points."""
    edges = np.unique(attribute.lower + (starts - 0.5) * attribute.resolution)
    inside = edges[(edges > attribute.lower) & (edges <= attribute.upper)]
    return Grid(column, tuple(inside.tolist()))


def uniform_starts(points: int, size: int) -> Floats:
    """Return the points at which cells begin, but for the first, that hold equally many points each."""
    return np.ceil(np.arange(1, size) * points / size - 1e-9)


def logarithmic_starts(points: int, size: int) -> Floats:
    """Return the same for cells that grow with the distance from the first point; neighbours may coincide."""
    return np.ceil(np.expm1(np.arange(1, size) / size * math.log1p(points)) - 1e-9)


def consistent(counts: Floats) -> Floats:
    """Return masses that are not negative and add up to one, from noisy counts.

    Down a binary tree over the cells, each node's mass is divided between its halves in proportion to their noisy sums.
    Noise averages out in sums of many cells, so a long stretch of empty cells gets little mass.
    """
    levels = [np.zeros(2 ** math.ceil(math.log2(max(len(counts), 1))))]
    levels[0][: len(counts)] = counts
    while len(levels[-1]) > 1:
        levels.append(levels[-1].reshape(-1, 2).sum(axis=1))
    mass = np.ones(1)
    for sums in levels[-2::-1]:
        halves = np.maximum(sums.reshape(-1, 2), _NOTHING)
        mass = (halves / halves.sum(axis=1, keepdims=True) * mass[:, None]).ravel()
    # If all sums are zero, cells beyond the last one get a share, too.
    inside = mass[: len(counts)]
    return np.asarray(inside / inside.sum(), dtype=np.float64)


def quantile_cuts(mass: Floats, size: int) -> tuple[int, ...]:
    """Return the cells at which a new bin begins, for about ``size`` bins of equal mass; heavy cells stand alone."""
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
