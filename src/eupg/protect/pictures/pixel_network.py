"""A public network that reads pixels: pictures are scaled to its size and its colours before it sees them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from eupg.protect.pictures.public_features import scaled


class PixelNetwork(nn.Module):
    """A network with the scaling that belongs to it, from pixels of 0 to 255 to one row of features per picture."""

    mean: Tensor
    spread: Tensor

    def __init__(self, network: nn.Module, size: int, mean: Sequence[float], spread: Sequence[float]) -> None:
        super().__init__()
        self.network, self.size = network, size
        self.register_buffer("mean", torch.tensor(mean)[:, None, None], persistent=False)
        self.register_buffer("spread", torch.tensor(spread)[:, None, None], persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """Return the features of (pictures, channels, height, width)."""
        features: Tensor = self.network((scaled(pixels, self.size) - self.mean) / self.spread)
        return features
