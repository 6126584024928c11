"""The folder of a run: it holds records while the run lasts, and a release, a model or nothing afterwards.

Records on their way lie in a hidden folder inside it, which only its owner may enter. It is erased at the end, after an
error, and, if the run was killed, by the next run with the same output folder.
"""

from __future__ import annotations

import fcntl
import fnmatch
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from eupg.errors import LockHeld, WrongState
from eupg.files import is_partial, list_folder, make_folder, storage_error

# Readers of a folder of Parquet files skip names that begin with an underscore.
MANIFEST = "_release.json"
_RECORDS, _LOCK, _PART = ".records-", ".lock", "part-"


@dataclass(frozen=True)
class RunOutcome:
    """What a run makes: its name, the pattern of its files, and the file that is written last."""

    name: str
    files: str
    last: str

    def holds(self, name: str) -> bool:
        """Tell whether a file of this name belongs to an outcome that is not complete."""
        return fnmatch.fnmatchcase(name, self.files) or is_partial(name)


RELEASE = RunOutcome("release", f"{_PART}*.parquet", MANIFEST)


def part_name(number: int) -> str:
    """Return the file name of a part of the release."""
    return f"{_PART}{number:05}.parquet"


@contextmanager
def claimed(out: Path, outcome: RunOutcome = RELEASE) -> Iterator[Path]:
    """Claim an output folder for one run; yield the folder for records, which is erased whatever happens."""
    if out.exists() and not out.is_dir():
        raise WrongState(f"{out} is a file: name a folder for the {outcome.name}")
    make_folder(out)
    _refuse_foreign(out, outcome)
    with _locked(out):
        _clear(out, outcome)
        # A name of its own: a process of an earlier run that still ends finds nothing to write to.
        records = out / f"{_RECORDS}{secrets.token_hex(8)}"
        make_folder(records)
        try:
            yield records
        finally:
            if not (out / outcome.last).exists():
                _clear(out, outcome)
            _erase(records)


def _refuse_foreign(out: Path, outcome: RunOutcome) -> None:
    names = sorted(entry.name for entry in list_folder(out))
    if outcome.last in names:
        raise WrongState(f"{out} holds a {outcome.name} already: name another folder, or delete this one first")
    foreign = [n for n in names if not (n.startswith(_RECORDS) or n == _LOCK or outcome.holds(n))]
    if foreign:
        raise WrongState(f"{out} holds other files, such as {foreign[0]}: name a new or an empty folder")


@contextmanager
def _locked(out: Path) -> Iterator[None]:
    path = out / _LOCK
    number = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LockHeld(f"another run writes to {out}: wait until it ends, or name another folder") from error
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(number)


def _clear(out: Path, outcome: RunOutcome) -> None:
    """Erase what a run that did not end well has left."""
    for entry in list_folder(out):
        if entry.name.startswith(_RECORDS):
            _erase(Path(entry.path))
        elif outcome.holds(entry.name):
            Path(entry.path).unlink(missing_ok=True)


def _erase(records: Path) -> None:
    if not records.exists():
        return
    try:
        shutil.rmtree(records)
    except OSError as error:
        raise storage_error(f"cannot erase {records}", error, "it still holds records of people") from error
