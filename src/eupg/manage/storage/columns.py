"""Columns of numbers in one file, of which only the pieces that are needed are read.

A large file is checked piece by piece: its head holds the SHA-256 of every piece, and whoever opens the file knows the
SHA-256 of the head. So a look at a few rows costs the pieces that hold them, and whatever is read is checked.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eupg.errors import StoreCorrupt
from eupg.files import storage_error

Array = NDArray[Any]
Buffer = bytes | memoryview
_MAGIC = b"eupg-columns-1\n\0"
_PIECE = 1 << 16
_SHA256 = 32


class ColumnSet:
    """Named arrays in memory."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = dict(arrays)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays."""
        return tuple(self._arrays)

    def length(self, name: str) -> int:
        """Return the number of elements of an array."""
        return len(self._arrays[name])

    def all(self, name: str) -> Array:
        """Return a whole array."""
        return self._arrays[name]

    def part(self, name: str, start: int, stop: int) -> Array:
        """Return the elements from ``start`` to before ``stop``."""
        return self._arrays[name][start:stop]

    def take(self, name: str, rows: Array) -> Array:
        """Return the elements at these positions."""
        return self._arrays[name][rows]

    def to_bytes(self) -> bytes:
        """Return the content of a file that :class:`StoredColumns` reads."""
        return b"".join(self.to_parts())

    def to_parts(self) -> list[Buffer]:
        """Return the same in parts, the arrays as they are in memory: no copy of them is made."""
        listed: list[list[Any]] = []
        parts: list[Buffer] = []
        offset = 0
        for name in self.names:
            array = np.ascontiguousarray(self.all(name))
            listed.append([name, array.dtype.str, len(array), offset])
            # The next array begins where any number may begin.
            padding = -array.nbytes % 16
            parts += [array.view(np.uint8).data, bytes(padding)]
            offset += array.nbytes + padding
        about = json.dumps({"columns": listed, "size": offset}).encode()
        head = b"".join([_MAGIC, len(about).to_bytes(8, "little"), about, *_piece_digests(parts)])
        return [head, *parts]


