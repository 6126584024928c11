"""Public encoders: what turns a picture or a text into a vector of public features, the same for everyone.

An encoder is a constant. Its weights were trained on public material, never on the records, and a digest pins them. So
a vector depends on one record alone, and whatever is claimed for records of vectors holds for the pictures or texts
behind them, as every claim says (:attr:`eupg.data.vector.Vector.caveat`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.data.texts import Texts
from eupg.data.vector import Vector, Vectors, on_grid
from eupg.errors import DataError, ParameterError

_HEX = frozenset("0123456789abcdef")


@runtime_checkable
class PublicEncoder(Protocol):
    """Describes pictures or texts by numbers; claims name it by its ``repr`` and its digest."""

    @property
    def encodes(self) -> str:
        """What it describes: ``"pictures"`` or ``"texts"``."""

    @property
    def digest(self) -> str:
        """The SHA-256 of its weights, and of whatever else the numbers depend on, as 64 hexadecimal digits."""

    def __call__(self, items: Any, device: str, /) -> NDArray[np.float32]:
        """Return one row of numbers for each picture of (pictures, channels, height, width), or for each text."""


def encode_records(records: Dataset | Texts, encoder: PublicEncoder, *, device: str = "cpu") -> Dataset:
    """Turn pictures or texts into records of public features, with the same ids, people and labels.

    Parameters
    ----------
    records
        Pictures, as :func:`~eupg.data.read_images` gives them, or texts, as :func:`~eupg.data.read_texts` does.
    encoder
        Such as :class:`~eupg.protect.EfficientNetLite0` or :class:`~eupg.protect.WordLlama`.
    device
        Where features are computed, ``"cpu"`` or ``"cuda"``.

    Examples
    --------
    >>> from eupg.data import Categorical, Role
    >>> from eupg.protect import GivenEncoder
    >>> label = Categorical(name="kind", role=Role.LABEL, categories=("ham", "spam"))
    >>> texts = Texts.of(["hello", "buy now"], [0, 1], label=label)
    >>> def vowels(texts):
    ...     return [[text.count(letter) for letter in "aeiou"] for text in texts]
    >>> encoder = GivenEncoder(vowels, name="vowels", digest="0" * 64, encodes="texts")
    >>> encode_records(texts, encoder).X.tolist()
    [[0, 2896, 0, 2896, 0], [0, 0, 0, 2896, 2896]]
    """
    texts = isinstance(records, Texts)
    wanted = "texts" if texts else "pictures"
    if not isinstance(encoder, PublicEncoder):
        raise ParameterError(
            f"expected an encoder such as EfficientNetLite0() or WordLlama(), got {encoder!r}: wrap a function of your "
            "own in GivenEncoder"
        )
    if encoder.encodes != wanted:
        raise ParameterError(f"{encoder!r} describes {encoder.encodes}, and these records are {wanted}: use another")
    if isinstance(records, Texts):
        vectors = encode_items(encoder, records.texts, device=device)
        name, others = records.name, records.attributes
    else:
        picture = records.schema.picture
        if picture is None:
            raise DataError(
                f"expected pictures or texts, got {records.schema.kind}: read them with read_images or read_texts"
            )
        vectors = encode_items(encoder, picture.images(records.X), device=device)
        name, others = picture.name, tuple(a for a in records.schema.attributes if a is not picture)
    vector = Vector(name=name, dimension=vectors.shape[1], encoder=repr(encoder), digest=encoder.digest)
    return Dataset(Schema((vector, *others)), vectors, records.y, records.ids, records.subjects)


def encode_items(encoder: PublicEncoder, items: Sequence[str] | NDArray[np.uint8], *, device: str = "cpu") -> Vectors:
    """Return the vectors of pictures or texts that carry no label, on the grid that models read."""
    digest = encoder.digest
    if len(digest) != 64 or not set(digest) <= _HEX:
        raise ParameterError(f"the digest of {encoder!r} must be 64 hexadecimal digits, got {digest!r}")
    rows = np.asarray(encoder(items, device), dtype=np.float32) if len(items) else np.empty((0, 0), np.float32)
    if not len(items):
        raise DataError("expected at least one picture or text, got none: read some first")
    if rows.ndim != 2 or len(rows) != len(items) or not rows.shape[1] or not np.isfinite(rows).all():
        raise DataError(
            f"{encoder!r} should give one row of finite numbers for each of {len(items)} items, got an array of "
            f"{rows.shape}: check the function"
        )
    return on_grid(rows)
