"""Writing a file so that it is there whole or not at all, whenever the process or the machine stops.

New content goes into a partial file in the same folder, is forced to disk, and takes the final name in one step; then
the folder is forced to disk too, so that the name survives a power failure. A process killed on the way leaves the old
content under the name and perhaps a partial file, which :func:`remove_partials` takes away.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from eupg.errors import EupgError, StorageError
from eupg.manage.killpoint import checkpoint

PARTIAL = ".partial"
_STANDS = "what was there before still stands"
# Why a disk refuses, in words, and what to do about it.
_REASONS = {
    errno.ENOSPC: ("no space is left on the disk", "free some space and repeat"),
    errno.EDQUOT: ("the disk quota is used up", "free some space or raise the quota, and repeat"),
    errno.EFBIG: ("the file would be larger than allowed", "raise the limit on file sizes and repeat"),
    errno.EROFS: ("the file system is read-only", "mount it writable and repeat"),
    errno.EACCES: ("this user has no permission", "correct the owner or mode of the folder and repeat"),
    errno.EPERM: ("the operation is not permitted", "correct the owner, mode or attributes of the folder and repeat"),
    errno.ENOLCK: ("the file system has no locks", "put the workspace on a disk that has"),
    errno.EOPNOTSUPP: ("the file system cannot do that", "put the workspace on a local disk"),
    errno.ENOENT: ("the folder is not there", "restore it, or check the path"),
}


def write_atomically(path: Path, content: bytes | Iterable[bytes], *, mode: int = 0o600) -> None:
    """Write a file whole or not at all, and return once it is on disk under its name.

    Parameters
    ----------
    path
        The file; one that is there is replaced in one step.
    content
        All of it, or its pieces in order. If the pieces end in an error, nothing is written.
    mode
        Who may read and write the file; by default its owner alone.

    Raises
    ------
    StorageError
        The disk refused. The message says why, and whether the old content still stands.
    """
    partial = path.with_name(f".{path.name[:40]}.{secrets.token_hex(8)}{PARTIAL}")
    try:
        _fill(partial, _halves(content) if isinstance(content, bytes) else content, mode)
        os.replace(partial, path)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError) and not isinstance(error, EupgError):
            raise storage_error(f"cannot write {path}", error, _STANDS) from error
        raise
    checkpoint("after rename")
    sync_folder(path.parent, f"{path} is written, but may not survive a power failure")


def remove_partials(folder: Path) -> tuple[str, ...]:
    """Remove what killed writers left half written in a folder, and return the names removed.

    Call it while no other process writes there: a partial file may also belong to a writer that is at work.
    """
    names = sorted(e.name for e in list_folder(folder) if is_partial(e.name) and e.is_file(follow_symlinks=False))
    remove_files(folder, names)
    return tuple(names)


def remove_files(folder: Path, names: Iterable[str]) -> None:
    """Remove files of one folder, and return once their names are gone from the disk too."""
    removed = 0
    for name in names:
        checkpoint("before unlink")
        try:
            os.unlink(folder / name)
        except OSError as error:
            state = f"it is still there, {removed} removed before it" if removed else "nothing was removed"
            raise storage_error(f"cannot remove {folder / name}", error, state) from error
        removed += 1
        checkpoint("after unlink")
    if removed:
        sync_folder(folder, f"{removed} files are removed, but may come back after a power failure")


def make_folder(folder: Path) -> None:
    """Make a folder that its owner alone may enter, unless it is there."""
    try:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_folder(folder.parent, f"{folder} is made, but may not survive a power failure")
    except OSError as error:
        if isinstance(error, EupgError):
            raise
        raise storage_error(f"cannot make the folder {folder}", error, _STANDS) from error


def sync_folder(folder: Path, unless: str) -> None:
    """Force a folder's names to disk; ``unless`` says what is true if that fails."""
    try:
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
    except OSError as error:
        raise storage_error(f"cannot force the folder {folder} to disk", error, unless) from error
    checkpoint("after folder fsync")


def storage_error(what: str, error: OSError, state: str) -> StorageError:
    """Say what could not be done, why, what state that leaves, and what to do."""
    told = error.strerror or str(error)
    reason, advice = _REASONS.get(error.errno or 0, (told, "look at the disk and the system's log, and repeat"))
    return StorageError(f"{what}: {reason}; {state}. Next: {advice}")


def is_partial(name: str) -> bool:
    """Tell whether a file name is one that an unfinished write has."""
    return name.startswith(".") and name.endswith(PARTIAL)


def _fill(partial: Path, pieces: Iterable[bytes | memoryview], mode: int) -> None:
    number = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, stat.S_IRUSR | stat.S_IWUSR)
    try:
        os.fchmod(number, mode)
        checkpoint("before write")
        for count, piece in enumerate(pieces):
            _write(number, piece)
            if not count:
                checkpoint("mid-write")
        checkpoint("after write")
        os.fsync(number)
    finally:
        os.close(number)
    checkpoint("after fsync")


def _write(number: int, piece: bytes | memoryview) -> None:
    left = memoryview(piece)
    while left:
        # A nearly full disk takes a part and says so; only the next call fails.
        left = left[os.write(number, left) :]


def _halves(content: bytes) -> tuple[memoryview, memoryview]:
    view, half = memoryview(content), len(content) // 2
    return view[:half], view[half:]


def list_folder(folder: Path) -> list[os.DirEntry[str]]:
    """Return everything that lies in a folder, hidden files too."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        raise storage_error(f"cannot list {folder}", error, "its content is unknown") from error


def read_if_there(path: Path) -> bytes | None:
    """Return a file's content, or None where there is no file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({error.strerror}): check the disk and its permissions") from error
