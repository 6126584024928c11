"""Which forgotten records have an identical or a near-identical twin among the retained records.

Every claim assumes that no relation between forgotten and retained records is known. A twin breaks this assumption:
what the model learns from one holds for the other. Therefore the twins are counted, and the certificate prints the
count. Identical rows are found by hashing, rows that differ in a few attributes by hashing the rest, near rows by a k-d
tree over the numbers, and near pictures by comparing tile averages before pixels.
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

from eupg.data.attribute import Categorical
from eupg.data.dataset import Dataset, Matrix
from eupg.data.kind import DataKind
from eupg.data.pictures.attribute import Bytes, Picture
from eupg.data.vector import GRID
from eupg.errors import DataError, ParameterError
from eupg.validation import is_number, is_whole

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

TOLERANCE = 0.1
"""The largest distance of a near twin, in standard deviations, unless another is asked for."""
_MOST_CHOICES = 1000
# For this few records it is faster to filter the others one record at a time than to sort them all.
_FEW = 64
# The grey levels of a picture distance of 1: one unit of a network's input.
_GREY_LEVELS = 63.75
_TILE = 4
# Rows of either side, and pairs, that are processed at a time.
_FORGOTTEN_ROWS, _RETAINED_ROWS, _PAIRS = 512, 8192, 4096


@dataclass(frozen=True, eq=False)
class Twins:
    """For each forgotten record, whether it has an identical twin, one of its own label, and a similar one."""

    identical: Flags
    same_label: Flags
    differing: Flags


@dataclass(frozen=True)
class DuplicateReport:
    """How many forgotten records have a twin among the retained ones.

    ``same_label`` counts those with an identical twin of the same label, ``other_label`` those whose identical twins
    all have another. ``differing`` counts those with a twin that differs in at most ``within`` features, ``near`` those
    with one at most ``tolerance`` standard deviations away; both include identical twins. ``distances`` to the nearest
    retained record are infinite beyond the tolerance, which is also given in ``grey_levels`` for pictures. ``twins`` is
    None in a report read from JSON.
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
    distances: Floats = field(compare=False, repr=False)
    grey_levels: float | None = None
    twins: Twins | None = field(default=None, compare=False, repr=False)

    @property
    def identical(self) -> int:
        """Forgotten records with an identical twin of any label."""
        return self.same_label + self.other_label

    def of(self, rows: NDArray[np.intp]) -> DuplicateReport:
        """Return the report about some of the forgotten records, by their positions."""
        if self.twins is None:
            raise ParameterError("a report read from JSON has no results for single records: count them again")
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

    @property
    def flags(self) -> dict[str, Flags]:
        """For each forgotten record, whether it counts: one column per count, by the names of :meth:`to_json`."""
        if self.twins is None:
            raise ParameterError("a report read from JSON has no results for single records: count them again")
        identical, same = self.twins.identical, self.twins.same_label
        return {
            "same_label": same,
            "other_label": identical & ~same,
            "differing": self.twins.differing,
            "near": self.distances <= self.tolerance,
        }

    def sentence(self) -> str:
        """State the counts in plain words, for a certificate."""
        words = (
            f"{self.identical:,} of {self.forgotten:,} forgotten records have an identical twin among the "
            f"{self.retained:,} retained: {self.same_label:,} with the same label, {self.other_label:,} only with "
            f"another"
        )
        if self.within:
            words += (
                f"; {self.differing:,} have one that differs in at most {self.within} of {self.attributes} features"
            )
        if self.tolerance:
            distance = f"{self.tolerance:g} standard deviations"
            if self.grey_levels is not None:
                distance = f"{self.grey_levels:.2g} of 255 grey levels (root mean square over the pixels)"
            words += f"; {self.near:,} have one within {distance}"
        meaning = "Other dependencies, such as relatives, are not looked for."
        if max(self.identical, self.differing, self.near):
            learnt = "What the model learns from a retained twin holds for the forgotten record too"
            meaning = f"{learnt}, and no erasure undoes it."
        return f"{words}. {meaning}"

    def to_json(self) -> dict[str, Any]:
        """Return the counts as plain values, without the distances of single records."""
        omitted = {"distances", "twins", *(["grey_levels"] if self.grey_levels is None else [])}
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in omitted}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read the counts back."""
        return cls(**values, distances=np.empty(0))


def near_duplicates(
    forgotten: Dataset, retained: Dataset, *, within: int = 0, tolerance: float = TOLERANCE
) -> DuplicateReport:
    """Count the forgotten records that have an identical or a similar record among the retained ones.

    Two missing values are equal; a missing value differs from any other. Labels only divide identical twins. In the
    distance, numbers and ordered categories are measured in standard deviations of the *retained* records, so that
    nothing computed from the forgotten ones survives; a differing category, or a value missing on one side only, counts
    1. The distance of pictures is the root mean square of their pixels' differences, in units of 63.75 grey levels. The
    distance of vectors of public features, which have a length of 1, is Euclidean: that of similar texts is small.

    Parameters
    ----------
    forgotten, retained
        Records under the same schema.
    within
        Number of features in which a twin may differ. Costs one pass over the records per choice of features.
    tolerance
        Largest Euclidean distance of a near twin: from 0 to below 1, so that only numbers may differ.

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
    picture, kind = retained.schema.picture, retained.schema.kind
    if picture is not None:
        twins, distances = _compare_pictures(picture, forgotten, retained, tolerance)
    elif kind is DataKind.VECTORS:
        twins, distances = _compare_vectors(forgotten, retained, tolerance)
    else:
        twins, distances = _compare_tables(forgotten, retained, within, tolerance)
    return _report(forgotten, len(retained), within, tolerance, twins, distances)


