"""A picture as an attribute: the pixels of one image, whole numbers from 0 to 255, under one name.

Records with a picture have no other feature. Their matrix holds one row per picture, all pixels of the first channel
first, as bytes: fifty thousand small pictures take 150 MB, an eighth of what double precision would take.
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

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class Picture(Attribute):
    """An image of a public size in pixels, with 3 channels for colour or 1 for grey.

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
            try:
                object.__setattr__(self, word, check_whole(word, getattr(self, word), at_least=1))
            except ParameterError as error:
                raise self._wrong(str(error)) from error
        if self.missing is not Missing.REFUSE:
            raise self._wrong("a picture cannot be missing: drop those records")

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        return (self.channels, self.height, self.width)

    @property
    def columns(self) -> int:
        """Number of bytes of a picture."""
        return self.channels * self.height * self.width

    def images(self, X: NDArray[Any]) -> Bytes:
        """Return rows of a data set as (pictures, channels, height, width), without a copy."""
        return np.asarray(X, dtype=np.uint8).reshape(-1, *self.shape)

    def encode(self, column: pd.Series) -> Column:
        """Refuse: a cell of a table cannot hold a picture."""
        raise self._wrong("a table cannot hold pictures: load them with image_dataset or read_images")

    def decode(self, values: Column) -> list[Any]:
        """Return each row as an array of (height, width, channels), the layout of image libraries."""
        return list(self.images(values).transpose(0, 2, 3, 1))


def check_bytes(picture: Picture, X: NDArray[Any]) -> Bytes:
    """Refuse pixels that are not bytes: how to scale other numbers would be a guess."""
    if X.dtype != np.uint8:
        raise DataError(
            f"pixels of {picture.name!r} are whole numbers from 0 to 255 (uint8), got {X.dtype}: multiply shares of 1 "
            "by 255 and round, then convert"
        )
    return X
