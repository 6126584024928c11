"""ResNet-18 for small pictures: a 3×3 stem and no pooling before the blocks (He et al. 2016, as used on CIFAR-10)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.functional import relu

from eupg.learn.learner import check_settings


@dataclass(frozen=True)
class ResNet18:
    """The paper's network for pictures: 18 layers in eight blocks, ``width`` channels at first and eight times as many.

    Parameters
    ----------
    width
        Channels of the first layers.
    scale
        Factor on the first weights of convolutions. Batch normalisation undoes it in what the network computes, but
        smaller weights turn faster: the same learning rate moves them further.

    Examples
    --------
    >>> sum(p.numel() for p in ResNet18()(3, 10).parameters())
    11173962
    """

    width: int = 64
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_settings(self, whole={"width": 1}, positive=("scale",), not_negative=())

    def __repr__(self) -> str:
        """Show the scale where it was changed: stores know networks by this text."""
        return f"ResNet18(width={self.width}{'' if self.scale == 1 else f', scale={self.scale:g}'})"

    def __call__(self, inputs: int, classes: int) -> nn.Module:
        """Build a freshly initialised network for pictures of so many channels."""
        sizes = [self.width * 2**stage for stage in range(4)]
        layers: list[nn.Module] = [_convolution(inputs, self.width), nn.BatchNorm2d(self.width), nn.ReLU(inplace=True)]
        before = self.width
        for stage, size in enumerate(sizes):
            layers += [_Block(before, size, stride=1 if stage == 0 else 2), _Block(size, size, stride=1)]
            before = size
        network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))
        for layer in network.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
                layer.weight.data.mul_(self.scale)
        return network


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
        """Return the block's outputs."""
        inside = relu(self.first_norm(self.first(inputs)), inplace=True)
        return relu(self.second_norm(self.second(inside)) + self.shortcut(inputs), inplace=True)


def _convolution(before: int, after: int, *, size: int = 3, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(before, after, size, stride=stride, padding=size // 2, bias=False)
