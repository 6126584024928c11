"""Pictures from arrays and from folders: what fits is taken in, what does not is named with its remedy."""

import builtins

import numpy as np
import pytest
from PIL import Image

from eupg import EUPG
from eupg.data.pictures.files import image_dataset, read_images
from eupg.errors import DataError, MissingFramework, ParameterError
from eupg.learn import TorchLearner
from eupg.protect.pictures.pixel_dp import PixelDP

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (4, 3, 6, 5), dtype=np.uint8)
CLASSES = ("cat", "dog")


def save(path, pixels, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)


@pytest.fixture
def folder(tmp_path):
    """Two cats and two dogs in colour, and a file that is no picture."""
    for i, name in enumerate(("cat/b.png", "cat/a.PNG", "dog/far/c.bmp", "dog/d.webp")):
        save(tmp_path / name, IMAGES[i].transpose(1, 2, 0), **({"lossless": True} if name.endswith("webp") else {}))
    (tmp_path / "cat" / "notes.txt").write_text("not a picture")
    (tmp_path / ".hidden").mkdir()
    return tmp_path


def test_array_becomes_records_named_by_position():
    data = image_dataset(IMAGES, [0, 1, 1, 0], classes=CLASSES)
    assert data.ids.tolist() == ["0", "1", "2", "3"]
    np.testing.assert_array_equal(data.schema.picture.images(data.X), IMAGES)
    assert image_dataset(IMAGES, [0, 1, 1, 0], classes=CLASSES, subjects=[*"aabb"]).subjects.tolist() == [*"aabb"]


def test_claims_know_whether_people_are_named():
    """What is drawn by person must not be called drawn by record, nor the other way round."""
    method = EUPG(PixelDP(block=1), TorchLearner(), exposure=0.5)
    for subjects, caveats in ((None, 3), ([*"aabb"], 2)):
        data = image_dataset(IMAGES, [0, 1, 1, 0], classes=CLASSES, subjects=subjects)
        assert (data.schema.subject is None) == (subjects is None)
        assert data.schema.columns == IMAGES[0].size
        claim = method.claim(method.mechanism.guarantee(data.schema), data)
        assert len(claim.caveats) == caveats, claim.caveats


@pytest.mark.parametrize(
    ("images", "said"),
    [
        (IMAGES[0], r"for grey pictures add the axis of the channels, images\[:, None\]"),
        (IMAGES[0, 0], "add or reorder the axes"),
        (IMAGES.transpose(0, 2, 3, 1), r"channels seem to come last, so write images\.transpose\(0, 3, 1, 2\)"),
        (IMAGES.astype(np.float32), r"whole numbers from 0 to 255 \(uint8\), got float32"),
        (IMAGES.astype(np.int64), "got int64"),
    ],
)
def test_array_of_another_form_is_refused_with_the_remedy(images, said):
    with pytest.raises(DataError, match=said):
        image_dataset(images, [0] * len(images), classes=CLASSES)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([0, 1, 2, 0], r"between 0 and 1, positions in the 2 classes: 1 of 4 do not, first 2 at 2"),
        ([0, -1, 1, 0], "first -1 at 1"),
        (["cat", "dog", "cat", "dog"], r"got <U3: look names up with classes\.index"),
        ([0.0, 1.0, 1.0, 0.0], r"got float64.*astype\(int\)"),
        ([True, False, True, True], "got bool"),
        ([0, 1, 1], r"4 pictures need as many labels, got \(3,\)"),
        ([[0], [1], [1], [0]], r"got \(4, 1\)"),
    ],
)
def test_labels_that_are_no_positions_are_refused(labels, said):
    with pytest.raises(DataError, match=said):
        image_dataset(IMAGES, labels, classes=CLASSES)


def test_text_in_place_of_a_list_and_repeated_ids_are_refused():
    with pytest.raises(ParameterError, match="classes is a list of names"):
        image_dataset(IMAGES, [0] * 4, classes="cat")
    with pytest.raises(ParameterError, match="ids is a list of names, got the text"):
        image_dataset(IMAGES, [0] * 4, classes=CLASSES, ids="abcd")
    with pytest.raises(DataError, match="repeat a record id"):
        image_dataset(IMAGES, [0] * 4, classes=CLASSES, ids=[1, 2, 2, 3])
    with pytest.raises(DataError, match="4 rows need as many labels, ids and subjects"):
        image_dataset(IMAGES, [0] * 4, classes=CLASSES, ids=[1, 2, 3])


