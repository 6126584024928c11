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


@dataclass(frozen=True)
class FastResNet:
    """A small network for small pictures that learns in few epochs: nine layers, two of whose blocks have a shortcut.

    Three times, the number of channels doubles and the picture halves. A fixed factor on the logits keeps the first
    steps small at high learning rates.

    Parameters
    ----------
    width
        Channels of the first layer; the last ones have eight times as many.
    logits
        The factor on the logits.

    Examples
    --------
    >>> sum(p.numel() for p in FastResNet()(3, 10).parameters())
    6573120
    """

    width: int = 64
    logits: float = 0.125

    def __post_init__(self) -> None:
        check_settings(self, whole={"width": 1}, positive=("logits",))

    def __call__(self, inputs: int, classes: int) -> nn.Module:
        """Build a newly initialised network for pictures with this many channels, of 8×8 pixels or more."""
        w = self.width
        network = nn.Sequential(
            _layer(inputs, w),
            _layer(w, 2 * w, halves=True),
            _Beside(_layer(2 * w, 2 * w), _layer(2 * w, 2 * w)),
            _layer(2 * w, 4 * w, halves=True),
            _layer(4 * w, 8 * w, halves=True),
            _Beside(_layer(8 * w, 8 * w), _layer(8 * w, 8 * w)),
            nn.AdaptiveMaxPool2d(1),
            nn.Flatten(),
            _Scaled(8 * w, classes, self.logits),
        )
        for layer in network.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        return network


def _layer(before: int, after: int, *, halves: bool = False) -> nn.Sequential:
    parts = [_convolution(before, after), *([nn.MaxPool2d(2)] if halves else [])]
    return nn.Sequential(*parts, nn.BatchNorm2d(after), nn.GELU())


class _Beside(nn.Sequential):
    """Layers beside a shortcut."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the input and what the layers make of it."""
        inside = inputs
        for layer in self:
            inside = layer(inside)
        return inputs + inside


class _Scaled(nn.Linear):
    """A last layer without constants, whose logits are multiplied by a fixed factor."""

    def __init__(self, before: int, classes: int, factor: float) -> None:
        super().__init__(before, classes, bias=False)
        self.factor = factor

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits."""
        return self.factor * super().forward(inputs)


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
