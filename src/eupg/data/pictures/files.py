"""Pictures as a data set: from an array, or from a folder of image files with one folder per class."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eupg.data.attribute import Attribute, Categorical, Key, Role
from eupg.data.dataset import Dataset
from eupg.data.pictures.attribute import Bytes, Picture
from eupg.data.schema import Schema
from eupg.errors import DataError, MissingFramework, ParameterError
from eupg.validation import is_whole

_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
_GREY = ("1", "L", "LA")
_COLOUR = ("P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")


def picture_schema(
    shape: Sequence[int], classes: Iterable[str], *, inferred: bool = False, named: bool = False
) -> Schema:
    """Describe pictures of one (channels, height, width) and the list of their classes.

    ``inferred`` says that the list was read from the records and may not be public; ``named`` says that the person of
    each picture is known.
    """
    channels, height, width = shape
    picture = Picture(name="picture", channels=channels, height=height, width=width)
    facts = ("categories",) if inferred else ()
    label = Categorical(name="class", role=Role.LABEL, categories=tuple(classes), inferred=facts)
    people: tuple[Attribute, ...] = (Key(name="person", role=Role.SUBJECT),) if named else ()
    return Schema((picture, *people, label))


def image_dataset(
    images: ArrayLike,
    labels: ArrayLike,
    *,
    classes: Sequence[str],
    ids: Iterable[Any] | None = None,
    subjects: Iterable[Any] | None = None,
) -> Dataset:
    """Make a data set of pictures of one size, given as bytes of (pictures, channels, height, width).

    Parameters
    ----------
    images
        Whole numbers from 0 to 255.
    labels, classes
        The class of each picture as its position in the public list of classes.
    ids, subjects
        One name per picture, by default its position; and the person it belongs to, by default a different one each.

    Examples
    --------
    >>> data = image_dataset(np.zeros((2, 3, 8, 8), np.uint8), [0, 1], classes=("cat", "dog"))
    >>> len(data), data.X.shape
    (2, (2, 192))
    """
    pixels = _check_axes(np.asarray(images))
    _refuse_text(classes, "classes")
    schema = picture_schema(pixels.shape[1:], classes, named=subjects is not None)
    names = _names(range(len(pixels)) if ids is None else ids, "ids")
    people = names if subjects is None else _names(subjects, "subjects")
    y = _check_labels(np.asarray(labels), len(pixels), tuple(classes))
    return Dataset(schema, pixels.reshape(len(pixels), schema.columns), y, names, people)


def read_images(
    folder: str | Path, *, classes: Sequence[str] | None = None, size: tuple[int, int] | None = None
) -> Dataset:
    """Read a folder of image files that has one folder per class; a picture's id is its path inside the folder.

    Pictures are rotated as their EXIF data says, and transparency is dropped. If some are in colour, grey ones are
    converted to colour. Files that are not PNG, JPEG, BMP or WebP, by their names, are ignored.

    Parameters
    ----------
    folder
        Holds a folder for each class, which may have further folders inside.
    classes
        The public list of classes. Without it the names of the folders are the classes, and claims say that the list
        was read from the records.
    size
        (height, width) to resize to; without it all pictures must have the same size.
    """
    root = Path(folder)
    listed, names = _classes(root, classes), []
    target = _check_size(size)
    pictures, labels = [], []
    for code, name in enumerate(listed):
        for path in _files(root / name, required=classes is None):
            pictures.append(read_pixels(path, target))
            labels.append(code)
            names.append(path.relative_to(root).as_posix())
            if pictures[-1].shape[:2] != pictures[0].shape[:2]:
                first, other = (p.shape[:2] for p in (pictures[0], pictures[-1]))
                raise DataError(
                    f"{path} has {other[0]} × {other[1]} pixels and {root / names[0]} {first[0]} × {first[1]}: all "
                    f"must have one size; pass for example size=({first[0]}, {first[1]}) to resize them"
                )
    if not pictures:
        raise DataError(f"{root} holds no picture of any class: put {', '.join(_SUFFIXES)} files into class folders")
    channels = max(p.shape[2] for p in pictures)
    images: Any = np.stack([np.broadcast_to(p, (*p.shape[:2], channels)) for p in pictures]).transpose(0, 3, 1, 2)
    schema = picture_schema(images.shape[1:], listed, inferred=classes is None)
    ids = np.array(names, dtype=np.str_)
    return Dataset(schema, images.reshape(len(images), schema.columns), np.array(labels), ids, ids)


def _check_axes(pixels: NDArray[Any]) -> NDArray[Any]:
    expected = f"expected (pictures, channels, height, width), got {pixels.shape}"
    if pixels.ndim == 3:
        raise DataError(f"{expected}: for grey pictures add the axis of the channels, images[:, None]")
    if pixels.ndim != 4:
        raise DataError(f"{expected}: add or reorder the axes")
    if pixels.shape[1] > 4 >= pixels.shape[3]:
        raise DataError(f"{expected}: the channels seem to come last, so write images.transpose(0, 3, 1, 2)")
    return pixels


def _check_labels(labels: NDArray[Any], pictures: int, classes: tuple[str, ...]) -> NDArray[np.int64]:
    if labels.shape != (pictures,):
        raise DataError(f"{pictures} pictures need as many labels, got {labels.shape}: pass one per picture")
    if not len(labels):
        return np.empty(0, dtype=np.int64)
    if not np.issubdtype(labels.dtype, np.integer):
        raise DataError(
            f"labels are positions in classes, whole numbers, got {labels.dtype}: look names up with "
            "classes.index(name), convert whole numbers with astype(int)"
        )
    wrong = (labels < 0) | (labels >= len(classes))
    if wrong.any():
        raise DataError(
            f"labels must lie between 0 and {len(classes) - 1}, positions in the {len(classes)} classes: "
            f"{int(wrong.sum())} of {pictures} do not, first {labels[wrong][0]} at {int(wrong.argmax())}"
        )
    return labels.astype(np.int64)


def _names(values: Iterable[Any], what: str) -> NDArray[np.str_]:
    _refuse_text(values, what)
    return np.array([str(v) for v in values], dtype=np.str_)


def _refuse_text(names: Any, parameter: str) -> None:
    if isinstance(names, str):
        raise ParameterError(f"{parameter} is a list of names, got the text {names!r}: write [{names!r}, …]")


def _classes(root: Path, listed: Sequence[str] | None) -> tuple[str, ...]:
    """Return the classes; refuse a folder that is not one of them."""
    if not root.is_dir():
        raise DataError(f"no folder {root}: name one that holds a folder of pictures for each class")
    folders = sorted(p.name for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    if listed is None:
        if len(folders) < 2:
            raise DataError(
                f"{root} holds {len(folders)} folders: sort the pictures into one folder per class, of two classes or "
                "more, or name the public list with classes="
            )
        return tuple(folders)
    _refuse_text(listed, "classes")
    unknown = sorted(set(folders).difference(listed))
    if unknown:
        raise DataError(f"{root / unknown[0]} is not one of the classes {list(listed)}: list it, or move it away")
    return tuple(listed)


def _files(folder: Path, *, required: bool) -> list[Path]:
    files = sorted(p for p in folder.rglob("*") if p.suffix.lower() in _SUFFIXES and p.is_file())
    if required and not files:
        raise DataError(f"{folder} holds no picture: put {', '.join(_SUFFIXES)} files there, or remove the folder")
    return files


def _check_size(size: tuple[int, int] | None) -> tuple[int, int] | None:
    if size is None:
        return None
    if len(size) != 2 or not all(is_whole(v) and v > 0 for v in size):
        raise ParameterError(f"size is (height, width) in pixels, each at least 1, got {size!r}")
    return int(size[0]), int(size[1])


def read_pixels(path: Path, size: tuple[int, int] | None = None) -> Bytes:
    """Return one picture as (height, width, channels), with 1 channel where it is grey."""
    try:
        from PIL import Image, ImageOps
    except ModuleNotFoundError as error:
        raise MissingFramework("reading image files needs Pillow: pip install pillow") from error
    try:
        with Image.open(path) as file:
            if file.mode not in (*_GREY, *_COLOUR):
                raise DataError(f"{path} has pixels of mode {file.mode}, not bytes: convert it to 8 bits per channel")
            image = ImageOps.exif_transpose(file).convert("L" if file.mode in _GREY else "RGB")
            if size is not None:
                image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR)
    except DataError:
        raise
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} cannot be read as a picture ({error}): replace or remove it") from error
    pixels = np.asarray(image, dtype=np.uint8)
    return pixels if pixels.ndim == 3 else pixels[:, :, None]
