"""Workspaces that earlier versions wrote: they open, go on, and their old requests can still be certified."""

import os
import zipfile
from pathlib import Path

import pytest

from eupg import Manager
from eupg.errors import StoreCorrupt, WorkspaceDamaged
from eupg.manage.request_states import State
from eupg.manage.roll import Roll
from managed import LOOK, person

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
    import io

    import numpy as np

    file = io.BytesIO()
    with np.load(io.BytesIO(Roll.empty().to_bytes())) as found:
        np.savez(file, **({name: found[name] for name in found.files} | {"format": np.array(9)}))
    with pytest.raises(StoreCorrupt, match=r"format 9.*update eupg"):
        Roll.from_bytes(file.getvalue())
