"""How often blocks that were permuted inside groups can be put together again because their edges match.

Blocks of one picture fit together at their edges, like a jigsaw. The claim of permuted blocks does not deny this; it
states that nothing leads to the row that carries the label. Someone who joins blocks again has undone the permutation
for these. This adversary is simple and takes for each block the neighbour whose edge differs least; one who looks at
more than the edges may be right more often.

Inside a group each position holds the same blocks whatever the permutation was, so no release is needed: the originals
and their groups show what could be matched in any of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from eupg.data.dataset import Dataset
from eupg.data.pictures.attribute import Bytes, Picture
from eupg.errors import DataError, ParameterError
from eupg.protect.microaggregation.groups import Groups
from eupg.validation import check_whole

Edges = NDArray[np.float64]
# Distances computed at a time.
_AT_ONCE = 2**20


@dataclass(frozen=True)
class JigsawReport:
    """How often a block's right-hand neighbour was found by its edge, beside what guessing gives.

    Parameters
    ----------
    block
        Side of a block in pixels.
    pictures, groups, guesses
        Pictures and groups that were looked at, and blocks that have a neighbour on their right, one guess each.
    right
        Share of guesses that name the neighbour of the same original; of equally good candidates one is drawn, which
        counts as the chance that it is the right one. Every group counts alike.
    low, high
        Interval of ``right``, from how much groups differ: guesses inside a group are not independent.
    rows
        Share of an original's rows of blocks in which every guess is right: they are put together from end to end.
    chance
        What ``right`` would be if edges said nothing: one in as many as the group has pictures.
    confidence
        Of the interval.
    """

    block: int
    pictures: int
    groups: int
    guesses: int
    right: float
    low: float
    high: float
    rows: float
    chance: float
    confidence: float

    def sentence(self) -> str:
        """Say the result in plain words."""
        return (
            f"Blocks of {self.block}×{self.block} pixels of {self.pictures:,} pictures in {self.groups:,} groups: the "
            f"candidate whose edge differs least from a block's is its true right-hand neighbour in {self.right:.1%} "
            f"of {self.guesses:,} guesses ({self.low:.1%} to {self.high:.1%}), where guessing gives {self.chance:.1%}; "
            f"{self.rows:.1%} of all rows of blocks are put together from end to end. Blocks that are put together "
            "again are no longer permuted."
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def jigsaw(data: Dataset, groups: Groups, *, block: int, confidence: float = 0.95) -> JigsawReport:
    """Match each block with its right-hand neighbour among those of its group, by their edges.

    The adversary knows the groups, as the claim allows. For a block the candidates are the blocks of its group at the
    next position to the right; the guess is the one whose left edge has the smallest sum of squared differences from
    the block's right edge, over all channels. Every block that has a neighbour is tried.

    Parameters
    ----------
    data
        The records, all of them.
    groups
        The group of each record: ``mechanism.groups(data)``.
    block
        Side of the blocks in pixels; at least two fit side by side.
    confidence
        Of the interval.

    Examples
    --------
    Four stripes, two in a group. In the first group edges tell who belongs together, in the second they are all alike.

    >>> from eupg.data.pictures.files import image_dataset
    >>> images = np.array([10, 200, 50, 50], np.uint8).reshape(4, 1, 1, 1).repeat(4, axis=2).repeat(4, axis=3)
    >>> report = jigsaw(image_dataset(images, [0, 1, 0, 1], classes=("a", "b")), np.array([0, 0, 1, 1]), block=2)
    >>> report.guesses, report.right, report.rows, report.chance
    (8, 0.75, 0.75, 0.5)
    """
    picture = _checked(data, groups, block, confidence)
    images = picture.images(data.X)
    down, joins = picture.height // block, picture.width // block - 1
    shares, whole, sizes = list[float](), list[float](), list[int]()
    for members in _members(groups):
        joined = _rightly_joined(*_edges(images[members], block))
        shares.append(float(joined.mean()))
        whole.append(float(joined.reshape(down, joins, -1).prod(axis=1).mean()))
        sizes.append(len(members))
    low, high = _interval(np.array(shares), confidence)
    return JigsawReport(
        block=int(block),
        pictures=len(data),
        groups=len(sizes),
        guesses=down * joins * len(data),
        right=float(np.mean(shares)),
        low=low,
        high=high,
        rows=float(np.mean(whole)),
        chance=float(np.mean(1 / np.array(sizes))),
        confidence=float(confidence),
    )


def _members(groups: Groups) -> Iterator[NDArray[np.intp]]:
    order = np.argsort(groups, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


def _edges(images: Bytes, block: int) -> tuple[Edges, Edges]:
    """Return the edges that meet between neighbouring blocks, of each place and picture: on its left, on its right."""
    n, channels, height, width = images.shape
    meet = np.arange(block, width, block)

    def cut(columns: NDArray[np.intp]) -> Edges:
        lines = images[..., columns].reshape(n, channels, height // block, block, len(meet))
        together = lines.transpose(2, 4, 0, 1, 3).reshape(-1, n, channels * block)
        return together.astype(np.float64)

    return cut(meet - 1), cut(meet)


def _rightly_joined(left: Edges, right: Edges) -> NDArray[np.float64]:
    """Return for each place and picture the chance that the nearest candidate, or one of them, is the right one."""
    places, n, _ = left.shape
    joined, step = np.empty((places, n)), max(1, _AT_ONCE // n**2)
    for first in range(0, places, step):
        a, b = left[first : first + step], right[first : first + step]
        # Whole numbers throughout, so that ties are exact.
        apart = (a**2).sum(axis=2)[:, :, None] + (b**2).sum(axis=2)[:, None, :] - 2 * a @ b.transpose(0, 2, 1)
        nearest = apart == apart.min(axis=2, keepdims=True)
        joined[first : first + step] = np.diagonal(nearest, axis1=1, axis2=2) / nearest.sum(axis=2)
    return joined


def _interval(shares: NDArray[np.float64], confidence: float) -> tuple[float, float]:
    """Return Student's interval of the mean over groups; one group does not show how they differ."""
    if len(shares) < 2:
        return 0.0, 1.0
    reach = student.ppf((1 + confidence) / 2, len(shares) - 1) * shares.std(ddof=1) / np.sqrt(len(shares))
    return float(max(0.0, shares.mean() - reach)), float(min(1.0, shares.mean() + reach))


def _checked(data: Dataset, groups: Groups, block: int, confidence: float) -> Picture:
    picture = data.schema.picture
    if picture is None:
        raise DataError("jigsaw joins blocks of pictures, but these records are a table: use linkage")
    check_whole("block", block, at_least=1, of="pixels")
    if picture.height % block or picture.width % block:
        raise ParameterError(f"blocks of {block} do not fill {picture.height} × {picture.width} pixels: choose another")
    if picture.width < 2 * block:
        raise ParameterError(f"blocks of {block} have no neighbour in {picture.width} pixels: choose a smaller one")
    if not 0 < confidence < 1:
        raise ParameterError(f"confidence must lie between 0 and 1, got {confidence!r}")
    if len(groups) != len(data) or not len(data):
        raise DataError(f"{len(data)} records need a group each, got {len(groups)}: pass those of mechanism.groups")
    return picture
