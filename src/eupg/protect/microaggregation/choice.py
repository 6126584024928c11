"""The ways to form groups that a mechanism can be given: exact MDAV, refined groups, or one of them by table size."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from numpy.typing import ArrayLike

from eupg.protect.microaggregation.groups import Groups, check_table
from eupg.protect.microaggregation.mdav import mdav
from eupg.protect.microaggregation.refined import microaggregate
from eupg.validation import check_whole


@runtime_checkable
class Microaggregation(Protocol):
    """A way to form groups of at least k similar rows; the same rows always get the same groups."""

    def group(self, X: ArrayLike, k: int) -> Groups:
        """Return the group of each row, numbered from 0; every group has at least ``k`` rows."""


@dataclass(frozen=True)
class MDAV:
    """Exact MDAV: groups of k, formed one after the other. Time grows with the square of the number of rows.

    Examples
    --------
    >>> MDAV().group([[1.0], [2.0], [3.0], [10.0], [11.0], [30.0], [31.0]], 2).tolist()
    [1, 1, 2, 2, 2, 0, 0]
    """

    def group(self, X: ArrayLike, k: int) -> Groups:
        """Return the groups of :func:`mdav`."""
        return mdav(X, k)


@dataclass(frozen=True)
class RefinedMDAV:
    """MDAV in cells of the table, improved across their borders: groups of k to 2k−1 that are tighter than MDAV's.

    Time grows with the number of rows. It runs on all cores that the process may use; the groups do not depend on them.

    Examples
    --------
    >>> import numpy as np
    >>> groups = RefinedMDAV().group(np.random.default_rng(0).normal(size=(1000, 4)), 10)
    >>> int(np.bincount(groups).min())
    10
    """

    def group(self, X: ArrayLike, k: int) -> Groups:
        """Return the groups of :func:`microaggregate`."""
        return microaggregate(X, k, threads=_cores())


@dataclass(frozen=True)
class MDAVBySize:
    """Exact MDAV for tables of up to ``exact_to`` rows, and refined groups for larger ones.

    The choice depends on nothing but the number of rows, which k-anonymity treats as known.

    Parameters
    ----------
    exact_to
        The largest number of rows that are grouped by exact MDAV.

    Examples
    --------
    >>> MDAVBySize().group([[1.0], [2.0], [3.0], [10.0], [11.0], [30.0], [31.0]], 2).tolist()
    [1, 1, 2, 2, 2, 0, 0]
    """

    exact_to: int = 200_000

    def __post_init__(self) -> None:
        check_whole("exact_to", self.exact_to, at_least=0)

    def group(self, X: ArrayLike, k: int) -> Groups:
        """Return the groups of the way that suits the number of rows."""
        table = check_table(X)
        way = MDAV() if len(table) <= self.exact_to else RefinedMDAV()
        return way.group(table, k)


def _cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
