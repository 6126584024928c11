import subprocess
import sys
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from eupg.data.pictures.files import image_dataset, picture_schema
from eupg.errors import DataError, ParameterError
from eupg.protect.kanonymity import effective_k
from eupg.protect.mechanism import Mechanism
from eupg.protect.pictures.pixel_permutation import PixelPermutation, _permutations, permute_blocks
from eupg.protect.pictures.public_features import PixelFeatures
from eupg.rng import Secret, Seeded
from people import people
from unshuffled import NoShuffle

SCHEMA = picture_schema((3, 32, 32), ("cat", "dog"))


def pictures(n=60, size=8, channels=3, seed=0):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (n, channels, size, size), dtype=np.uint8)
    return image_dataset(images, rng.integers(0, 2, n), classes=("cat", "dog"))


def mechanism(k=5, block=1, **more):
    return PixelPermutation(k, block=block, features=PixelFeatures(), **more)


def blocks_of(images, block):
    """All blocks as (pictures, positions, bytes): the slow and obvious way."""
    _n, _c, height, width = images.shape
    corners = [(i, j) for i in range(0, height, block) for j in range(0, width, block)]
    cut = [images[:, :, i : i + block, j : j + block].reshape(len(images), -1) for i, j in corners]
    return np.stack(cut, axis=1)


@settings(deadline=None, max_examples=30)
@given(
    n=st.integers(1, 30),
    groups=st.integers(1, 5),
    channels=st.sampled_from([1, 3, 4]),
    block=st.sampled_from([1, 2, 4, 8]),
    seed=st.integers(0, 99),
)
def test_each_position_of_a_group_keeps_its_blocks(n, groups, channels, block, seed):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 4, (n, channels, 8, 8), dtype=np.uint8)
    group = rng.integers(0, groups, n)
    before, after = blocks_of(images, block), blocks_of(permute_blocks(images, group, block, Seeded(seed)), block)
    for name in np.unique(group):
        for position in range(before.shape[1]):
            kept = [sorted(map(bytes, blocks[group == name, position])) for blocks in (before, after)]
            assert kept[0] == kept[1]


def test_pixels_of_a_block_and_its_channels_move_together():
    # Every picture is one number throughout, so a block that was torn apart would show two.
    images = np.repeat(np.arange(20, dtype=np.uint8), 3 * 64).reshape(20, 3, 8, 8)
    after = blocks_of(permute_blocks(images, np.zeros(20, np.int64), 4, Secret()), 4)
    assert (after == after[:, :, :1]).all()
    assert (after[:, 0, 0] != after[:, 1, 0]).any()


