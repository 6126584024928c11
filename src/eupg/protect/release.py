"""A release: protected rows and the guarantee they carry.

It has no ids and its rows are shuffled, so neither name nor position links a row to a record. It may hold another
number of rows than the data it was made from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from eupg.data.dataset import Dataset, Labels, Matrix
from eupg.data.schema import Schema
from eupg.errors import DataError
from eupg.protect.guarantee import Guarantee
from eupg.rng import Randomness


@dataclass(frozen=True, eq=False)
class Release:
    """Protected rows: what the base model is trained on, and all it may know.

    Parameters
    ----------
    schema
        What the columns mean; without the columns that name records or people.
    X, y
        Protected features and classes, in a random order.
    guarantee
        What is claimed about a record these rows were made from.
    """

    schema: Schema
    X: Matrix
    y: Labels
    guarantee: Guarantee

    def __post_init__(self) -> None:
        if self.X.shape != (len(self.y), self.schema.columns):
            raise DataError(f"the schema has {self.schema.columns} columns, the release is {self.X.shape}")
        for array in (self.X, self.y):
            array.flags.writeable = False

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.X)

    @property
    def pins_scales(self) -> bool:
        """Whether a model of this release must keep its scales when it goes on to the records.

        Permuted columns have the records' own means. Beside them, the exact means of the retained records would give
        away, by subtraction, what was forgotten. Noisy columns give no such purchase.
        """
        return not self.guarantee.withstands_subtraction

    @property
    def seeded(self) -> bool:
        """Whether a known seed can undo the protection."""
        return self.guarantee.seeded

    @classmethod
    def shuffled(cls, data: Dataset, X: Matrix, y: Labels, guarantee: Guarantee, rng: Randomness) -> Release:
        """Put protected rows into a random order and note whether the randomness was seeded."""
        order = rng.stage("row order").permutation(len(y))
        named = (*data.schema.identifiers, data.schema.subject)
        schema = Schema(tuple(a for a in data.schema.attributes if a not in named))
        return cls(schema, np.ascontiguousarray(X[order]), y[order].copy(), replace(guarantee, seeded=rng.seeded))
