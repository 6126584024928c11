"""Two processes that both believe to hold the lock: one change happens, the other is told that it did not."""

from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from eupg import EUPG, Manager
from eupg.errors import ChangeOvertaken, ChangeUnsettled, LedgerUnavailable, LockHeld, StorageError, StoreCorrupt
from eupg.learn import SklearnLearner
from eupg.manage import trainer
from eupg.manage.ledger.ledger import Ledger
from eupg.manage.requests.states import State
from eupg.manage.storage import change, pointer
from eupg.manage.storage.change import changing, switch
from eupg.manage.storage.lock import WorkspaceLock
from eupg.protect import LocalDP
from managed import LOOK, NEWCOMERS, RNG, person, trained


@pytest.fixture
def manager(tmp_path):
    with trained(tmp_path / "workspace") as manager:
        yield manager


class Meanwhile:
    """Progress that does something in the middle of a step, once."""

    def __init__(self, step, act) -> None:
        self._step, self._act = step, act

    @contextmanager
    def step(self, name):
        if name == self._step and self._act is not None:
            act, self._act = self._act, None
            act()
        yield


def test_stale_writer_raises_and_the_other_change_stands(manager):
    """A cleaner deletes the lock file during a forget, and a second process forgets, certifies, and adds people."""
    folder = manager.space.folder
    request = manager.request_erasure(subject=person(3))
    papers = []

    def second() -> None:
        (folder / "lock").unlink()
        other = Manager(folder, rng=RNG)
        assert other.forget().requests == (request.id,)
        papers.append(other.certify(request.id))
        other.add(NEWCOMERS)
        other.close()

    first = Manager(folder, rng=RNG, progress=Meanwhile("forget", second))
    with pytest.raises(ChangeOvertaken):
        first.forget()
    first.close()
    # What the stale writer had prepared belongs to nothing.
    manager.recover()
    manager.verify(papers[0])
    assert manager.space.book.get(request.id).state is State.CERTIFIED
    assert manager.status().records == 150 - 3 + 30
    with pytest.raises(Exception, match="not here"):
        manager.space.read(manager.space.state())[0].where_subjects([person(3)])
    assert manager.request_erasure(subject=person(4)).state is State.ACCEPTED
    assert manager.forget().records == 3
    manager.verify(papers[0])


def test_lock_file_that_vanishes_stops_the_change_before_anything_is_replaced(manager):
    folder = manager.space.folder
    request = manager.request_erasure(subject=person(3))
    before, answer = manager.space.state(), manager.predict(LOOK)
    first = Manager(folder, rng=RNG, progress=Meanwhile("forget", (folder / "lock").unlink))
    with pytest.raises(ChangeOvertaken, match="removed or replaced"):
        first.forget()
    first.close()
    assert manager.space.state() == before
    np.testing.assert_array_equal(manager.predict(LOOK), answer)
    manager.recover()
    assert manager.forget().requests == (request.id,)
    manager.verify()


def test_change_that_another_one_overtook_is_refused_though_the_lock_is_held(manager):
    """The number of the change and the pointer are compared as well, under the ledger's own write lock."""
    space = manager.space
    stale = space.state()
    manager.add(NEWCOMERS)
    before = (space.folder / "current.json").read_bytes()
    with pytest.raises(ChangeOvertaken, match="another process has changed the workspace"), changing(space, "test"):
        switch(space, stale.followed_by(()))
    assert (space.folder / "current.json").read_bytes() == before
    manager.verify()


def test_change_that_took_effect_says_so_when_the_ledger_fails_after_it(manager, monkeypatch):
    request = manager.request_erasure(subject=person(3))
    space, real = manager.space, change.settle

    def broken(*_):
        raise LedgerUnavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(change, "settle", broken)
        with pytest.raises(ChangeUnsettled, match=r"the change took effect.*run recover") as told:
            manager.forget()
    assert "nothing was changed" not in str(told.value)
    assert real is change.settle
    manager.recover()
    assert space.book.get(request.id).state is State.COMPLETED
    manager.verify()


def test_requests_that_a_foreign_recovery_let_wait_again_are_still_answered(manager, monkeypatch):
    """Before the ledger follows, somebody else marks the request as failed: the change is completed all the same."""
    request = manager.request_erasure(subject=person(3))
    space, real = manager.space, change.settle

    def interrupted(space, state):
        space.book.advance(request.id, State.FAILED, reason="interrupted before it was done")
        return real(space, state)

    monkeypatch.setattr(change, "settle", interrupted)
    assert manager.forget().requests == (request.id,)
    assert space.book.get(request.id).state is State.COMPLETED
    manager.verify()


class TestSharedLock:
    def test_several_hold_it_at_once_and_keep_an_owner_away(self, tmp_path):
        path = tmp_path / "lock"
        with WorkspaceLock(path, shared=True), WorkspaceLock(path, shared=True), pytest.raises(LockHeld):
            WorkspaceLock(path).__enter__()
        with WorkspaceLock(path), pytest.raises(LockHeld):
            WorkspaceLock(path, shared=True).__enter__()

    def test_replaced_file_is_not_held(self, tmp_path):
        with WorkspaceLock(tmp_path / "lock") as lock:
            assert lock.is_held()
            (tmp_path / "lock").rename(tmp_path / "old")
            assert not lock.is_held()
            (tmp_path / "lock").write_text("")
            assert not lock.is_held()
        assert not lock.is_held()


