"""One manager at a time: a lock on the workspace that the kernel releases when its owner dies.

The lock is the kernel's (``flock``) on a file; who holds it, since when and for what is written into that file, for the
message others get. The stale-owner rule:

- On one machine the kernel knows. A lock whose owner died, by ``kill -9`` too, or before the machine was started again,
  is free at once; a lock whose owner lives is held, however long. No age makes it stale: training may take days.
- An owner on *another* machine who never released the lock counts as living, whatever this kernel says, because not
  every network file system tells one machine of another's locks, and nobody can tell a dead machine from a silent one.
  Once somebody has made sure that machine is not at work on the workspace, ``abandoned_by="its name"`` takes over.

Machines that share a workspace need names of their own. A process forked by the owner does not hold the lock.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import platform
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from eupg.errors import LockHeld, ParameterError
from eupg.manage.atomic import storage_error

_POLL_S = 0.05
# Held by another, or the file was deleted between opening and locking it.
_BUSY = (errno.EWOULDBLOCK, errno.EACCES, errno.ENOENT)


@dataclass(frozen=True)
class Owner:
    """Who holds a lock: for messages, and for the rule about other machines.

    Parameters
    ----------
    pid, host
        The process, and the machine's name.
    boot
        The running kernel; containers on one machine share it, whatever they are called. Empty where unknown.
    started
        When the process was started, as far as the system tells.
    since
        Since when it has held the lock.
    doing
        What it does meanwhile.
    """

    pid: int
    host: str
    boot: str
    started: str
    since: str
    doing: str

    @classmethod
    def me(cls, doing: str) -> Owner:
        """Describe this process."""
        now = _when(time.time())
        return cls(os.getpid(), platform.node(), _boot(), _process_start(), now, doing)

    def is_here(self) -> bool:
        """Tell whether the owner's machine is this one, perhaps before it was started again."""
        return (self.boot != "" and self.boot == _boot()) or self.host == platform.node()

    def __str__(self) -> str:
        """Say it as a message does."""
        started = f", started {self.started}" if self.started else ""
        return f"process {self.pid} on {self.host}{started}, since {self.since} ({self.doing})"


class WorkspaceLock:
    """Keeps two managers apart, in two processes or in one; a context manager.

    Parameters
    ----------
    path
        The lock file; it stays when the lock is released.
    doing
        What the lock is held for, in a word or two and without a personal value: others read it.
    timeout_s
        How long to wait for another owner; by default not at all.
    abandoned_by
        The name of another machine that left the lock behind and is known not to be at work any more.
    shared
        Only keep owners away: any number of processes may hold the lock so at the same time, and none signs it.

    Raises
    ------
    LockHeld
        On entering, while somebody else holds the lock; the message names them.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "lock"
    >>> with WorkspaceLock(path, doing="forget"):
    ...     try:
    ...         WorkspaceLock(path).__enter__()
    ...     except LockHeld as held:
    ...         print(str(held)[:23], "(forget)" in str(held))
    the workspace is locked True
    """

    def __init__(
        self,
        path: Path,
        *,
        doing: str = "change",
        timeout_s: float = 0.0,
        abandoned_by: str | None = None,
        shared: bool = False,
    ) -> None:
        if not timeout_s >= 0:
            raise ParameterError(f"timeout_s must be at least 0, got {timeout_s!r}")
        self.path, self.doing, self.timeout_s, self.abandoned_by = Path(path), doing, timeout_s, abandoned_by
        self.shared = shared
        self.interrupted: Owner | None = None
        """Who held the lock last, if they died without releasing it: what they were doing may be half done."""
        self._file: int | None = None
        self._pid = 0

    def __enter__(self) -> Self:
        if self._file is not None:
            raise LockHeld("this lock is already held by this very object: leave its with block first")
        until = time.monotonic() + self.timeout_s
        while (file := self._try()) is None:
            if time.monotonic() >= until:
                raise LockHeld(
                    f"the workspace is locked by {read_owner(self.path) or 'somebody who has not signed yet'}: "
                    "wait until they are done, or end that process"
                )
            time.sleep(_POLL_S)
        self._file, self._pid = file, os.getpid()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        file, self._file = self._file, None
        # In a process forked meanwhile the file is closed already and its number may be another file's.
        if file is not None and self._pid == os.getpid():
            (_close if self.shared else _release)(file)

    def is_held(self) -> bool:
        """Tell whether this process holds the lock, and the file it holds still is the one that others find."""
        if self._file is None or self._pid != os.getpid():
            return False
        try:
            found, mine = os.stat(self.path, follow_symlinks=False), os.fstat(self._file)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == (mine.st_dev, mine.st_ino)

    def _try(self) -> int | None:
        """Return the locked and signed file, or None while another owner has it."""
        file = _open(self.path)
        _held.add(file)
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if self.shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            # Whoever deleted the file meanwhile made room for another one of that name, and another owner.
            if os.stat(self.path).st_ino != os.fstat(file).st_ino:
                raise BlockingIOError(errno.EWOULDBLOCK, "replaced")
            self.interrupted = self._predecessor()
            if not self.shared:
                _sign(file, Owner.me(self.doing))
        except BaseException as error:
            _close(file)
            if isinstance(error, LockHeld) or not isinstance(error, OSError):
                raise
            if error.errno in _BUSY:
                return None
            raise storage_error(f"cannot lock {self.path}", error, "nothing was changed") from error
        return file

    def _predecessor(self) -> Owner | None:
        last = read_owner(self.path)
        if last is not None and not last.is_here() and last.host != self.abandoned_by:
            raise LockHeld(
                f"the workspace was locked by {last}, and never released: if that machine is not at work on it any "
                f"more, say so with abandoned_by={last.host!r}"
            )
        return last


def read_owner(path: Path) -> Owner | None:
    """Return who holds the lock, or held it and died; None if it was released or is just being signed."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return Owner(int(values["pid"]), *(str(values[f.name]) for f in fields(Owner)[1:]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


_held: set[int] = set()


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise storage_error(f"cannot open the lock {path}", error, "nothing was changed") from error


def _sign(file: int, owner: Owner) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps(asdict(owner)).encode(), 0)


def _release(file: int) -> None:
    # If the signature cannot be wiped, the next owner finds it and believes that this one died: no harm.
    with suppress(OSError):
        os.ftruncate(file, 0)
    _close(file)


def _close(file: int) -> None:
    _held.discard(file)
    os.close(file)


def _let_go() -> None:
    """Close the lock's file in a forked process, or the lock would outlive its owner there."""
    for file in list(_held):
        _close(file)


os.register_at_fork(after_in_child=_let_go)


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _process_start() -> str:
    """Return when this process was started; empty where there is no /proc."""
    try:
        # The process's name stands in brackets and may hold anything; start time is the 20th field after it.
        ticks = int(Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        return _when(time.time() - age)
    except (OSError, ValueError, AttributeError, IndexError):
        return ""


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
