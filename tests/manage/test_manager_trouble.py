"""A disk that refuses: a clear error, the old model goes on answering, nobody's request is lost, and later it works."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from eupg import Manager, files
from eupg.errors import ChangeUnsettled, EupgError, StorageError
from eupg.manage.requests.states import State
from managed import HELD_OUT, LOOK, METHOD, NEWCOMERS, RECORDS, RNG, person, trained
from trouble import REFUSALS, on_small_disk

START = (
    f"sys.path.insert(0, {str(Path(__file__).parents[1])!r})"
    + """
import os
import numpy as np
from eupg import Manager
from eupg.errors import ChangeUnsettled, LedgerUnavailable, StorageError
from eupg.manage.requests.states import State
from managed import HELD_OUT, LOOK, METHOD, NEWCOMERS, RECORDS, RNG, person

folder = sys.argv[1] + "/workspace"
manager = Manager(folder, METHOD, rng=RNG)
"""
)


def test_full_disk_stops_a_forget_and_keeps_everything(tmp_path):
    code = (
        START
        + """
manager.train(RECORDS, hold_out=HELD_OUT)
request = manager.request_erasure(subject=person(3))
before, answer = manager.space.state(), manager.predict(LOOK)
taken = [sys.argv[1] + f"/ballast-{size}" for size in (65536, 4096)]
for path in taken:
    size = int(path.rpartition("-")[2])
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(size))
        except OSError:
            pass
free = os.statvfs(sys.argv[1])
for attempt in range(2):
    try:
        manager.forget()
    except (StorageError, LedgerUnavailable) as error:
        said = str(error)
        print(said)
    else:
        raise AssertionError(f"there was room for it: {free}")
assert "space" in said or "full" in said, said
assert manager.space.state() == before
assert (manager.predict(LOOK) == answer).all()
assert manager.space.book.get(request.id).state.is_open
for path in taken:
    os.unlink(path)
assert manager.forget().requests == (request.id,)
manager.verify(manager.certify(request.id))
manager.close()
"""
    )
    on_small_disk(code, tmp_path, "1500k")


def test_disk_that_fills_up_at_any_write_of_a_forget(tmp_path):
    """The free space grows page by page, so that each write in turn is the one that fails."""
    code = (
        START
        + """
