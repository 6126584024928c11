"""Files that are complete or absent, even if the process or the machine stops while they are written.

New content goes to a partial file in the same folder, is forced to disk, and takes its final name in one step. Then the
folder is forced to disk too, so that the name survives a power failure. A process that is killed on the way leaves the
old content under the name, and perhaps a partial file, which :func:`remove_partials` removes.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from eupg.errors import EupgError, StorageError
from eupg.killpoint import checkpoint

PARTIAL = ".partial"
_UNCHANGED = "the old content is unchanged"
# The reason in words, and the next step.
_REASONS = {
    errno.ENOSPC: ("no space is left on the disk", "free some space and repeat"),
    errno.EDQUOT: ("the disk quota is used up", "free some space or raise the quota, and repeat"),
    errno.EFBIG: ("the file would be larger than allowed", "raise the limit on file sizes and repeat"),
    errno.EROFS: ("the file system is read-only", "mount it writable and repeat"),
    errno.EACCES: ("this user has no permission", "correct the owner or mode of the folder and repeat"),
    errno.EPERM: ("the operation is not permitted", "correct the owner, mode or attributes of the folder and repeat"),
    errno.ENOLCK: ("the file system does not support locks", "put the workspace on a disk that does"),
    errno.EOPNOTSUPP: ("the file system does not support this", "put the workspace on a local disk"),
    errno.ENOENT: ("the folder does not exist", "restore it, or check the path"),
}


def write_atomically(path: Path, content: bytes | Iterable[bytes | memoryview], *, mode: int = 0o600) -> None:
    """Write a file completely or not at all, and return once it is on disk under its name.

    Parameters
    ----------
    path
        The file; an existing one is replaced in one step.
    content
        All of it, or its pieces in order. If the pieces end in an error, nothing is written.
    mode
        The file's permissions; by default only its owner may read and write it.

    Raises
    ------
    StorageError
        The disk refused. The message gives the reason, and says whether the old content is unchanged.
    """
    with _written_aside(path, _halves(content) if isinstance(content, bytes) else content, mode) as partial:
        os.replace(partial, path)
    checkpoint("after rename")
    sync_folder(path.parent, f"{path} is written, but may not survive a power failure")


def create_once(path: Path, content: bytes) -> None:
    """Create a file that only its owner may read. If another process created it first, its file stays."""
    with _written_aside(path, _halves(content), 0o600) as partial:
        # Unlike a rename, a link does not replace a file of that name.
        with suppress(FileExistsError):
            os.link(partial, path)
        checkpoint("after link")
        partial.unlink()
    sync_folder(path.parent, f"{path} is written, but may not survive a power failure")


@contextmanager
def _written_aside(path: Path, pieces: Iterable[bytes | memoryview], mode: int) -> Iterator[Path]:
    """Write the content to a partial file; whatever fails, that file is removed."""
    partial = path.with_name(f".{path.name[:40]}.{secrets.token_hex(8)}{PARTIAL}")
    try:
        _fill(partial, pieces, mode)
        yield partial
    except BaseException as error:
        with suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError) and not isinstance(error, EupgError):
            raise storage_error(f"cannot write {path}", error, _UNCHANGED) from error
        raise


def _fill(partial: Path, pieces: Iterable[bytes | memoryview], mode: int) -> None:
    number = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        os.fchmod(number, mode)
        checkpoint("before write")
        for count, piece in enumerate(pieces):
            left = memoryview(piece)
            while left:
                # A nearly full disk accepts a part and says so; only the next call fails.
                left = left[os.write(number, left) :]
            if not count:
                checkpoint("mid-write")
        checkpoint("after write")
        os.fsync(number)
    finally:
        os.close(number)
    checkpoint("after fsync")


def _halves(content: bytes) -> tuple[memoryview, memoryview]:
    view, half = memoryview(content), len(content) // 2
    return view[:half], view[half:]


def is_partial(name: str) -> bool:
    """Return whether a file name is that of an unfinished write."""
    return name.startswith(".") and name.endswith(PARTIAL)


def remove_partials(folder: Path) -> tuple[str, ...]:
    """Remove the partial files that killed processes left in a folder, and return their names.

    Call it while no other process writes there: a partial file may also belong to a write in progress.
    """
    names = sorted(e.name for e in list_folder(folder) if is_partial(e.name) and e.is_file(follow_symlinks=False))
    remove_files(folder, names)
    return tuple(names)


def remove_files(folder: Path, names: Iterable[str]) -> None:
    """Remove files from a folder, and return once their names are gone from the disk too."""
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
    """Make a folder that only its owner may enter, unless it exists."""
    try:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_folder(folder.parent, f"{folder} is made, but may not survive a power failure")
    except OSError as error:
        if isinstance(error, EupgError):
            raise
        raise storage_error(f"cannot make the folder {folder}", error, _UNCHANGED) from error


def sync_folder(folder: Path, otherwise: str) -> None:
    """Force the names in a folder to disk; ``otherwise`` says what is true if that fails."""
    try:
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
    except OSError as error:
        raise storage_error(f"cannot force the folder {folder} to disk", error, otherwise) from error
    checkpoint("after folder fsync")


def list_folder(folder: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a folder, hidden ones included."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        raise storage_error(f"cannot list {folder}", error, "its content is unknown") from error


def read_if_present(path: Path) -> bytes | None:
    """Return a file's content, or None if there is no such file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({error.strerror}): check the disk and its permissions") from error


def storage_error(what: str, error: OSError, state: str) -> StorageError:
    """Return an error that says what failed, why, which state that leaves, and the next step."""
    default = (error.strerror or str(error), "check the disk and the system's log, and repeat")
    reason, advice = _REASONS.get(error.errno or 0, default)
    return StorageError(f"{what}: {reason}; {state}. Next: {advice}")
