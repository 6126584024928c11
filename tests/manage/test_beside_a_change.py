"""While another process changes the workspace: requests wait for it, checks find no damage, and nobody fails others."""

import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from eupg import EUPG, Manager
from eupg.errors import DataError, LockHeld
from eupg.learn import SklearnLearner
from eupg.manage import checking
from eupg.manage.integrations import evidence_folder as export
from eupg.manage.requests.states import State, Step
from eupg.manage.storage import lock
from eupg.protect import LocalDP
from managed import NEWCOMERS, RECORDS, RNG, person, trained
from steps import Steps


@pytest.fixture
def manager(tmp_path):
    with trained(tmp_path / "workspace") as manager:
        yield manager


class Pause:
    """Progress that waits inside a step until it is let go."""

    def __init__(self, step) -> None:
        self._step, self.inside, self.go = step, threading.Event(), threading.Event()

    @contextmanager
    def step(self, name):
        if name == self._step:
            self.inside.set()
            assert self.go.wait(60)
        yield


def beside(folder, step, change, act):
    """Start a change in another thread, act in the middle of it, and let it end."""
    pause = Pause(step)
    other = Manager(folder, rng=RNG, progress=pause)
    errors = []

    def run() -> None:
        try:
            change(other)
        except Exception as error:
            errors.append(error)
        finally:
            other.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert pause.inside.wait(60)
        return act()
    finally:
        pause.go.set()
        thread.join(60)
        assert not errors


class TestUnknownPeople:
    def test_who_is_just_being_added_is_not_turned_away(self, manager):
        """The request comes while ``add`` runs: it stays received, and is accepted once the change has settled."""
        ask = lambda: manager.request_erasure(subject=person(2, "birch"))  # noqa: E731
        request = beside(manager.space.folder, "finetune", lambda m: m.add(NEWCOMERS), ask)
        assert request.state is State.RECEIVED
        assert "decided once that has settled" in request.reason
        assert manager.space.book.get(request.id).state is State.ACCEPTED
        assert manager.forget().requests == (request.id,)
        manager.verify(manager.certify(request.id))

    def test_who_is_nobody_is_rejected_once_the_change_has_settled(self, manager):
        ask = lambda: manager.request_erasure(subject="nobody")  # noqa: E731
        request = beside(manager.space.folder, "finetune", lambda m: m.add(NEWCOMERS), ask)
        assert request.state is State.RECEIVED
        found = manager.space.book.get(request.id)
        assert (found.state, found.reason) == (State.REJECTED, "no record of this person is held here")

    def test_known_people_need_not_wait(self, manager):
        ask = lambda: manager.request_erasure(subject=person(3))  # noqa: E731
        assert beside(manager.space.folder, "finetune", lambda m: m.add(NEWCOMERS), ask).state is State.ACCEPTED

    def test_by_another_thread_of_the_same_manager_is_no_different(self, tmp_path):
        pause = Pause("finetune")
        with trained(tmp_path / "w") as first:
            first.close()
        manager = Manager(tmp_path / "w", rng=RNG, progress=pause)
        thread = threading.Thread(target=lambda: manager.add(NEWCOMERS))
        thread.start()
        assert pause.inside.wait(60)
        request = manager.request_erasure(subject=person(2, "birch"))
        pause.go.set()
        thread.join(60)
        assert request.state is State.RECEIVED
        assert manager.space.book.get(request.id).state is State.ACCEPTED
        manager.close()

    def test_what_a_killed_change_left_undecided_is_decided_by_the_next(self, manager):
        request = manager.request_erasure(subject="nobody", accept=False)
        pending = manager.request_erasure(subject=person(5), accept=False)
        manager.space.book.defer_many([request.id], reason="the records are being changed right now")
        manager.recover()
        assert manager.space.book.get(request.id).state is State.REJECTED
        assert manager.space.book.get(pending.id).state is State.RECEIVED

    def test_who_asks_during_a_change_that_fails_is_decided_all_the_same(self, manager):
        asked = []

        def fail(_) -> None:
            with closing(Manager(manager.space.folder, rng=RNG)) as other:
                asked.append(other.request_erasure(subject="nobody"))
            raise DataError("these records cannot be trained on")

        with (
            closing(Manager(manager.space.folder, rng=RNG, progress=Steps(fail))) as changing,
            pytest.raises(DataError),
        ):
            changing.add(NEWCOMERS)
        assert asked[0].state is State.RECEIVED
        assert manager.space.book.get(asked[0].id).state is State.REJECTED

    def test_who_asks_just_before_the_lock_is_released_is_decided_all_the_same(self, manager, monkeypatch):
        """Everything was decided, the lock is not free yet: the last moment in which a request is deferred."""
        real, asked = lock._release, []

        def late(file):
            if not asked:
                with closing(Manager(manager.space.folder, rng=RNG)) as other:
                    asked.append(other.request_erasure(subject="nobody"))
            real(file)

        monkeypatch.setattr(lock, "_release", late)
        manager.add(NEWCOMERS)
        assert asked[0].state is State.RECEIVED
        assert manager.space.book.get(asked[0].id).state is State.REJECTED

    def test_who_asks_during_an_export_is_decided_when_it_is_done(self, manager, monkeypatch, tmp_path):
        real, asked = export.check_workspace, []

        def meanwhile(space):
            with closing(Manager(manager.space.folder, rng=RNG)) as other:
                asked.append(other.request_erasure(subject="nobody"))
            real(space)

        monkeypatch.setattr(export, "check_workspace", meanwhile)
        export.export(manager.space, tmp_path / "out")
        assert asked[0].state is State.RECEIVED
        assert manager.space.book.get(asked[0].id).state is State.REJECTED

    def test_without_a_change_the_answer_is_immediate(self, manager):
        assert manager.request_erasure(subject="nobody").state is State.REJECTED