def test_folder_is_read_class_by_class_with_paths_as_ids(folder):
    data = read_images(folder)
    assert data.ids.tolist() == ["cat/a.PNG", "cat/b.png", "dog/d.webp", "dog/far/c.bmp"]
    assert data.schema.label.categories == CLASSES
    assert data.y.tolist() == [0, 0, 1, 1]
    np.testing.assert_array_equal(data.schema.picture.images(data.X), IMAGES[[1, 0, 3, 2]])


def test_class_list_read_from_the_folders_is_a_caveat_and_a_given_one_is_none(folder):
    assert read_images(folder).schema.caveats
    data = read_images(folder, classes=("dog", "cat", "cow"))
    assert data.schema.caveats == ()
    assert data.y.tolist() == [0, 0, 1, 1]
    assert data.ids[0] == "dog/d.webp"


def test_folder_outside_the_class_list_is_refused(folder):
    with pytest.raises(DataError, match=r"dog is not one of the classes \['cat', 'cow'\]: list it, or move it away"):
        read_images(folder, classes=("cat", "cow"))


def test_grey_pictures_become_colour_among_coloured_ones_and_stay_grey_among_themselves(folder, tmp_path):
    grey = IMAGES[0, 0]
    save(folder / "dog" / "grey.png", grey)
    images = read_images(folder)
    row = images.schema.picture.images(images.X)[images.ids.tolist().index("dog/grey.png")]
    np.testing.assert_array_equal(row, np.stack([grey] * 3))
    for name in ("cat", "dog"):
        save(tmp_path / "all" / name / "x.png", grey)
    assert read_images(tmp_path / "all").schema.picture.shape == (1, 6, 5)


def test_odd_size_names_the_file_and_size_resizes(folder):
    save(folder / "dog" / "z.png", np.zeros((9, 9, 3), np.uint8))
    with pytest.raises(DataError, match=r"z\.png has 9 × 9 .*a\.PNG 6 × 5: .* pass for example size=\(6, 5\)"):
        read_images(folder)
    data = read_images(folder, size=(3, 4))
    assert data.schema.picture.shape == (3, 3, 4)
    assert len(data) == 5
    with pytest.raises(ParameterError, match=r"size is \(height, width\)"):
        read_images(folder, size=(3, 0))


def test_picture_is_turned_as_the_camera_says(folder, tmp_path):
    image = Image.fromarray(IMAGES[0].transpose(1, 2, 0))
    exif = image.getexif()
    exif[0x0112] = 6
    for name in ("cat", "dog"):
        (tmp_path / "turned" / name).mkdir(parents=True)
        image.save(tmp_path / "turned" / name / "x.png", exif=exif)
    assert read_images(tmp_path / "turned").schema.picture.shape == (3, 5, 6)


@pytest.mark.parametrize("content", [b"", b"not a picture at all", None])
def test_unreadable_file_is_named(folder, content):
    whole = (folder / "cat" / "b.png").read_bytes()
    (folder / "cat" / "b.png").write_bytes(whole[:60] if content is None else content)
    with pytest.raises(DataError, match=r"b\.png cannot be read as a picture .*: replace or remove it"):
        read_images(folder)


def test_picture_of_more_than_bytes_is_refused(folder):
    save(folder / "cat" / "deep.png", np.zeros((6, 5), np.uint16))
    with pytest.raises(DataError, match=r"deep\.png has pixels of mode I;16, not bytes"):
        read_images(folder)


def test_folders_that_hold_nothing_are_named(folder, tmp_path):
    with pytest.raises(DataError, match=r"no folder .*nowhere"):
        read_images(tmp_path / "nowhere")
    (folder / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty holds no picture: put \.png"):
        read_images(folder)
    bare = tmp_path / "bare"
    bare.mkdir()
    with pytest.raises(DataError, match="bare holds 0 folders: sort the pictures into one folder per class"):
        read_images(bare)
    with pytest.raises(DataError, match="holds no picture of any class"):
        read_images(bare, classes=CLASSES)


def test_without_pillow_it_says_what_to_install(folder, monkeypatch):
    real = builtins.__import__

    def missing(name, *rest):
        if name == "PIL":
            raise ModuleNotFoundError("no PIL", name="PIL")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingFramework, match="pip install pillow"):
        read_images(folder)
