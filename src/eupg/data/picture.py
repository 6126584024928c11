"""A picture as an attribute: the pixels of one image, whole numbers from 0 to 255, under one name.

A table of pictures has this one feature. Its matrix holds one row a picture, all pixels of the first channel first, as
bytes: fifty thousand small pictures take 150 MB, where double precision would take eight times as much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Attribute, Column, Missing
from eupg.errors import DataError
from eupg.validation import is_whole

if TYPE_CHECKING:
    import pandas as pd

    from eupg.data.schema import Schema

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class Picture(Attribute):
    """An image of a public size; every pixel of every channel is a whole number from 0 to 255.

    Parameters
    ----------
    height, width
        Size in pixels, the same for all.
    channels
        3 for colour, 1 for grey.

    Examples
    --------
    >>> Picture(name="photo", height=32, width=32).columns
    3072
    """

    kind: ClassVar[str] = "picture"
    height: int
    width: int
    channels: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        for word in ("height", "width", "channels"):
            value = getattr(self, word)
            if not is_whole(value) or value < 1:
                raise self._wrong(f"{word} must be a whole number of at least 1, got {value!r}")
            object.__setattr__(self, word, int(value))
        if self.missing is not Missing.REFUSE:
            raise self._wrong("a picture cannot be missing: drop those records")

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        return (self.channels, self.height, self.width)

    @property
    def columns(self) -> int:
        """How many numbers a picture is."""
        return self.channels * self.height * self.width

    def images(self, X: NDArray[Any]) -> Bytes:
        """Return rows of a data set as (pictures, channels, height, width); a view, nothing is copied."""
        return np.asarray(X, dtype=np.uint8).reshape(-1, *self.shape)

    def encode(self, column: pd.Series) -> Column:
        """Refuse: a cell of a table holds no picture."""
        raise self._wrong("pictures do not come in tables: load them with image_dataset or read_images")

    def decode(self, values: Column) -> list[Any]:
        """Return each row as an array of (height, width, channels), as image libraries have it."""
        return list(self.images(values).transpose(0, 2, 3, 1))


def check_bytes(picture: Picture, X: NDArray[Any]) -> Bytes:
    """Return pixels as bytes; numbers that are none are refused, since scaling them is a guess."""
    if X.dtype != np.uint8:
        raise DataError(
            f"pixels of {picture.name!r} are whole numbers from 0 to 255 (uint8), got {X.dtype}: multiply shares of 1 "
            "by 255 and round, then convert"
        )
    return X


def require_table(schema: Schema, who: str, instead: str) -> None:
    """Refuse pictures where something works on the columns of a table, and name what to use instead."""
    if schema.picture is not None:
        raise DataError(f"{who} works on tables, and {schema.picture.name!r} is a picture: use {instead}")