def near_duplicates_among(
    forgotten: Dataset, X: Matrix, y: NDArray[np.int64], *, retained: int, spread: Floats, tolerance: float = TOLERANCE
) -> DuplicateReport:
    """Count the forgotten records that have a twin, from a few retained records instead of all.

    Parameters
    ----------
    forgotten
        Records of a table, not pictures or texts.
    X, y
        The features and labels of retained records: of those that are identical to a forgotten record, or within the
        tolerance of it, at least one of each kind that there is, where there is one of the same label that one.
    retained, spread
        The number of retained records, and the standard deviation of each of their columns.
    tolerance
        Largest Euclidean distance of a near twin.
    """
    categorical = np.array([isinstance(a, Categorical) for a in forgotten.schema.features])
    ours, theirs = _canonical(forgotten.X), _canonical(X)
    centre = np.where(np.isnan(ours), 0.0, ours).mean(axis=0) if len(ours) else np.zeros(ours.shape[1])
    twins, distances = _compare_rows(ours, forgotten.y, theirs, y, categorical, centre, spread, 0, tolerance)
    return _report(forgotten, retained, 0, tolerance, twins, distances)


def _report(
    forgotten: Dataset, retained: int, within: int, tolerance: float, twins: Twins, distances: Floats
) -> DuplicateReport:
    distances.flags.writeable = False
    return DuplicateReport(
        forgotten=len(forgotten),
        retained=retained,
        attributes=forgotten.X.shape[1] if forgotten.schema.kind is DataKind.TABLE else 1,
        same_label=int(twins.same_label.sum()),
        other_label=int((twins.identical & ~twins.same_label).sum()),
        within=int(within),
        differing=int(twins.differing.sum()),
        tolerance=float(tolerance),
        near=int((distances <= tolerance).sum()),
        distances=distances,
        grey_levels=None if forgotten.schema.picture is None else float(tolerance) * _GREY_LEVELS,
        twins=twins,
    )


def _compare_tables(forgotten: Dataset, retained: Dataset, within: int, tolerance: float) -> tuple[Twins, Floats]:
    ours, theirs, labels = _canonical(forgotten.X), _canonical(retained.X), retained.y
    categorical = np.array([isinstance(a, Categorical) for a in retained.schema.features])
    centre, spread = _scales(theirs)
    if not within and len(ours) <= _FEW:
        close = _candidates(ours, theirs, np.where(categorical, 0.0, tolerance * spread))
        theirs, labels = theirs[close], labels[close]
    return _compare_rows(ours, forgotten.y, theirs, labels, categorical, centre, spread, within, tolerance)


def _compare_rows(
    ours: Matrix,
    our_labels: NDArray[np.int64],
    theirs: Matrix,
    labels: NDArray[np.int64],
    categorical: Flags,
    centre: Floats,
    spread: Floats,
    within: int,
    tolerance: float,
) -> tuple[Twins, Floats]:
    identical = _among(ours, theirs)
    same = _among(np.column_stack([ours, our_labels]), np.column_stack([theirs, labels]))
    distances = np.where(identical, 0.0, np.inf)
    if tolerance:
        distances[~identical] = _nearest(ours[~identical], theirs, categorical, centre, spread, tolerance)
    return Twins(identical, same, _differing(ours, theirs, identical, within)), distances


