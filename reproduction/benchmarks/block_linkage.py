"""Measure what blocks of permuted pictures show: ``python -m benchmarks.block_linkage [--pictures N] [--results F]``.

Needs CIFAR-10 and the public network (EUPG_DATA). A random part of the training pictures is grouped once, by MDAV with
k = 30 on the features that the better recipe groups pictures by. For each size of a block two adversaries try
their luck: one who holds an original looks for its blocks in a release (``patch_linkage``; one original a group, so
several releases are made), and one who holds the release alone puts blocks together by their edges (``jigsaw``). All
draws are seeded. The file's format: ``eupg_reproduction.report.picture_files``.

A part of the pictures is not all of them. In a larger release fewer blocks are unique and groups hold pictures that
are more alike, so both adversaries have it a little harder: of 600 pictures 98 % of single pixels are unique and 61 %
of edges lead to the neighbour, of 6,000 it is 96 % and 59 %.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from eupg import sources
from eupg.audit.intervals import binomial_bounds
from eupg.data.dataset import Dataset
from eupg.protect.mechanism import Groups
from eupg.protect.pictures.pixel_permutation import PixelPermutation, permute_blocks
from eupg.protect.pictures.public_features import EfficientNetLite0
from eupg.protect.release import Release
from eupg.rng import Seeded
from eupg_reproduction.audits.jigsaw import jigsaw
from eupg_reproduction.audits.patches import PatchReport, patch_linkage
from eupg_reproduction.picture_methods import device
from eupg_reproduction.picture_recipes import FEATURES
from eupg_reproduction.report.picture_files import LINKAGE as FILE

K, BLOCKS, SEED, CONFIDENCE = 30, (1, 2, 4, 8, 16), 7, 0.95


def drawn(pictures: int) -> Dataset:
    """Return some of the training pictures, drawn at random."""
    train = sources.cifar10().train
    return train.select(Seeded(SEED).stage("pictures").permutation(len(train)) < pictures)


def attacked(data: Dataset, groups: Groups, block: int, number: int) -> PatchReport:
    """Make a release and look for originals in it."""
    rng, picture = Seeded(SEED).stage(f"release {number}, block {block}"), data.schema.picture
    assert picture is not None
    moved = permute_blocks(picture.images(data.X), groups, block, rng.stage("blocks")).reshape(len(data), -1)
    release = Release.shuffled(data, moved, data.y, PixelPermutation(K, block=block).guarantee(data.schema), rng)
    origin = rng.stage("row order").permutation(len(data))
    return patch_linkage(data, release, groups, origin, block=block, sample=len(data), seed=number)


def measured(data: Dataset, groups: Groups, block: int, releases: int) -> dict[str, float]:
    """Return one line of the file: shares in percent."""
    found = [attacked(data, groups, block, number) for number in range(releases)]
    hits, trials = sum(one.linked.hits for one in found), sum(one.linked.trials for one in found)
    low, high = binomial_bounds(hits, trials, error=(1 - CONFIDENCE) / 2)
    edges = jigsaw(data, groups, block=block, confidence=CONFIDENCE)
    shares = {
        "unique_blocks": float(np.mean([one.unique for one in found])),
        "best_match": float(np.mean([one.most for one in found])),
        "linked": hits / trials,
        "linked_low": float(low),
        "linked_high": float(high),
        "bound": 1 / K,
        "edges": edges.right,
        "edges_low": edges.low,
        "edges_high": edges.high,
        "rows": edges.rows,
    }
    counts = {"block": block, "pictures": len(data), "originals": trials, "joins": edges.guesses}
    return counts | {name: round(100 * share, 3) for name, share in shares.items()}


def main() -> None:
    """Measure every size of a block and write the file."""
    parser = argparse.ArgumentParser(description="What blocks of permuted pictures show.")
    parser.add_argument("--pictures", type=int, default=6_000)
    parser.add_argument("--releases", type=int, default=15, help="each adds one original a group")
    parser.add_argument("--results", type=Path, default=Path("results") / FILE)
    options = parser.parse_args()
    data = drawn(options.pictures)
    groups = PixelPermutation(K, features=EfficientNetLite0(**FEATURES), device=device()).groups(data)
    lines = []
    for block in BLOCKS:
        lines.append(measured(data, groups, block, options.releases))
        print(json.dumps(lines[-1]), flush=True)
    text = ",\n".join(f"  {json.dumps(line)}" for line in lines)
    options.results.write_text(f"[\n{text}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
