"""Which forgotten records have a twin, or nearly one, among the records that are kept.

Part of stage 6, audit. Every claim assumes that no relation between forgotten and retained records is known. A twin
breaks it: what the model learns from the one holds for the other. So the twins are counted and the certificate prints
the count. Identical rows are found by hashing their bytes; rows that differ in a few attributes by hashing what is left
without these; near rows by a k-d tree over the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import combinations
from math import comb
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from eupg.audit.picture_twins import GREY_LEVELS, nearest_pictures
from eupg.data.attribute import Categorical
from eupg.data.dataset import Dataset, Matrix
from eupg.errors import DataError, ParameterError
from eupg.validation import is_number, is_whole

_MOST_CHOICES = 1000
# For so few records it is quicker to narrow down the others one by one than to sort them all.
_FEW = 64


@dataclass(frozen=True, eq=False)
class Twins:
    """For each forgotten record: whether it has an identical twin, one of its own label, one that differs a little."""

    identical: NDArray[np.bool_]
    same_label: NDArray[np.bool_]
    differing: NDArray[np.bool_]


@dataclass(frozen=True)
class DuplicateReport:
    """How many forgotten records have a twin among the retained ones.

    Parameters
    ----------
    forgotten, retained, attributes
        Number of records on either side, and of features.
    same_label
        Forgotten records with an identical twin, the label included.
    other_label
        Forgotten records whose identical twins all have another label.
    within, differing
        Forgotten records with a twin that differs in at most ``within`` features; identical ones included.
    tolerance, near
        Forgotten records with a twin at most this far away, in standard deviations; identical ones included.
    distances
        Distance of each forgotten record to its nearest retained one; infinite beyond the tolerance.
    grey_levels
        The tolerance in grey levels, where the records are pictures.
    twins
        What was found for each forgotten record; None in a report that was read back.
    """

    forgotten: int
    retained: int
    attributes: int
    same_label: int
    other_label: int
    within: int
    differing: int
    tolerance: float
    near: int
    distances: NDArray[np.float64] = field(compare=False, repr=False)
    grey_levels: float | None = None
    twins: Twins | None = field(default=None, compare=False, repr=False)

    @property
    def identical(self) -> int:
        """Forgotten records with an identical twin, whatever its label."""
        return self.same_label + self.other_label

    def of(self, rows: NDArray[np.intp]) -> DuplicateReport:
        """Return the report about some of the forgotten records alone, by their places among them all."""
        if self.twins is None:
            raise ParameterError("a report that was read back has no part about single records: count them again")
        identical, same = self.twins.identical[rows], self.twins.same_label[rows]
        differing, distances = self.twins.differing[rows], self.distances[rows]
        return replace(
            self,
            forgotten=len(rows),
            same_label=int(same.sum()),
            other_label=int((identical & ~same).sum()),
            differing=int(differing.sum()),
            near=int((distances <= self.tolerance).sum()),
            distances=distances,
            twins=Twins(identical, same, differing),
        )

    def sentence(self) -> str:
        """Say the counts in plain words, for a certificate."""
        found = (
            f"{self.identical:,} of {self.forgotten:,} forgotten records have an identical twin among the "
            f"{self.retained:,} retained: {self.same_label:,} with the same label, {self.other_label:,} only with "
            f"another"
        )
        if self.within:
            found += (
                f"; {self.differing:,} have one that differs in at most {self.within} of {self.attributes} features"
            )
        if self.tolerance:
            far = f"{self.tolerance:g} standard deviations"
            if self.grey_levels is not None:
                far = f"{self.grey_levels:.2g} of 255 grey levels (root mean square over the pixels)"
            found += f"; {self.near:,} have one within {far}"
        twins = max(self.identical, self.differing, self.near)
        return f"{found}. " + (
            "What the model learns from a retained twin holds for the forgotten record too, and no erasure undoes it."
            if twins
            else "Other dependencies, such as relatives, are not looked for."
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values: the counts, without the distances of single records."""
        left_out = {"distances", "twins", *(["grey_levels"] if self.grey_levels is None else [])}
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in left_out}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read the counts back; what was found for single records is not among them."""
        return cls(**values, distances=np.empty(0))


def near_duplicates(
    forgotten: Dataset, retained: Dataset, *, within: int = 0, tolerance: float = 0.1
) -> DuplicateReport:
    """Count the forgotten records that have an identical or a similar record among the retained.

    Two missing values are equal; a missing one differs from any other. Labels take no part, except to tell identical
    twins apart. For the distance, numbers and ordered categories are in standard deviations of the *retained* records,
    so that nothing computed from the forgotten ones is left; a differing category, or a value that is missing on one
    side only, counts 1. Pictures are as far apart as the root mean square of their pixels' differences, in units of
    63.75 grey levels, a quarter of the range.

    Parameters
    ----------
    forgotten, retained
        Records under the same schema.
    within
        Number of features in which a twin may differ.
    tolerance
        Largest Euclidean distance of a near twin: from 0 to below 1, so that only numbers may differ.

    Notes
    -----
    Since a near twin agrees in all categories, these and the pattern of missing values become one further coordinate,
    spaced wider than any tolerance, and one k-d tree over the numbers answers all. ``within`` costs one pass over the
    records for each choice of features to leave out.

    Examples
    --------
    >>> from eupg import sources
    >>> data = sources.rand_hie().train
    >>> chosen = data.where(data.ids[::100])
    >>> report = near_duplicates(data.select(chosen), data.select(~chosen), within=1)
    >>> report.forgotten, report.identical, report.differing, report.near
    (162, 1, 9, 3)
    """
    _check(forgotten, retained, within, tolerance)
    if retained.schema.picture is not None:
        return _among_pictures(forgotten, retained, float(tolerance))
    ours, theirs, their_labels = _canonical(forgotten.X), _canonical(retained.X), retained.y
    listed = np.array([isinstance(a, Categorical) for a in retained.schema.features])
    centre, spread = _scales(theirs)
    if not within and len(ours) <= _FEW:
        close = _close(ours, theirs, np.where(listed, 0.0, tolerance * spread))
        theirs, their_labels = theirs[close], their_labels[close]
    twin = _found(ours, theirs)
    same = _found(np.column_stack([ours, forgotten.y]), np.column_stack([theirs, their_labels]))
    differing = _differing(ours, theirs, twin, within)
    distances = np.where(twin, 0.0, np.inf)
    if tolerance:
        distances[~twin] = _nearest(ours[~twin], theirs, listed, centre, spread, tolerance)
    distances.flags.writeable = False
    return DuplicateReport(
        forgotten=len(ours),
        retained=len(retained),
        attributes=ours.shape[1],
        same_label=int(same.sum()),
        other_label=int((twin & ~same).sum()),
        within=int(within),
        differing=int(differing.sum()),
        tolerance=float(tolerance),
        near=int((distances <= tolerance).sum()),
        distances=distances,
        twins=Twins(twin, same, differing),
    )


def _among_pictures(forgotten: Dataset, retained: Dataset, tolerance: float) -> DuplicateReport:
    picture = retained.schema.picture
    assert picture is not None
    ours, theirs = (np.asarray(data.X, dtype=np.uint8) for data in (forgotten, retained))
    twin = _found(ours, theirs)
    # Only a record with a twin can have one of its own label, and these are few.
    same = twin.copy()
    if twin.any():
        same[twin] = _found(_labelled(ours[twin], forgotten.y[twin]), _labelled(theirs, retained.y))
    distances = np.where(twin, 0.0, np.inf)
    if tolerance and not twin.all():
        distances[~twin] = nearest_pictures(picture, ours[~twin], theirs, tolerance=tolerance)
    distances.flags.writeable = False
    return DuplicateReport(
        forgotten=len(ours),
        retained=len(theirs),
        attributes=1,
        same_label=int(same.sum()),
        other_label=int((twin & ~same).sum()),
        within=0,
        differing=int(twin.sum()),
        tolerance=tolerance,
        near=int((distances <= tolerance).sum()),
        distances=distances,
        grey_levels=tolerance * GREY_LEVELS,
        twins=Twins(twin, same, twin),
    )


def _labelled(X: NDArray[np.uint8], y: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return rows of bytes with the label's bytes behind."""
    return np.hstack([X, np.ascontiguousarray(y).view(np.uint8).reshape(len(y), y.itemsize)])


