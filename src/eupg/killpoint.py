"""Where a crash test may kill the process: at every boundary between two effects on the disk.

Code that changes files calls :func:`checkpoint` before and after each step. In normal use it does nothing. Crash tests
run a flow in a process of its own. With ``EUPG_KILL_COUNT=<file>`` the process writes at exit how many checkpoints it
passed. With ``EUPG_KILL_AT=<n>`` it kills itself at the n-th one (from 1) with SIGKILL: nothing is flushed or cleaned.
"""

from __future__ import annotations

import atexit
import os
import signal
from itertools import count
from pathlib import Path

from eupg.errors import ParameterError


def checkpoint(name: str) -> None:
    """Do nothing, unless a crash test asked for the process to end here."""
    if _armed:
        _pass(name)


def arm(at: int) -> None:
    """Count checkpoints from now on, and kill the process at this one; 0 only counts.

    For a forked process, whose parent has read the environment long ago.
    """
    global _armed, _kill_at, _numbers, _passed
    _armed, _kill_at, _numbers, _passed = True, at, count(1), 0


def passed() -> int:
    """Return how many checkpoints were passed since counting began."""
    return _passed


def _pass(name: str) -> None:
    global _passed  # noqa: PLW0603
    # next() on a counter is one step, so threads never share a number.
    _passed = next(_numbers)
    if _passed == _kill_at:
        os.write(2, f"killed at checkpoint {_passed}: {name}\n".encode())
        os.kill(os.getpid(), signal.SIGKILL)


def _number(text: str | None) -> int:
    if text is None:
        return 0
    if not text.isdecimal() or int(text) < 1:
        raise ParameterError(f"EUPG_KILL_AT must be a whole number of at least 1, got {text!r}: correct or unset it")
    return int(text)


_numbers = count(1)
_passed = 0
_kill_at = _number(os.environ.get("EUPG_KILL_AT"))
_count_file = os.environ.get("EUPG_KILL_COUNT")
_armed = bool(_kill_at or _count_file)
if _count_file:
    # Made absolute now: the flow may change its working directory.
    _report = Path(_count_file).absolute()
    atexit.register(lambda: _report.write_text(f"{_passed}\n", encoding="ascii"))
