"""One change at a time: a lock on the workspace that the kernel releases when its owner dies.

The lock is the kernel's (``flock``) on a file. The file says who holds it, since when and why, for messages to others.

- On one machine the kernel knows the owner. If it died, even by ``kill -9``, the lock is free at once. If it lives, the
  lock is held, however long: training may take days.
- An owner on *another* machine that never released the lock counts as alive, whatever this kernel says: not every
  network file system reports the locks of other machines, and a dead machine looks like a silent one. Once somebody
  has made sure that it does not work on the workspace any more, delete the lock file.

Machines that share a workspace need different names. A process forked by the owner does not hold the lock.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import platform
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from eupg.errors import LockHeld, ParameterError
from eupg.files import storage_error

_POLL_S = 0.05
# Held by another, or the file was deleted between opening and locking it.
_BUSY = (errno.EWOULDBLOCK, errno.EACCES, errno.ENOENT)


@dataclass(frozen=True)
class Owner:
    """Who holds a lock: for messages, and for the rule about other machines.

    ``boot`` is the id of the running kernel, which containers on one machine share; empty where unknown. ``started``
    and ``since`` say when the process was started and when it took the lock, ``doing`` what it holds the lock for.
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
        """Return whether the owner's machine is this one, perhaps before it was restarted."""
        return (self.boot != "" and self.boot == _boot()) or self.host == platform.node()

    def __str__(self) -> str:
        """Return the owner in words."""
        started = f", started {self.started}" if self.started else ""
        return f"process {self.pid} on {self.host}{started}, since {self.since} ({self.doing})"


class WorkspaceLock:
    """Keeps two changes apart, in two processes or in one; a context manager that raises :class:`LockHeld`.

    Parameters
    ----------
    path
        The lock file; it stays when the lock is released.
    doing
        What the lock is held for, in a word or two and without a personal value: others read it.
    timeout_s
        How long to wait for another owner; by default not at all.
    shared
        Only keep owners away: any number of processes may hold the lock in this way, and none signs it.

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
        shared: bool = False,
    ) -> None:
        if not timeout_s >= 0:
            raise ParameterError(f"timeout_s must be at least 0, got {timeout_s!r}")
        self.path, self.doing, self.timeout_s = Path(path), doing, timeout_s
        self.shared = shared
        self.interrupted: Owner | None = None
        """Who held the lock last, if they died without releasing it: what they did may be incomplete."""
        self._file: int | None = None
        self._holder = (0, 0)

    def __enter__(self) -> Self:
        if self._file is not None:
            raise LockHeld("this lock object is already in use: leave its with block first")
        until = time.monotonic() + self.timeout_s
        while (file := self._try()) is None:
            if time.monotonic() >= until:
                raise LockHeld(
                    f"the workspace is locked by {read_owner(self.path) or 'a process that has not signed yet'}: "
                    "wait until it is done, or end that process"
                )
            time.sleep(_POLL_S)
        self._file, self._holder = file, (os.getpid(), threading.get_ident())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        file, self._file = self._file, None
        # In a process forked meanwhile the file is closed already, and its number may be another file's.
        if file is not None and self._holder[0] == os.getpid():
            (_close if self.shared else _release)(file)

    def is_held(self) -> bool:
        """Return whether this thread holds the lock, and its file is still the one that others see."""
        if self._file is None or self._holder != (os.getpid(), threading.get_ident()):
            return False
        try:
            return os.path.samestat(os.stat(self.path, follow_symlinks=False), os.fstat(self._file))
        except OSError:
            return False

    def _try(self) -> int | None:
        """Return the locked and signed file, or None while another owner has it."""
        file = _open(self.path)
        _held.add(file)
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if self.shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            # The file may have been deleted meanwhile: then another one of that name has another owner.
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
        if last is not None and not last.is_here():
            raise LockHeld(
                f"the workspace was locked by {last}, and never released: if that machine does not work on it any "
                f"more, delete {self.path}"
            )
        return last


def read_owner(path: Path) -> Owner | None:
    """Return who holds the lock, or held it and died; None if it was released or is being signed."""
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
    # If the signature cannot be wiped, the next owner takes this one for dead: no harm.
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
        # The process's name is in brackets and may be anything; the start time is the 20th field after it.
        ticks = int(Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        return _when(time.time() - age)
    except (OSError, ValueError, AttributeError, IndexError):
        return ""


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
