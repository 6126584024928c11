"""Putting blocks together by their edges: counted as by hand, certain where edges tell, a guess where they do not."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eupg import Seeded
from eupg.data.pictures.files import image_dataset
from eupg.errors import DataError, ParameterError
from eupg.protect.pictures.pixel_permutation import permute_blocks
from eupg_reproduction.audits.jigsaw import jigsaw
from people import people
from pictures import pictures


def as_data(images):
    return image_dataset(images, np.arange(len(images)) % 2, classes=("a", "b"))


def smooth(rows=60, seed=0):
    """Pictures of one colour each, with noise."""
    rng = np.random.default_rng(seed)
    return as_data((rng.integers(40, 210, (rows, 3, 1, 1)) + rng.integers(-40, 41, (rows, 3, 8, 8))).astype(np.uint8))


def by_hand(images, groups, block):
    """The same attack as plain loops: shares of right guesses and of whole rows, every group alike."""
    n, _, height, width = images.shape
    each: dict[Any, Any] = {}
    whole: dict[Any, Any] = {}
    for i in range(n):
        mates = [j for j in range(n) if groups[j] == groups[i]]
        for top in range(0, height, block):
            row = 1.0
            for meet in range(block, width, block):
                mine = images[i, :, top : top + block, meet - 1].astype(int)
                apart = [int(((images[j, :, top : top + block, meet] - mine) ** 2).sum()) for j in mates]
                best = [j for j, d in zip(mates, apart, strict=True) if d == min(apart)]
                right = (i in best) / len(best)
                each.setdefault(groups[i], []).append(right)
                row *= right
            whole.setdefault(groups[i], []).append(row)
    return tuple(np.mean([np.mean(v) for v in of.values()]) for of in (each, whole))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), block=st.sampled_from([1, 2]), shades=st.sampled_from([2, 5, 256]))
def test_shares_are_those_of_plain_loops(seed, block, shades):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, shades, (9, 2, 2, 6)).astype(np.uint8)
    groups = rng.permutation([0, 0, 0, 0, 7, 7, 7, 3, 3])
    found = jigsaw(as_data(images), groups, block=block)
    assert (found.right, found.rows) == pytest.approx(by_hand(images, groups, block))
    assert found.chance == pytest.approx((1 / 4 + 1 / 3 + 1 / 2) / 3)
    assert (found.pictures, found.groups, found.guesses) == (9, 3, 9 * (2 // block) * (6 // block - 1))


def test_edges_that_say_nothing_give_a_guess():
    rng = np.random.default_rng(0)
    noise = as_data(rng.integers(0, 256, (1000, 3, 8, 8)).astype(np.uint8))
    found = jigsaw(noise, np.arange(1000) // 10, block=2, confidence=0.999)
    assert found.chance == pytest.approx(0.1)
    assert found.low < 0.1 < found.high
    assert found.high - found.low < 0.03


def test_smooth_pictures_are_put_together_and_larger_blocks_better():
    groups = np.arange(60) // 10
    small, large = (jigsaw(smooth(), groups, block=b) for b in (1, 4))
    assert large.right > 0.8
    assert large.rows == large.right
    assert 0.2 < small.right < large.right
    assert small.rows < small.right


def test_the_permutation_does_not_matter():
    """Followed through a release: the candidates at a place are the same blocks in another order."""
    images = smooth().schema.picture.images(smooth().X)
    groups = np.arange(60) // 10
    moved = permute_blocks(images, groups, 4, Seeded(1))
    hits = 0
    for group in range(6):
        own, shown = images[groups == group], moved[groups == group]
        for top in (0, 4):
            for block in own[:, :, top : top + 4]:
                apart = ((shown[:, :, top : top + 4, 4].astype(int) - block[None, ..., 3]) ** 2).sum(axis=(1, 2))
                hits += np.array_equal(shown[apart.argmin(), :, top : top + 4, 4:], block[..., 4:])
    assert hits / 120 == pytest.approx(jigsaw(smooth(), groups, block=4).right, abs=0.01)


def test_few_distances_at_a_time_change_nothing(monkeypatch):
    before = jigsaw(pictures(60), np.arange(60) // 20, block=2)
    monkeypatch.setattr("eupg_reproduction.audits.jigsaw._AT_ONCE", 1)
    assert jigsaw(pictures(60), np.arange(60) // 20, block=2) == before


def test_one_group_says_nothing_of_how_groups_differ():
    found = jigsaw(pictures(20), np.zeros(20, np.int64), block=4)
    assert (found.low, found.high) == (0.0, 1.0)


def test_the_result_is_said_in_words_and_as_plain_values():
    found = jigsaw(smooth(), np.arange(60) // 10, block=4)
    assert f"right-hand neighbour in {found.right:.1%} of 120 guesses" in found.sentence()
    assert "where guessing gives 10.0%" in found.sentence()
    assert found.to_json()["right"] == found.right


def test_bad_input_is_named():
    data, groups = pictures(20), np.arange(20) // 5

    def refused(error, said, *, data=data, groups=groups, **options):
        with pytest.raises(error, match=said):
            jigsaw(data, groups, **({"block": 2} | options))

    refused(DataError, "these records are a table: use linkage", data=people(20))
    refused(ParameterError, "blocks of 3 do not fill 8 × 8 pixels", block=3)
    refused(ParameterError, "block must be a whole number", block=0)
    refused(ParameterError, "blocks of 8 have no neighbour in 8 pixels", block=8)
    refused(ParameterError, "confidence must lie between 0 and 1", confidence=1.0)
    refused(DataError, "20 records need a group each, got 19", groups=groups[1:])
