"""What networks are trained on, resident on the device: the encoded rows of a table, or pictures, and their batches.

Pictures stay bytes. They are scaled by fixed numbers only when a network reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from eupg.data.encode import Encoder
from eupg.data.pictures.attribute import Picture, check_bytes
from eupg.learn.torch.augment import Augment, cropped


@dataclass(frozen=True)
class PictureReader:
    """How a network reads pictures: their shape, the encoder's fixed scale, and whether as rows of numbers (``flat``).

    Pixels lie as (pictures, height, width, channels), the layout in which convolutions are fastest.
    """

    picture: Picture
    centre: float
    spread: float
    flat: bool

    @classmethod
    def of(cls, encoder: Encoder, *, flat: bool) -> PictureReader | None:
        """Return how pictures are read, or None for the encoder of a table."""
        picture = encoder.features[0]
        if not isinstance(picture, Picture):
            return None
        return cls(picture, float(encoder.centre[0]), float(encoder.spread[0]), flat)

    @property
    def inputs(self) -> int:
        """What a network factory is told: the number of channels, or of all numbers of a picture."""
        return self.picture.columns if self.flat else self.picture.channels

    def upload(self, X: NDArray[Any], device: str) -> Tensor:
        """Return the rows of a data set as pixels on the device."""
        pixels = torch.tensor(check_bytes(self.picture, np.asarray(X)), device=device)
        return pixels.view(-1, *self.picture.shape).permute(0, 2, 3, 1).contiguous()

    def read(self, pixels: Tensor) -> Tensor:
        """Return the network's input: scaled numbers, channels first (in memory last), or flat rows."""
        values = pixels.permute(0, 3, 1, 2).to(torch.float32).sub(self.centre).div(self.spread)
        return values.reshape(len(values), -1) if self.flat else values

    def lay_out(self, network: nn.Module) -> nn.Module:
        """Return the network with the weights of its convolutions in memory as the pixels are."""
        # PyTorch's stub does not know this spelling.
        return network if self.flat else network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


@dataclass(frozen=True, eq=False)
class Pictures:
    """Training pictures on a device, with a border to crop from if they are augmented."""

    pixels: Tensor
    reader: PictureReader
    augment: Augment | None

    @classmethod
    def of(cls, pixels: Tensor, reader: PictureReader, augment: Augment | None) -> Pictures:
        """Prepare pictures for training."""
        return cls(pixels if augment is None else augment.bordered(pixels), reader, augment)

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def device(self) -> torch.device:
        """Where the pictures are."""
        return self.pixels.device

    def drawn(self, order: Tensor, generator: torch.Generator) -> Tensor:
        """Return the pixels of one pass in this order, newly augmented; all devices use the CPU's random draws."""
        if self.augment is None:
            return self.pixels.index_select(0, sent(order, self.device))
        _, height, width = self.reader.picture.shape
        draws = sent(self.augment.draw(len(order), generator), self.device)
        return cropped(self.pixels, sent(order, self.device), draws, height, width)

    def unaugmented(self, rows: slice) -> Tensor:
        """Return the network's input for pictures as they are."""
        _, height, width = self.reader.picture.shape
        edge = 0 if self.augment is None else self.augment.padding
        return self.reader.read(self.pixels[rows, edge : edge + height, edge : edge + width])


Inputs = Tensor | Pictures


def batches(rows: int, size: int) -> list[slice]:
    """Cut rows into batches; a single last row joins the batch before, as batch normalisation cannot learn from one."""
    starts = list(range(0, rows, size))
    if size > 1 and len(starts) > 1 and rows - starts[-1] == 1:
        starts.pop()
    return [slice(at, end) for at, end in pairwise([*starts, rows])]


def steps_in(rows: int, size: int, epochs: int) -> int:
    """Return the number of steps of this many passes."""
    return epochs * len(batches(rows, size))


def shuffled(X: Inputs, y: Tensor, size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """Return an endless stream of batches, shuffled at each pass; batches of pictures are pixels."""
    parts = batches(len(X), size)
    while True:
        order = torch.randperm(len(X), generator=generator)
        place = sent(order, X.device)
        inputs = X.drawn(order, generator) if isinstance(X, Pictures) else X.index_select(0, place)
        labels = y.index_select(0, place)
        for batch in parts:
            yield inputs[batch], labels[batch]


def reading(X: Inputs) -> Callable[[Tensor], Tensor]:
    """Return the function that turns a batch into the network's input."""
    return X.reader.read if isinstance(X, Pictures) else lambda batch: batch


def sent(values: Tensor, device: torch.device) -> Tensor:
    """Return values on the device; copying to a GPU does not block this process."""
    return values.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else values.to(device)


@contextmanager
def tuned(device: torch.device, *, on: bool) -> Iterator[None]:
    """Let cuDNN search for the fastest convolutions, which pays for shapes that come back."""
    if device.type != "cuda":
        yield
        return
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = on
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