manager.train(RECORDS, hold_out=HELD_OUT)
failed = 0
for number in range(40):
    request = manager.request_erasure(subject=person(number % 50))
    before, answer = manager.space.state(), manager.predict(LOOK)
    with open(sys.argv[1] + "/ballast", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
        file.truncate(max(0, file.tell() - 4096 * (number + 1)))
        try:
            manager.forget()
        except (StorageError, LedgerUnavailable, ChangeUnsettled):
            failed += 1
            state = manager.space.book.get(request.id).state
            assert state.is_open or state is State.COMPLETED, state
            if manager.space.state().number == before.number:
                np.testing.assert_array_equal(manager.predict(LOOK), answer)
    os.unlink(sys.argv[1] + "/ballast")
    manager.forget()
    assert manager.space.book.get(request.id).state is State.COMPLETED
    manager.verify()
assert failed > 5, failed
manager.close()
"""
    )
    on_small_disk(code, tmp_path, "16m")


def test_read_only_folder_gives_a_clear_error_and_predictions(tmp_path):
    code = (
        START
        + """
manager.train(RECORDS, hold_out=HELD_OUT)
request = manager.request_erasure(subject=person(3))
before, answer = manager.space.state(), manager.predict(LOOK)
manager.close()
make_read_only()
manager = Manager(folder, rng=RNG)
assert (manager.predict(LOOK) == answer).all()
ask, add = lambda: manager.request_erasure(subject="x"), lambda: manager.add(NEWCOMERS)
for step in (manager.forget, manager.recover, add, ask):
    try:
        step()
    except (StorageError, LedgerUnavailable) as error:
        assert "read-only" in str(error) or "check space, permissions" in str(error), error
    else:
        raise AssertionError(step)
assert manager.space.state() == before
"""
    )
    on_small_disk(code, tmp_path, "4m")


@pytest.mark.parametrize(("number", "words"), REFUSALS)
def test_refused_pointer_leaves_the_old_state(tmp_path, monkeypatch, number, words):
    with trained(tmp_path) as manager:
        request = manager.request_erasure(subject=person(3))
        before, answer = manager.space.state(), manager.predict(LOOK)
        replace = os.replace

        def refuse(source, target):
            if Path(target).name == "current.json":
                raise OSError(number, os.strerror(number))
            replace(source, target)

        with monkeypatch.context() as patch:
            patch.setattr(files.os, "replace", refuse)
            with pytest.raises(StorageError, match=words):
                manager.forget()
        assert manager.space.state() == before
        assert manager.space.book.get(request.id).state is State.FAILED
        assert manager.space.book.get(request.id).reason == "could not be done: StorageError"
        np.testing.assert_array_equal(manager.predict(LOOK), answer)
        # What was written for nothing is taken away at once.
        manager.verify()
        assert manager.forget().requests == (request.id,)


def test_pointer_that_is_written_but_not_forced_to_disk_counts(tmp_path, monkeypatch):
    """The change has happened, so the request is not failed; the next step completes it."""
    with trained(tmp_path) as manager:
        request = manager.request_erasure(subject=person(3))
        real = files.sync_folder

        def refuse(folder, unless):
            if "current.json" in unless:
                raise StorageError("cannot force")
            real(folder, unless)

        with monkeypatch.context() as patch:
            patch.setattr(files, "sync_folder", refuse)
            with pytest.raises(ChangeUnsettled, match=r"the change took effect.*cannot force"):
                manager.forget()
        manager.recover()
        assert manager.space.book.get(request.id).state is State.COMPLETED
        manager.verify()


@pytest.mark.parametrize("step", ["train", "add", "renew"])
def test_failed_change_leaves_nothing_behind(tmp_path, monkeypatch, step):
    manager = Manager(tmp_path, METHOD, rng=RNG)
    if step != "train":
        manager.train(RECORDS, hold_out=HELD_OUT)
    before = {path for path in tmp_path.rglob("*") if path.parent.name in ("store", "records")}
    replace = os.replace

    def refuse(source, target):
        if Path(target).name == "current.json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "replace", refuse)
        work = {"train": lambda: manager.train(RECORDS), "add": lambda: manager.add(NEWCOMERS), "renew": manager.renew}
        with pytest.raises(EupgError, match="no space is left"):
            work[step]()
    assert {path for path in tmp_path.rglob("*") if path.parent.name in ("store", "records")} == before
    assert not list(tmp_path.rglob("*.partial"))
    manager.close()


def test_learner_that_breaks_down_leaves_the_old_model(tmp_path, monkeypatch):
    with trained(tmp_path) as manager:
        request = manager.request_erasure(subject=person(3))
        answer = manager.predict(LOOK)
        with monkeypatch.context() as patch:
            patch.setattr(type(METHOD.learner), "fit", broken)
            with pytest.raises(ZeroDivisionError):
                manager.forget()
        found = manager.space.book.get(request.id)
        assert (found.state, found.reason) == (State.FAILED, "could not be done: ZeroDivisionError")
        np.testing.assert_array_equal(manager.predict(LOOK), answer)
        assert manager.forget().requests == (request.id,)


def broken(*_, **__):
    raise ZeroDivisionError


def test_ledger_elsewhere_is_remembered_even_after_a_failed_start(tmp_path, monkeypatch):
    """The address is written down before the first model is; a second attempt must not lose it."""
    url = f"sqlite:///{tmp_path}/elsewhere.db"
    first = Manager(tmp_path / "w", METHOD, rng=RNG, ledger=url)
    with monkeypatch.context() as patch:
        patch.setattr(type(METHOD.learner), "save", broken)
        with pytest.raises(ZeroDivisionError):
            first.train(RECORDS)
    first.close()
    with trained(tmp_path / "w", ledger=url) as manager:
        head = manager.space.ledger.head()
    again = Manager(tmp_path / "w", rng=RNG)
    assert again.space.ledger.head() == head
    again.verify()
    again.close()
    assert not (tmp_path / "w" / "ledger.db").exists()