def _compare_vectors(forgotten: Dataset, retained: Dataset, tolerance: float) -> tuple[Twins, Floats]:
    ours, theirs = (np.asarray(data.X, dtype=np.int16) for data in (forgotten, retained))
    identical = _among(ours, theirs)
    same = _among(_labelled(ours, forgotten.y), _labelled(theirs, retained.y))
    distances = np.where(identical, 0.0, np.inf)
    rest = np.flatnonzero(~identical)
    if tolerance and len(rest):
        # Squared distances are whole numbers below 2^53, and exact in double precision.
        others = (theirs.astype(np.float64) ** 2).sum(axis=1)
        for start in range(0, len(rest), _FORGOTTEN_ROWS):
            rows = rest[start : start + _FORGOTTEN_ROWS]
            mine, best = ours[rows].astype(np.float64), np.full(len(rows), np.inf)
            for first in range(0, len(theirs), _RETAINED_ROWS):
                part = slice(first, first + _RETAINED_ROWS)
                apart = (mine**2).sum(axis=1)[:, None] + others[part] - 2 * mine @ theirs[part].astype(np.float64).T
                best = np.minimum(best, apart.min(axis=1))
            distances[rows] = np.sqrt(best) / GRID
    return Twins(identical, same, identical), np.where(distances <= tolerance, distances, np.inf)


def _compare_pictures(
    picture: Picture, forgotten: Dataset, retained: Dataset, tolerance: float
) -> tuple[Twins, Floats]:
    ours, theirs = (np.asarray(data.X, dtype=np.uint8) for data in (forgotten, retained))
    identical = _among(ours, theirs)
    # Only the few records with a twin can have one of the same label.
    same = identical.copy()
    if identical.any():
        same[identical] = _among(_labelled(ours[identical], forgotten.y[identical]), _labelled(theirs, retained.y))
    distances = np.where(identical, 0.0, np.inf)
    if tolerance and not identical.all():
        distances[~identical] = _nearest_pictures(picture, ours[~identical], theirs, tolerance)
    return Twins(identical, same, identical), distances


def _labelled(X: NDArray[Any], y: NDArray[np.int64]) -> Bytes:
    """Return the bytes of rows followed by those of their label."""
    rows = np.ascontiguousarray(X).view(np.uint8).reshape(len(X), -1)
    return np.hstack([rows, np.ascontiguousarray(y).view(np.uint8).reshape(len(y), y.itemsize)])


def _canonical(X: Matrix) -> Matrix:
    """Give equal values equal bytes: one zero, one missing value."""
    return np.where(np.isnan(X), np.nan, X + 0.0)


def _among(ours: NDArray[Any], theirs: NDArray[Any]) -> Flags:
    """Return for each of our rows whether it is among theirs."""
    keys = _keys(ours)
    common = set(keys).intersection(_keys(theirs))
    return np.fromiter((key in common for key in keys), dtype=np.bool_, count=len(keys))


def _keys(X: NDArray[Any]) -> list[bytes]:
    if not X.shape[1]:
        return [b""] * len(X)
    keys: list[bytes] = np.ascontiguousarray(X).view(f"V{X.itemsize * X.shape[1]}").ravel().tolist()
    return keys


def _differing(ours: Matrix, theirs: Matrix, identical: Flags, within: int) -> Flags:
    """Return which of our rows are among theirs once some ``within`` columns are left out."""
    differing = identical.copy()
    for chosen in combinations(range(ours.shape[1]), ours.shape[1] - within) if within else ():
        open_rows = np.flatnonzero(~differing)
        columns = np.array(chosen, dtype=np.intp)
        differing[open_rows] = _among(ours[np.ix_(open_rows, columns)], theirs[:, columns])
    return differing


def _scales(X: Matrix) -> tuple[Floats, Floats]:
    """Return the mean and standard deviation of each column, 1 where it does not vary."""
    empty = np.isnan(X)
    known = np.maximum((~empty).sum(axis=0), 1)
    centre = np.where(empty, 0.0, X).sum(axis=0) / known
    spread = np.sqrt((np.where(empty, 0.0, X - centre) ** 2).sum(axis=0) / known)
    return centre, np.where(spread > 0, spread, 1.0)


def _candidates(ours: Matrix, theirs: Matrix, reach: Floats) -> NDArray[np.intp]:
    """Return the rows of theirs that are within reach of one of ours in every column."""
    candidates = [np.empty(0, np.intp)]
    for row in ours:
        rows = np.arange(len(theirs))
        for j, value in enumerate(row):
            column = theirs[rows, j]
            # Slightly more than the reach: the candidates are compared exactly later.
            limit = abs(value) * 1e-12 + reach[j] * (1 + 1e-9)
            rows = rows[np.isnan(column) if np.isnan(value) else np.abs(column - value) <= limit]
        candidates.append(rows)
    return np.unique(np.concatenate(candidates))


