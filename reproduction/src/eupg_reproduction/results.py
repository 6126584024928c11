"""The results file: one line of JSON a cell, only ever appended to.

Files can be split and put together again with ``cat``. A line that a killed run left half written is recognised, and
taken away when the next run begins. Of several lines for one cell the newest counts.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from eupg.errors import DataError, LockHeld, StorageError
from eupg_reproduction.cell import Cell

_BEGIN = '{"cell": '


@dataclass(frozen=True)
class Result:
    """One finished cell: what it is, what was found, and where it comes from."""

    cell: Cell
    line: dict[str, Any]

    @property
    def version(self) -> str:
        """The code that made it."""
        return str(self.line["version"])

    @property
    def metrics(self) -> dict[str, Any]:
        """The figures."""
        found: dict[str, Any] = self.line["metrics"]
        return found

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by phase."""
        found: dict[str, float] = self.line["seconds"]
        return found


@dataclass(frozen=True)
class Contents:
    """What a results file holds.

    Parameters
    ----------
    newest
        The result that counts, by configuration hash.
    lines
        All whole lines.
    repeated
        Lines that say again what another line of the same cell and version says.
    torn
        Lines that were cut off.
    """

    newest: dict[str, Result]
    lines: int = 0
    repeated: int = 0
    torn: int = 0


def read(path: Path) -> Contents:
    """Read a results file; one that is not there is empty."""
    if not path.exists():
        return Contents({})
    newest: dict[str, Result] = {}
    seen: set[tuple[str, str]] = set()
    lines = repeated = torn = 0
    try:
        content = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise StorageError(f"cannot read {path} ({error}): name another file with --results") from error
    for number, text in enumerate(content, start=1):
        if not text.strip():
            continue
        line, cut = _parse(text)
        torn += cut
        if line is None:
            continue
        result = _result(line, path, number)
        lines += 1
        mark = (result.cell.key, result.version)
        repeated += mark in seen
        seen.add(mark)
        known = newest.get(result.cell.key)
        if known is None or str(line["at"]) >= str(known.line["at"]):
            newest[result.cell.key] = result
    return Contents(newest, lines, repeated, torn)


def _parse(text: str) -> tuple[dict[str, Any] | None, bool]:
    """Return a line and whether something was cut off; after a torn line the next one may follow without a break."""
    try:
        found: dict[str, Any] = json.loads(text)
        return found, False
    except ValueError:
        place = text.rfind(_BEGIN)
        if place <= 0:
            return None, True
        return _parse(text[place:])[0], True


def _result(line: dict[str, Any], path: Path, number: int) -> Result:
    try:
        cell = Cell.of(line["config"])
        missing = [name for name in ("cell", "version", "at", "metrics", "seconds") if name not in line]
        if missing:
            raise KeyError(missing[0])
        if not (isinstance(line["metrics"], dict) and line["metrics"] and isinstance(line["seconds"], dict)):
            raise TypeError("metrics and seconds must be figures by name")
    except (KeyError, TypeError, ValueError, AttributeError, DataError) as error:
        raise DataError(f"{path}, line {number} is no result ({error}): remove it, or name another file") from error
    if line["cell"] != cell.key:
        raise DataError(
            f"{path}, line {number}: the hash {line['cell']} is not that of its configuration, {cell.key}: the "
            "line was changed by hand or comes from another form of the file; remove it and run the cell again"
        )
    return Result(cell, line)


class Writer:
    """Appends lines, each on disk before the next; one writer a file at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[bytes] = path.open("ab")
        except OSError as error:
            raise StorageError(f"cannot write {path} ({error}): name another file with --results") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise LockHeld(
                f"another run is writing {path}: wait for it, or name another file with --results"
            ) from error
        _repair(path)

    def append(self, line: dict[str, Any]) -> None:
        """Write one line, whole, and return once it is on disk."""
        self._file.write((json.dumps(line, ensure_ascii=False) + "\n").encode())
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _repair(path: Path) -> None:
    """Take away what a killed run left of its last line; end a whole last line."""
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    tail = content[end:]
    if not tail:
        return
    try:
        json.loads(tail)
    except ValueError:
        os.truncate(path, end)
        return
    with path.open("ab") as file:
        file.write(b"\n")


def versions(results: Iterable[Result]) -> dict[str, int]:
    """Count results by the code that made them."""
    counts: dict[str, int] = {}
    for result in results:
        counts[result.version] = counts.get(result.version, 0) + 1
    return counts