def _canonical(X: Matrix) -> Matrix:
    """Write equal values in equal bytes: one zero, one missing value."""
    return np.where(np.isnan(X), np.nan, X + 0.0)


def _found(ours: NDArray[Any], theirs: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell for each of our rows whether it is among theirs."""
    wanted = _keys(ours)
    here = set(wanted).intersection(_keys(theirs))
    return np.fromiter((key in here for key in wanted), dtype=np.bool_, count=len(wanted))


def _keys(X: NDArray[Any]) -> list[bytes]:
    if not X.shape[1]:
        return [b""] * len(X)
    keys: list[bytes] = np.ascontiguousarray(X).view(f"V{X.itemsize * X.shape[1]}").ravel().tolist()
    return keys


def _differing(ours: Matrix, theirs: Matrix, twin: NDArray[np.bool_], within: int) -> NDArray[np.bool_]:
    """Tell which of our rows are among theirs once any ``within`` columns are left out."""
    found = twin.copy()
    for kept in combinations(range(ours.shape[1]), ours.shape[1] - within) if within else ():
        open_rows = np.flatnonzero(~found)
        columns = np.array(kept, dtype=np.intp)
        found[open_rows] = _found(ours[np.ix_(open_rows, columns)], theirs[:, columns])
    return found


def _scales(X: Matrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation of each column, 1 where it does not vary."""
    empty = np.isnan(X)
    known = np.maximum((~empty).sum(axis=0), 1)
    centre = np.where(empty, 0.0, X).sum(axis=0) / known
    spread = np.sqrt((np.where(empty, 0.0, X - centre) ** 2).sum(axis=0) / known)
    return centre, np.where(spread > 0, spread, 1.0)


def _close(ours: Matrix, theirs: Matrix, reach: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the rows of theirs that could be twins or near ones: within reach of one of ours in every column."""
    found = []
    for row in ours:
        rows = np.arange(len(theirs))
        for j, value in enumerate(row):
            column = theirs[rows, j]
            # A hair more, since this only narrows down what is then compared exactly.
            far = abs(value) * 1e-12 + reach[j] * (1 + 1e-9)
            rows = rows[np.isnan(column) if np.isnan(value) else np.abs(column - value) <= far]
        found.append(rows)
    return np.unique(np.concatenate([np.empty(0, np.intp), *found]))


def _nearest(
    ours: Matrix,
    theirs: Matrix,
    listed: NDArray[np.bool_],
    centre: NDArray[np.float64],
    spread: NDArray[np.float64],
    tolerance: float,
) -> NDArray[np.float64]:
    """Return each row's distance to the nearest of theirs, infinite beyond the tolerance."""
    if not len(ours) or not len(theirs):
        return np.full(len(ours), np.inf)
    both = np.concatenate([ours, theirs])
    numbers = np.where(np.isnan(both), 0.0, (both - centre) / spread)[:, ~listed]
    # Categories and missing values must agree: each pattern of them has a level of its own, 2 apart.
    patterns = _keys(np.column_stack([np.where(np.isnan(both), np.nan, 0.0)[:, ~listed], both[:, listed]]))
    levels: dict[bytes, int] = {}
    level = np.fromiter((levels.setdefault(p, len(levels)) for p in patterns), dtype=np.float64, count=len(both))
    points = np.column_stack([numbers, 2 * level])
    tree = cKDTree(points[len(ours) :], balanced_tree=False, compact_nodes=False)
    distances, _ = tree.query(points[: len(ours)], distance_upper_bound=np.nextafter(tolerance, np.inf))
    return np.asarray(distances, dtype=np.float64)


def _check(forgotten: Dataset, retained: Dataset, within: int, tolerance: float) -> None:
    features = len(retained.schema.features)
    if forgotten.schema != retained.schema:
        raise DataError("forgotten and retained records must be under the same schema: load both with one")
    if not len(forgotten) or not len(retained):
        raise DataError(f"expected records on both sides, got {len(forgotten)} forgotten and {len(retained)} retained")
    if not is_whole(within) or not 0 <= within < features:
        raise ParameterError(f"within must be a whole number from 0 to below {features} features, got {within!r}")
    if comb(features, int(within)) > _MOST_CHOICES:
        raise ParameterError(
            f"within={within} of {features} features leaves {comb(features, int(within)):,} choices to try, "
            f"more than {_MOST_CHOICES}: lower within, or use tolerance"
        )
    if not is_number(tolerance) or not 0 <= tolerance < 1:
        raise ParameterError(
            f"tolerance must be a number from 0 to below 1, since one differing category counts 1, got {tolerance!r}: "
            "use within to allow for categories that differ"
        )
