"""Encoders of the user's own: any function with public weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eupg.errors import ParameterError


@dataclass(frozen=True)
class GivenEncoder:
    """Any function from texts or pictures to rows of numbers, such as ``model.encode`` of sentence-transformers.

    The function is yours: that its weights are public, and were not trained on the records, is for you to know, and
    every claim says that it is assumed.

    Parameters
    ----------
    function
        Takes a list of texts, or an array of bytes of (pictures, channels, height, width), and returns one row each.
    name
        What claims call it, with version and settings: the same name and digest must always mean the same function.
    digest
        The SHA-256 of its weights; :func:`~eupg.protect.file_digest` computes that of a file.
    encodes
        ``"texts"`` or ``"pictures"``.
    batch
        Number of items per call.

    Examples
    --------
    >>> GivenEncoder(len, name="MiniLM-L6-v2", digest="0" * 64, encodes="texts")
    MiniLM-L6-v2
    """

    function: Callable[[Any], Any]
    name: str = field(kw_only=True)
    digest: str = field(kw_only=True)
    encodes: Literal["texts", "pictures"] = field(kw_only=True)
    batch: int = field(default=256, kw_only=True)

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ParameterError(f"function must take texts or pictures, got {self.function!r}")
        if not isinstance(self.name, str) or not self.name.strip():
            raise ParameterError(f"name must be a text that claims can show, got {self.name!r}")
        if self.encodes not in ("texts", "pictures"):
            raise ParameterError(f"encodes must be 'texts' or 'pictures', got {self.encodes!r}")

    def __repr__(self) -> str:
        return self.name

    def __call__(self, items: Any, device: str) -> NDArray[np.float32]:
        """Return one row of numbers per item."""
        parts = [
            np.asarray(self.function(items[start : start + self.batch]), dtype=np.float32)
            for start in range(0, len(items), self.batch)
        ]
        return np.concatenate(parts)
