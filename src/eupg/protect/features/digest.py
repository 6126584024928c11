"""Digests of public weights: those of a file, and those of a network that is loaded."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eupg.errors import DataError, ParameterError

if TYPE_CHECKING:
    from torch import nn


def file_digest(path: str | Path) -> str:
    """Return the SHA-256 of a file of weights."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"the weights {path} cannot be read ({error}): name another file") from error


def network_digest(network: nn.Module) -> str:
    """Return the SHA-256 of all tensors of a network, by name, type and shape, and of its tokenizer, if it has one.

    Examples
    --------
    >>> import torch
    >>> layer = torch.nn.Linear(1, 1)
    >>> torch.nn.init.ones_(layer.weight), torch.nn.init.zeros_(layer.bias)  # doctest: +ELLIPSIS
    (...)
    >>> network_digest(layer)[:12]
    '218554d078e4'
    """
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        if not isinstance(tensor, torch.Tensor):
            raise ParameterError(f"{name!r} of the network is not a tensor: pass a network whose state is tensors")
        plain = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {plain.dtype} {tuple(plain.shape)}\n".encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
    digest.update(_word_pieces(getattr(network, "tokenizer", None)))
    return digest.hexdigest()


def _word_pieces(tokenizer: Any) -> bytes:
    """Return what a tokenizer is made of; the padding and the cut that it applied last are not part of it."""
    if tokenizer is None:
        return b""
    from tokenizers import Tokenizer

    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not isinstance(backend, Tokenizer):
        raise ParameterError(
            f"the tokenizer is a {type(tokenizer).__name__}, whose parts cannot be read: use a model with a fast "
            "tokenizer, or wrap a function in GivenEncoder"
        )
    plain = Tokenizer.from_str(backend.to_str())
    plain.no_padding()
    plain.no_truncation()
    return plain.to_str().encode()
