"""A cache that the processes of one run share: trainings and predictions that several cells need are made once.

The run makes a folder that only its owner can read and deletes it when it ends; nothing is passed to another run.
Sharing changes no figure, since the shared objects are determined by the code, the records and the seed.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

# The environment variable that names the folder.
FOLDER = "EUPG_BENCH_FOLDER"
_TRIES, _PAUSE = 20, 0.05
T = TypeVar("T")


@dataclass(frozen=True)
class RunCache:
    """Objects in a folder by name; without a folder nothing is stored.

    ``reads`` and ``writes``: whether objects of other processes are used, and objects made here stored for them. A
    measurement of time does all of its work itself.
    """

    folder: Path | None
    reads: bool = True
    writes: bool = True

    @classmethod
    def of_run(cls, *, reads: bool = True, writes: bool = True) -> RunCache:
        """Return the cache of the run that started this process."""
        folder = os.environ.get(FOLDER)
        return cls(Path(folder) if folder else None, reads, writes)

    def get(self, name: str, make: Callable[[], T]) -> T:
        """Return the object of that name, or make it."""
        if self.folder is None:
            return make()
        path = self.folder / name
        if self.reads and path.exists():
            # Written by this run, into a folder that nobody else can write to.
            stored: T = pickle.loads(path.read_bytes())  # noqa: S301
            return stored
        made = make()
        if self.writes:
            self._put(path, made)
        return made

    def claims(self, name: str) -> bool:
        """Return whether this process is the first to need an object, and so the one to make it."""
        if self.folder is None or not self.reads:
            return True
        try:
            (self.folder / f"{name}.claimed").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    @staticmethod
    def _put(path: Path, made: object) -> None:
        partial = path.with_suffix(f".{os.getpid()}")
        try:
            partial.write_bytes(pickle.dumps(made, protocol=pickle.HIGHEST_PROTOCOL))
            partial.replace(path)
        except OSError:
            # On a full disk, for example, the next process makes the object again, and no measurement is lost.
            partial.unlink(missing_ok=True)


def clear() -> None:
    """Delete the folder of a run that was killed."""
    folder = os.environ.get(FOLDER)
    # Another process may still be writing until it notices.
    for _ in range(_TRIES):
        if not folder or not Path(folder).exists():
            return
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(_PAUSE)


def name_of(words: str, *arrays: NDArray[np.generic]) -> str:
    """Return a name for an object that these words and records determine."""
    digest = hashlib.sha256(words.encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