def _nearest(
    ours: Matrix, theirs: Matrix, categorical: Flags, centre: Floats, spread: Floats, tolerance: float
) -> Floats:
    """Return each row's distance to the nearest of theirs, infinite beyond the tolerance."""
    if not len(ours) or not len(theirs):
        return np.full(len(ours), np.inf)
    both = np.concatenate([ours, theirs])
    numbers = np.where(np.isnan(both), 0.0, (both - centre) / spread)[:, ~categorical]
    # Near twins agree in categories and missing values: each pattern of these gets its own level, 2 apart.
    patterns = _keys(np.column_stack([np.where(np.isnan(both), np.nan, 0.0)[:, ~categorical], both[:, categorical]]))
    levels: dict[bytes, int] = {}
    level = np.fromiter((levels.setdefault(p, len(levels)) for p in patterns), dtype=np.float64, count=len(both))
    points = np.column_stack([numbers, 2 * level])
    tree = cKDTree(points[len(ours) :], balanced_tree=False, compact_nodes=False)
    distances, _ = tree.query(points[: len(ours)], distance_upper_bound=np.nextafter(tolerance, np.inf))
    return np.asarray(distances, dtype=np.float64)


def _nearest_pictures(picture: Picture, ours: Bytes, theirs: Bytes, tolerance: float) -> Floats:
    """Return the distance of each of our pictures to the nearest of theirs, infinite beyond the tolerance.

    Tile averages never differ more than the pixels do, so only pairs with similar averages are compared in full.
    """
    reach = (tolerance * _GREY_LEVELS) ** 2 * picture.columns
    coarse, others = _tile_means(picture, ours), _tile_means(picture, theirs)
    norms, other_norms = (coarse**2).sum(axis=1), (others**2).sum(axis=1)
    best = np.full(len(ours), np.inf)
    for start in range(0, len(theirs), _RETAINED_ROWS):
        part = slice(start, start + _RETAINED_ROWS)
        for first in range(0, len(ours), _FORGOTTEN_ROWS):
            rows = slice(first, first + _FORGOTTEN_ROWS)
            apart = norms[rows, None] + other_norms[part] - 2 * (coarse[rows] @ others[part].T)
            # The slack covers single-precision errors: a pair too many is compared, none is missed.
            i, j = np.nonzero(apart <= reach + 1e-4 * (norms[rows, None] + other_norms[part]) + 1.0)
            _compare_pairs(ours, theirs, i + first, j + start, best)
    return np.where(best <= reach, np.sqrt(best / picture.columns) / _GREY_LEVELS, np.inf)


def _compare_pairs(ours: Bytes, theirs: Bytes, i: NDArray[np.intp], j: NDArray[np.intp], best: Floats) -> None:
    """Lower ``best`` to the sum of squared differences of these pairs."""
    for start in range(0, len(i), _PAIRS):
        some = slice(start, start + _PAIRS)
        gap = ours[i[some]].astype(np.int32) - theirs[j[some]]
        np.minimum.at(best, i[some], np.einsum("ij,ij->i", gap, gap, dtype=np.int64).astype(np.float64))


def _tile_means(picture: Picture, X: Bytes) -> NDArray[np.float32]:
    """Return tile sums over the root of the tile size, whose distances are at most those of the pictures."""
    down, right = np.arange(0, picture.height, _TILE), np.arange(0, picture.width, _TILE)
    sizes = np.outer(np.diff(np.r_[down, picture.height]), np.diff(np.r_[right, picture.width]))
    sums = np.empty((len(X), picture.channels, len(down), len(right)), dtype=np.float32)
    for start in range(0, len(X), _RETAINED_ROWS):
        part = slice(start, start + _RETAINED_ROWS)
        images = picture.images(X[part]).astype(np.float32) - np.float32(127.5)
        sums[part] = np.add.reduceat(np.add.reduceat(images, down, axis=2), right, axis=3)
    return np.asarray((sums / np.sqrt(sizes)).reshape(len(X), -1), dtype=np.float32)


def _check(forgotten: Dataset, retained: Dataset, within: int, tolerance: float) -> None:
    features = len(retained.schema.features)
    if forgotten.schema != retained.schema:
        raise DataError("forgotten and retained records must have the same schema: load both with one")
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
