"""Trouble for whoever writes to disk: killed at any step, a full disk, a read-only one."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_NOT_MOUNTED = 77


def crashes(code: str, before: Path, places: Path) -> Iterator[tuple[str, Path]]:
    """Run code on copies of a folder (its ``sys.argv[1]``), killed at each of its checkpoints in turn.

    Yields the name of the checkpoint and the folder as the killed process left it.
    """
    whole, counted = places / "whole", places / "count"
    shutil.copytree(before, whole)
    _python(code, whole, {"EUPG_KILL_COUNT": str(counted)}).check_returncode()
    total = int(counted.read_text())
    assert total > 0
    for number in range(1, total + 1):
        folder = places / str(number)
        shutil.copytree(before, folder)
        run = _python(code, folder, {"EUPG_KILL_AT": str(number)})
        assert run.returncode == -signal.SIGKILL, run.stderr
        yield run.stderr.rpartition(": ")[2].strip(), folder


def on_small_disk(code: str, folder: Path, size: str) -> None:
    """Run code with a small disk of its own mounted at the folder, its ``sys.argv[1]``; skip where that is not allowed.

    The code may call ``make_read_only()``. The disk vanishes with the process.
    """
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    shell = f'mount -t tmpfs -o "size={size}" none "$1" || exit {_NOT_MOUNTED}; exec "$2" -c "$3" "$1"'
    prelude = (
        "import subprocess, sys\n"
        "def make_read_only():\n"
        "    subprocess.run(['mount', '-o', 'remount,ro', sys.argv[1]], check=True)\n"
    )
    try:
        run = subprocess.run(
            ["unshare", "--mount", *user, "sh", "-c", shell, "sh", folder, sys.executable, prelude + code],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("no unshare here: disks cannot be mounted for a test")
    if run.returncode == _NOT_MOUNTED or run.stderr.startswith("unshare:"):
        pytest.skip(f"disks cannot be mounted here: {run.stderr.strip()}")
    assert run.returncode == 0, run.stderr


def failing(number: int, *, at: int = 1) -> Callable[..., object]:
    """Return a function that fails like the system with this error number at its ``at``-th call, and from then on."""
    calls = iter(range(1, 1000))

    def fail(*arguments: object, **options: object) -> object:
        if next(calls) >= at:
            raise OSError(number, os.strerror(number))
        return None

    return fail


# A word of the message for each way a disk can refuse.
REFUSALS = [
    pytest.param(errno.ENOSPC, "no space is left.*free some space", id="full"),
    pytest.param(errno.EROFS, "read-only.*mount it writable", id="read-only"),
    pytest.param(errno.EACCES, "no permission.*owner or mode", id="forbidden"),
    pytest.param(errno.EIO, "Input/output error.*system's log", id="broken"),
]


def _python(code: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, folder], env=os.environ | environment, capture_output=True, text=True, check=False
    )
