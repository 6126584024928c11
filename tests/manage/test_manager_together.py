"""Several at once: predictions, requests, status and a second forget, while a forget runs."""

import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from eupg import Manager
from eupg.errors import LockHeld
from eupg.manage.requests.states import State
from managed import LOOK, RNG, person, record, trained


@pytest.fixture
def manager(tmp_path):
    with trained(tmp_path / "workspace") as manager:
        yield manager


class Gate:
    """Progress that stops inside the fine-tuning until it is let go."""

    def __init__(self) -> None:
        self.inside, self.go = threading.Event(), threading.Event()

    @contextmanager
    def step(self, name):
        if name == "forget":
            self.inside.set()
            assert self.go.wait(60)
        yield


class Running:
    """A forget that runs in another thread, as if in another process: it has a manager of its own."""

    def __init__(self, folder) -> None:
        self.gate, self.error, self.done = Gate(), None, None
        self._manager = Manager(folder, rng=RNG, progress=self.gate)
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.done = self._manager.forget()
        except Exception as error:
            self.error = error
        finally:
            self._manager.close()

    def __enter__(self):
        self._thread.start()
        assert self.gate.inside.wait(60)
        return self

    def __exit__(self, *_) -> None:
        self.gate.go.set()
        self._thread.join(60)
        assert self.error is None


def test_status_says_what_runs_and_who_waits(manager):
    asked = manager.request_erasure(subject=person(3))
    with Running(manager.space.folder):
        status = manager.status()
        assert status.running == "forget"
        assert [(w["request"], w["state"]) for w in status.waiting] == [(asked.id, "processing")]
    status = manager.status()
    assert (status.running, status.waiting) == (None, ())


def test_old_model_answers_until_the_new_one_does(manager):
    manager.request_erasure(subject=person(3))
    before = manager.predict(LOOK)
    fresh = Manager(manager.space.folder, rng=RNG)
    with Running(manager.space.folder):
        np.testing.assert_array_equal(manager.predict(LOOK), before)
        np.testing.assert_array_equal(fresh.predict(LOOK), before)
    after = manager.predict(LOOK)
    assert not np.array_equal(after, before)
    np.testing.assert_array_equal(fresh.predict(LOOK), after)
    fresh.close()


def test_request_that_arrives_meanwhile_is_served_next(manager):
    first = manager.request_erasure(subject=person(3))
    with Running(manager.space.folder) as running:
        late = manager.request_erasure(subject=person(4))
        again = manager.request_erasure(subject=person(3))
    assert again.id == first.id
    assert running.done.requests == (first.id,)
    assert manager.space.book.get(late.id).state is State.ACCEPTED
    assert manager.forget().requests == (late.id,)


@pytest.mark.parametrize("step", ["forget", "renew", "recover"])
def test_second_change_is_refused_and_names_the_first(manager, step):
    manager.request_erasure(subject=person(3))
    with Running(manager.space.folder), pytest.raises(LockHeld, match=r"\(forget\)"):
        getattr(manager, step)()
    manager.verify()


def test_audits_and_certificates_do_not_wait(manager):
    manager.request_erasure(subject=person(3))
    manager.forget()
    manager.request_erasure(subject=person(4))
    with Running(manager.space.folder):
        manager.verify(manager.certify())


def test_predictions_from_many_threads_are_never_torn(manager):
    """While people are forgotten one after another, every answer is that of a model that was served."""
    answers, errors, over = [], [], threading.Event()

    def ask() -> None:
        mine = Manager(manager.space.folder, rng=RNG)
        while not over.is_set():
            try:
                answers.append(mine.predict(LOOK).tobytes())
            except Exception as error:
                errors.append(error)
        mine.close()

    threads = [threading.Thread(target=ask) for _ in range(3)]
    served = {manager.predict(LOOK).tobytes()}
    for thread in threads:
        thread.start()
    for number in range(8):
        manager.request_erasure(subject=person(number))
        manager.forget()
        served.add(manager.predict(LOOK).tobytes())
    over.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(answers) > 8
    assert set(answers) <= served


def test_one_manager_may_be_asked_from_many_threads(manager):
    """The same object: its memory of the served model changes under the threads."""
    errors, over = [], threading.Event()

    def ask() -> None:
        while not over.is_set():
            try:
                manager.predict(LOOK)
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(4):
        manager.request_erasure(subject=person(number))
        manager.forget()
    over.set()
    for thread in threads:
        thread.join()
    assert errors == []


PRELUDE = """
import sys
sys.path.insert(0, sys.argv[2])
from eupg import Manager
from eupg.errors import LockHeld
from managed import LOOK, RNG, person
manager = Manager(sys.argv[1], rng=RNG)
manager.predict(LOOK)
print("ready", flush=True)
sys.stdin.readline()
"""
FORGET = """
try:
    print("did" if manager.forget().requests else "nothing")
except LockHeld:
    print("held")
"""
PREDICT = """
print(len({manager.predict(LOOK).tobytes() for _ in range(300)}))
"""
ASK = """
asked = manager.request_many(subjects=[person(i) for i in range(30)])
print(*[r.id for r in asked])
"""


def together(manager, *codes):
    """Run programs on the workspace at the same moment, each in a process of its own."""
    tests = str(Path(__file__).parents[1])
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-W", "error", "-c"]
    folder = str(manager.space.folder)
    running = [subprocess.Popen([*command, PRELUDE + code, folder, tests], **pipes) for code in codes]
    for process in running:
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
    for process in running:
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=120) for process in running]
    assert all(process.returncode == 0 for process in running), answers
    return [out.strip() for out, _ in answers]


def test_two_processes_forgetting_at_once_while_a_third_predicts(manager):
    manager.request_many(subjects=[person(3)], records=[record(0)])
    *said, models = together(manager, FORGET, FORGET, PREDICT)
    assert sorted(said) in (["did", "held"], ["did", "nothing"])
    assert models in ("1", "2")
    assert len(list(manager.space.ledger.entries(kinds=["forget"]))) == 1
    manager.verify()


def test_processes_asking_for_the_same_people_at_once_get_the_same_requests(manager):
    first, second = together(manager, ASK, ASK)
    assert first == second
    assert len(first.split()) == 30
    assert manager.status().requests.counts[State.ACCEPTED] == 30
    assert manager.forget().records == 90
    manager.verify()
