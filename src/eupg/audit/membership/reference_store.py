"""Where predictions of reference models are kept, and how they are erased with the records that the models saw."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import RecordId
from eupg.data.score import Probabilities
from eupg.errors import DataError


class ReferenceStore:
    """Predictions of reference models in a folder, each bound to the records it saw.

    Reference models are trained on raw records. Their predictions may therefore be kept only as long as every record of
    their pool is kept: :meth:`forget` deletes every entry whose pool held a forgotten record, inside or outside its
    half.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def get(self, key: str) -> Probabilities | None:
        """Return the predictions under a key, or None."""
        path = self.folder / f"{key}.npz"
        if not path.is_file():
            return None
        with np.load(path, allow_pickle=False) as content:
            return np.asarray(content["probabilities"])

    def put(self, key: str, probabilities: Probabilities, ids: NDArray[np.str_]) -> None:
        """Store predictions with the ids of all records in their pool, atomically."""
        partial = self.folder / f"{key}.{os.getpid()}.partial"
        with partial.open("wb") as file:
            np.savez(file, probabilities=probabilities, ids=ids)
        partial.replace(self.folder / f"{key}.npz")

    def forget(self, ids: Iterable[RecordId]) -> list[str]:
        """Delete every entry that saw one of these records, check that it is gone, and return the keys deleted.

        Half-written or unreadable entries may have seen anyone: they are deleted too.
        """
        forgotten = np.array(sorted({str(i) for i in ids}), dtype=np.str_)
        for path in self.folder.glob("*.partial"):
            path.unlink()
        seen = [path for path in sorted(self.folder.glob("*.npz")) if _touches(path, forgotten)]
        for path in seen:
            path.unlink()
        left = [path.stem for path in seen if path.exists()]
        if left:
            raise DataError(f"{len(left)} reference entries could not be deleted, first {left[0]}: check the folder")
        return [path.stem for path in seen]

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(list(self.folder.glob("*.npz")))


def _touches(path: Path, ids: NDArray[np.str_]) -> bool:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
            return bool(np.isin(content["ids"], ids).any())
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return True
