"""Pictures on the device they are learnt on: bytes, scaled by fixed numbers only when a network reads them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from eupg.data.encode import Encoder
from eupg.data.picture import Picture, check_bytes
from eupg.learn.augment import Augment, cropped


@dataclass(frozen=True)
class Lens:
    """How a network reads pictures: their shape, the encoder's fixed scale, and whether as rows of numbers (``flat``).

    Pixels lie as (pictures, height, width, channels), the layout convolutions are fastest on.
    """

    picture: Picture
    centre: float
    spread: float
    flat: bool

    @classmethod
    def of(cls, encoder: Encoder, *, flat: bool) -> Lens | None:
        """Return how pictures are read, or None where the encoder is that of a table."""
        picture = encoder.features[0]
        if not isinstance(picture, Picture):
            return None
        return cls(picture, float(encoder.centre[0]), float(encoder.spread[0]), flat)

    @property
    def inputs(self) -> int:
        """What a factory is told: the number of channels, or of all numbers of a picture."""
        return self.picture.columns if self.flat else self.picture.channels

    def upload(self, X: NDArray[Any], device: str) -> Tensor:
        """Return the rows of a data set as pixels on the device."""
        pixels = torch.tensor(check_bytes(self.picture, np.asarray(X)), device=device)
        return pixels.view(-1, *self.picture.shape).permute(0, 2, 3, 1).contiguous()

    def read(self, pixels: Tensor) -> Tensor:
        """Return what the network takes: scaled numbers, channels first (in memory last), or flat rows."""
        values = pixels.permute(0, 3, 1, 2).to(torch.float32).sub(self.centre).div(self.spread)
        return values.reshape(len(values), -1) if self.flat else values


@dataclass(frozen=True, eq=False)
class Pictures:
    """Training pictures on a device, with a border to crop into where they are augmented."""

    pixels: Tensor
    lens: Lens
    augment: Augment | None

    @classmethod
    def of(cls, pixels: Tensor, lens: Lens, augment: Augment | None) -> Pictures:
        """Lay pictures out for training."""
        return cls(pixels if augment is None else augment.bordered(pixels), lens, augment)

    def __len__(self) -> int:
        """Return the number of pictures."""
        return len(self.pixels)

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.pixels.device

    def drawn(self, order: Tensor, generator: torch.Generator) -> Tensor:
        """Return the pixels of one pass in this order, augmented anew; draws are made on the CPU on any device."""
        if self.augment is None:
            return self.pixels.index_select(0, sent(order, self.device))
        _, height, width = self.lens.picture.shape
        drawn = sent(self.augment.draw(len(order), generator), self.device)
        return cropped(self.pixels, sent(order, self.device), drawn, height, width)

    def in_place(self, rows: slice) -> Tensor:
        """Return what the network takes of pictures as they are."""
        _, height, width = self.lens.picture.shape
        edge = 0 if self.augment is None else self.augment.padding
        return self.lens.read(self.pixels[rows, edge : edge + height, edge : edge + width])


def laid_out(network: nn.Module, lens: Lens | None) -> nn.Module:
    """Return the network with the weights of its convolutions in memory as the pixels are."""
    # PyTorch's stub does not know this spelling.
    return network if lens is None or lens.flat else network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def sent(values: Tensor, device: torch.device) -> Tensor:
    """Return values on the device; a GPU fetches them without keeping this process waiting."""
    return values.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else values.to(device)


@contextmanager
def tuned(device: torch.device, *, on: bool) -> Iterator[None]:
    """Let cuDNN try its ways to convolve and keep the fastest, which pays for shapes that come back."""
    if device.type != "cuda":
        yield
        return
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = on
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
