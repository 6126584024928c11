"""Network architectures: plain callables from (inputs, classes) to a PyTorch module."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from torch import Tensor, nn
from torch.nn.functional import relu

from eupg.learn.learner import check_settings


@dataclass(frozen=True)
class MLP:
    """The paper's multi-layer perceptron: hidden layers with ReLU, and one logit per class.

    It reads a picture as one row of numbers (``flattens``). Other factories receive the number of channels, and their
    networks take (pictures, channels, height, width).
    """

    flattens: ClassVar[bool] = True
    hidden: tuple[int, ...] = (128, 128)

    def __call__(self, inputs: int, classes: int) -> nn.Module:
        """Build a newly initialised network."""
        sizes = (inputs, *self.hidden)
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(sizes[-1], classes))


@dataclass(frozen=True)
class ResNet18:
    """The paper's network for small pictures: a 3×3 stem, then eight blocks without pooling (He et al. 2016).

    Parameters
    ----------
    width
        Channels of the first layers; the last ones have eight times as many.
    scale
        Factor on the initial weights of convolutions. Batch normalisation undoes it in the outputs, but the same
        learning rate moves smaller weights further.

    Examples
    --------
    >>> sum(p.numel() for p in ResNet18()(3, 10).parameters())
    11173962
    """

    width: int = 64
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_settings(self, whole={"width": 1}, positive=("scale",))

    def __repr__(self) -> str:
        """Show the scale only if it was changed: stores identify networks by this text."""
        return f"ResNet18(width={self.width}{'' if self.scale == 1 else f', scale={self.scale:g}'})"

    def __call__(self, inputs: int, classes: int) -> nn.Module:
        """Build a newly initialised network for pictures with this many channels."""
        layers: list[nn.Module] = [_convolution(inputs, self.width), nn.BatchNorm2d(self.width), nn.ReLU(inplace=True)]
        before = self.width
        for stage in range(4):
            size = self.width * 2**stage
            layers += [_Block(before, size, stride=1 if stage == 0 else 2), _Block(size, size, stride=1)]
            before = size
        network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))
        for layer in network.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
                layer.weight.data.mul_(self.scale)
        return network


class Corrected(nn.Module):
    """A network whose logits are added to numbers at the end of each row: one per class."""

    def __init__(self, network: nn.Module, classes: int) -> None:
        super().__init__()
        self.network, self.classes = network, classes

    def forward(self, rows: Tensor) -> Tensor:
        """Return the sums."""
        logits: Tensor = self.network(rows[:, : -self.classes])
        return logits + rows[:, -self.classes :]


class _Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, before: int, after: int, *, stride: int) -> None:
        super().__init__()
        self.first = _convolution(before, after, stride=stride)
        self.first_norm = nn.BatchNorm2d(after)
        self.second = _convolution(after, after)
        self.second_norm = nn.BatchNorm2d(after)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or before != after:
            self.shortcut = nn.Sequential(_convolution(before, after, size=1, stride=stride), nn.BatchNorm2d(after))

    def forward(self, inputs: Tensor) -> Tensor:
        inside = relu(self.first_norm(self.first(inputs)), inplace=True)
        return relu(self.second_norm(self.second(inside)) + self.shortcut(inputs), inplace=True)


def _convolution(before: int, after: int, *, size: int = 3, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(before, after, size, stride=stride, padding=size // 2, bias=False)
