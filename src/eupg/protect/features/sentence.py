"""Any model of sentence-transformers as a public encoder of texts."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eupg.errors import ParameterError
from eupg.protect.features.network import check_network
from eupg.validation import check_whole


@dataclass(frozen=True, repr=False, eq=False)
class SentenceEncoder:
    """What a model of sentence-transformers says of a text.

    That the weights are public, and were not trained on the records, is for you to know, and every claim says that it
    is assumed.

    Parameters
    ----------
    model
        A ``SentenceTransformer``. It is copied and used in evaluation mode.
    name
        What claims call it, with its version.
    digest
        What :func:`~eupg.protect.network_digest` says of it: of its weights and its tokenizer. A model with others is
        refused, also when it is used later.
    batch
        Number of texts per batch. In a batch, texts are filled up to the length of the longest, which changes their
        features by rounding; alone, a text's features depend on nothing else.

    Examples
    --------
    >>> from sentence_transformers import SentenceTransformer  # doctest: +SKIP
    >>> model = SentenceTransformer("folder/all-mpnet-base-v2")  # doctest: +SKIP
    >>> SentenceEncoder(model, name="all-mpnet-base-v2", digest="…")  # doctest: +SKIP
    SentenceEncoder('all-mpnet-base-v2', longest=384)
    """

    model: Any
    name: str = field(kw_only=True)
    digest: str = field(kw_only=True)
    batch: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        check_whole("batch", self.batch, at_least=1)
        if not callable(getattr(self.model, "encode", None)):
            raise ParameterError(f"expected a SentenceTransformer, got {self.model!r}: wrap a function in GivenEncoder")
        check_network(self.model, self.name, self.digest)

    def __repr__(self) -> str:
        """Show the length to which texts are cut: claims and stores know the encoder by this text."""
        return f"SentenceEncoder({self.name!r}, longest={self.model.max_seq_length})"

    @property
    def encodes(self) -> str:
        """It describes texts."""
        return "texts"

    def __call__(self, items: Sequence[str], device: str) -> NDArray[np.float32]:
        """Return one row of numbers per text."""
        check_network(self.model, self.name, self.digest)
        model = copy.deepcopy(self.model).to(device).eval().requires_grad_(False)
        rows = model.encode(
            list(items), batch_size=self.batch, device=device, convert_to_numpy=True, show_progress_bar=False
        )
        return np.asarray(rows, dtype=np.float32)