class StoredColumns(ColumnSet):
    """Named arrays in a file, read when they are asked for.

    ``head`` is the SHA-256 of the head, which holds the digests of the pieces; None trusts the head, because the whole
    file was checked before.
    """

    def __init__(self, path: Path, head: str | None) -> None:
        self._path = path
        with self._opened() as file:
            fixed = len(_MAGIC) + 8
            content = os.pread(file.number, fixed, 0)
            size = int.from_bytes(content[len(_MAGIC) : fixed], "little")
            if content[: len(_MAGIC)] != _MAGIC or size > 1 << 24:
                raise self._damaged("it does not begin as such a file does")
            about = os.pread(file.number, size, fixed)
            try:
                values = json.loads(about)
                self._size = int(values["size"])
                columns = [(str(name), np.dtype(kind), int(n), int(at)) for name, kind, n, at in values["columns"]]
            # NumPy reads some names of types as Python code.
            except (ValueError, KeyError, TypeError, SyntaxError) as error:
                raise self._damaged(str(error)) from error
            count = -(-self._size // _PIECE)
            if count < 0 or count > 1 << 26:
                raise self._damaged("its size is impossible")
            pieces = os.pread(file.number, count * _SHA256, fixed + size)
        read = hashlib.sha256(content + about + pieces).hexdigest()
        if len(pieces) != count * _SHA256 or (head is not None and head != read):
            raise self._damaged("its head is not the one that was noted")
        self.head = read
        """The SHA-256 of the head."""
        self._start = fixed + size + len(pieces)
        self._digests = pieces
        self._loaded = np.zeros(count, dtype=bool)
        # Pages of it are taken from the system when they are first written.
        self._memory = np.empty(self._size, dtype=np.uint8)
        arrays: dict[str, Array] = {}
        self._places: dict[str, int] = {}
        for name, kind, length, at in columns:
            end = at + length * kind.itemsize
            if kind.hasobject or length < 0 or at < 0 or end > self._size or name in arrays:
                raise self._damaged(f"its column {name!r:.40} is impossible")
            arrays[name] = self._memory[at:end].view(kind)
            self._places[name] = at
        super().__init__(arrays)

    def all(self, name: str) -> Array:
        """Return a whole array."""
        array = self._arrays[name]
        self._load_range(self._places[name], array.nbytes)
        return array

    def part(self, name: str, start: int, stop: int) -> Array:
        """Return the elements from ``start`` to before ``stop``."""
        chosen = self._arrays[name][start:stop]
        self._load_range(self._places[name] + start * chosen.itemsize, chosen.nbytes)
        return chosen

    def take(self, name: str, rows: Array) -> Array:
        """Return the elements at these positions."""
        array = self._arrays[name]
        # No element lies across the border of two pieces: sizes are powers of two, and so is a piece.
        places = self._places[name] + np.asarray(rows, dtype=np.int64) * array.itemsize
        self._load(np.unique(places // _PIECE))
        return array[rows]

    def _load_range(self, start: int, size: int) -> None:
        if size > 0:
            self._load(np.arange(start // _PIECE, -(-(start + size) // _PIECE)))

    def _load(self, pieces: NDArray[np.int64]) -> None:
        """Read and check those of the pieces that are not in memory, neighbours together."""
        missing = pieces[~self._loaded[pieces]]
        if not len(missing):
            return
        breaks = np.flatnonzero(np.diff(missing) != 1) + 1
        with self._opened() as file:
            for run in np.split(missing, breaks):
                first, last = int(run[0]), int(run[-1]) + 1
                begin, end = first * _PIECE, min(last * _PIECE, self._size)
                view = self._memory[begin:end].data
                if os.preadv(file.number, [view], self._start + begin) != end - begin:
                    raise self._damaged("it ends too early")
                for piece in range(first, last):
                    content = view[(piece - first) * _PIECE : (piece - first + 1) * _PIECE]
                    digest = self._digests[piece * _SHA256 : (piece + 1) * _SHA256]
                    if hashlib.sha256(content).digest() != digest:
                        raise self._damaged(f"its piece {piece} was changed")
        self._loaded[missing] = True

    def _opened(self) -> _Opened:
        return _Opened(self._path)

    def _damaged(self, why: str) -> StoreCorrupt:
        return StoreCorrupt(f"{self._path} is damaged ({why}): restore it from a backup")


def _piece_digests(parts: Iterable[Buffer]) -> Iterator[bytes]:
    """Yield the SHA-256 of every piece of these parts together."""
    running, left = hashlib.sha256(), _PIECE
    for part in parts:
        view = memoryview(part)
        while len(view):
            running.update(view[:left])
            taken, view = min(left, len(view)), view[left:]
            left -= taken
            if not left:
                yield running.digest()
                running, left = hashlib.sha256(), _PIECE
    if left < _PIECE:
        yield running.digest()


class _Opened:
    """A file that is opened for reading; a context manager."""

    def __init__(self, path: Path) -> None:
        try:
            self.number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError as error:
            raise StoreCorrupt(f"{path} is missing: restore it from a backup") from error
        except OSError as error:
            raise storage_error(f"cannot read {path}", error, "its content is unknown") from error

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.number)


def find(columns: ColumnSet, name: str, digests: list[bytes]) -> NDArray[np.int64]:
    """Return where each digest stands in a sorted column of digests; −1 where it does not.

    Digests are as good as random, so the place of one is known nearly, and few pieces are read.
    """
    length, places = columns.length(name), np.full(len(digests), -1, dtype=np.int64)
    if len(digests) > 256:
        column = columns.all(name)
        wanted = np.frombuffer(b"".join(digests), dtype=column.dtype)
        nearest = np.searchsorted(column, wanted)
        inside = np.flatnonzero(nearest < length)
        inside = inside[column[nearest[inside]] == wanted[inside]]
        places[inside] = nearest[inside]
        return places
    for i, digest in enumerate(digests):
        expected = int.from_bytes(digest[:8], "big") * length >> 64
        reach = 4 * math.isqrt(length) + 64
        while True:
            start, stop = max(0, expected - reach), min(length, expected + reach)
            near = columns.part(name, start, stop)
            wanted = np.frombuffer(digest, dtype=near.dtype)
            place = int(np.searchsorted(near, wanted)[0])
            if (place > 0 or start == 0) and (place < len(near) or stop == length):
                break
            reach *= 8
        if place < len(near) and near[place] == wanted[0]:
            places[i] = start + place
    return places
