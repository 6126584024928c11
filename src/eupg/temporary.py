"""Folders for temporary files that may hold what was computed from records.

While a workspace changes, they lie inside it, and ``recover`` deletes what a killed process left
(:func:`temporary_files_in`). Elsewhere they lie in the system's folder for temporary files. There each is locked by the
process that uses it, and the next process that needs one deletes those whose process has ended.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType

from eupg.files import PARTIAL, storage_error

_PREFIX, _NEW = "eupg-temporary-", "eupg-new-"
_place: ContextVar[Path | None] = ContextVar("eupg_temporary_files", default=None)


@contextmanager
def temporary_files_in(folder: Path) -> Iterator[None]:
    """Let temporary folders lie in this one while the block runs, in this thread; the caller clears it."""
    token = _place.set(folder)
    try:
        yield
    finally:
        _place.reset(token)


def inside_workspace() -> bool:
    """Tell whether temporary folders lie in a workspace now."""
    return _place.get() is not None


class TemporaryFolder:
    """A new folder that only its owner can read; it disappears with the object, or at the end of a ``with`` block.

    Examples
    --------
    >>> with TemporaryFolder() as folder:
    ...     _ = (folder / "model").write_bytes(b"numbers")
    >>> folder.exists()
    False
    """

    def __init__(self) -> None:
        place, lock = _place.get(), -1
        try:
            if place is None:
                self.path, lock = _locked_folder()
            else:
                self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        except OSError as error:
            raise storage_error("cannot make a temporary folder", error, "nothing was written") from error
        self._end = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Delete the folder now."""
        self._end()


@contextmanager
def lent_as_file(content: bytes) -> Iterator[Path]:
    """Lend bytes to a reader that wants a file: in memory where the system can, so that no copy survives the process.

    Examples
    --------
    >>> with lent_as_file(b"numbers") as path:
    ...     path.read_bytes()
    b'numbers'
    """
    number = _memory_file()
    if number is None:
        with TemporaryFolder() as folder:
            path = folder / "content"
            path.write_bytes(content)
            yield path
        return
    with os.fdopen(number, "wb") as file:
        file.write(content)
        file.flush()
        yield _path_of(number)


def written_bytes(write: Callable[[Path], None], *, beside: str | Path) -> bytes:
    """Return what a writer that wants a file writes; the file lies beside another for a moment, as a partial one."""
    final = Path(beside)
    path = final.with_name(f".{final.name[:40]}.{os.urandom(8).hex()}{PARTIAL}")
    try:
        write(path)
        return path.read_bytes()
    finally:
        path.unlink(missing_ok=True)


def _memory_file() -> int | None:
    """Open a file in memory that has a path while this process lives; None where the system has none."""
    if not hasattr(os, "memfd_create"):
        return None
    number = os.memfd_create("eupg")
    if _path_of(number).exists():
        return number
    os.close(number)
    return None


def _path_of(number: int) -> Path:
    return Path(f"/proc/self/fd/{number}")


def _locked_folder() -> tuple[Path, int]:
    """Make a folder in the system's place for temporary files, locked while this process lives."""
    place = Path(tempfile.gettempdir())
    _sweep(place)
    made = Path(tempfile.mkdtemp(prefix=_NEW, dir=place))
    lock = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    # Under its final name it is locked from the beginning: another process would take it for abandoned.
    path = made.with_name(_PREFIX + made.name.removeprefix(_NEW))
    made.rename(path)
    return path, lock


def _sweep(place: Path) -> None:
    """Delete folders whose process has ended, such as one that was killed."""
    for folder in place.glob(f"{_PREFIX}*"):
        # Another process may sweep, or end, at the same time.
        with suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise
            finally:
                os.close(number)


def _remove(path: Path, lock: int, owner: int) -> None:
    # A forked process has the object too, and must not delete the folder of its parent.
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
    if lock >= 0:
        with suppress(OSError):
            os.close(lock)
