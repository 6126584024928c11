"""A release: protected rows and the guarantee they carry.

It has no ids and its rows are shuffled, so neither name nor position links a row to a record. Its number of rows may
differ from that of the data.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from eupg.data.dataset import Labels, Matrix
from eupg.data.encode import Encoder
from eupg.data.kind import DataKind
from eupg.data.schema import Schema
from eupg.errors import DataError
from eupg.guarantees import Guarantee
from eupg.rng import Randomness


class UnderSchema(Protocol):
    """Anything whose columns a schema describes."""

    @property
    def schema(self) -> Schema:
        """What the columns mean."""


@dataclass(frozen=True, eq=False)
class Release:
    """Protected rows in a random order: all that the base model may learn from.

    Parameters
    ----------
    schema, X, y
        Schema without the columns that name records or people; protected features and classes.
    guarantee
        The claim about a record that the rows were made from.
    stretched
        Whether noise has stretched the columns, so that their means and spreads are not those of the records.
    """

    schema: Schema
    X: Matrix
    y: Labels
    guarantee: Guarantee
    stretched: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.X.shape != (len(self.y), self.schema.columns):
            raise DataError(f"the schema has {self.schema.columns} columns, the release is {self.X.shape}")
        for array in (self.X, self.y):
            array.flags.writeable = False

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.X)

    @cached_property
    def scales(self) -> Encoder | None:
        """The scales by which a model of this release reads rows from now on; pictures need none.

        They follow from the release and the schema, so the guarantee covers them. Noise that fills the bounds leaves
        almost nothing of a column's mean and spread: there the bounds themselves are as good.
        """
        if self.schema.kind is DataKind.PICTURES:
            return None
        return Encoder.of_bounds(self.schema) if self.stretched else Encoder.of_release(self.schema, self.X)

    @property
    def seeded(self) -> bool:
        """Whether a known seed can undo the protection."""
        return self.guarantee.seeded

    @classmethod
    def shuffled(
        cls, data: UnderSchema, X: Matrix, y: Labels, guarantee: Guarantee, rng: Randomness, *, stretched: bool = False
    ) -> Release:
        """Put protected rows into a random order and note whether the randomness was seeded."""
        order = rng.stage("row order").permutation(len(y))
        names = (*data.schema.identifiers, data.schema.subject)
        schema = Schema(tuple(a for a in data.schema.attributes if a not in names))
        claim = replace(guarantee, seeded=rng.seeded)
        return cls(schema, np.ascontiguousarray(X[order]), y[order].copy(), claim, stretched=stretched)
