"""What the processes of one run share: trainings and predictions that several cells need, made once.

A run makes a folder for them, readable by its owner alone, and deletes it when it ends; nothing is passed on to another
run. Sharing changes no figure, since what is shared follows from the code, the records and the seed.
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

# Tells processes where the folder is.
FOLDER = "EUPG_BENCH_FOLDER"
_TRIES, _PAUSE = 20, 0.05
T = TypeVar("T")


@dataclass(frozen=True)
class Kept:
    """Objects in a folder, found again by name; without a folder nothing is kept.

    Parameters
    ----------
    folder
        Where they lie.
    takes, gives
        Whether what others made is taken, and what is made here kept for them. A measurement of time does all of its
        work itself.
    """

    folder: Path | None
    takes: bool = True
    gives: bool = True

    @classmethod
    def of_run(cls, *, takes: bool = True, gives: bool = True) -> Kept:
        """Return what the run that started this process shares."""
        folder = os.environ.get(FOLDER)
        return cls(Path(folder) if folder else None, takes, gives)

    def get(self, name: str, make: Callable[[], T]) -> T:
        """Return the object of that name, from whoever made it first."""
        if self.folder is None:
            return make()
        path = self.folder / name
        if self.takes and path.exists():
            # Written by this very run, into a folder that nobody else may write to.
            found: T = pickle.loads(path.read_bytes())  # noqa: S301
            return found
        made = make()
        if self.gives:
            self._put(path, made)
        return made

    def claims(self, name: str) -> bool:
        """Tell whether this process is the first to want an object, and so the one to make it."""
        if self.folder is None or not self.takes:
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
            # A full disk, perhaps: whoever needs it makes it again, and no measurement is lost.
            partial.unlink(missing_ok=True)


def clear() -> None:
    """Delete the folder of a run that cannot do so itself, because it was killed."""
    folder = os.environ.get(FOLDER)
    # Another process may still be writing there, until it too finds out.
    for _ in range(_TRIES):
        if not folder or not Path(folder).exists():
            return
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(_PAUSE)


def name_of(words: str, *arrays: NDArray[np.generic]) -> str:
    """Return a name for what follows from these words and records."""
    digest = hashlib.sha256(words.encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
