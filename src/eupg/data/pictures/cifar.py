"""CIFAR-10 (Krizhevsky 2009) from either of its forms: the published binary batches, or lossless mosaics of them.

A batch holds 10,000 pictures, with one byte for the class and 3,072 for the pixels of each. As a mosaic it is one image
of 100 × 100 tiles, row by row. The digest is that of the six published batches in order, so the pictures and their
order are the published ones in either form.
"""

from __future__ import annotations

import hashlib
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eupg.data.fetch import FAILURES, by_hand, data_folders, download, into_cache
from eupg.data.pictures.attribute import Bytes
from eupg.data.pictures.files import read_pixels
from eupg.errors import DataError, SourceUnavailable

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SHAPE = (3, 32, 32)
_BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
_MOSAICS = (*(f"cifar10-train-{i}.webp" for i in range(1, 6)), "cifar10-test.webp")
_FOLDER, _ARCHIVE, _LABELS = "cifar-10-batches-bin", "cifar-10-binary.tar.gz", "cifar10-labels.npz"


@dataclass(frozen=True)
class Published:
    """The published data set: the number of tiles along each side of a mosaic, the digest, and the addresses."""

    tiles: int = 100
    digest: str = "013ba16d14ecc4829da62bf2af648ca30f600491ecb3e7f329c827db0dd17522"
    url: str = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
    page: str = "https://www.cs.toronto.edu/~kriz/cifar.html"

    @property
    def rows(self) -> int:
        """Pictures in a batch."""
        return self.tiles**2

    def load(self) -> tuple[Bytes, Bytes]:
        """Return the training and the test records, one per row: the class, then the pixels."""
        for folder in data_folders():
            if (folder / _FOLDER).is_dir():
                return self._checked(folder / _FOLDER, _from_folder(folder / _FOLDER))
            if (folder / _ARCHIVE).is_file():
                return self._from_archive(folder / _ARCHIVE)
            if (folder / _LABELS).is_file():
                return self._checked(folder / _LABELS, self._from_mosaics(folder))
        try:
            content = download(self.url)
        except FAILURES as error:
            advice = by_hand(_ARCHIVE, self.page)
            raise SourceUnavailable(f"{_ARCHIVE} could not be fetched ({error}): {advice}") from error
        return into_cache(_ARCHIVE, content, self._from_archive, url=self.url, page=self.page)

    def _checked(self, path: Path, batches: Iterator[bytes | Bytes]) -> tuple[Bytes, Bytes]:
        """Join the batches if they are the published ones; otherwise name the file that is not."""
        advice = f"remove it and get the original from {self.page}"
        digest, parts = hashlib.sha256(), []
        for name, batch in zip(_BATCHES, batches, strict=True):
            records = np.frombuffer(batch, dtype=np.uint8) if isinstance(batch, bytes) else batch
            if records.size != self.rows * _WIDTH:
                difference = f"{name} has {records.size:,} bytes, expected {self.rows * _WIDTH:,}"
                raise DataError(f"{path} is not the published data set ({difference}): {advice}")
            digest.update(np.ascontiguousarray(records).data)
            parts.append(records.reshape(self.rows, _WIDTH))
        if digest.hexdigest() != self.digest:
            difference = f"content {digest.hexdigest()[:12]}…, expected {self.digest[:12]}…"
            raise DataError(f"{path} is not the published data set ({difference}): {advice}")
        return np.concatenate(parts[:-1]), parts[-1]

    def _from_archive(self, path: Path) -> tuple[Bytes, Bytes]:
        wanted = {f"{_FOLDER}/{name}.bin": name for name in _BATCHES}
        batches: dict[str, bytes] = {}
        try:
            # In the order of the archive: going back in a compressed file would start from its beginning.
            with tarfile.open(path, "r:gz") as archive:
                for member in archive:
                    content = archive.extractfile(member) if member.name in wanted else None
                    if content is not None:
                        batches[wanted[member.name]] = content.read()
        except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
            advice = f"remove it and get the original from {self.page}"
            raise DataError(f"{path} cannot be read as an archive ({error}): {advice}") from error
        return self._checked(path, (batches.get(name, b"") for name in _BATCHES))

    def _from_mosaics(self, folder: Path) -> Iterator[Bytes]:
        try:
            with np.load(folder / _LABELS, allow_pickle=False) as content:
                labels = np.concatenate([content["train"], content["test"]]).astype(np.uint8)
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise DataError(f"{folder / _LABELS} does not hold the labels ({error}): replace it") from error
        if len(labels) != len(_MOSAICS) * self.rows:
            expected = f"{len(_MOSAICS) * self.rows:,}"
            raise DataError(f"{folder / _LABELS} holds {len(labels):,} labels, expected {expected}: replace it")
        for i, name in enumerate(_MOSAICS):
            pixels = _tiles(folder / name, self.tiles)
            yield np.column_stack([labels[i * self.rows : (i + 1) * self.rows], pixels])


def _from_folder(folder: Path) -> Iterator[bytes]:
    for name in _BATCHES:
        try:
            yield (folder / f"{name}.bin").read_bytes()
        except OSError as error:
            raise DataError(f"{folder} lacks a batch ({error}): unpack the archive anew") from error


def _tiles(path: Path, tiles: int) -> Bytes:
    """Return the pictures of a mosaic, one per row, all pixels of the first channel first."""
    channels, height, width = SHAPE
    pixels = read_pixels(path)
    if pixels.shape != (tiles * height, tiles * width, channels):
        size, expected = pixels.shape[:2], (tiles * height, tiles * width)
        raise DataError(f"{path} is not a mosaic of the data set: expected {expected} pixels, got {size}: replace it")
    parts = pixels.reshape(tiles, height, tiles, width, channels).transpose(0, 2, 4, 1, 3)
    return parts.reshape(tiles**2, channels * height * width)


_WIDTH = 1 + SHAPE[0] * SHAPE[1] * SHAPE[2]
