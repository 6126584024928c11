"""The protocols that protection mechanisms follow, and the mechanism that protects nothing."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.errors import DataError
from eupg.guarantees import Guarantee, NoGuarantee
from eupg.protect.microaggregation.groups import Groups
from eupg.protect.release import Release
from eupg.rng import Randomness


@runtime_checkable
class Mechanism(Protocol):
    """Turns records into a release; knows rows, schema and randomness, but neither models nor erasure.

    A mechanism for one kind of data only declares it as ``accepts`` (:class:`~eupg.data.kind.Accepts`).
    """

    def guarantee(self, schema: Schema) -> Guarantee:
        """Return the claim for tables of this schema, before any record is seen."""

    def protect(self, data: Dataset, rng: Randomness) -> Release:
        """Make a release of the records, and leave the records as they are."""


@runtime_checkable
class Grouping(Mechanism, Protocol):
    """A mechanism that forms groups of records. A claim of k-anonymity needs them: they tell who hides among whom."""

    def groups(self, data: Dataset) -> Groups:
        """Return the group of each record; the same records always fall into the same groups."""

    def protect_in_groups(self, data: Dataset, rng: Randomness) -> tuple[Release, Groups]:
        """Return the release, and the group of each record in it."""


@dataclass(frozen=True)
class Unprotected:
    """Release the records as they are, shuffled: for tests and ablations only. It warns and claims nothing."""

    def guarantee(self, schema: Schema) -> Guarantee:
        """Return that nothing is claimed."""
        return NoGuarantee(leaves_open=tuple(a.name for a in (*schema.features, schema.label)))

    def protect(self, data: Dataset, rng: Randomness) -> Release:
        """Return the records themselves, without their names."""
        warnings.warn("Unprotected releases the records as they are: for ablation only", stacklevel=2)
        require_rows(data, 1)
        return Release.shuffled(data, data.X, data.y, self.guarantee(data.schema), rng)


def rows_are_independent(mechanism: Mechanism) -> bool:
    """Tell whether a mechanism treats each record on its own, so that n records are n independent runs.

    The mechanism must say so by an attribute of this name. Where values are permuted between rows, or rows are drawn
    from counts of all records, one record influences many rows, and all rows together are one run.
    """
    return bool(getattr(mechanism, "rows_are_independent", False))


def require_rows(data: Dataset, least: int) -> None:
    """Refuse a table with fewer rows than a mechanism needs."""
    if len(data) < least:
        raise DataError(f"protection needs at least {least} records, got {len(data)}: protect more records together")
