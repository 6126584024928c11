"""The results file: one line of JSON per cell, only ever appended to.

Values that many cells share, the machine and the claim, are written once, on a separate line before the first cell that
has them; cells name them by a short hash. Files can be split and joined again with ``cat`` in any order. A line that a
killed run left half written is recognised, and removed when the next run starts. Of several lines for one cell the
newest counts.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from eupg.errors import DataError, LockHeld, StorageError
from eupg_reproduction.cell import Cell

# The start of a line, of a cell or of a shared value.
_BEGIN = re.compile(r'\{"(?:cell|id)": ?"')


@dataclass(frozen=True)
class Result:
    """One finished cell, with its figures and its origin."""

    cell: Cell
    line: dict[str, Any]

    @property
    def version(self) -> str:
        """The code that made it."""
        return str(self.line["version"])

    @property
    def metrics(self) -> dict[str, Any]:
        """The figures."""
        metrics: dict[str, Any] = self.line["metrics"]
        return metrics

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by phase."""
        seconds: dict[str, float] = self.line["seconds"]
        return seconds


@dataclass(frozen=True)
class Contents:
    """The contents of a results file: the newest result by configuration hash, and counts of lines.

    ``lines`` counts complete lines, ``repeated`` those with the cell and version of another line, ``torn`` those cut
    off.
    """

    newest: dict[str, Result]
    lines: int = 0
    repeated: int = 0
    torn: int = 0


def read(path: Path) -> Contents:
    """Read a results file; a missing one is empty."""
    if not path.exists():
        return Contents({})
    newest: dict[str, Result] = {}
    seen: set[tuple[str, str]] = set()
    parsed, torn = _lines(path)
    shared = dict(_definitions(line for _, line in parsed))
    lines = repeated = 0
    for number, line in parsed:
        if "id" in line:
            continue
        result = _result(line, shared, path, number)
        lines += 1
        mark = (result.cell.key, result.version)
        repeated += mark in seen
        seen.add(mark)
        known = newest.get(result.cell.key)
        if known is None or str(line["at"]) >= str(known.line["at"]):
            newest[result.cell.key] = result
    return Contents(newest, lines, repeated, torn)


def _lines(path: Path) -> tuple[list[tuple[int, dict[str, Any]]], int]:
    """Return the complete lines of a file by number, and how many were cut off."""
    try:
        content = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise StorageError(f"cannot read {path} ({error}): name another file with --results") from error
    parsed, torn = list[tuple[int, dict[str, Any]]](), 0
    for number, text in enumerate(content, start=1):
        if text.strip():
            line, cut = _parse(text)
            torn += cut
            if line is not None:
                parsed.append((number, line))
    return parsed, torn


def _parse(text: str) -> tuple[dict[str, Any] | None, bool]:
    """Return a line and whether something was cut off; after a torn line the next one may follow without a break."""
    try:
        line: dict[str, Any] = json.loads(text)
        return line, False
    except ValueError:
        begins = [match.start() for match in _BEGIN.finditer(text)]
        if not begins or begins[-1] == 0:
            return None, True
        return _parse(text[begins[-1] :])[0], True


def _definitions(lines: Iterable[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the shared values by their ids."""
    yield from ((line["id"], line["value"]) for line in lines if "id" in line and "value" in line)


def compact(line: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a line that names machine and claim by their ids, and the values of these ids."""
    short, shared = dict(line), dict[str, Any]()
    if line.get("machine") and isinstance(line["machine"], dict):
        short["machine"] = _name(line["machine"], shared)
    if line["metrics"].get("claim") and isinstance(line["metrics"]["claim"], dict):
        short["metrics"] = {**line["metrics"], "claim": _name(line["metrics"]["claim"], shared)}
    return short, shared


def _name(value: dict[str, Any], shared: dict[str, Any]) -> str:
    name = hashlib.sha256(_dumped(value).encode()).hexdigest()[:8]
    shared[name] = value
    return name


def full(line: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """Return a line with machine and claim written out; the opposite of :func:`compact`."""
    whole, metrics = dict(line), line["metrics"]
    if isinstance(line.get("machine"), str):
        whole["machine"] = shared[line["machine"]]
    if isinstance(metrics, dict) and isinstance(metrics.get("claim"), str):
        whole["metrics"] = {**metrics, "claim": shared[metrics["claim"]]}
    return whole


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _result(line: dict[str, Any], shared: Mapping[str, Any], path: Path, number: int) -> Result:
    try:
        cell = Cell.of(line["config"])
        missing = [name for name in ("cell", "version", "at", "metrics", "seconds") if name not in line]
        if missing:
            raise KeyError(missing[0])
        line = full(line, shared)
        if not (isinstance(line["metrics"], dict) and line["metrics"] and isinstance(line["seconds"], dict)):
            raise TypeError("metrics and seconds must be figures by name")
    except (KeyError, TypeError, ValueError, AttributeError, DataError) as error:
        raise DataError(f"{path}, line {number} is not a result ({error}): remove it, or name another file") from error
    if line["cell"] != cell.key:
        raise DataError(
            f"{path}, line {number}: the hash {line['cell']} is not that of its configuration, {cell.key}: the "
            "line was changed by hand or has another format; remove it and run the cell again"
        )
    return Result(cell, line)


class Writer:
    """Appends lines, each on disk before the next, with one writer per file at a time."""

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
        self._shared = {name for name, _ in _definitions(line for _, line in _lines(path)[0])}

    def append(self, line: dict[str, Any]) -> None:
        """Write one line, preceded by the values it is the first to name; return once all is on disk."""
        short, shared = compact(line)
        new = [{"id": name, "value": value} for name, value in shared.items() if name not in self._shared]
        self._file.write("".join(f"{_dumped(one)}\n" for one in (*new, short)).encode())
        self._file.flush()
        self._shared |= set(shared)
        os.fsync(self._file.fileno())

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _repair(path: Path) -> None:
    """Remove a half-written last line; complete a whole one with a line break."""
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