@pytest.mark.parametrize("size", [3, 70])
def test_every_order_of_a_group_is_as_likely(size, monkeypatch):
    """Chi-square at 1e-6, with short keys and long ones."""
    monkeypatch.setattr("eupg.protect.pictures.pixel_permutation._SHORT", 64)
    drawn = _permutations(60_000 // size, size, Seeded(1))
    assert (np.sort(drawn, axis=1) == np.arange(size)).all()
    if size == 3:
        orders = {order: i for i, order in enumerate(permutations(range(3)))}
        seen = np.bincount([orders[tuple(line)] for line in drawn.tolist()], minlength=6)
        assert chisquare(seen).pvalue > 1e-6
        seen[0] += 600  # one time in thirty left as it was: refused
        assert chisquare(seen).pvalue < 1e-6
    assert chisquare(np.bincount(drawn[:, 0], minlength=size)).pvalue > 1e-6


def test_equal_keys_are_drawn_again():
    class Repeating(Seeded):
        asked = 0

        def words(self, count):
            self.asked += 1
            return np.zeros(count, np.uint64) if self.asked == 1 else super().words(count)

    source = Repeating(3)
    drawn = _permutations(500, 4, source)
    assert source.asked == 2
    assert len({tuple(line) for line in drawn.tolist()}) == 24


def test_positions_are_permuted_independently_of_each_other():
    images = np.repeat(np.arange(3, dtype=np.uint8), 64 * 64).reshape(3, 1, 64, 64)
    after = permute_blocks(images, np.zeros(3, np.int64), 1, Seeded(5)).reshape(3, -1)
    # Which picture's pixel the first picture got, at a position and at the next one: nine pairs, all as likely.
    pairs = 3 * after[0, :-1:2].astype(int) + after[0, 1::2]
    assert chisquare(np.bincount(pairs, minlength=9)).pvalue > 1e-6


def test_a_release_is_made_of_blocks_of_the_own_group_and_labels_stay():
    data = pictures(64)
    made = mechanism(k=6, block=2)
    groups, release = made.groups(data), made.protect(data, NoShuffle(2))
    picture = data.schema.picture
    before, after = (blocks_of(picture.images(X), 2) for X in (data.X, release.X))
    for i in range(len(data)):
        mates = before[groups == groups[i]]
        assert all((after[i, p] == mates[:, p]).all(axis=1).any() for p in range(before.shape[1]))
    np.testing.assert_array_equal(release.y, data.y)
    assert release.X.dtype == np.uint8
    assert (release.X != data.X).any()
    sizes = np.bincount(groups)
    assert (sizes[:-1] == 6).all()
    assert 6 <= sizes[-1] < 12


def test_rows_are_shuffled_and_records_stay():
    data = pictures()
    before = data.X.copy()
    release = mechanism().protect(data, Secret())
    assert (release.y != data.y).any()
    assert sorted(release.y) == sorted(data.y)
    assert not release.seeded
    np.testing.assert_array_equal(data.X, before)


def test_it_is_a_mechanism_and_a_seed_is_owned_up_to():
    assert isinstance(mechanism(), Mechanism)
    first, second = (mechanism().protect(pictures(), Seeded(4)) for _ in range(2))
    np.testing.assert_array_equal(first.X, second.X)
    assert first.seeded


def test_labels_take_no_part_in_the_grouping_unless_asked_for():
    data = pictures()
    flipped = image_dataset(data.schema.picture.images(data.X), 1 - data.y, classes=("cat", "dog"))
    np.testing.assert_array_equal(mechanism().groups(data), mechanism().groups(flipped))
    groups = mechanism(within_labels=True).groups(data)
    assert all(len(set(data.y[groups == g])) == 1 for g in range(groups.max() + 1))
    assert np.bincount(groups).min() >= 5


def test_groups_give_the_effective_k():
    data = pictures()
    forgotten = data.where(["0", "1", "2"])
    assert effective_k(mechanism().groups(data), forgotten, data.subjects).minimum >= 1


def test_claim_names_the_block_the_features_and_what_stays():
    claim = PixelPermutation(30, block=8).guarantee(SCHEMA)
    assert claim.k == 30
    assert claim.covers == ("picture (16 blocks of 8×8 pixels, each position permuted on its own)",)
    assert claim.leaves_open == ("class",)
    words = claim.sentence()
    assert "by the attribute picture (16 blocks of 8×8 pixels, each position permuted on its own), with prob" in words
    assert "A block of 8×8 pixels is released as it is, and shows what it shows of a person." in words
    assert "can often be put together again where their edges match" in words
    assert "Groups were formed by features of pictures, EfficientNetLite0(size=96, batch=512)" in words
    assert "inside each class" not in words
    assert "inside each class" in PixelPermutation(30, block=8, within_labels=True).guarantee(SCHEMA).sentence()
    single = PixelPermutation(30).guarantee(SCHEMA)
    assert "1024 single pixels" in single.covers[0]
    assert "can often be put together again where their edges match" in single.sentence()
    assert not single.implies(claim), "another block is another claim"


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (5, "blocks of 5×5 pixels do not fill a picture of 32×32: choose a size that divides both"),
        (32, "is the whole picture, which would be released as it is: choose a smaller block"),
    ],
)
def test_a_block_that_does_not_fit_is_refused(block, message):
    with pytest.raises(DataError, match=message):
        PixelPermutation(3, block=block).guarantee(SCHEMA)


def test_too_few_pictures_are_refused():
    with pytest.raises(DataError, match="k=70 needs at least 70 records, got 60"):
        mechanism(70).protect(pictures(), Secret())
    with pytest.raises(DataError, match=r"k=40 needs at least 40 records of class 'cat', got \d+"):
        mechanism(40, within_labels=True).protect(pictures(), Secret())
    with pytest.raises(DataError, match="got 0"):
        mechanism(5).protect(pictures().select(np.zeros(60, bool)), Secret())


def test_a_table_is_refused():
    with pytest.raises(DataError, match="works on pictures, and this schema describes tables: use Probabilistic"):
        mechanism().protect(people(), Secret())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"k": 1}, "k must be a whole number of at least 2"),
        ({"block": 0}, "block must be a whole number of at least 1"),
        ({"block": 2.0}, "block must be a whole number of at least 1"),
        ({"dimensions": 0}, "dimensions must be a whole number of at least 1"),
        ({"features": "resnet"}, "features must be a function of images and device"),
    ],
)
def test_parameters_are_checked(wrong, message):
    with pytest.raises(ParameterError, match=message):
        PixelPermutation(**wrong)


def test_nothing_but_pytorch_and_numpy_is_needed():
    script = (
        "import sys\n"
        "for name in ('numba', 'xgboost', 'lightgbm', 'rich', 'tomli_w', 'skops', 'opacus'): sys.modules[name] = None\n"
        "import numpy as np; from eupg.data.pictures.files import image_dataset; from eupg.rng import Secret\n"
        "from eupg.protect.pictures.pixel_permutation import PixelPermutation\n"
        "from eupg.protect.pictures.pixel_dp import PixelDP\n"
        "from eupg.protect.pictures.public_features import PixelFeatures\n"
        "data = image_dataset(np.zeros((20, 3, 8, 8), np.uint8), [0, 1] * 10, classes=('a', 'b'))\n"
        "for made in (PixelPermutation(3, features=PixelFeatures()), PixelDP()):\n"
        "    print(len(made.protect(data, Secret())))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["20", "20"]


@pytest.mark.parametrize("features", [PixelFeatures(), lambda images, device: np.zeros((len(images), 1))])
def test_device_that_is_not_here_is_refused_before_anything_is_computed(features):
    made = PixelPermutation(5, features=features, device="abacus")
    with pytest.raises(DataError, match=r"PyTorch cannot use the device 'abacus'.*pass device='cpu'"):
        made.groups(pictures())
