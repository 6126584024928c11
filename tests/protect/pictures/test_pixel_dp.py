import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from eupg.data.pictures.attribute import Picture
from eupg.data.pictures.files import image_dataset, picture_schema
from eupg.errors import DataError, ParameterError, PrivacyError
from eupg.protect.channel import TOTAL, LaplaceChannel, within_ratio
from eupg.protect.mechanism import Mechanism
from eupg.protect.pictures.pixel_dp import PixelDP, check_steps, sum_channel
from eupg.rng import Secret, Seeded
from people import people

COLOUR = picture_schema((3, 32, 32), ("cat", "dog"))
GREY = picture_schema((1, 32, 32), ("cat", "dog"))


def pictures(n=40, size=8, value=None):
    rng = np.random.default_rng(0)
    images = np.full((n, 3, size, size), value) if value is not None else rng.integers(0, 256, (n, 3, size, size))
    return image_dataset(images.astype(np.uint8), rng.integers(0, 2, n), classes=("cat", "dog"))


@pytest.mark.parametrize("step", [1e-7, 1e-4, 0.01, 0.3, 2.0, 40.0])
def test_any_two_sums_differ_by_no_more_than_their_distance_allows_at_every_output(step):
    """All pairs of inputs, all outputs, in whole numbers: not only the neighbours that the check looks at."""
    size = 40
    weights = sum_channel(size, step).matrix().astype(object)
    assert (weights.sum(axis=1) == TOTAL).all()
    assert (weights > 0).all()
    for apart in range(1, size):
        for first in range(size - apart):
            for one, other in ((first, first + apart), (first + apart, first)):
                worst = max(Fraction(a, b) for a, b in zip(weights[one], weights[other], strict=True))
                within_ratio(worst.numerator, worst.denominator, step * apart)


@pytest.mark.parametrize("step", [1e-4, 0.01, 0.3])
def test_half_the_noise_is_refused(step):
    with pytest.raises(PrivacyError, match="differ by more than"):
        check_steps(sum_channel(256, 2 * step), step)


@pytest.mark.parametrize("position", [1, 100, -2, -1])
def test_one_weight_that_is_a_tenth_too_small_is_refused(position):
    noise = sum_channel(256, 0.01).noise.copy()
    taken = noise[position] // 10
    noise[position] -= taken
    noise[0 if position == -1 else -1] += 2 * taken if position == -1 else taken
    with pytest.raises(PrivacyError, match="differ by more than"):
        check_steps(LaplaceChannel(256, 2.55, noise), 0.01)


def test_weights_that_do_not_fill_the_whole_are_refused():
    noise = sum_channel(256, 0.01).noise.copy()
    noise[5] -= 1
    with pytest.raises(PrivacyError, match="sum to 2⁶³ exactly"):
        check_steps(LaplaceChannel(256, 2.55, noise), 0.01)


@settings(deadline=None, max_examples=60)
@given(size=st.sampled_from([256, 1021, 4081]), log=st.floats(-18, 3))
def test_noise_of_any_strength_can_be_built(size, log):
    check_steps(sum_channel(size, math.exp(log)), math.exp(log))


def test_noise_has_the_scale_of_the_paper():
    """DP-Pix adds Laplace noise of scale 255·m/(b²ε) to an average: b² times that to a sum."""
    picture = Picture(name="p", height=32, width=32)
    channel = PixelDP(2.0, m=3, block=4).channel(picture)
    falls = np.log(channel.noise[0] / channel.noise[1000]) / 1000
    assert 1 / falls == pytest.approx(255 * 3 / 2.0, rel=1e-5)


def test_samples_follow_the_weights():
    channel = sum_channel(30, 0.2)
    drawn = channel.sample(np.full(50_000, 12), Seeded(1))
    expected = channel.matrix()[12].astype(float) / TOTAL * 50_000
    assert chisquare(np.bincount(drawn, minlength=30), expected * 50_000 / expected.sum()).pvalue > 1e-6


@pytest.mark.parametrize(
    ("made", "schema", "epsilon"),
    [
        (PixelDP(1.0), COLOUR, 192.0),
        (PixelDP(0.5), COLOUR, 96.0),
        (PixelDP(1.0, m=1), COLOUR, 3072.0),
        (PixelDP(1.0, block=8), COLOUR, 192.0),
        (PixelDP(1.0, channels="shared"), COLOUR, 64.0),
        (PixelDP(1.0), GREY, 64.0),
        (PixelDP(1.0, m=1024, channels="shared"), COLOUR, 1.0),
        (PixelDP(1.0, m=5000, channels="shared"), COLOUR, 1.0),
        (PixelDP(1.0, unit="picture"), COLOUR, 1.0),
    ],
)
def test_the_claim_is_for_replacing_a_whole_picture(made, schema, epsilon):
    assert made.guarantee(schema).epsilon == epsilon
    # The cost of every block's sum going from one end to the other, from the channel that is used.
    channel, picture = made.channel(schema.picture), schema.picture
    one = math.log(int(channel.tail[0])) - math.log(int(channel.tail[-1]))
    assert one * picture.columns / made.block**2 == pytest.approx(epsilon, rel=1e-3)
    assert one * picture.columns / made.block**2 <= epsilon


