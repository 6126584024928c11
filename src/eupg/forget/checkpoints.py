"""Checkpoints on disk: written by the learner, deleted with what they saw, and their absence checked."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path

from eupg.errors import StorageError


class CheckpointFolder:
    """A folder of model files; a temporary one vanishes with the last object that uses it.

    Parameters
    ----------
    folder
        Where to keep the files; by default a temporary folder that only the owner can read.
    """

    def __init__(self, folder: str | Path | None) -> None:
        if folder is None:
            self.path = Path(tempfile.mkdtemp(prefix="eupg-sisa-"))
            weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        else:
            self.path = Path(folder)
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def new_names(self, shard: int, slices: range) -> list[str]:
        """Return file names that no earlier checkpoint had."""
        token = os.urandom(8).hex()
        return [f"shard-{shard}-slice-{part}-{token}" for part in slices]

    def holds(self, name: str | None) -> bool:
        """Tell whether a checkpoint of that name is there."""
        return name is not None and (self.path / name).is_file()

    def erase(self, names: Iterable[str]) -> None:
        """Delete checkpoints and check that they are gone; one that stays does not keep the others."""
        names = list(names)
        for name in names:
            # What the disk answers does not count: below, it is asked whether the file is there.
            with contextlib.suppress(OSError):
                (self.path / name).unlink(missing_ok=True)
        left = [name for name in names if os.path.lexists(self.path / name)]
        if left:
            raise StorageError(
                f"{len(left)} of {len(names)} checkpoints could not be deleted, and may have seen a forgotten record, "
                f"first {left[0]}: delete them from {self.path} by hand, then ask again"
            )

    def size(self, names: Iterable[str]) -> int:
        """Return the bytes these checkpoints take."""
        return sum((self.path / name).stat().st_size for name in names)
