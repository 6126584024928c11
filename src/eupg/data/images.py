"""Pictures as a data set: from an array, or from a folder of image files with one folder a class."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eupg.data.attribute import Categorical, Role
from eupg.data.dataset import Dataset
from eupg.data.picture import Picture
from eupg.data.schema import Schema
from eupg.errors import DataError


def picture_schema(shape: Sequence[int], classes: Iterable[str]) -> Schema:
    """Describe pictures of one (channels, height, width) and the public list of their classes."""
    channels, height, width = shape
    picture = Picture(name="picture", channels=channels, height=height, width=width)
    return Schema((picture, Categorical(name="class", role=Role.LABEL, categories=tuple(classes))))


def image_dataset(
    images: ArrayLike,
    labels: ArrayLike,
    *,
    classes: Sequence[str],
    ids: Iterable[Any] | None = None,
    subjects: Iterable[Any] | None = None,
) -> Dataset:
    """Take in pictures of one size, (pictures, channels, height, width), as bytes.

    Parameters
    ----------
    images
        Whole numbers from 0 to 255.
    labels
        The class of each picture, as its position in ``classes``.
    classes
        The public list of classes.
    ids, subjects
        One name a picture, by default its position; and the person it belongs to, by default one of their own.

    Examples
    --------
    >>> data = image_dataset(np.zeros((2, 3, 8, 8), np.uint8), [0, 1], classes=("cat", "dog"))
    >>> len(data), data.X.shape
    (2, (2, 192))
    """
    pixels = np.asarray(images)
    if pixels.ndim != 4:
        raise DataError(f"expected (pictures, channels, height, width), got {pixels.shape}: add or reorder the axes")
    names = np.array([str(i) for i in (range(len(pixels)) if ids is None else ids)], dtype=np.str_)
    people = names if subjects is None else np.array([str(s) for s in subjects], dtype=np.str_)
    schema = picture_schema(pixels.shape[1:], classes)
    return Dataset(schema, pixels.reshape(len(pixels), -1), np.asarray(labels), names, people)
