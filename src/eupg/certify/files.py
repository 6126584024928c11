"""Files that are there entirely or not at all: written aside, flushed to disk, then given their name."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


def create_once(path: Path, content: bytes) -> None:
    """Create a file only its owner may read, unless another process was first: then that one stays."""
    with _written_aside(path, content, 0o600) as partial, contextlib.suppress(FileExistsError):
        # A link fails where the name is taken, a rename would replace it.
        os.link(partial, path)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file anyone may read, or leave the old one as it was."""
    with _written_aside(path, content, 0o644) as partial:
        partial.rename(path)


@contextlib.contextmanager
def _written_aside(path: Path, content: bytes, mode: int) -> Iterator[Path]:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".partial")
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield partial
    finally:
        partial.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
