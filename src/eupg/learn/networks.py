"""Network architectures: plain callables from (inputs, classes) to a PyTorch module."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from torch import nn


@dataclass(frozen=True)
class MLP:
    """The paper's multi-layer perceptron: hidden layers of equal size with ReLU, and one logit a class.

    Of pictures it takes all numbers in a row (``flattens``); other factories are told the number of channels, and their
    networks take (pictures, channels, height, width).
    """

    flattens: ClassVar[bool] = True
    hidden: tuple[int, ...] = (128, 128)

    def __call__(self, inputs: int, classes: int) -> nn.Module:
        """Build a freshly initialised network."""
        sizes = (inputs, *self.hidden)
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(sizes[-1], classes))
