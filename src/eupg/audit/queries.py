"""What an attacker asks a model about a record: the record itself, and altered copies of it.

A network trained with flips and shifts has learnt the altered copies of its own pictures too, so asking about them
tells a member from a stranger better than the picture alone does (Carlini et al. 2022, §VI; Zarifzadeh et al. 2024).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Dataset
from eupg.data.picture import Bytes, Picture
from eupg.data.schema import Schema
from eupg.errors import DataError, ParameterError
from eupg.learn.learner import Model
from eupg.validation import check_whole


class Queries(Protocol):
    """Altered copies of records, for a model to be asked about."""

    @property
    def count(self) -> int:
        """How many questions a record gives, itself included."""

    def copies(self, schema: Schema, X: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Yield rows of the same shape, one array a question; the first holds the records themselves."""


@dataclass(frozen=True, kw_only=True)
class PictureQueries:
    """Ask about a picture, its mirror image, and both moved by a few pixels.

    Parameters
    ----------
    flip
        Ask about mirror images too.
    shift
        By how many pixels to move, up, down, left and right; the border is filled by reflection. 0: not at all.
    diagonals
        Move along the diagonals too: with flips 18 questions instead of 10, as many as the papers ask.

    Examples
    --------
    >>> PictureQueries().count, PictureQueries(flip=False, shift=0).count
    (10, 1)
    """

    flip: bool = True
    shift: int = 2
    diagonals: bool = False

    def __post_init__(self) -> None:
        check_whole("shift", self.shift, at_least=0, of="pixels")

    @property
    def count(self) -> int:
        """How many questions a picture gives, itself included."""
        return len(self._moves) * (1 + bool(self.flip))

    @property
    def _moves(self) -> list[tuple[int, int]]:
        """How far down and to the right each copy is moved; the picture as it is comes first."""
        near = (0, -int(self.shift), int(self.shift)) if self.shift else (0,)
        return [(down, right) for down in near for right in near if self.diagonals or not (down and right)]

    def copies(self, schema: Schema, X: NDArray[Any]) -> Iterator[Bytes]:
        """Yield the pictures, then their altered copies."""
        picture = self._picture(schema)
        images = picture.images(X)
        for down, right in self._moves:
            rows, columns = _reflected(picture.height, down), _reflected(picture.width, right)
            for order in (columns, columns[::-1]) if self.flip else (columns,):
                yield images[:, :, rows[:, None], order].reshape(len(images), -1)

    def _picture(self, schema: Schema) -> Picture:
        if schema.picture is None:
            raise DataError("PictureQueries alter pictures, and these records are a table: leave queries out")
        smallest = min(schema.picture.height, schema.picture.width)
        if self.shift >= smallest:
            raise ParameterError(f"shift must be less than the pictures' {smallest} pixels, got {self.shift}: lower it")
        return schema.picture


def predictions(model: Model, data: Dataset, queries: Queries | None = None) -> NDArray[np.float64]:
    """Return what a model says of each question about each record: (records, queries, classes).

    Without ``queries`` there is one question a record, the record itself.
    """
    copies = iter([data.X]) if queries is None else queries.copies(data.schema, data.X)
    return np.stack([np.asarray(model.predict_proba(rows), dtype=np.float64) for rows in copies], axis=1)


def _reflected(size: int, move: int) -> NDArray[np.intp]:
    """Return which line of a picture of that size stands at each place after moving; beyond the edge it is mirrored."""
    source = np.abs(np.arange(size) - move)
    return np.where(source < size, source, 2 * (size - 1) - source)