def test_time_in_the_ledger_never_runs_backwards(tmp_path):
    """A clock set back to 1999 must not give a deadline in 1999."""
    from datetime import UTC, datetime

    from eupg.manage.requests.book import RequestBook

    times = [datetime(2027, 1, 15, 12, tzinfo=UTC)]
    with Ledger(tmp_path / "ledger.db", clock=lambda: times[-1]) as ledger:
        first = ledger.append("note", {})
        times.append(datetime(1999, 1, 1, tzinfo=UTC))
        request = RequestBook(ledger).receive("person", "a1" * 16).request
        assert request.due.isoformat() == "2027-02-15"
        assert request.received_at == first.at
        assert ledger.now() == times[0]
        times.append(datetime(2027, 3, 1, tzinfo=UTC))
        assert ledger.append("note", {}).at.startswith("2027-03-01")


def test_file_that_was_removed_before_the_change_takes_effect_stops_it(manager, monkeypatch):
    """A copy with ``rsync --delete`` takes away the new files, and leaves the lock where it is."""
    request = manager.request_erasure(subject=person(3))
    space, before = manager.space, manager.space.state()
    real = change.switch

    def robbed(space, state):
        space.store.delete(state.served)
        return real(space, state)

    with monkeypatch.context() as patch:
        patch.setattr(trainer, "switch", robbed)
        with pytest.raises(StoreCorrupt, match="this change did not happen"):
            manager.forget()
    assert space.state() == before
    assert space.book.get(request.id).state is State.FAILED
    manager.verify()
    assert manager.forget().requests == (request.id,)
    manager.verify(manager.certify(request.id))


def test_of_two_first_trainings_the_stale_one_leaves_the_settings_alone(tmp_path):
    """Settings are written before the pointer: they are fenced as well."""
    folder = tmp_path / "workspace"
    other = EUPG(LocalDP(epsilon=1.0), SklearnLearner(), pretrain=1, finetune=1)

    def second() -> None:
        (folder / "lock").unlink()
        with trained(folder, other):
            pass

    with pytest.raises(ChangeOvertaken), trained(folder, progress=Meanwhile("protect", second)):
        pass
    again = Manager(folder)
    assert (again.method.mechanism, again.method.pretrain) == (other.mechanism, other.pretrain)
    again.recover()
    again.verify()
    assert again.predict(LOOK).shape == (30, 2)
    again.close()


def test_change_that_took_effect_says_so_when_the_database_fails_with_it(manager, monkeypatch):
    """The pointer is replaced, then the transaction around it cannot be ended."""
    request = manager.request_erasure(subject=person(3))
    real = pointer.write_atomically

    def fails_after(path, content):
        real(path, content)
        if path.name == "current.json":
            raise LedgerUnavailable("the connection was lost: the ledger was not written")

    with monkeypatch.context() as patch:
        patch.setattr(pointer, "write_atomically", fails_after)
        with pytest.raises(ChangeUnsettled, match=r"the change took effect.*run recover"):
            manager.forget()
    manager.recover()
    assert manager.space.book.get(request.id).state is State.COMPLETED
    manager.verify()


PAUSED = """
import sys
sys.path.insert(0, sys.argv[2])
from eupg import Manager
from managed import RNG
from steps import Steps

def pause(step):
    if step == "forget":
        print("inside", flush=True)
        sys.stdin.readline()

manager = Manager(sys.argv[1], rng=RNG, progress=Steps(pause))
print("ready", flush=True)
sys.stdin.readline()
try:
    print("success", manager.forget().records, flush=True)
except Exception as error:
    print(type(error).__name__, flush=True)
"""


class TestProcesses:
    """The same with real processes, over both databases."""

    @pytest.fixture
    def forgetting(self, tmp_path, places, url):
        """A workspace, and a process that stands in the middle of a forget."""
        with trained(tmp_path / "w", ledger=url) as manager:
            request = manager.request_erasure(subject=person(3))
            process = places.start(PAUSED, manager.space.folder, Path(__file__).parents[2])
            assert process.stdout.readline() == "ready\n"
            process.stdin.write("go\n")
            process.stdin.flush()
            assert process.stdout.readline() == "inside\n"
            (manager.space.folder / "lock").unlink()
            yield manager, request.id, process
            process.kill()
            process.communicate()

    def test_stale_one_reports_no_success_and_changes_nothing(self, forgetting):
        manager, request, process = forgetting
        assert manager.forget().requests == (request,)
        paper = manager.certify(request)
        manager.add(NEWCOMERS)
        after = (manager.space.folder / "current.json").read_bytes()
        out, _ = process.communicate("go\n", timeout=60)
        assert out == "ChangeOvertaken\n"
        assert (manager.space.folder / "current.json").read_bytes() == after
        manager.recover()
        manager.verify(paper)
        assert person(3) not in manager.space.read(manager.space.state())[0].subjects.tolist()

    def test_killed_one_holds_up_nobody(self, forgetting):
        manager, request, process = forgetting
        process.kill()
        process.wait()
        assert manager.forget().requests == (request,)
        manager.verify(manager.certify(request))


def test_stale_writer_is_told_so_whatever_it_stumbled_over(manager):
    """The recovery of another process takes away half-written files: not the disk is to blame."""
    folder = manager.space.folder
    manager.request_erasure(subject=person(3))

    def second() -> None:
        (folder / "lock").unlink()
        other = Manager(folder, rng=RNG)
        other.recover()
        other.close()
        raise StorageError("cannot write …: the folder is not there")

    first = Manager(folder, rng=RNG, progress=Meanwhile("forget", second))
    with pytest.raises(ChangeOvertaken, match="this change did not happen"):
        first.forget()
    first.close()
    # What the stale writer wrote beside its training may be newer than that recovery. Nothing points at it.
    manager.recover()
    manager.verify()
