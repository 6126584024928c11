"""CIFAR-10 reads the same from every form it comes in, and nothing else passes for it."""

import hashlib
import io
import os
import tarfile
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eupg.data import sources
from eupg.data.pictures.cifar import CLASSES, Published
from eupg.data.score import accuracy
from eupg.errors import DataError, SourceUnavailable

NAMES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")
TILES = 3
RNG = np.random.default_rng(5)
# Six made-up batches of nine pictures: a class, then the pixels.
BATCHES = np.concatenate([RNG.integers(0, 10, (6, 9, 1)), RNG.integers(0, 256, (6, 9, 3072))], axis=2).astype(np.uint8)
TOY = Published(tiles=TILES, digest=hashlib.sha256(BATCHES.tobytes()).hexdigest(), page="https://example.org/toy")


def write_folder(folder, batches=BATCHES):
    (folder / "cifar-10-batches-bin").mkdir(parents=True)
    for name, batch in zip(NAMES, batches, strict=True):
        (folder / "cifar-10-batches-bin" / f"{name}.bin").write_bytes(batch.tobytes())


def archived(batches=BATCHES):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        # Not in order: the archive need not be.
        for name, batch in [*zip(NAMES, batches, strict=True)][::-1]:
            about = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            about.size = batch.size
            archive.addfile(about, io.BytesIO(batch.tobytes()))
    return buffer.getvalue()


def write_archive(folder, batches=BATCHES):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cifar-10-binary.tar.gz").write_bytes(archived(batches))


def write_mosaics(folder, batches=BATCHES):
    folder.mkdir(parents=True, exist_ok=True)
    labels = batches[:, :, 0]
    np.savez(folder / "cifar10-labels.npz", train=labels[:5].ravel(), test=labels[5])
    for name, batch in zip((*(f"train-{i}" for i in range(1, 6)), "test"), batches, strict=True):
        tiles = batch[:, 1:].reshape(TILES, TILES, 3, 32, 32).transpose(0, 3, 1, 4, 2)
        Image.fromarray(tiles.reshape(TILES * 32, TILES * 32, 3)).save(folder / f"cifar10-{name}.webp", lossless=True)


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Give the test a data folder and a cache of its own, and no network."""

    def urlopen(url, timeout):
        raise urllib.error.URLError("no route")

    monkeypatch.setenv("EUPG_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return tmp_path / "data", tmp_path / "cache" / "eupg"


@pytest.mark.parametrize("where", [0, 1], ids=["EUPG_DATA", "cache"])
@pytest.mark.parametrize("write", [write_folder, write_archive, write_mosaics])
def test_every_form_reads_as_the_same_records(places, write, where):
    write(places[where])
    train, test = TOY.load()
    np.testing.assert_array_equal(train, BATCHES[:5].reshape(45, 3073))
    np.testing.assert_array_equal(test, BATCHES[5])


@pytest.mark.parametrize("write", [write_folder, write_archive, write_mosaics])
def test_one_changed_pixel_or_label_is_noticed(places, write):
    changed = BATCHES.copy()
    changed[3, 4, 100] ^= 1
    write(places[0], changed)
    with pytest.raises(DataError, match=r"is not the published data set \(content .*: remove it and get the original"):
        TOY.load()


def test_changed_order_is_noticed(places):
    write_mosaics(places[0], BATCHES[:, ::-1])
    with pytest.raises(DataError, match="is not the published data set"):
        TOY.load()


def test_missing_or_short_batch_is_named(places):
    data, _ = places
    write_folder(data)
    last = data / "cifar-10-batches-bin" / "test_batch.bin"
    last.write_bytes(b"short")
    with pytest.raises(DataError, match="test_batch has 5 bytes, expected 27,657"):
        TOY.load()
    last.unlink()
    with pytest.raises(DataError, match=r"lacks a batch .*test_batch\.bin.*unpack the archive anew"):
        TOY.load()


def test_damaged_archive_is_named(places):
    write_archive(places[0])
    path = places[0] / "cifar-10-binary.tar.gz"
    for content in (path.read_bytes()[:2000], b"<html>", b""):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"binary\.tar\.gz (cannot be read as an archive|is not the published)"):
            TOY.load()


def test_damaged_mosaics_and_labels_are_named(places):
    data, _ = places
    write_mosaics(data)
    (data / "cifar10-test.webp").unlink()
    with pytest.raises(DataError, match=r"cifar10-test\.webp cannot be read as a picture"):
        TOY.load()
    Image.fromarray(np.zeros((32, 32, 3), np.uint8)).save(data / "cifar10-test.webp")
    with pytest.raises(DataError, match=r"is not a mosaic of the data set: expected \(96, 96\) pixels, got \(32, 32\)"):
        TOY.load()
    np.savez(data / "cifar10-labels.npz", train=np.zeros(4, np.uint8), test=np.zeros(1, np.uint8))
    with pytest.raises(DataError, match="holds 5 labels, expected 54"):
        TOY.load()
    (data / "cifar10-labels.npz").write_bytes(b"nothing")
    with pytest.raises(DataError, match="does not hold the labels"):
        TOY.load()


def test_download_is_checked_and_kept(places, monkeypatch):
    _, cache = places
    sent = [b"please log in", archived()]
    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: io.BytesIO(sent[0]))
    with pytest.raises(
        SourceUnavailable, match="sent something else than the data set: download it from https://example"
    ):
        TOY.load()
    assert not [p for p in cache.rglob("*") if p.is_file()]
    sent.pop(0)
    TOY.load()
    assert [p.name for p in cache.iterdir()] == ["cifar-10-binary.tar.gz"]
    sent.clear()
    assert len(TOY.load()[1]) == 9


def test_unreachable_publisher_names_the_page_and_the_cache(places):
    said = rf"cifar-10-binary\.tar\.gz could not be fetched .*no route.*example.org/toy and put .* into {places[1]}"
    with pytest.raises(SourceUnavailable, match=said):
        TOY.load()


def test_source_names_records_and_checks_counts(places, monkeypatch):
    write_mosaics(places[0])
    monkeypatch.setattr("eupg.data.pictures.cifar.Published", lambda: TOY)
    with pytest.raises(DataError, match=r"cifar10: expected counts \(50000, 10000\), got \(45, 9\)"):
        sources.cifar10()


@pytest.mark.paper
def test_published_pictures_have_their_counts_and_first_classes():
    folder = os.environ.get("EUPG_DATA")
    if not folder or not (Path(folder) / "cifar10-labels.npz").is_file():
        pytest.skip("EUPG_DATA does not hold CIFAR-10")
    source = sources.cifar10()
    assert (len(source.train), len(source.test), source.utility) == (50_000, 10_000, accuracy)
    assert [CLASSES[c] for c in source.train.y[:3]] == ["frog", "truck", "truck"]
    assert np.bincount(source.train.y).tolist() == [5_000] * 10
    assert (source.train.ids[0], source.test.ids[-1]) == ("train-0", "test-9999")
