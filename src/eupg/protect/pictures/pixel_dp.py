"""Pictures under differential privacy: DP-Pix, the noisy averages of square blocks of pixels.

A picture is divided into blocks, and all pixels of a block in a channel are replaced by their average plus noise (Fan,
"Image Pixelization with Differential Privacy", 2018). The sum of a block's pixels is a whole number between public
bounds, so it goes through a finite channel: no floating-point noise, and the claim is checked in whole numbers when the
channel is built.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np

from eupg.data.dataset import Dataset
from eupg.data.kind import Accepts, DataKind, check_kind
from eupg.data.pictures.attribute import Bytes, Picture
from eupg.data.schema import Schema
from eupg.errors import ParameterError, PrivacyError
from eupg.guarantees import DifferentiallyPrivate
from eupg.protect.channel import TOTAL, Codes, LaplaceChannel, Weights, within_ratio
from eupg.protect.mechanism import require_rows
from eupg.protect.pictures.pixel_permutation import check_block
from eupg.protect.release import Release
from eupg.rng import Randomness
from eupg.validation import check_positive, check_whole

_BRIGHTEST = 255
# Channels are built for slightly less than the claim: the finest of these margins that rounding does not cross.
_MARGINS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
# Beyond this e^rate overflows; weights are whole numbers below 2⁶³ and cannot fall by as much anyway.
_STEEPEST = 700.0
# Sums that go through a channel in one call.
_AT_ONCE = 2**20


@dataclass(frozen=True)
class PixelDP:
    """Replace each block of pixels by its noisy average, so that pictures satisfy differential privacy.

    Parameters
    ----------
    epsilon
        Budget per ``unit``.
    m
        Number of pixels in which two neighbouring pictures may differ, where the unit is ``"pixels"``.
    block
        Side of the square blocks, in pixels; it divides height and width.
    unit
        ``"pixels"``: ε is for pictures that differ in at most ``m`` pixels, as in the paper. Replacing a whole picture
        costs many times as much, and that figure is the claim's ε. ``"picture"``: ε is for replacing a whole picture.
    channels
        Where the unit is ``"pixels"``. ``"each"``: ε is for a difference in one channel, and a difference in all three
        channels of a colour picture costs 3ε. ``"shared"``: ε is for a difference in all channels together.

    Examples
    --------
    >>> from eupg.data.pictures.files import picture_schema
    >>> schema = picture_schema((3, 32, 32), ("cat", "dog"))
    >>> PixelDP(epsilon=1.0).guarantee(schema).epsilon
    192.0
    >>> PixelDP(epsilon=1.0, unit="picture").guarantee(schema).epsilon
    1.0
    """

    accepts: ClassVar[Accepts] = Accepts(DataKind.PICTURES, instead="LocalDP")
    epsilon: float = 1.0
    m: int = field(default=16, kw_only=True)
    block: int = field(default=4, kw_only=True)
    unit: Literal["pixels", "picture"] = field(default="pixels", kw_only=True)
    channels: Literal["each", "shared"] = field(default="each", kw_only=True)

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        for name in ("m", "block"):
            check_whole(name, getattr(self, name), at_least=1)
        for name, known in (("unit", ("pixels", "picture")), ("channels", ("each", "shared"))):
            if getattr(self, name) not in known:
                raise ParameterError(f"{name} must be {known[0]!r} or {known[1]!r}, got {getattr(self, name)!r}")

    @property
    def rows_are_independent(self) -> bool:
        """Each picture is randomised independently of the others."""
        return True

    def record_epsilon(self, picture: Picture) -> float:
        """Return the ε of replacing a whole picture by any other."""
        if self.unit == "picture":
            return float(self.epsilon)
        return float(self.epsilon) * picture.columns / self._neighbours(picture)

    def guarantee(self, schema: Schema) -> DifferentiallyPrivate:
        """Return the claim: ε for replacing a whole picture, with a caveat on the ε of a few pixels."""
        check_kind(schema, self)
        picture = schema.picture
        assert picture is not None
        check_block(picture, self.block)
        return DifferentiallyPrivate(
            epsilon=self.record_epsilon(picture),
            covers=(f"{picture.name} (noisy averages of blocks of {self.block}×{self.block} pixels)",),
            leaves_open=(schema.label.name,),
            caveats=(*schema.caveats, *self._pixel_caveat(picture)),
        )

    def channel(self, picture: Picture) -> LaplaceChannel:
        """Build and check the channel that each block's sum goes through."""
        # Rounded down, so that all steps together never cost more than ε.
        step = math.nextafter(float(self.epsilon) / (_BRIGHTEST * self._neighbours(picture)), 0.0)
        return sum_channel(_BRIGHTEST * int(self.block) ** 2 + 1, step)

    def protect(self, data: Dataset, rng: Randomness) -> Release:
        """Send every block's sum through the channel, spread its average over the block, and shuffle the rows."""
        require_rows(data, 1)
        claim, picture = self.guarantee(data.schema), data.schema.picture
        assert picture is not None
        images, channel, stage = picture.images(data.X), self.channel(picture), rng.stage("blocks")
        out = np.empty_like(images)
        part = max(1, _AT_ONCE * self.block**2 // picture.columns)
        for start in range(0, len(images), part):
            rows = slice(start, start + part)
            out[rows] = _averaged(images[rows], int(self.block), channel, stage)
        pixels: Any = out.reshape(len(data), -1)
        return Release.shuffled(data, pixels, data.y, claim, rng)

    def _neighbours(self, picture: Picture) -> int:
        """Return the number of bytes in which two neighbouring pictures may differ."""
        if self.unit == "picture":
            return picture.columns
        channels = 1 if self.channels == "each" else picture.channels
        return min(int(self.m), picture.height * picture.width) * channels

    def _pixel_caveat(self, picture: Picture) -> tuple[str, ...]:
        """State the ε of pictures that differ in a few pixels."""
        if self.unit == "picture":
            return ()
        few, whole = f"{self.epsilon:g}", f"{self.record_epsilon(picture):g}"
        pixels = f"at most {self.m} pixels"
        if picture.channels == 1:
            between = f"two pictures that differ in {pixels} have ε={few}"
        elif self.channels == "shared":
            between = f"two pictures that differ in {pixels}, in all channels, have ε={few}"
        else:
            all_of_them = f"{self.epsilon * picture.channels:g}"
            between = (
                f"two pictures that differ in {pixels} of one channel have ε={few}, and ε={all_of_them} where these "
                f"pixels differ in all {picture.channels} channels"
            )
        # A claim about several releases keeps these words, and its own ε is the sum.
        words = f"in one release {between}; ε={whole} is for replacing a whole picture"
        return (f"noise was set for a part of a picture: {words}",)


def _averaged(images: Bytes, block: int, channel: LaplaceChannel, rng: Randomness) -> Bytes:
    n, channels, height, width = images.shape
    split = images.reshape(n, channels, height // block, block, width // block, block)
    sums = split.sum(axis=(3, 5), dtype=np.int64)
    noisy: Codes = channel.sample(sums.reshape(-1), rng).reshape(sums.shape)
    # Rounded to whole brightness, which costs nothing after the channel.
    average = ((2 * noisy + block**2) // (2 * block**2)).astype(np.uint8)
    return np.repeat(np.repeat(average, block, axis=2), block, axis=3)


@lru_cache(maxsize=32)
def sum_channel(size: int, step: float) -> LaplaceChannel:
    """Build the channel on 0 to size−1 in which inputs one apart differ by at most a factor e^step at any output.

    It is built for a margin less than that, and checked. The stronger the noise, the wider the margin rounding needs.
    """
    for margin in _MARGINS:
        channel = LaplaceChannel(size, math.nextafter(step * (size - 1), math.inf), _weights(size, step, margin))
        try:
            check_steps(channel, step)
            return channel
        except PrivacyError:
            continue
    advice = "larger" if step < 1 else "smaller"
    raise ParameterError(
        f"noise of ε={step:g} for one step in brightness cannot be drawn exactly: ask for a {advice} ε"
    )


def _weights(size: int, step: float, margin: float) -> Weights:
    """Return whole weights of moving by t that fall slightly slower than e^−t·step and sum to 2⁶³ over both directions.

    They never fall below a floor at which rounding is still small against the margin of a step.
    """
    rate = step * (1 - margin)
    centre = math.tanh(rate / 2)
    shape = np.maximum(np.exp(-rate * np.arange(size)), min(1.0, 4 / (margin * step) / TOTAL / centre))
    # The last weight includes all longer moves: large enough that the tails, too, fall by one step's factor.
    shape[-1] = max(shape[-2] / math.expm1(min(rate, _STEEPEST)), shape[-1])
    noise: Weights = np.rint(shape * (TOTAL / (2 * shape.sum() - shape[0]))).astype(np.uint64)
    # The units that rounding lost or gained go where they matter least.
    if noise[0] > noise[-1]:
        noise[0] = TOTAL - 2 * int(noise[1:].sum())
    else:
        noise[0] -= noise[0] % 2
        noise[-1] = (TOTAL - int(noise[0])) // 2 - int(noise[1:-1].sum())
    return noise


def check_steps(channel: LaplaceChannel, step: float) -> None:
    """Raise unless inputs that are t apart differ by at most a factor e^(t·step) at every output, for all t.

    Checking neighbours is enough: the factors of t steps multiply. Inner outputs are reached by ``noise`` and the two
    ends by ``tail``, at distances that differ by one between neighbours.
    """
    channel.check_total()
    for weights in (channel.noise[:-1].tolist(), channel.tail.tolist()):
        for first, second in pairwise(weights):
            within_ratio(max(first, second), min(first, second), step)
