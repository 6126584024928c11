"""Files named by their SHA-256: written once, checked whenever they are read, and gone when they are deleted.

*Gone* means that no file in the store's folder holds the bytes, under that name or another, and that the folder was
forced to disk. It does not mean that the blocks of the disk were overwritten: journals, wear levelling and
copy-on-write keep old blocks, whatever a program writes over a file. Free blocks, snapshots and backups are the
operator's task: use an encrypted disk, and let backups expire.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from eupg.errors import DataError, ParameterError, StoreCorrupt
from eupg.files import (
    list_folder,
    make_folder,
    remove_files,
    storage_error,
    sync_folder,
    write_atomically,
)

Digest = str
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PIECE = 1 << 20
# So many bytes at the beginning tell most files apart.
_HEAD = 256


@dataclass(frozen=True)
class Deleted:
    """A file that is gone: its digest and its size in bytes.

    For a file that was not named by a digest, such as a partial one, it is the digest of the content.
    """

    digest: Digest
    size: int


@dataclass(frozen=True)
class Store:
    """A folder of files, each named by the SHA-256 of its content; the folder is made if it does not exist.

    One process at a time may change a store: hold the :class:`~eupg.manage.storage.lock.WorkspaceLock`.

    Examples
    --------
    >>> import tempfile
    >>> store = Store(Path(tempfile.mkdtemp()))
    >>> digest = store.put(b"a model")
    >>> store.read(digest), store.delete(digest).size, digest in store
    (b'a model', 7, False)
    """

    folder: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))
        make_folder(self.folder)

    def put(self, content: bytes | Path | list[bytes | memoryview]) -> Digest:
        """Store these bytes, the parts of a list one after another, or a copy of this file; return their digest.

        They are on disk then. Equal contents are one file. A damaged file of that name is replaced by the good content.
        """
        if not isinstance(content, (bytes, Path, list)):
            raise ParameterError(f"expected bytes or a Path to copy, got {type(content).__name__}: pass one of the two")
        digest = _digest_of(content)
        if digest in self and self._content_digest(digest) == digest:
            # Its writer may have been killed before the name was forced to disk.
            sync_folder(self.folder, f"{digest} is stored, but may not survive a power failure")
        else:
            write_atomically(self._at(digest), _copy(content, digest) if isinstance(content, Path) else content)
        return digest

    def path(self, digest: Digest) -> Path:
        """Return the path of the file, after its content was checked against its name."""
        actual = self._content_digest(digest)
        if actual != digest:
            raise _damaged(self._at(digest), actual)
        return self._at(digest)

    def place(self, digest: Digest) -> Path:
        """Return the path of the file, unchecked: for whoever checks what is read of it."""
        return self._at(digest)

    def read(self, digest: Digest) -> bytes:
        """Return the content, checked against its name."""
        with self._reading(self._at(digest).name) as file:
            content = file.read()
        actual = hashlib.sha256(content).hexdigest()
        if actual != digest:
            raise _damaged(self._at(digest), actual)
        return content

    def __contains__(self, digest: Digest) -> bool:
        """Return whether there is a file of that name; :meth:`read` and :meth:`path` check whether it is intact."""
        return os.path.lexists(self._at(digest))

    def digests(self) -> set[Digest]:
        """Return the names of all files that are named by a digest, unchecked."""
        return {e.name for e in list_folder(self.folder) if _DIGEST.fullmatch(e.name) and _is_plain(e)}

    def delete(self, digest: Digest) -> Deleted:
        """Delete a file, damaged or not, and return once no file of the folder has that name or content."""
        return self._delete([_name(digest)], live=set())[0]

    def delete_all(self, digests: Iterable[Digest]) -> None:
        """Delete those of these files that exist, in this order; see :meth:`delete`."""
        present = self.names()
        self._delete([name for name in map(_name, digests) if name in present], live=set())

    def names(self) -> set[str]:
        """Return the names of everything in the folder."""
        return {entry.name for entry in list_folder(self.folder)}

    def collect(self, live: Iterable[Digest]) -> list[Deleted]:
        """Delete every file that is not live, and return what was deleted.

        If a live file is missing, nothing is deleted. Links and folders do not belong here and are not followed; an
        error names them once everything else is done. A copy of a live file is deleted without being listed, since its
        bytes are not gone.
        """
        needed, entries = set(map(_name, live)), list_folder(self.folder)
        missing = sorted(needed - {entry.name for entry in entries})
        if missing:
            raise StoreCorrupt(f"{self._at(missing[0])} is missing: nothing was deleted; restore it from a backup")
        deleted = self._delete(sorted(e.name for e in entries if _is_plain(e) and e.name not in needed), live=needed)
        for entry in entries:
            if not _is_plain(entry):
                raise StoreCorrupt(f"{entry.path} is not a file of this store: inspect it, and remove it by hand")
        return deleted

    def verify(self, live: Iterable[Digest]) -> tuple[str, ...]:
        """Check that every live file is present and intact, and return the names of everything else in the folder."""
        needed = set(map(_name, live))
        for digest in sorted(needed):
            self.path(digest)
        return self.others(needed)

    def others(self, live: Iterable[Digest]) -> tuple[str, ...]:
        """Return the names of everything in the folder that is not live."""
        needed = set(map(_name, live))
        return tuple(sorted(e.name for e in list_folder(self.folder) if e.name not in needed))

    def _at(self, digest: Digest) -> Path:
        return self.folder / _name(digest)

    @contextmanager
    def _reading(self, name: str) -> Iterator[BufferedReader]:
        """Open a plain file of this folder; links are not followed, and a pipe does not block."""
        path = self.folder / name
        try:
            with open(path, "rb", opener=_open_plain) as file:
                yield file
        except FileNotFoundError as error:
            raise StoreCorrupt(f"{path} is missing: restore it from a backup") from error
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EINVAL):
                raise StoreCorrupt(
                    f"{path} is not a plain file ({error.strerror}): restore it from a backup"
                ) from error
            raise storage_error(f"cannot read {path}", error, "its content is unknown") from error

    def _content_digest(self, digest: Digest) -> Digest:
        with self._reading(self._at(digest).name) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _delete(self, names: list[str], *, live: set[Digest]) -> list[Deleted]:
        if not names:
            return []
        described = [(about, head) for about, head in map(self._about, names) if about.digest not in live]
        remove_files(self.folder, names)
        self._check_gone({(about.size, head): about for about, head in described})
        return [about for about, _ in described]

    def _about(self, name: str) -> tuple[Deleted, bytes]:
        """Describe a file before its deletion, by its beginning too; refuse one whose bytes have another name."""
        with self._reading(name) as file:
            about = os.fstat(file.fileno())
            if about.st_nlink > 1:
                raise StoreCorrupt(
                    f"{self.folder / name} has {about.st_nlink} names (hard links), so its bytes would stay: "
                    f"remove the others (find / -inum {about.st_ino} on its disk), then repeat"
                )
            head = file.read(_HEAD)
            file.seek(0)
            named = _DIGEST.fullmatch(name) is not None
            digest = name if named else hashlib.file_digest(file, "sha256").hexdigest()
            return Deleted(digest, about.st_size), head

    def _check_gone(self, deleted: Mapping[tuple[int, bytes], Deleted]) -> None:
        gone, sizes = {d.digest for d in deleted.values()}, {d.size for d in deleted.values()}
        for entry in list_folder(self.folder):
            if entry.name in gone:
                raise StoreCorrupt(f"{entry.path} was deleted and exists again: find out who writes to this folder")
            # Only a file of the same size and beginning can hold the same bytes.
            size = entry.stat(follow_symlinks=False).st_size if _is_plain(entry) else -1
            if size in sizes:
                with self._reading(entry.name) as file:
                    if (size, file.read(_HEAD)) not in deleted:
                        continue
                    file.seek(0)
                    content = hashlib.file_digest(file, "sha256").hexdigest()
                if content in gone:
                    raise StoreCorrupt(f"{entry.path} still holds the deleted bytes of {content}: remove it by hand")


def _name(digest: Digest) -> str:
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ParameterError(f"expected a digest of 64 digits 0-9 and a-f, got {digest!r:.80}: pass a result of put")
    return digest


def _open_plain(path: str, flags: int) -> int:
    number = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "a folder, pipe or device")
    return number


def _is_plain(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False)


def _damaged(path: Path, actual: Digest) -> StoreCorrupt:
    return StoreCorrupt(
        f"{path} is damaged: its content has SHA-256 {actual}, its name says {path.name}; restore it from a backup"
    )


def _digest_of(content: bytes | Path | list[bytes | memoryview]) -> Digest:
    if isinstance(content, Path):
        with _source(content) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    running = hashlib.sha256()
    for part in [content] if isinstance(content, bytes) else content:
        running.update(part)
    return running.hexdigest()


def _copy(source: Path, expected: Digest) -> Iterator[bytes]:
    """Yield a file in pieces; raise at the end if it has changed since its digest was computed."""
    running = hashlib.sha256()
    with _source(source) as file:
        # At least two pieces, so that crash tests can stop in between.
        size = max(1, min(_PIECE, os.fstat(file.fileno()).st_size // 2))
        while piece := file.read(size):
            running.update(piece)
            yield piece
    if running.hexdigest() != expected:
        raise DataError(f"{source} changed while it was copied, nothing was stored: stop its writer and repeat")


@contextmanager
def _source(path: Path) -> Iterator[BufferedReader]:
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise storage_error(f"cannot read {path}", error, "nothing was stored") from error