CHECK = """
import sys
sys.path.insert(0, sys.argv[2])
from eupg import Manager
from managed import RNG, person
manager = Manager(sys.argv[1], rng=RNG)
print("ready", flush=True)
sys.stdin.readline()
for number in range(8):
    manager.request_erasure(subject=person(number + 10))
    manager.forget()
manager.close()
print("done", flush=True)
"""


def test_checks_and_certificates_during_forgets_report_no_damage(manager):
    done = manager.request_erasure(subject=person(3))
    manager.forget()
    folder, tests = str(manager.space.folder), str(Path(__file__).parents[1])
    command = [sys.executable, "-c", CHECK, folder, tests]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "ready\n"
    other.stdin.write("go\n")
    other.stdin.flush()
    looks = 0
    while other.poll() is None:
        manager.verify(manager.certify(done.id))
        manager.status()
        looks += 1
    other.stdin.close()
    other.stdout.close()
    assert other.returncode == 0
    assert looks >= 2


def test_change_that_begins_during_a_check_is_not_taken_for_damage(manager, monkeypatch):
    """Files without an owner are looked for twice; between the two looks the next change may begin."""
    path, real, looks = manager.space.folder / "lock", checking._stray_files, []

    def look(space):
        looks.append(True)
        if len(looks) == 1:
            return ["a file of the change before"]
        try:
            with lock.WorkspaceLock(path):
                return ["a file of the next change"]
        except LockHeld:
            return real(space)

    monkeypatch.setattr(checking, "_stray_files", look)
    manager.verify()
    assert len(looks) == 2


class TestBatch:
    def test_request_cancelled_before_the_batch_begins_does_not_fail_the_others(self, manager, monkeypatch):
        asked = manager.request_many(subjects=[person(3), person(4)])
        book, real = type(manager.space.book), type(manager.space.book).advance_many
        cancelled = []

        def cancels(self, steps, **known):
            steps = list(steps)
            if not cancelled and steps and steps[0].state is State.PROCESSING:
                cancelled.append(True)
                other = Manager(manager.space.folder, rng=RNG)
                thread = threading.Thread(target=lambda: _cancel(other, asked[0].id))
                thread.start()
                thread.join(0.3)
            return real(self, steps, **known)

        monkeypatch.setattr(book, "advance_many", cancels)
        done = manager.forget()
        assert asked[1].id in done.requests
        assert manager.space.book.get(asked[1].id).state is State.COMPLETED
        manager.verify()

    def test_failure_that_another_recovery_noted_first_does_not_fail_the_others(self, manager):
        """The lock file was gone for a moment, and a recovery let everybody wait again."""
        asked = manager.request_many(subjects=[person(3), person(4)])
        book = manager.space.book
        book.advance_many(Step(r.id, State.PROCESSING) for r in asked)
        book.advance(asked[0].id, State.FAILED, reason="interrupted before it was done")
        manager._give_up({r.id: DataError("no model") for r in asked})
        assert [book.get(r.id).reason for r in asked] == [
            "interrupted before it was done",
            "could not be done: DataError",
        ]

    def test_last_of_a_class_fails_alone(self, tmp_path):
        """Logistic regression needs both classes: who is the last of one cannot be erased, everyone else can."""
        method = EUPG(LocalDP(4.0), SklearnLearner(LogisticRegression(warm_start=True)), pretrain=20, finetune=5)
        ill = np.flatnonzero(RECORDS.y == 1)
        records = RECORDS.select((RECORDS.y == 0) | np.isin(np.arange(len(RECORDS)), ill[:1]))
        last = str(RECORDS.subjects[ill[0]])
        others = [s for s in dict.fromkeys(records.subjects.tolist()) if s != last][:5]
        with trained(tmp_path, method, records=records) as manager:
            asked = manager.request_many(subjects=[*others[:3], last, *others[3:]])
            done = manager.forget()
            assert set(done.requests) == {r.id for r in asked} - {asked[3].id}
            assert isinstance(done.failed[asked[3].id], DataError)
            states = {r.id: manager.space.book.get(r.id).state for r in asked}
            assert states.pop(asked[3].id) is State.FAILED
            assert set(states.values()) == {State.COMPLETED}
            kept = manager.space.read(manager.space.state())[0].subjects.tolist()
            assert last in kept
            assert not set(others) & set(kept)
            manager.verify()
            # Alone, it fails with the error itself, and stays open.
            with pytest.raises(DataError):
                manager.forget()
            assert manager.space.book.get(asked[3].id).state is State.FAILED


def _cancel(manager: Manager, request: str) -> None:
    try:
        manager.space.book.advance_many([Step(request, State.CANCELLED, "asked to")])
    except Exception:
        # Too late: it is being processed.
        pass
    finally:
        manager.close()
