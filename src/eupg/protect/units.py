"""The unit whose presence a claim hides: a person where the schema names one, otherwise a record."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.guarantees import DifferentiallyPrivate, Neighbours, Unit
from eupg.rng import Randomness


def unit_claim(epsilon: float, delta: float, schema: Schema, caveats: tuple[str, ...]) -> DifferentiallyPrivate:
    """Return the claim that one unit's presence, attributes and label make no difference beyond (ε, δ)."""
    return DifferentiallyPrivate(
        epsilon=float(epsilon),
        delta=float(delta),
        unit=Unit.RECORD if schema.subject is None else Unit.PERSON,
        neighbours=Neighbours.ADD_OR_REMOVE,
        covers=tuple(a.name for a in (*schema.features, schema.label)),
        caveats=(*schema.caveats, *caveats),
    )


def units_of(data: Dataset) -> NDArray[np.intp]:
    """Return the number of the unit that each record belongs to."""
    names = data.ids if data.schema.subject is None else data.subjects
    return np.unique(names, return_inverse=True)[1]


def used_records(data: Dataset, most: int) -> int:
    """Return how many records are used if at most this many of each unit are.

    Examples
    --------
    >>> from eupg import sources
    >>> data = sources.rand_hie().train
    >>> used_records(data, 1) == len(set(data.subjects.tolist()))
    True
    """
    return int(np.minimum(np.bincount(units_of(data)), most).sum())


def random_rank(data: Dataset, rng: Randomness) -> NDArray[np.intp]:
    """Return each record's place, from 0, in a random order of its unit's records.

    The order of one unit's records does not depend on any other unit. Two records draw the same number with a
    probability of 2⁻⁶³, and then stay in the order of the table.
    """
    return rank_within(units_of(data), rng.words(len(data)))


def rank_within(unit: NDArray[np.integer[Any]], numbers: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Return each record's place, from 0, among its unit's records in the order of their numbers.

    Examples
    --------
    >>> rank_within(np.array([0, 1, 0, 0]), np.array([7, 3, 5, 7], dtype=np.uint64)).tolist()
    [1, 0, 0, 2]
    """
    order = np.lexsort((numbers, unit))
    rank = np.empty(len(unit), dtype=np.intp)
    rank[order] = np.arange(len(unit)) - np.searchsorted(unit[order], unit[order], side="left")
    return rank
