"""WordLlama: public features of texts as averages of word vectors, computed from a small file on any machine."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eupg.errors import DataError, MissingFramework, SourceUnavailable
from eupg.validation import check_whole

_PACKAGE = "wordllama"
_WEIGHTS = Path("weights") / "l2_supercat_256.safetensors"
_TOKENS = Path("tokenizers") / "l2_supercat_tokenizer_config.json"
# SHA-256 of the two files of the package, one after the other.
_DIGEST = "4d243a4b2daee65802d68699e288b9347fd45097303dc232205a660a82b5171e"


@dataclass(frozen=True)
class WordLlama:
    """256 features of a text: the average of public vectors of its word pieces (WordLlama, MIT licence).

    The vectors were distilled from public language models and come with the PyPI package ``wordllama``, of which no
    code is used. The order of words makes no difference.

    Parameters
    ----------
    longest
        The most word pieces of a text that are read.
    """

    longest: int = 1024

    def __post_init__(self) -> None:
        check_whole("longest", self.longest, at_least=1)

    @property
    def encodes(self) -> str:
        """It describes texts."""
        return "texts"

    @property
    def digest(self) -> str:
        """The SHA-256 of its vectors and of its list of word pieces."""
        return _DIGEST

    def __call__(self, items: Sequence[str], device: str) -> NDArray[np.float32]:
        """Return 256 numbers per text; zeros for a text without words."""
        vectors, tokenizer = _loaded()
        out = np.zeros((len(items), vectors.shape[1]), dtype=np.float32)
        for row, text in enumerate(items):
            # One text at a time: its features must not depend on the others. A piece of text that is cut off long
            # after the last word piece that counts saves the time to divide all of it.
            pieces = tokenizer.encode(text[: 32 * self.longest], add_special_tokens=False).ids[: self.longest]
            if pieces:
                out[row] = vectors[pieces].astype(np.float64).mean(axis=0)
        return out


@lru_cache(maxsize=1)
def _loaded() -> tuple[NDArray[np.float32], Any]:
    """Return the vectors and the tokenizer, after their digest was checked."""
    try:
        from safetensors.numpy import load
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise MissingFramework(f"WordLlama needs {error.name}: pip install 'eupg[text]'") from error
    content = [path.read_bytes() for path in _files()]
    digest = hashlib.sha256(b"".join(content)).hexdigest()
    if digest != _DIGEST:
        raise DataError(
            f"the package wordllama holds other weights than expected (content {digest[:12]}…, expected "
            f"{_DIGEST[:12]}…): pip install wordllama==0.4.0.post1"
        )
    (vectors,) = load(content[0]).values()
    return vectors.astype(np.float32), Tokenizer.from_str(content[1].decode())


def _files() -> tuple[Path, Path]:
    # The package is found, not imported: its import would set up logging for the whole process.
    spec = importlib.util.find_spec(_PACKAGE)
    for folder in map(Path, (spec.submodule_search_locations or ()) if spec else ()):
        if (folder / _WEIGHTS).is_file() and (folder / _TOKENS).is_file():
            return folder / _WEIGHTS, folder / _TOKENS
    raise SourceUnavailable(
        "the public vectors of WordLlama are not on this machine: pip install 'eupg[text]', or wrap an encoder of "
        "your own in GivenEncoder"
    )
