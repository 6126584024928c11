"""Any network for pictures as a public encoder: one of timm, torchvision or your own, with weights that you hold."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from eupg.data.pictures.attribute import Bytes
from eupg.errors import DataError, ParameterError
from eupg.protect.features.digest import network_digest
from eupg.protect.pictures.public_features import in_batches
from eupg.validation import check_whole

if TYPE_CHECKING:
    from torch import nn

_MEAN, _SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True, repr=False, eq=False)
class NetworkEncoder:
    """The output of a network for pictures: one of timm or torchvision without its last layer, or any other module.

    That the weights are public, and were not trained on the records, is for you to know, and every claim says that it
    is assumed.

    Parameters
    ----------
    network
        Takes (pictures, 3, size, size) and returns one row each. It is copied and used in evaluation mode.
    name
        What claims call it, with its version.
    digest
        What :func:`~eupg.protect.network_digest` says of it. A network with other weights is refused, also when it is
        used later.
    size
        Height and width to which pictures are scaled.
    mean, spread
        Subtracted from colours between 0 and 1, and what the difference is divided by. The defaults are those of
        ImageNet.
    batch
        Number of pictures per batch on a GPU.

    Examples
    --------
    >>> import torch
    >>> from eupg.protect import network_digest
    >>> network = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    >>> NetworkEncoder(network, name="average colour", digest=network_digest(network))
    NetworkEncoder('average colour', size=224)
    """

    network: nn.Module
    name: str = field(kw_only=True)
    digest: str = field(kw_only=True)
    size: int = field(default=224, kw_only=True)
    mean: tuple[float, float, float] = field(default=_MEAN, kw_only=True)
    spread: tuple[float, float, float] = field(default=_SPREAD, kw_only=True)
    batch: int = field(default=256, kw_only=True)

    def __post_init__(self) -> None:
        check_whole("size", self.size, at_least=1)
        check_whole("batch", self.batch, at_least=1)
        if len(self.mean) != 3 or len(self.spread) != 3 or min(self.spread) <= 0:
            raise ParameterError(f"mean and spread are three numbers, got {self.mean!r} and {self.spread!r}")
        check_network(self.network, self.name, self.digest)

    def __repr__(self) -> str:
        """Show the scale of colours only if it is not ImageNet's: claims and stores know the encoder by this text."""
        usual = (self.mean, self.spread) == (_MEAN, _SPREAD)
        scale = "" if usual else f", mean={self.mean}, spread={self.spread}"
        return f"NetworkEncoder({self.name!r}, size={self.size}{scale})"

    @property
    def encodes(self) -> str:
        """It describes pictures."""
        return "pictures"

    def __call__(self, items: Bytes, device: str) -> NDArray[np.float32]:
        """Return one row of numbers per picture."""
        return in_batches(items, device, self.batch, self.module().to(device))

    def module(self) -> nn.Module:
        """Return a copy of the network that does not train, from pixels of 0 to 255 to its rows."""
        from eupg.protect.pictures.pixel_network import PixelNetwork

        check_network(self.network, self.name, self.digest)
        network = copy.deepcopy(self.network).eval().requires_grad_(False)
        mean, spread = ([255 * value for value in values] for values in (self.mean, self.spread))
        return PixelNetwork(network, self.size, mean, spread)


def check_network(network: nn.Module, name: str, digest: str) -> None:
    """Refuse a network that is not named, or whose weights are not those of the digest."""
    from torch import nn

    if not isinstance(network, nn.Module):
        raise ParameterError(f"expected a module of PyTorch, got {network!r}: wrap a function in GivenEncoder")
    if not isinstance(name, str) or not name.strip():
        raise ParameterError(f"name must be a text that claims can show, got {name!r}")
    if (found := network_digest(network)) != digest:
        raise DataError(
            f"the weights of {name} are {found[:12]}…, expected {digest[:12]}…: load the published weights, or pass "
            "network_digest(network) once you know that these are public"
        )
