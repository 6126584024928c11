"""A vector of public features as an attribute: what a public encoder says of one picture or text, in whole numbers.

Records with a vector have no other feature. An encoder's weights are public and pinned by a digest, so a vector depends
on nobody else's record. It is scaled to length 1 and rounded to a public grid of multiples of 1/4096. Whatever is
computed from vectors can thus be computed in whole numbers: sums are exact, in any order, and no vector is longer than
4096 of these units.

The rounded vector is the record. It is computed once, when the picture or text is read. Computing it again elsewhere
could round differently, and would then not be what a model was fitted on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Attribute, Column, Missing
from eupg.errors import DataError, ParameterError
from eupg.validation import check_whole

if TYPE_CHECKING:
    import pandas as pd

# Short integers; a matrix of features is declared as double precision elsewhere, whatever it holds.
Vectors = NDArray[Any]
# The number of units in a length of 1; no vector is longer.
GRID = 2**12


@dataclass(frozen=True, kw_only=True)
class Vector(Attribute):
    """The features that a public encoder gives to a picture or a text.

    Parameters
    ----------
    dimension
        Number of features.
    encoder, digest
        The encoder with its settings, and the SHA-256 of its public weights; claims name both.

    Examples
    --------
    >>> Vector(name="text", dimension=256, encoder="WordLlama()", digest="58bd").caveat.split(":")[0]
    "'text' is read as 256 public features of WordLlama() (weights 58bd)"
    """

    kind: ClassVar[str] = "vector"
    dimension: int
    encoder: str
    digest: str

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            object.__setattr__(self, "dimension", check_whole("dimension", self.dimension, at_least=1))
        except ParameterError as error:
            raise self._wrong(str(error)) from error
        for word in ("encoder", "digest"):
            if not isinstance(getattr(self, word), str) or not getattr(self, word):
                raise self._wrong(f"{word} must be a text that is not empty, got {getattr(self, word)!r}")
        if self.missing is not Missing.REFUSE:
            raise self._wrong("a vector cannot be missing: drop those records")

    @property
    def caveat(self) -> str:
        """What every claim about these records assumes."""
        return (
            f"{self.name!r} is read as {self.dimension} public features of {self.encoder} (weights "
            f"{self.digest[:16]}): the claim assumes that neither the weights nor anyone's features depend on other "
            "people's records"
        )

    def encode(self, column: pd.Series) -> Column:
        """Refuse: a cell of a table cannot hold a vector."""
        raise self._wrong("a table cannot hold vectors: encode pictures or texts with encode_records")

    def decode(self, values: Column) -> list[Any]:
        """Return each row as an array of numbers, of length 1 at most."""
        return list(np.asarray(values, dtype=np.float64) / GRID)


def on_grid(rows: NDArray[Any]) -> Vectors:
    """Scale rows to length 1 and round them to the grid; none becomes longer than 1, and zeros stay zeros.

    Examples
    --------
    >>> on_grid(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[2457, 3276], [0, 0]]
    """
    values = np.asarray(rows, dtype=np.float64)
    lengths = np.sqrt((values**2).sum(axis=1, keepdims=True))
    exact = values * (GRID / np.where(lengths > 0, lengths, 1.0))
    whole = np.rint(exact)
    # Rounded to the nearest, a vector may become too long; rounded towards zero, it cannot, except by an error in the
    # last bit of its length, which one unit less in its largest entry makes up for.
    long = (whole**2).sum(axis=1) > GRID**2
    whole[long] = np.trunc(exact[long])
    long = np.flatnonzero((whole**2).sum(axis=1) > GRID**2)
    largest = np.abs(whole[long]).argmax(axis=1)
    whole[long, largest] -= np.sign(whole[long, largest])
    return whole.astype(np.int16)


def check_on_grid(vector: Vector, X: NDArray[Any]) -> Vectors:
    """Refuse rows that are not whole numbers of the grid, or longer than 1."""
    advice = "encode pictures or texts with encode_records"
    if X.dtype != np.int16:
        raise DataError(
            f"features of {vector.name!r} are whole numbers of a grid of 1/{GRID} (int16), got {X.dtype}: {advice}"
        )
    if X.ndim == 2:
        # Row by row in 64 bits: the largest sum of squares is far below 2^63.
        squares = np.einsum("ij,ij->i", X, X, dtype=np.int64)
        if (long := int((squares > GRID**2).sum())) > 0:
            raise DataError(f"features of {vector.name!r}: {long} of {len(X)} rows are longer than 1: {advice}")
    return X
