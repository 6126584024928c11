"""Matching blocks against a release: an honest permutation keeps to 1/k, one that moves too little is found out."""

import numpy as np
import pytest

from eupg import Seeded
from eupg.data.pictures.files import image_dataset
from eupg.errors import DataError, ParameterError
from eupg.guarantees import KAnonymous, NoGuarantee
from eupg.protect.release import Release
from eupg_reproduction.audits.patches import patch_linkage
from people import people
from pictures import pictures

CLAIM = KAnonymous(k=5, covers=("picture",), leaves_open=("class",))
DATA = pictures(400)
GROUPS = np.arange(400) // 5


def released(data=DATA, groups=GROUPS, *, block=2, kept=0, seed=1, claim=CLAIM):
    """Permute blocks inside groups, all but the first ``kept`` positions; return the release and each row's record."""
    rng, images = np.random.default_rng(seed), data.schema.picture.images(data.X).copy()
    for place in range(kept, (8 // block) ** 2):
        down, right = (block * v for v in divmod(place, 8 // block))
        for group in np.unique(groups):
            rows = np.flatnonzero(groups == group)
            part = images[:, :, down : down + block, right : right + block]
            part[rows] = part[rng.permutation(rows)]
    order = Seeded(seed).stage("row order").permutation(len(data))
    return Release.shuffled(data, images.reshape(len(data), -1), data.y, claim, Seeded(seed)), order


def test_origin_is_the_row_order_drawn_again():
    release, origin = released()
    np.testing.assert_array_equal(release.y, DATA.y[origin])


@pytest.mark.parametrize("block", [1, 2, 4])
def test_permuted_blocks_are_found_but_lead_to_the_row_once_in_k(block):
    release, origin = released(block=block)
    found = patch_linkage(DATA, release, GROUPS, origin, block=block)
    assert (found.targets, found.records, found.blocks) == (80, 400, (8 // block) ** 2)
    assert not found.contradicts
    assert found.linked.low < 0.2
    assert found.found_group > 0.95
    assert found.unique > 0.95
    assert found.found_label == pytest.approx(found.usual_label, abs=0.2)


def test_blocks_that_stay_where_they_were_contradict_the_claim():
    release, origin = released(kept=16)
    found = patch_linkage(DATA, release, GROUPS, origin, block=2)
    assert found.linked.rate == found.most == found.found_label == 1.0
    assert found.contradicts
    assert "contradicts the claim" in found.sentence()
    half, origin = released(kept=8)
    assert patch_linkage(DATA, half, GROUPS, origin, block=2).contradicts


def test_counts_are_those_of_a_release_worked_out_by_hand():
    """Two records of two blocks in one group; the second block is the same in both, and so is in both rows."""
    images = np.zeros((2, 1, 2, 4), np.uint8)
    images[0, 0, :, :2], images[1, 0, :, :2] = 1, 2
    images[:, 0, :, 2:] = 7
    data = image_dataset(images, [0, 1], classes=("a", "b"))
    swapped = images[::-1].reshape(2, -1).copy()
    claim = KAnonymous(k=2, covers=("picture",), leaves_open=("class",))
    release = Release(data.schema, swapped, data.y.copy(), claim)
    found = patch_linkage(data, release, np.zeros(2, np.int64), np.arange(2), block=2)
    assert (found.targets, found.blocks) == (1, 2)
    assert (found.unique, found.several, found.most) == (0.5, 1.0, 1.0)
    assert (found.linked.hits, found.found_group, found.found_label, found.usual_label) == (0, 1.0, 0.0, 0.5)


def test_fewer_known_blocks_show_less_and_samples_limit_the_targets():
    release, origin = released(block=1)
    found = patch_linkage(DATA, release, GROUPS, origin, block=1, known=0.25, sample=30)
    assert (found.blocks, found.targets) == (16, 30)
    assert not found.contradicts
    assert found.to_json()["linked"]["rate"] == found.linked.rate
    assert found == patch_linkage(DATA, release, GROUPS, origin, block=1, known=0.25, sample=30)


def test_bad_input_is_named():
    release, origin = released()

    def refused(error, said, *, data=DATA, shown=release, groups=GROUPS, rows=origin, **options):
        with pytest.raises(error, match=said):
            patch_linkage(data, shown, groups, rows, **({"block": 2} | options))

    refused(DataError, "these records are a table: use linkage", data=people(400))
    refused(ParameterError, "bounded by k-anonymity", shown=released(claim=NoGuarantee(leaves_open=("class",)))[0])
    refused(ParameterError, "blocks of 3 do not fill 8 × 8 pixels", block=3)
    refused(ParameterError, "block must be a whole number", block=0)
    refused(ParameterError, "known is a share above 0", known=0.0)
    refused(DataError, "400 records need a group and a released row each, got 399 groups", groups=GROUPS[1:])
    refused(DataError, "every record once", rows=np.zeros(400, np.int64))