def test_few_pixels_of_one_channel_cost_epsilon():
    """Sums of blocks change by 255 a pixel at most, however the pixels lie."""
    made, picture = PixelDP(1.0, m=16, block=4), COLOUR.picture
    tail = [int(w) for w in made.channel(picture).tail]
    for shares in ((16,), (8, 8), (1,) * 16):
        assert sum(math.log(tail[0]) - math.log(tail[255 * s]) for s in shares) <= 1.0


def test_words_keep_the_two_figures_apart():
    words = PixelDP(1.0).guarantee(COLOUR).sentence()
    assert words.startswith("Differential privacy (ε=192)")
    assert "differ in at most 16 pixels of one channel have ε=1, and ε=3 where these pixels differ in all 3" in words
    assert "ε=192 is for replacing a whole picture" in words
    assert "Released unchanged, so not covered: class." in words
    assert "in all channels, have ε=1; ε=64" in PixelDP(1.0, channels="shared").guarantee(COLOUR).sentence()
    assert "at most 16 pixels have ε=1; ε=64" in PixelDP(1.0).guarantee(GREY).sentence()
    plain = PixelDP(1.0, unit="picture").guarantee(COLOUR)
    assert plain.caveats == ()
    assert "(noisy averages of blocks of 4×4 pixels)" in plain.sentence()


def test_blocks_come_out_as_one_colour_near_their_average():
    data = pictures(value=100)
    release = PixelDP(400.0, m=1).protect(data, Secret())
    images = data.schema.picture.images(release.X)
    assert release.X.dtype == np.uint8
    for i in range(4):
        for j in range(4):
            np.testing.assert_array_equal(images[:, :, i::4, j::4], images[:, :, ::4, ::4])
    assert np.abs(images.astype(int) - 100).max() <= 3


@pytest.mark.parametrize(("value", "average"), [(0, 0), (255, 255)])
def test_the_ends_of_brightness_are_reached_and_kept(value, average):
    images = PixelDP(400.0, m=1).protect(pictures(value=value), Seeded(1)).X
    assert (images == average).mean() > 0.5
    assert np.abs(images.astype(int) - average).max() <= 5


def test_rows_are_shuffled_and_labels_and_records_stay():
    data = pictures()
    before = data.X.copy()
    release = PixelDP().protect(data, Secret())
    assert sorted(release.y) == sorted(data.y)
    assert (release.y != data.y).any()
    np.testing.assert_array_equal(data.X, before)
    assert isinstance(PixelDP(), Mechanism)


def test_parts_of_a_large_set_are_drawn_anew(monkeypatch):
    monkeypatch.setattr("eupg.protect.pictures.pixel_dp._AT_ONCE", 12)
    images = PixelDP().protect(pictures(200, value=100), Seeded(1)).X
    assert len({bytes(line) for line in images}) > 190


def test_what_does_not_fit_is_refused():
    with pytest.raises(DataError, match="do not fill a picture of 32×32"):
        PixelDP(block=5).guarantee(COLOUR)
    with pytest.raises(DataError, match="this schema describes tables: use LocalDP"):
        PixelDP().protect(people(), Secret())
    with pytest.raises(DataError, match="at least 1 records"):
        PixelDP().protect(pictures().select(np.zeros(40, bool)), Secret())
    with pytest.raises(ParameterError, match="cannot be drawn exactly: ask for a larger ε"):
        PixelDP(1e-12, unit="picture").channel(COLOUR.picture)
    with pytest.raises(ParameterError, match="cannot be drawn exactly: ask for a smaller ε"):
        PixelDP(1e13).channel(COLOUR.picture)


@pytest.mark.parametrize("epsilon", [1e7, 1e9])
def test_hardly_any_noise_is_checked_like_any_other(epsilon):
    made = PixelDP(epsilon)
    check_steps(made.channel(COLOUR.picture), epsilon / (255 * 16))


def test_figure_for_a_few_pixels_says_that_it_is_of_one_release():
    once = PixelDP(1.0).guarantee(COLOUR)
    twice = once.compose(once).sentence()
    assert "ε=384" in twice
    assert "in one release two pictures that differ in at most 16 pixels of one channel have ε=1" in twice


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a positive finite number"),
        ({"epsilon": math.inf}, "epsilon must be a positive finite number"),
        ({"m": 0}, "m must be a whole number"),
        ({"block": 1.5}, "block must be a whole number"),
        ({"unit": "person"}, "unit must be 'pixels' or 'picture'"),
        ({"channels": 3}, "channels must be 'each' or 'shared'"),
    ],
)
def test_parameters_are_checked(wrong, message):
    with pytest.raises(ParameterError, match=message):
        PixelDP(**wrong)
