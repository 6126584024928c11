"""Pictures as an attribute and as records: bytes under a public size, scaled by fixed numbers."""

import numpy as np
import pytest

from eupg.data.attribute import Missing, Numeric
from eupg.data.dataset import Dataset
from eupg.data.encode import Encoder
from eupg.data.pictures.attribute import Picture
from eupg.data.pictures.files import picture_schema
from eupg.data.schema import Schema
from eupg.errors import DataError, EupgError, SchemaError
from pictures import pictures


def test_shape_and_columns_follow_from_the_size():
    picture = Picture(name="photo", height=4, width=6, channels=1)
    assert (picture.shape, picture.columns) == ((1, 4, 6), 24)


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True, "8"])
def test_size_that_is_no_whole_number_is_refused(wrong):
    with pytest.raises(EupgError, match="height must be a whole number of at least 1"):
        Picture(name="photo", height=wrong, width=8)


def test_missing_picture_is_refused():
    with pytest.raises(EupgError, match="a picture cannot be missing: drop those records"):
        Picture(name="photo", height=8, width=8, missing=Missing.KEEP)


def test_rows_are_images_channel_by_channel_and_decode_as_image_libraries_have_them():
    data = pictures(5, height=4, width=6)
    picture = data.schema.picture
    images = picture.images(data.X)
    assert images.shape == (5, 3, 4, 6)
    assert images[2, 1, 3, 5] == data.X[2, 24 + 23]
    assert data.to_pandas()["picture"].iloc[2].shape == (4, 6, 3)
    assert data.to_pandas()["picture"].iloc[2][3, 5, 1] == images[2, 1, 3, 5]


def test_pictures_stay_bytes_and_cannot_be_written_to():
    data = pictures(5)
    assert data.X.dtype == np.uint8
    assert data.select(np.arange(5) < 2).X.dtype == np.uint8
    assert data.plus(pictures(3, word="q")).X.dtype == np.uint8
    with pytest.raises(ValueError, match="read-only"):
        data.X[0, 0] = 1


def test_numbers_that_are_no_bytes_are_refused_with_the_way_to_convert():
    data = pictures(5)
    with pytest.raises(DataError, match=r"whole numbers from 0 to 255 \(uint8\), got float64: multiply shares of 1"):
        Dataset(data.schema, data.X / 255, data.y, data.ids, data.subjects)


def test_encoder_scales_by_fixed_numbers_whatever_the_pictures():
    dark = pictures(5)
    encoders = [Encoder.fit(data) for data in (dark, pictures(200, 1))]
    np.testing.assert_array_equal(encoders[0](dark.X), encoders[1](dark.X))
    np.testing.assert_allclose(encoders[0](np.array([[0, 255]], np.uint8)), [[-2.0, 2.0]])
    assert encoders[0](dark.X).dtype == np.float32


def test_schema_of_pictures_is_written_and_read_back():
    schema = picture_schema((3, 8, 8), ("cat", "dog"))
    assert Schema.from_toml(schema.to_toml()) == schema
    assert schema.columns == 192


def test_picture_beside_another_feature_is_refused():
    schema = picture_schema((3, 8, 8), ("cat", "dog"))
    with pytest.raises(SchemaError):
        Schema((*schema.attributes, Numeric(name="age", lower=0, upper=9)))


def test_other_classes_read_from_the_records_are_a_caveat():
    assert picture_schema((3, 8, 8), ("cat", "dog")).caveats == ()
    assert any("class" in c for c in picture_schema((3, 8, 8), ("cat", "dog"), inferred=True).caveats)
