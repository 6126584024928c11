"""Pictures under probabilistic k-anonymity: blocks of pixels permuted among groups of similar pictures.

Pictures are grouped by MDAV on features of a public network. Inside each group, at every position of a grid of blocks,
the blocks (all channels together) are permuted uniformly and independently of all other positions. The paper permutes
single pixels (section 4.1). A larger block keeps more of the picture, and reveals more of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Dataset, Labels
from eupg.data.kind import Accepts, DataKind, check_kind
from eupg.data.pictures.attribute import Bytes, Picture
from eupg.data.schema import Schema
from eupg.errors import DataError, ParameterError
from eupg.guarantees import KAnonymous
from eupg.protect.kanonymity import with_shared
from eupg.protect.microaggregation.groups import Groups
from eupg.protect.microaggregation.wide import check_device, wide_mdav
from eupg.protect.pictures.public_features import EfficientNetLite0, Features, PublicFeatures, describe, principal
from eupg.protect.release import Release
from eupg.rng import Randomness
from eupg.validation import check_whole

# Random words held at a time.
_AT_ONCE = 2**22
# This few places seldom draw the same of 2³¹ keys; more would have to draw again and again.
_SHORT = 64


@dataclass(frozen=True)
class PixelPermutation:
    """Permute blocks of pixels, position by position, inside groups of at least ``k`` similar pictures.

    Parameters
    ----------
    k
        Smallest group. A picture is linked to its released row with probability at most 1/k.
    block
        Side of the square blocks that are permuted, in pixels; it divides height and width. Whatever a block of this
        size shows of a person is released as it is.
    features
        Describes pictures; any function of images and device that was not trained on the records.
    dimensions
        Number of principal components of the features that groups are formed by; None keeps all.
    within_labels
        Form groups inside each class, so that a group has one label; the claim then says so.
    device
        Where features and groups are computed, ``"cpu"`` or ``"cuda"``.

    Examples
    --------
    >>> from eupg.data.pictures.files import picture_schema
    >>> PixelPermutation(k=30, block=8).guarantee(picture_schema((3, 32, 32), ("cat", "dog"))).covers
    ('picture (16 blocks of 8×8 pixels, each position permuted on its own)',)
    """

    accepts: ClassVar[Accepts] = Accepts(DataKind.PICTURES, instead="ProbabilisticKAnonymity")
    k: int = 30
    block: int = field(default=1, kw_only=True)
    features: PublicFeatures = field(default=EfficientNetLite0(), kw_only=True)
    dimensions: int | None = field(default=128, kw_only=True)
    within_labels: bool = field(default=False, kw_only=True)
    device: str = field(default="cpu", kw_only=True)

    def __post_init__(self) -> None:
        least = {"k": 2, "block": 1} | ({} if self.dimensions is None else {"dimensions": 1})
        for name, smallest in least.items():
            check_whole(name, getattr(self, name), at_least=smallest)
        if not callable(self.features):
            raise ParameterError(f"features must be a function of images and device, got {self.features!r}")

    def guarantee(self, schema: Schema) -> KAnonymous:
        """Return the claim: linking by the permuted blocks succeeds with probability at most 1/k."""
        picture = self._picture(schema)
        positions = check_block(picture, self.block)
        if positions == 1:
            raise DataError(
                f"a block of {self.block}×{self.block} pixels is the whole picture, which would be released as it is: "
                "choose a smaller block"
            )
        one = "single pixels" if self.block == 1 else f"blocks of {self.block}×{self.block} pixels"
        shown = f"a block of {self.block}×{self.block} pixels is released as it is, and shows what it shows of a person"
        return KAnonymous(
            k=int(self.k),
            covers=(f"{picture.name} ({positions} {one}, each position permuted on its own)",),
            leaves_open=(schema.label.name,),
            caveats=(
                *schema.caveats,
                *(() if self.block == 1 else (shown,)),
                _JIGSAW,
                f"groups were formed by features of pictures, {_name(self.features)}, which must not come from records",
                *((_SAME_LABEL,) if self.within_labels else ()),
            ),
        )

    def groups(self, data: Dataset) -> Groups:
        """Return the group of each picture; the same pictures get the same groups on the same device."""
        picture = self._picture(data.schema)
        labels = data.y if self.within_labels else np.zeros(len(data), np.int64)
        for label, count in zip(*np.unique(labels, return_counts=True), strict=True):
            if count < self.k:
                where = f" of class {data.schema.label.categories[label]!r}" if self.within_labels else ""
                raise DataError(
                    f"k={self.k} needs at least {self.k} records{where}, got {count}: lower k or protect more records "
                    "together"
                )
        if len(data) < self.k:
            raise DataError(f"k={self.k} needs at least {self.k} records, got 0: protect more records together")
        check_device(self.device)
        features = describe(self.features, picture.images(data.X), self.device)
        return _grouped(principal(features, self.dimensions, self.device), labels, int(self.k), self.device)

    def protect(self, data: Dataset, rng: Randomness) -> Release:
        """Group, permute every position's blocks inside its group, and shuffle the rows."""
        return self.protect_in_groups(data, rng)[0]

    def protect_in_groups(self, data: Dataset, rng: Randomness) -> tuple[Release, Groups]:
        """Return the release, and the group of each picture in it; a GPU may compute other groups the next time."""
        picture, claim = self._picture(data.schema), self.guarantee(data.schema)
        groups = self.groups(data)
        claim = with_shared(claim, data, groups)
        moved: Any = permute_blocks(picture.images(data.X), groups, self.block, rng.stage("blocks"))
        return Release.shuffled(data, moved.reshape(len(data), -1), data.y, claim, rng), groups

    def _picture(self, schema: Schema) -> Picture:
        check_kind(schema, self)
        assert schema.picture is not None
        return schema.picture


