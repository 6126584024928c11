"""Altered copies of pictures: the picture first, flips and shifts after it, and nothing but pixels moved."""

import numpy as np
import pytest

from eupg.audit.membership.queries import PictureQueries, predictions
from eupg.errors import DataError, ParameterError
from people import people
from pictures import pictures

DATA = pictures(4, height=6, width=5)
IMAGES = DATA.schema.picture.images(DATA.X)


def copies(queries):
    return [DATA.schema.picture.images(rows) for rows in queries.copies(DATA.schema, DATA.X)]


@pytest.mark.parametrize(
    ("queries", "count"),
    [
        (PictureQueries(shift=1), 10),
        (PictureQueries(shift=1, diagonals=True), 18),
        (PictureQueries(flip=False, shift=1), 5),
        (PictureQueries(shift=0), 2),
        (PictureQueries(flip=False, shift=0), 1),
    ],
)
def test_there_are_as_many_copies_as_counted_all_different_and_the_picture_first(queries, count):
    found = copies(queries)
    assert len(found) == queries.count == count
    assert len({image.tobytes() for image in found}) == count
    np.testing.assert_array_equal(found[0], IMAGES)


def test_second_copy_is_the_mirror_image():
    np.testing.assert_array_equal(copies(PictureQueries())[1], IMAGES[:, :, :, ::-1])


def test_shifts_are_those_of_reflect_padding_in_all_four_directions():
    padded = np.pad(IMAGES, ((0, 0), (0, 0), (2, 2), (2, 2)), mode="reflect")
    wanted = {padded[:, :, r : r + 6, c : c + 5].tobytes() for r, c in ((2, 2), (0, 2), (4, 2), (2, 0), (2, 4))}
    assert {image.tobytes() for image in copies(PictureQueries(flip=False, shift=2))} == wanted


def test_diagonals_are_the_corners_of_reflect_padding():
    padded = np.pad(IMAGES, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="reflect")
    wanted = {padded[:, :, r : r + 6, c : c + 5].tobytes() for r in range(3) for c in range(3)}
    assert {i.tobytes() for i in copies(PictureQueries(flip=False, shift=1, diagonals=True))} == wanted


class Brightness:
    """A model that says how bright the upper left pixel is, so that every query has an answer of its own."""

    def predict_proba(self, X):
        light = X[:, 0] / 255.0
        return np.column_stack([1 - light, light])


def test_predictions_have_one_row_per_query():
    found = predictions(Brightness(), DATA, PictureQueries())
    assert found.shape == (4, 10, 2)
    np.testing.assert_allclose(found[:, 0, 1], IMAGES[:, 0, 0, 0] / 255)
    np.testing.assert_allclose(found[:, 1, 1], IMAGES[:, 0, 0, -1] / 255)
    np.testing.assert_array_equal(predictions(Brightness(), DATA)[:, 0], found[:, 0])


def test_tables_and_shifts_beyond_the_picture_are_refused():
    table = people(5)
    with pytest.raises(
        DataError,
        match="PictureQueries works on pictures, and this schema describes tables: use the audit without queries",
    ):
        predictions(Brightness(), table, PictureQueries())
    with pytest.raises(ParameterError, match="shift must be less than the pictures' 5 pixels, got 5"):
        copies(PictureQueries(shift=5))
    for shift in (-1, 1.5, True):
        with pytest.raises(ParameterError, match="shift must be a whole number of pixels"):
            PictureQueries(shift=shift)
