"""One manager at a time, and never a lock that a dead one left closed."""

import errno
import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from datetime import UTC, datetime
from json import dumps

import pytest

import eupg.manage.storage.lock as lock_module
from eupg.errors import LockHeld, ParameterError, StorageError
from eupg.manage.storage.lock import Owner, WorkspaceLock, read_owner
from trouble import failing

HOLD = """
import sys, time
from pathlib import Path
from eupg.manage.storage.lock import WorkspaceLock
with WorkspaceLock(Path(sys.argv[1]), doing="forget"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lock"


@pytest.fixture
def other(path):
    """Another process that holds the lock until its input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_two_processes_cannot_hold_it_and_the_message_names_the_owner(path, other):
    with pytest.raises(LockHeld) as refused, WorkspaceLock(path):
        pass
    told = str(refused.value)
    assert f"process {other.pid} on {os.uname().nodename}" in told
    assert "(forget)" in told
    assert "end that process" in told
    started, since = map(datetime.fromisoformat, re.search(r"started (\S+), since (\S+)", told).groups())
    now = datetime.now(UTC)
    assert 0 <= (now - since).total_seconds() < 30
    assert -1.5 <= (since - started).total_seconds() < 30


def test_killed_owner_frees_it_at_once_and_is_remembered(path, other):
    other.send_signal(signal.SIGKILL)
    other.wait()
    with WorkspaceLock(path) as lock:
        assert (lock.interrupted.pid, lock.interrupted.doing) == (other.pid, "forget")
    with WorkspaceLock(path) as lock:
        assert lock.interrupted is None


def test_owner_that_ends_frees_it(path, other):
    other.communicate()
    with WorkspaceLock(path) as lock:
        assert lock.interrupted is None


def test_process_forked_by_a_killed_owner_does_not_keep_it(path):
    code = """
import os, signal, sys, time
from pathlib import Path
from eupg.manage.storage.lock import WorkspaceLock
with WorkspaceLock(Path(sys.argv[1])):
    child = os.fork()
    if not child:
        os.close(1)
        time.sleep(60)
        os._exit(0)
    print(child, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    run = subprocess.run([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True, check=False)
    child = int(run.stdout)
    try:
        os.kill(child, 0)
        with WorkspaceLock(path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)


def test_forked_process_that_leaves_the_block_does_not_release_it(path):
    code = """
import os, sys
from pathlib import Path
from eupg.errors import LockHeld
from eupg.manage.storage.lock import WorkspaceLock
path = Path(sys.argv[1])
with WorkspaceLock(path):
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
        try:
            WorkspaceLock(path).__enter__()
        except LockHeld as held:
            assert str(os.getpid()) in str(held), held
        else:
            raise AssertionError("released")
    else:
        # The number the lock's file had is now another file's.
        taken = os.open(os.devnull, os.O_RDONLY)
if not child:
    os.fstat(taken)
"""
    subprocess.run([sys.executable, "-c", code, path], check=True)


def test_second_object_in_one_process_is_refused(path):
    with WorkspaceLock(path, doing="train"):
        with pytest.raises(LockHeld, match=rf"process {os.getpid()} .*\(train\)"):
            WorkspaceLock(path).__enter__()
        with pytest.raises(LockHeld):
            WorkspaceLock(path).__enter__()


def test_second_thread_is_refused(path):
    refused = []

    def enter():
        try:
            with WorkspaceLock(path):
                pass
        except LockHeld as held:
            refused.append(held)

    with WorkspaceLock(path):
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
    assert len(refused) == 1


def test_same_object_cannot_be_entered_twice_at_once_but_again(path):
    lock = WorkspaceLock(path)
    for _ in range(2):
        with lock:
            with pytest.raises(LockHeld, match="already in use"):
                lock.__enter__()
            with pytest.raises(LockHeld):
                WorkspaceLock(path).__enter__()


def test_error_inside_frees_it(path):
    with pytest.raises(ZeroDivisionError), WorkspaceLock(path):
        raise ZeroDivisionError
    with WorkspaceLock(path) as lock:
        assert lock.interrupted is None


def test_released_lock_names_nobody(path):
    with WorkspaceLock(path):
        assert read_owner(path).pid == os.getpid()
        assert path.stat().st_mode & 0o777 == 0o600
    assert (read_owner(path), path.read_bytes()) == (None, b"")


def test_no_open_file_is_left_behind(path):
    before = len(os.listdir("/proc/self/fd"))
    with WorkspaceLock(path), pytest.raises(LockHeld):
        WorkspaceLock(path, timeout_s=0.2).__enter__()
    assert len(os.listdir("/proc/self/fd")) == before


def test_waiting_ends_when_the_owner_does(path, other):
    threading.Timer(0.3, other.stdin.close).start()
    began = time.monotonic()
    with WorkspaceLock(path, timeout_s=30):
        assert 0.2 < time.monotonic() - began < 20


def test_waiting_ends_after_the_time_given(path, other):
    began = time.monotonic()
    with pytest.raises(LockHeld):
        WorkspaceLock(path, timeout_s=0.3).__enter__()
    assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize("wrong", [-1, float("nan")])
def test_impossible_waiting_time_is_refused(path, wrong):
    with pytest.raises(ParameterError, match="timeout_s"):
        WorkspaceLock(path, timeout_s=wrong)


def test_processes_in_a_crowd_take_turns(path, tmp_path):
    """A counter that is read and written without care counts right only if nobody does so at the same time."""
    code = """