_JIGSAW = (
    "neighbouring pixels or blocks of one picture can often be put together again where their edges match, which the "
    "claim does not exclude"
)
_SAME_LABEL = "groups were formed inside each class: whoever tells a person's group from the others learns their label"


def _name(features: PublicFeatures) -> str:
    """Return a name for the features; the ``repr`` of a plain function would differ from process to process."""
    where, what = getattr(features, "__module__", ""), getattr(features, "__qualname__", "")
    return f"{where}.{what}" if what else repr(features)


def check_block(picture: Picture, block: int) -> int:
    """Return the number of blocks of a picture; refuse a size that does not fit."""
    if picture.height % block or picture.width % block:
        raise DataError(
            f"blocks of {block}×{block} pixels do not fill a picture of {picture.height}×{picture.width}: choose a "
            "size that divides both"
        )
    return (picture.height // block) * (picture.width // block)


def permute_blocks(images: Bytes, groups: Groups, block: int, rng: Randomness) -> Bytes:
    """Permute, inside each group, the blocks at each position: uniformly, independently of every other position.

    Images are (pictures, channels, height, width), and ``block`` divides height and width. Picture ``i`` of the result
    consists of blocks of its group.
    """
    n, channels, height, width = images.shape
    down, across = height // block, width // block
    # One item per picture and position, all bytes of the block together.
    split = images.reshape(n, channels, down, block, across, block).transpose(0, 2, 4, 1, 3, 5)
    whole = np.dtype((np.void, channels * block * block))
    blocks = np.ascontiguousarray(split).reshape(n, down * across, -1).view(whole)[..., 0]
    moved = np.empty_like(blocks)
    sizes = np.unique(groups, return_counts=True)[1]
    order, starts = np.argsort(groups, kind="stable"), np.cumsum(sizes) - sizes
    for size in np.unique(sizes).tolist():
        members = order[starts[sizes == size][:, None] + np.arange(size)]
        step = max(1, _AT_ONCE // (down * across * size))
        for first in range(0, len(members), step):
            part = members[first : first + step]
            source = _permutations(len(part) * down * across, size, rng).reshape(len(part), down * across, size)
            chosen = np.take_along_axis(part[:, None, :], source, axis=2)
            moved[part] = blocks[chosen.transpose(0, 2, 1), np.arange(down * across)]
    back = moved.view(np.uint8).reshape(n, down, across, channels, block, block).transpose(0, 3, 1, 4, 2, 5)
    return np.ascontiguousarray(back).reshape(images.shape)


def _permutations(count: int, size: int, rng: Randomness) -> NDArray[np.intp]:
    """Draw independent uniform permutations of ``size`` places, one per line.

    Each place draws a key whose lowest bits are replaced by the place itself, so that sorting the keys gives the order.
    Lines in which two keys agree above these bits are drawn again: every order stays exactly as likely.
    """
    out = np.empty((count, size), dtype=np.intp)
    low, todo = 2 ** (size - 1).bit_length() - 1, np.arange(count)
    while len(todo):
        keys = _keys(len(todo) * size, short=size <= _SHORT, rng=rng).reshape(-1, size)
        keys = (keys & ~keys.dtype.type(low)) | np.arange(size, dtype=keys.dtype)
        keys.sort(axis=1)
        out[todo] = keys & keys.dtype.type(low)
        todo = todo[((keys[:, 1:] ^ keys[:, :-1]) <= low).any(axis=1)]
    return out


def _keys(count: int, *, short: bool, rng: Randomness) -> NDArray[Any]:
    """Draw uniform keys of 63 bits, or of 31 bits, two from a word, for few places."""
    if not short:
        return rng.words(count)
    halves: NDArray[Any] = rng.words(-(-count // 2)).view(np.uint32)[:count]
    return halves & np.uint32(2**31 - 1)


def _grouped(features: Features, labels: Labels, k: int, device: str) -> Groups:
    """Group by MDAV, each class on its own, and number the groups one after the other."""
    groups, first = np.empty(len(features), np.int64), 0
    for label in np.unique(labels):
        rows = labels == label
        groups[rows] = wide_mdav(features[rows], k, device=device) + first
        first = int(groups[rows].max()) + 1
    return groups
