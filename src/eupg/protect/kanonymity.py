"""Probabilistic k-anonymity: attributes permuted inside groups of at least k similar records.

Records are grouped by microaggregation on all quasi-identifiers. Inside each group every quasi-identifier is permuted
on its own, uniformly and independently (paper, section 4.1 and "Privacy guarantees"). Whole attributes are permuted,
never single dummy columns. Confidential attributes and the label stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Categorical, Role
from eupg.data.dataset import Dataset, Matrix
from eupg.data.kind import Accepts, DataKind, check_kind
from eupg.data.schema import Schema
from eupg.errors import DataError, ParameterError, PrivacyError
from eupg.guarantees import KAnonymous
from eupg.protect.microaggregation.choice import MDAVBySize, Microaggregation
from eupg.protect.microaggregation.groups import Groups
from eupg.protect.release import Release
from eupg.rng import Randomness
from eupg.validation import check_whole


@dataclass(frozen=True)
class ProbabilisticKAnonymity:
    """Permute each quasi-identifier inside groups of at least ``k`` similar records.

    A record is linked to its released row with probability at most 1/k.

    Parameters
    ----------
    k
        The least number of records in a group.
    microaggregation
        How groups are formed. The claim is the same for every way, because it needs groups of at least k and no more.
    """

    accepts: ClassVar[Accepts] = Accepts(DataKind.TABLE, instead="PixelPermutation")
    k: int = 30
    microaggregation: Microaggregation = MDAVBySize()

    def __post_init__(self) -> None:
        check_whole("k", self.k, at_least=2)
        if isinstance(self.microaggregation, type) or not isinstance(self.microaggregation, Microaggregation):
            raise ParameterError(
                f"expected a way to form groups such as MDAV() or RefinedMDAV(), got {self.microaggregation!r}"
            )

    def guarantee(self, schema: Schema) -> KAnonymous:
        """Return the claim: linking by the permuted attributes succeeds with probability at most 1/k."""
        check_kind(schema, self)
        permuted = tuple(schema.features[j].name for j in _permuted(schema))
        return KAnonymous(
            k=int(self.k),
            covers=permuted,
            leaves_open=tuple(a.name for a in (*schema.features, schema.label) if a.name not in permuted),
            caveats=schema.caveats,
        )

    def groups(self, data: Dataset) -> Groups:
        """Return the group of each record; the same records always get the same groups."""
        check_kind(data.schema, self)
        groups = self.microaggregation.group(_geometry(data), int(self.k))
        smallest = int(np.unique(groups, return_counts=True)[1].min())
        if len(groups) != len(data) or smallest < self.k:
            raise PrivacyError(
                f"the claim needs a group of at least k={self.k} for each of {len(data)} records, and "
                f"{self.microaggregation!r} returned {len(groups)} with a smallest group of {smallest}: use MDAV()"
            )
        return groups

    def protect(self, data: Dataset, rng: Randomness) -> Release:
        """Group, permute every quasi-identifier inside its group, and shuffle the rows."""
        return self.protect_in_groups(data, rng)[0]

    def protect_in_groups(self, data: Dataset, rng: Randomness) -> tuple[Release, Groups]:
        """Return the release, and the group of each record in it."""
        claim, groups = self.guarantee(data.schema), self.groups(data)
        claim = with_shared(claim, data, groups)
        X = data.X.copy()
        for j in _permuted(data.schema):
            X[:, j] = X[rng.stage(f"attribute {j}").permutation_within(groups), j]
        return Release.shuffled(data, X, data.y, claim, rng), groups


@dataclass(frozen=True)
class EffectiveK:
    """How many forgotten people share a group, which protects them against someone who knows every retained record.

    Such an adversary subtracts the retained records from a group; the rest belongs to the forgotten people.
    """

    minimum: int
    median: float
    alone: float

    def __str__(self) -> str:
        """Return a sentence."""
        if self.alone == 1:
            return (
                "the effective k is 1 against someone who knows every retained record: they can subtract the "
                "group-mates from the release and rebuild what is forgotten"
            )
        return (
            f"against someone who knows all retained records, the forgotten hide among {self.median:g} "
            f"(median; minimum {self.minimum}), and {self.alone:.0%} of them stand alone"
        )


def effective_k(groups: Groups, forgotten: NDArray[np.bool_], subjects: NDArray[np.str_]) -> EffectiveK:
    """Count the forgotten people in the group of each forgotten record; one person's records count once."""
    if not forgotten.any():
        raise DataError("no record is forgotten, so there is no effective k to report")
    pairs = np.unique(np.stack([groups[forgotten].astype(np.str_), subjects[forgotten]]), axis=1)
    names, people = np.unique(pairs[0], return_counts=True)
    each = people[np.searchsorted(names, groups[forgotten].astype(np.str_))]
    return EffectiveK(int(each.min()), float(np.median(each)), float((each == 1).mean()))


