"""The queries an attacker puts to a model about a record: the record itself, and altered copies of it.

A network trained with flips and shifts has also learnt the altered copies of its own pictures, so querying these
separates members better than the picture alone (Carlini et al. 2022, §VI; Zarifzadeh et al. 2024).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Dataset
from eupg.data.kind import Accepts, DataKind, check_kind
from eupg.data.pictures.attribute import Bytes, Picture
from eupg.data.schema import Schema
from eupg.errors import ParameterError
from eupg.learn.learner import Model
from eupg.validation import check_whole


class Queries(Protocol):
    """Altered copies of records to query a model with."""

    @property
    def count(self) -> int:
        """Queries per record, the record itself included."""

    def copies(self, schema: Schema, X: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Yield one array per query, shaped like ``X``; the first holds the records themselves."""


@dataclass(frozen=True, kw_only=True)
class PictureQueries:
    """Query a picture, its mirror image, and both shifted by a few pixels.

    Parameters
    ----------
    flip
        Include mirror images.
    shift
        Pixels to shift up, down, left and right; the border is filled by reflection. 0: no shift.
    diagonals
        Shift diagonally as well: with flips 18 queries instead of 10, as many as in the papers.

    Examples
    --------
    >>> PictureQueries().count, PictureQueries(flip=False, shift=0).count
    (10, 1)
    """

    accepts: ClassVar[Accepts] = Accepts(DataKind.PICTURES, instead="the audit without queries")
    flip: bool = True
    shift: int = 2
    diagonals: bool = False

    def __post_init__(self) -> None:
        check_whole("shift", self.shift, at_least=0, of="pixels")

    @property
    def count(self) -> int:
        """Queries per picture, the picture itself included."""
        return len(self._moves) * (1 + bool(self.flip))

    @property
    def _moves(self) -> list[tuple[int, int]]:
        """Pixels down and to the right for each copy, the unmoved picture first."""
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
        check_kind(schema, self)
        assert schema.picture is not None
        smallest = min(schema.picture.height, schema.picture.width)
        if self.shift >= smallest:
            raise ParameterError(f"shift must be less than the pictures' {smallest} pixels, got {self.shift}: lower it")
        return schema.picture


def predictions(model: Model, data: Dataset, queries: Queries | None = None) -> NDArray[np.float64]:
    """Return a model's probabilities, (records, queries, classes); without ``queries``, one query per record."""
    copies = iter([data.X]) if queries is None else queries.copies(data.schema, data.X)
    return np.stack([np.asarray(model.predict_proba(rows), dtype=np.float64) for rows in copies], axis=1)


def _reflected(size: int, move: int) -> NDArray[np.intp]:
    """Return the source line of each line of a shifted picture, reflected at the edge."""
    source = np.abs(np.arange(size) - move)
    return np.where(source < size, source, 2 * (size - 1) - source)
