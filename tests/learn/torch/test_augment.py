"""Crops and mirror images: which are drawn, and that each picture keeps its own pixels and label."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from eupg.data.encode import Encoder
from eupg.data.pictures.files import image_dataset
from eupg.errors import DataError, ParameterError
from eupg.learn.torch.augment import Augment, cropped
from eupg.learn.torch.inputs import PictureReader, Pictures, shuffled


def by_hand(image: np.ndarray, augment: Augment, down: int, right: int, mirrored: int) -> np.ndarray:
    """Return one picture of (height, width, channels), shifted and mirrored the slow way."""
    edge = augment.padding
    wide = np.pad(
        image, ((edge, edge), (edge, edge), (0, 0)), mode="reflect" if augment.border == "reflect" else "constant"
    )
    cut = wide[down : down + image.shape[0], right : right + image.shape[1]]
    return cut[:, ::-1] if mirrored else cut


@given(
    st.integers(1, 6), st.integers(3, 7), st.integers(3, 7), st.integers(1, 3), st.integers(0, 2),
    st.sampled_from(["zero", "reflect"]), st.booleans(), st.integers(0, 99),
)  # fmt: skip
def test_crops_are_those_cut_by_hand(count, height, width, channels, padding, border, flip, seed):
    augment = Augment(padding, flip, border)
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(256, (count, height, width, channels), dtype=torch.uint8, generator=generator)
    order, drawn = torch.randperm(count, generator=generator), augment.draw(count, generator)
    found = cropped(augment.bordered(pixels), order, drawn, height, width)
    for place, picture in enumerate(order.tolist()):
        expected = by_hand(pixels[picture].numpy(), augment, *drawn[:, place].tolist())
        np.testing.assert_array_equal(found[place].numpy(), expected)


def test_crops_are_the_same_in_parts(monkeypatch):
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randint(256, (30, 8, 8, 3), dtype=torch.uint8, generator=generator)
    order, drawn = torch.randperm(30, generator=generator), Augment(2).draw(30, generator)
    whole = cropped(Augment(2).bordered(pixels), order, drawn, 8, 8)
    monkeypatch.setattr("eupg.learn.torch.augment._PIXELS_AT_ONCE", 7 * 64)
    assert torch.equal(cropped(Augment(2).bordered(pixels), order, drawn, 8, 8), whole)


def test_every_shift_and_mirror_image_is_as_likely():
    drawn = Augment(padding=2).draw(50_000, torch.Generator().manual_seed(1))
    codes = (drawn[0] * 5 + drawn[1]) * 2 + drawn[2]
    assert chisquare(torch.bincount(codes, minlength=50).numpy()).pvalue > 1e-4


def test_nothing_is_mirrored_where_that_was_not_asked_for():
    assert not Augment(flip=False).draw(1000, torch.Generator().manual_seed(1))[2].any()


@pytest.mark.parametrize("augment", [None, Augment(0), Augment(2), Augment(2, border="reflect")])
def test_each_picture_comes_once_a_pass_and_keeps_its_label(augment):
    """Picture i is of one colour, i + 1, so that it is known again wherever it is cut."""
    images = np.broadcast_to(np.arange(1, 101, dtype=np.uint8)[:, None, None, None], (100, 3, 8, 8))
    data = image_dataset(images, np.arange(100) % 2, classes=("even", "odd"))
    reader = PictureReader.of(Encoder.fit(data), flat=False)
    pictures = Pictures.of(reader.upload(data.X, "cpu"), reader, augment)
    y, seen = torch.tensor(data.y), []
    source = shuffled(pictures, y, 32, torch.Generator().manual_seed(1))
    for _ in range(4):
        pixels, labels = next(source)
        colours = pixels.flatten(1).amax(dim=1).long()
        assert torch.equal((colours - 1) % 2, labels)
        seen += colours.tolist()
    assert sorted(seen) == list(range(1, 101))
    assert seen != sorted(seen)


@pytest.mark.parametrize("augment", [None, Augment(2)])
@pytest.mark.parametrize("flat", [False, True])
def test_pictures_in_place_are_what_the_encoder_makes_of_them(augment, flat):
    rng = np.random.default_rng(1)
    data = image_dataset(rng.integers(0, 256, (9, 3, 4, 5), dtype=np.uint8), np.arange(9) % 2, classes=("a", "b"))
    encoder = Encoder.fit(data)
    reader = PictureReader.of(encoder, flat=flat)
    read = Pictures.of(reader.upload(data.X, "cpu"), reader, augment).unaugmented(slice(2, 7))
    assert read.shape == ((5, 60) if flat else (5, 3, 4, 5))
    np.testing.assert_allclose(read.reshape(5, -1).numpy(), encoder(data.X[2:7]), rtol=1e-6)


@pytest.mark.parametrize("wrong", [{"padding": -1}, {"padding": 1.5}, {"border": "wrap"}])
def test_meaningless_settings_are_refused(wrong):
    with pytest.raises(ParameterError, match="must be"):
        Augment(**wrong)


def test_pictures_too_small_to_be_reflected_are_refused():
    with pytest.raises(DataError, match="3×8 pixels cannot be reflected by 3: lower padding"):
        Augment(3, border="reflect").bordered(torch.zeros(1, 3, 8, 3, dtype=torch.uint8))