import sys
from pathlib import Path
from eupg.manage.storage.lock import WorkspaceLock
counter = Path(sys.argv[2])
for _ in range(20):
    with WorkspaceLock(Path(sys.argv[1]), timeout_s=60):
        counter.write_text(str(int(counter.read_text()) + 1))
"""
    counter = tmp_path / "counter"
    counter.write_text("0")
    crowd = [subprocess.Popen([sys.executable, "-c", code, path, counter]) for _ in range(4)]
    assert [process.wait() for process in crowd] == [0] * 4
    assert counter.read_text() == "80"


def leave_behind(path, **changes):
    path.write_text(dumps(asdict(replace(Owner.me("forget"), **changes))))


def test_owner_on_another_machine_who_never_released_it_counts_as_living(path):
    leave_behind(path, host="node7", boot="another")
    with pytest.raises(LockHeld, match=rf"on node7.*never released.*delete {path}"):
        WorkspaceLock(path).__enter__()
    assert read_owner(path).host == "node7"


def test_lock_of_a_machine_that_is_gone_is_free_once_its_file_is_deleted(path):
    leave_behind(path, host="node7", boot="another")
    path.unlink()
    with WorkspaceLock(path) as lock:
        assert lock.interrupted is None


@pytest.mark.parametrize("changes", [{"boot": "before the restart"}, {"host": "another container"}])
def test_same_machine_restarted_or_in_another_container_is_no_other_machine(path, changes):
    leave_behind(path, **changes)
    with WorkspaceLock(path) as lock:
        assert lock.interrupted.doing == "forget"


def test_kernel_without_a_name_is_not_taken_for_this_one(path, monkeypatch):
    monkeypatch.setattr(lock_module, "_boot", lambda: "")
    leave_behind(path, host="node7", boot="")
    with pytest.raises(LockHeld):
        WorkspaceLock(path).__enter__()


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"pid": "x"}', "\xff"])
def test_unreadable_signature_keeps_nobody_out(path, text):
    path.write_text(text, encoding="latin-1")
    with WorkspaceLock(path) as lock:
        assert lock.interrupted is None


def test_file_replaced_while_it_is_locked_is_not_taken_for_the_lock(path, monkeypatch):
    flock = fcntl.flock
    calls = []

    def replaced(file, how):
        calls.append(file)
        if len(calls) == 1:
            path.unlink()
            path.touch()
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", replaced)
    with WorkspaceLock(path, timeout_s=10) as lock:
        assert os.fstat(lock._file).st_ino == path.stat().st_ino
    assert len(calls) == 2


def test_link_in_place_of_the_lock_is_refused(path, tmp_path):
    (tmp_path / "target").write_bytes(b"stays")
    path.symlink_to(tmp_path / "target")
    with pytest.raises(StorageError, match="cannot open the lock"):
        WorkspaceLock(path).__enter__()
    assert (tmp_path / "target").read_bytes() == b"stays"


@pytest.mark.parametrize(
    ("module", "step", "number", "words"),
    [
        (os, "open", errno.EROFS, "cannot open the lock .*read-only"),
        (os, "pwrite", errno.ENOSPC, "cannot lock .*no space is left"),
        (fcntl, "flock", errno.ENOLCK, "cannot lock .*does not support locks"),
    ],
)
def test_disk_that_cannot_lock_says_so(path, monkeypatch, module, step, number, words):
    with monkeypatch.context() as patched:
        patched.setattr(module, step, failing(number))
        with pytest.raises(StorageError, match=words):
            WorkspaceLock(path).__enter__()
    with WorkspaceLock(path):
        pass
