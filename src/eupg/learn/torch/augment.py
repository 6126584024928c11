"""Random crops and mirror images of pictures: a whole epoch at once, on bytes, on the device where they are."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eupg.errors import DataError, ParameterError
from eupg.learn.learner import check_settings

BORDERS = ("zero", "reflect")
# Positions of this many pixels are held at once while an epoch is put together: 8 bytes each.
_PIXELS_AT_ONCE = 2**23


@dataclass(frozen=True)
class Augment:
    """Show each picture, at each pass, shifted by a few pixels and mirrored at random.

    Parameters
    ----------
    padding
        The most pixels by which a picture is shifted in each direction; all shifts are equally likely.
    flip
        Whether to mirror pictures left to right, each with probability 1/2.
    border
        What lies beyond the edge: "zero" for black, "reflect" for the picture's own pixels, mirrored.
    """

    padding: int = 4
    flip: bool = True
    border: str = "zero"

    def __post_init__(self) -> None:
        check_settings(self, whole={"padding": 0})
        if self.border not in BORDERS:
            raise ParameterError(f'border must be "zero" or "reflect", got {self.border!r}')

    def bordered(self, pixels: Tensor) -> Tensor:
        """Return (pictures, height, width, channels) with a border to crop from."""
        _, height, width, _ = pixels.shape
        if self.border == "reflect" and self.padding >= min(height, width):
            raise DataError(
                f"pictures of {height}×{width} pixels cannot be reflected by {self.padding}: lower padding, or use "
                'border="zero"'
            )
        if not self.padding:
            return pixels
        for axis, size in ((1, height), (2, width)):
            pixels = self._widened(pixels, axis, size)
        return pixels

    def _widened(self, pixels: Tensor, axis: int, size: int) -> Tensor:
        place = torch.arange(-self.padding, size + self.padding, device=pixels.device)
        if self.border == "reflect":
            return pixels.index_select(axis, (size - 1) - ((size - 1) - place.abs()).abs())
        shape = list(pixels.shape)
        shape[axis] = len(place)
        wider = pixels.new_zeros(shape)
        wider.narrow(axis, self.padding, size).copy_(pixels)
        return wider

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw shifts down and to the right, and whether to mirror: one column per picture."""
        shifts = torch.randint(2 * self.padding + 1, (2, count), generator=generator)
        mirrored = torch.randint(2 if self.flip else 1, (1, count), generator=generator)
        return torch.cat([shifts, mirrored])


def cropped(bordered: Tensor, order: Tensor, draws: Tensor, height: int, width: int) -> Tensor:
    """Return the pictures in this order, each shifted and mirrored as drawn."""
    _, rows, columns, channels = bordered.shape
    # Pixels are fetched by position, all channels of a pixel together.
    flat = bordered.reshape(-1, channels)
    out = bordered.new_empty((len(order), height, width, channels))
    down, across = (torch.arange(size, device=bordered.device) for size in (height, width))
    each = max(1, _PIXELS_AT_ONCE // (height * width))
    for at in range(0, len(order), each):
        part = slice(at, at + each)
        below, beside, mirrored = (d[part, None] for d in draws)
        line = order[part, None] * rows + below + down
        column = beside + torch.where(mirrored > 0, width - 1 - across, across)
        places = line[:, :, None] * columns + column[:, None, :]
        torch.index_select(flat, 0, places.view(-1), out=out[part].view(-1, channels))
    return out
