"""Workspaces that earlier versions wrote: they open, go on, and their old requests can still be certified."""

import dataclasses
import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from eupg import Manager
from eupg.errors import StoreCorrupt, WorkspaceDamaged
from eupg.manage.requests.states import State
from eupg.manage.storage.change import Recovered
from eupg.manage.storage.state import Event
from eupg.manage.storage.subjects import SubjectIndex
from managed import LOOK, archived, named, person
from people import people

GOLDEN = Path(__file__).parents[1] / "golden" / "workspaces"


@pytest.fixture(params=["first", "before-exposure", "first-exposure", "0.1.0"])
def folder(request, tmp_path):
    with zipfile.ZipFile(GOLDEN / f"{request.param}.zip") as archive:
        archive.extractall(tmp_path)
    for path in (tmp_path / "workspace").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o644 if path.suffix == ".pub" else 0o600)
    (tmp_path / "workspace").chmod(0o700)
    return tmp_path / "workspace"


def test_whole_life_goes_on(folder):
    manager = Manager(folder)
    manager.verify(folder.parent / "certificate.json")
    before = manager.status()
    assert (before.records, before.requests.open) == (174, 1)
    assert manager.predict(LOOK).shape == (30, 2)
    # The request that an earlier version completed and nobody certified.
    completed = [
        name
        for name in {str(e.body["request"]) for e in manager.space.ledger.entries(kinds=["request.completed"])}
        if manager.space.book.get(name).state is State.COMPLETED
    ]
    assert len(completed) == 1
    late = manager.certify(completed[0])
    manager.verify(late)
    assert manager.forget().records == 3
    manager.verify(manager.certify())
    assert manager.request_erasure(subject=person(9)).state is State.ACCEPTED
    assert manager.forget().trained
    manager.verify(late)
    manager.close()
    again = Manager(folder)
    again.verify()
    again.close()


def test_keys_are_noted_with_the_next_change_and_checked_from_then_on(folder):
    manager = Manager(folder)
    assert not list(manager.space.ledger.entries(kinds=["keys"]))
    manager.forget()
    assert len(list(manager.space.ledger.entries(kinds=["keys"]))) == 1
    manager.close()


def test_other_digest_key_turns_nobody_away_before_the_ledger_knows_the_keys(folder):
    """No check value is noted yet: the records tell that the key is another one."""
    (folder / "keys" / "digest.key").write_bytes(os.urandom(32))
    manager = Manager(folder)
    before = manager.space.ledger.head()
    for step in (lambda: manager.request_erasure(subject=person(9)), manager.forget, manager.verify):
        with pytest.raises(WorkspaceDamaged, match="the index of people does not fit"):
            step()
    assert manager.space.ledger.head() == before
    manager.close()


def test_pointer_of_a_newer_version_is_refused_with_advice_that_helps(folder):
    path = folder / "current.json"
    path.write_text(path.read_text().replace("eupg-current-1", "eupg-current-9"))
    manager = Manager(folder)
    with pytest.raises(WorkspaceDamaged, match=r"eupg-current-9.*update eupg"):
        manager.status()
    manager.close()


def test_index_of_a_newer_version_is_refused():
    file = io.BytesIO()
    np.savez(file, **(archived(SubjectIndex.empty()) | {"format": np.array(9)}))
    with pytest.raises(StoreCorrupt, match=r"format 9.*update eupg"):
        SubjectIndex.from_bytes(file.getvalue())


def test_first_forget_sketches_the_files_of_an_earlier_version(folder):
    """They are made once, of every file; from then on an erasure reads the files of its person alone."""
    manager = Manager(folder)
    before = manager.space.state()
    assert (before.sidecars, before.columns, before.sketched) == ({}, None, False)
    assert manager.forget().records == 3
    after = manager.space.state()
    assert after.sketched
    assert after.sidecars.keys() == {*after.records, *after.held_out}
    manager.verify()
    manager.close()


def test_records_that_are_added_first_are_sketched_with_all_others(folder):
    manager = Manager(folder)
    manager.add(named(people(6, seed=3), "dahlia"))
    assert manager.space.state().sketched
    manager.verify()
    manager.request_erasure(subject=person(1, "dahlia"))
    manager.forget()
    manager.verify()
    manager.close()


def test_change_of_an_earlier_version_that_was_interrupted_is_completed(folder):
    """Its pointer was prepared and replaced, and nothing else was done: the ledger then notes the bytes it has."""
    manager = Manager(folder)
    space, state = manager.space, manager.space.state()
    following = dataclasses.replace(
        state, number=state.number + 1, events=(Event("audit", {}),), answered=(), given_up=()
    )
    values = {k: v for k, v in json.loads(following.to_bytes()).items() if k not in ("sidecars", "columns", "answers")}
    content = json.dumps(values | {"format": "eupg-current-2"}).encode()
    with space.ledger.transaction() as transaction:
        space.pointer.prepare(following.number, content, transaction)
    space.pointer.write(content)
    assert manager.recover().settled
    assert manager.recover() == Recovered((), False, ())
    assert space.state().number == following.number
    manager.close()
