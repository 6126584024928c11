"""Pictures in a workspace: their bytes in Parquet, and a forget from end to end."""

from contextlib import closing

import numpy as np
import pytest

from eupg import EUPG, Manager, Seeded
from eupg.data.dataset import Dataset
from eupg.data.pictures.files import image_dataset
from eupg.errors import DataError
from eupg.learn import TorchLearner
from eupg.learn.torch.networks import ResNet18
from eupg.manage.storage.records import RecordFiles
from eupg.protect.pictures.pixel_dp import PixelDP
from eupg.protect.pictures.pixel_permutation import PixelPermutation
from eupg.protect.pictures.public_features import PixelFeatures
from pictures import pictures
from record_files import write

DATA = pictures(90, height=6, width=5)


def equal(one: Dataset, other: Dataset) -> bool:
    same = [np.array_equal(getattr(one, n), getattr(other, n)) for n in ("X", "y", "ids", "subjects")]
    return all(same) and one.X.dtype == other.X.dtype


@pytest.fixture
def files(tmp_path):
    return RecordFiles(tmp_path, DATA.schema)


def test_pictures_come_back_as_they_were_in_their_order(files):
    held = write(files, DATA, rows_per_part=16)
    assert len(held.manifest) == 6
    assert equal(held.read(), DATA)
    assert equal(write(files, DATA).read(), DATA)


def test_no_pictures_are_read_as_none(files):
    empty = files.read(())
    assert empty.X.shape == (0, 90)
    assert empty.X.dtype == np.uint8


def test_forgotten_picture_is_in_no_file_that_is_left(files):
    held = write(files, DATA, rows_per_part=16)
    left, erased = held.erase(np.flatnonzero(DATA.where(["p7", "p60"])))
    assert equal(left.read(), DATA.without(["p7", "p60"]))
    assert equal(erased.forgotten, DATA.select(DATA.where(["p7", "p60"])))
    assert len(erased.written) == 4  # two files and their sketches
    more = pictures(5, 9, height=6, width=5, word="new")
    assert equal(left.append(more).read(), DATA.without(["p7", "p60"]).plus(more))


def test_pictures_of_another_size_are_refused(files, tmp_path):
    with pytest.raises(DataError, match="another schema than these files"):
        write(files, pictures(5))
    other = RecordFiles(tmp_path, pictures(1).schema)
    with pytest.raises(DataError, match="written under another schema"):
        other.read(write(files, DATA).manifest)


def test_workspace_of_pictures_trains_forgets_certifies_and_opens_again(tmp_path):
    records = pictures(120)
    mechanism = PixelPermutation(5, block=4, features=PixelFeatures(), dimensions=None)
    manager = Manager(tmp_path, EUPG(mechanism, TorchLearner(ResNet18(width=4)), 1, 1), rng=Seeded(1))
    manager.train(records, hold_out=0.2)
    held = manager.space.read(manager.space.state())[0]
    asked = [manager.request_erasure(record=name) for name in held.ids[:2].tolist()]
    manager.forget()
    body = manager.certify(asked[0].id).body
    assert body.request.records_erased == 1
    assert any("grey levels" in m.sentence for m in body.measured)
    assert manager.predict(records.X[:3]).shape == (3, 2)
    manager.close()
    again = Manager(tmp_path)
    assert again.status().records == len(held) - 2
    assert equal(again.space.read(again.space.state())[0], held.without(held.ids[:2].tolist()))
    again.close()


def test_effective_k_counts_in_the_groups_that_were_permuted(tmp_path):
    """A GPU may round another way when it is asked again, and then groups are others."""
    asked = []

    class Fickle(PixelFeatures):
        def __call__(self, images, device):
            asked.append(len(images))
            return super().__call__(images[np.random.default_rng(len(asked)).permutation(len(images))], device)

    mechanism = PixelPermutation(5, block=4, features=Fickle(), dimensions=None)
    manager = Manager(tmp_path, EUPG(mechanism, TorchLearner(ResNet18(width=4)), 1, 1), rng=Seeded(1))
    manager.train(pictures(60), hold_out=0.0)
    manager.close()
    assert len(asked) == 1


def test_workspace_forgets_all_pictures_of_a_person(tmp_path):
    images = np.random.default_rng(2).integers(0, 256, (60, 3, 8, 8), dtype=np.uint8)
    owners = [f"person {i // 2}" for i in range(60)]
    records = image_dataset(images, np.arange(60) % 2, classes=("cat", "dog"), subjects=owners)
    with closing(Manager(tmp_path, EUPG(PixelDP(), TorchLearner(ResNet18(width=4)), 1, 1), rng=Seeded(1))) as manager:
        manager.train(records, hold_out=0.0)
        request = manager.request_erasure(subject="person 7")
        assert manager.forget().records == 2
        claim = manager.certify(request.id).body.claimed.claim
        assert claim.epsilon == 2 * PixelDP().guarantee(records.schema).epsilon
        left = manager.space.read(manager.space.state())[0]
        np.testing.assert_array_equal(left.X, records.X[np.array(owners) != "person 7"])


def test_part_of_a_table_keeps_its_own_pictures(files):
    table = files._table(write(files, DATA).manifest[0])
    np.testing.assert_array_equal(files._features(table.slice(2, 3)), files._features(table)[2:5])