def constant_share(data: Dataset, groups: Groups) -> dict[str, float]:
    """Return, per quasi-identifier, the share of groups that hold one value only: there a permutation does nothing.

    For pictures, return the share of groups that hold identical pictures.
    """
    order, starts = _in_order(groups)
    if data.schema.picture is not None:
        return {data.schema.picture.name: float(_one_value(data.X[order], starts).all(axis=1).mean())}
    names = {j: data.schema.features[j].name for j in _permuted(data.schema)}
    return {name: float(_one_value(data.X[order, j], starts).mean()) for j, name in names.items()}


def with_shared(claim: KAnonymous, data: Dataset, groups: Groups) -> KAnonymous:
    """Return the claim with what was measured about the attributes it leaves open."""
    return replace(claim, shared=shared_values(data, groups, claim.leaves_open))


def shared_values(data: Dataset, groups: Groups, names: Iterable[str]) -> dict[str, float]:
    """Return the share of records whose group has a single value of the attribute, for each of the named attributes.

    Whoever learns the group of such a record, for instance by its quasi-identifiers, learns the value, whatever k is.
    The named attributes are released as they are: the label, or features that are not permuted.
    """
    order, starts = _in_order(groups)
    sizes = np.diff(np.append(starts, len(groups)))
    features = {attribute.name: j for j, attribute in enumerate(data.schema.features)}
    shares = {}
    for name in names:
        column = data.y if name == data.schema.label.name else data.X[:, features[name]]
        # A figure of all groups together, which says nothing about a single person; more digits would not help anyone.
        shares[name] = round(float(sizes[_one_value(column[order], starts)].sum() / len(groups)), 4)
    return shares


def _in_order(groups: Groups) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows sorted by group, and where each group begins."""
    order = np.argsort(groups, kind="stable")
    return order, np.flatnonzero(np.r_[True, np.diff(groups[order]) != 0])


def _one_value(column: NDArray[Any], starts: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Tell for each group whether a column, sorted by group, has one value in it; missing values are equal."""
    values = np.nan_to_num(column, nan=-np.inf) if column.dtype.kind == "f" else column
    return np.asarray(np.maximum.reduceat(values, starts) == np.minimum.reduceat(values, starts))


def _permuted(schema: Schema) -> list[int]:
    chosen = [j for j, a in enumerate(schema.features) if a.role is Role.QUASI_IDENTIFIER]
    if not chosen:
        raise DataError("no attribute is a quasi-identifier, so there is nothing to permute: set roles in the schema")
    return chosen


def _geometry(data: Dataset) -> Matrix:
    """Map quasi-identifiers to Euclidean space: z-scores, and one-hot/√2 so that two categories are 1 apart."""
    columns: list[Matrix] = []
    for j in _permuted(data.schema):
        attribute, values = data.schema.features[j], data.X[:, j]
        missing = np.isnan(values)
        if isinstance(attribute, Categorical):
            codes = np.where(missing, len(attribute.categories), values).astype(np.int64)
            present, codes = np.unique(codes, return_inverse=True)
            columns.append(np.eye(len(present))[codes] / np.sqrt(2))
            continue
        known = values[~missing]
        mean, spread = (known.mean(), known.std()) if len(known) else (0.0, 0.0)
        columns.append(((np.where(missing, mean, values) - mean) / (spread or 1.0))[:, None])
        if missing.any():
            columns.append(missing[:, None].astype(np.float64))
    return np.ascontiguousarray(np.hstack(columns))
