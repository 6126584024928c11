"""Linkage by blocks: what someone who holds an original picture finds in a release of permuted blocks.

A permuted block is unchanged: someone who holds the original finds it again, unless another picture has the same block
there. The claim does not hide this; it states that blocks do not lead to the row that carries the record's label. So
the adversary looks for each block of an original among the released pictures, at its position, and guesses the row that
shows most of them; this should be right once in k.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eupg.audit.releases.linkage import Rate
from eupg.data.dataset import Dataset
from eupg.data.pictures.attribute import Picture
from eupg.errors import DataError, ParameterError
from eupg.guarantees import KAnonymous
from eupg.protect.release import Release
from eupg.validation import check_whole

Keys = NDArray[np.uint64]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class PatchReport:
    """What matching blocks told about where people's pictures went, beside what was claimed.

    Parameters
    ----------
    k
        The claim: at most one guess in k is right.
    block, blocks
        Side of a block in pixels, and the number of blocks of a picture that the adversary knew.
    records, targets
        Pictures in the release, and originals that were looked for, one per group.
    unique
        Share of the known blocks that stand in one released picture only: they say for certain where they went.
    several
        Share of originals of which some released picture shows two blocks or more.
    most
        Mean share of an original's known blocks that the released picture shows that has most of them.
    linked
        Guesses that hit the record's own row, against 1/k.
    found_group
        Share of guesses that fell on a row of the record's group.
    found_label, usual_label
        Share of guesses whose row has the record's label; and the same for a row of its group taken at random.
    """

    k: int
    block: int
    blocks: int
    records: int
    targets: int
    unique: float
    several: float
    most: float
    linked: Rate
    found_group: float
    found_label: float
    usual_label: float

    @property
    def contradicts(self) -> bool:
        """Whether guesses were right more often than claimed, at the confidence of the interval."""
        return self.linked.contradicts

    def sentence(self) -> str:
        """State the result in plain words."""
        verdict = "contradicts the claim" if self.contradicts else "is consistent with the claim, and does not prove it"
        return (
            f"k={self.k}, blocks of {self.block}×{self.block} pixels, {self.targets:,} originals looked for among "
            f"{self.records:,} released pictures, {self.blocks:,} blocks of each known: {self.unique:.1%} of the "
            f"blocks stand in one released picture only, and the picture that shows most of an original's blocks shows "
            f"{self.most:.1%} of them (two or more for {self.several:.1%} of the originals). That picture was the "
            f"record's own row in {self.linked}, which {verdict}. It was one of the record's group in "
            f"{self.found_group:.1%} and had its label in {self.found_label:.1%}; a row of the group taken at random "
            f"has it in {self.usual_label:.1%}."
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        values = asdict(self) | {"contradicts": self.contradicts}
        values["linked"]["rate"] = self.linked.rate
        return values


def patch_linkage(
    data: Dataset,
    release: Release,
    groups: Rows,
    origin: Rows,
    *,
    block: int,
    known: float = 1.0,
    sample: int = 500,
    seed: int = 0,
    confidence: float = 0.99,
) -> PatchReport:
    """Look for originals in a release by their blocks, and compare how often that finds their rows with the claim.

    One random original per group is looked for, so that guesses are independent and the interval is exact.
    Ties between rows are broken at random.

    Parameters
    ----------
    data
        The records, all of them.
    release
        The release, one row per record; its claim is k-anonymity.
    groups
        The group of each record: ``mechanism.groups(data)``.
    origin
        For each released row, the position of the record whose label it carries. The adversary does not know it, it
        only serves to see who was right. A release made with ``rng`` has ``rng.stage("row order").permutation(n)``,
        which can be drawn again if ``rng`` is seeded.
    block
        Side of the blocks in pixels.
    known
        Share of the blocks' positions, drawn at random, at which the adversary knows the originals.
    sample
        The most originals to look for.
    seed
        Of all the draws.
    confidence
        Of the interval of ``linked``; an honest mechanism is accused in half of the remaining cases at most.
    """
    picture, k = _checked(data, release, groups, origin, block, known)
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(len(data))
    targets = drawn[np.unique(groups[drawn], return_index=True)[1]]
    targets = rng.permutation(targets)[:sample]
    positions = (picture.height // block) * (picture.width // block)
    chosen = np.sort(rng.permutation(positions)[: max(1, round(known * positions))])
    weights = rng.integers(0, 2**64, picture.channels * block * block, dtype=np.uint64)
    score = np.zeros((len(targets), len(release)), dtype=np.int32)
    unique = 0
    for place in chosen.tolist():
        wanted, shown = (_keys(picture, X, block, place, weights) for X in (data.X[targets], release.X))
        unique += _match(wanted, shown, score)
    most = score.max(axis=1)
    guess = np.array([rng.choice(np.flatnonzero(row == top)) for row, top in zip(score, most, strict=True)])
    alike = groups[origin[guess]] == groups[targets]
    right, same_label = origin[guess] == targets, release.y[guess] == data.y[targets]
    return PatchReport(
        k=k,
        block=int(block),
        blocks=len(chosen),
        records=len(release),
        targets=len(targets),
        unique=unique / (len(chosen) * len(targets)),
        several=float((most > 1).mean()),
        most=float(most.mean() / len(chosen)),
        linked=Rate.counted(right.astype(np.float64), 1 / k, confidence=confidence),
        found_group=float(alike.mean()),
        found_label=float(same_label.mean()),
        usual_label=float(np.mean([(data.y[groups == groups[t]] == data.y[t]).mean() for t in targets])),
    )


def _keys(picture: Picture, X: NDArray[Any], block: int, place: int, weights: Keys) -> Keys:
    """Return one number for each picture's block at a position; equal blocks have equal ones.

    A sum with random weights modulo 2⁶⁴: two different blocks share one with a chance of at most 2⁻⁵⁷.
    """
    down, right = (block * v for v in divmod(place, picture.width // block))
    part = picture.images(X)[:, :, down : down + block, right : right + block].reshape(len(X), -1)
    key = np.zeros(len(X), dtype=np.uint64)
    for column, weight in zip(part.T, weights, strict=True):
        key += column.astype(np.uint64) * weight
    return key


def _match(wanted: Keys, shown: Keys, score: NDArray[np.int32]) -> int:
    """Count a point for each released row that shows a target's block; return how many blocks stand in one row only."""
    different, code = np.unique(wanted, return_inverse=True)
    place = np.minimum(np.searchsorted(different, shown), len(different) - 1)
    rows = np.flatnonzero(different[place] == shown)
    rows = rows[np.argsort(place[rows], kind="stable")]
    count = np.bincount(place[rows], minlength=len(different))
    ends = np.cumsum(count)
    each = count[code]
    target = np.repeat(np.arange(len(wanted)), each)
    # Where each target's rows begin, and how far each of its matches is from there.
    step = np.arange(len(target)) - np.repeat(np.cumsum(each) - each, each)
    score[target, rows[np.repeat((ends - count)[code], each) + step]] += 1
    return int((each == 1).sum())


def _checked(
    data: Dataset, release: Release, groups: Rows, origin: Rows, block: int, known: float
) -> tuple[Picture, int]:
    picture, claim = data.schema.picture, release.guarantee
    if picture is None or release.schema.picture is None:
        raise DataError("patch_linkage looks for blocks of pictures, but these records are a table: use linkage")
    if not isinstance(claim, KAnonymous):
        raise ParameterError(f"matching is bounded by k-anonymity, got a claim of {claim.notion}: audit ε instead")
    check_whole("block", block, at_least=1, of="pixels")
    if picture.height % block or picture.width % block:
        raise ParameterError(f"blocks of {block} do not fill {picture.height} × {picture.width} pixels: choose another")
    if not 0 < known <= 1:
        raise ParameterError(f"known is a share above 0 and up to 1, got {known!r}")
    if len(groups) != len(data) or len(release) != len(data):
        counts = f"{len(groups)} groups and {len(release)} rows"
        raise DataError(f"{len(data)} records need a group and a released row each, got {counts}: pass one run")
    if not np.array_equal(np.sort(origin), np.arange(len(data))):
        raise DataError("origin must name the record of each released row, every record once: see its description")
    return picture, claim.k
