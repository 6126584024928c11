"""The protocol every protection mechanism follows, and the one that protects nothing."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.errors import DataError
from eupg.guarantees import Guarantee, NoGuarantee
from eupg.protect.release import Release
from eupg.rng import Randomness


@runtime_checkable
class Mechanism(Protocol):
    """Turns records into a release; knows rows, schema and randomness, and nothing of models or erasure."""

    def guarantee(self, schema: Schema) -> Guarantee:
        """Return the claim for tables of this schema, before any record is seen."""

    def protect(self, data: Dataset, rng: Randomness) -> Release:
        """Make a release of the records; the records stay as they are."""


@dataclass(frozen=True)
class Unprotected:
    """The records as they are, shuffled: for tests and ablations only. It warns, and nothing can be claimed from it."""

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

    It must say so itself, by an attribute of this name. Where rows are permuted among each other, or drawn from counts
    of all records, one record shapes many rows, and they are one run together.
    """
    return bool(getattr(mechanism, "rows_are_independent", False))


def require_rows(data: Dataset, least: int) -> None:
    """Refuse a table with fewer rows than a mechanism needs."""
    if len(data) < least:
        raise DataError(f"protection needs at least {least} records, got {len(data)}: protect more records together")
