"""An export: whole, checkable by a stranger, and without a personal value or a secret."""

import errno
import hashlib
import io
import json
import os
import subprocess
import sys
import tomllib
import zipfile

import numpy as np
import pytest

import eupg.manage.integrations.evidence_folder as export_module
import eupg.manage.storage.workspace as workspace_module
from eupg import EUPG, Manager, Schema, Seeded, verify
from eupg.certify.keys import PublicKey
from eupg.data.dataset import Dataset
from eupg.errors import LockHeld, ParameterError, StorageError, StoreCorrupt, WrongState
from eupg.files import write_atomically
from eupg.learn import SklearnLearner
from eupg.manage.integrations.evidence_folder import export
from eupg.manage.requests.states import State
from eupg.manage.storage.change import changing
from eupg.protect import LocalDP
from people import people
from trouble import failing

FILES = ["ledger.jsonl", "served.model", "schema.toml", "signing.pub", "status.json", "README.txt"]
METHOD = EUPG(LocalDP(5.0), SklearnLearner(), pretrain=1, finetune=1)


def named(rows: int = 90) -> Dataset:
    """Return people whose names would stand out anywhere."""
    data = people(rows)
    ids = np.array([f"canary-record-{i}" for i in range(rows)])
    return Dataset(data.schema, data.X, data.y, ids, np.array([f"canary-person-{i // 3}" for i in range(rows)]))


@pytest.fixture
def manager(tmp_path):
    made = Manager(tmp_path / "workspace", METHOD, rng=Seeded(1))
    made.train(named())
    yield made
    made.close()


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def code_in(readme: str) -> str:
    """Return the lines of Python that a README shows."""
    shown = [line[4:] for line in readme.splitlines() if line.startswith("    ")]
    return "\n".join(shown)


def opened(path) -> bytes:
    """Return a file's bytes, and with them those that a model's archive has compressed."""
    content = path.read_bytes()
    if path.name == "served.model":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return content + b"".join(map(archive.read, archive.namelist()))
    return content


def check(out) -> subprocess.CompletedProcess:
    """Do what the README says, with no package but Python's own."""
    code = code_in((out / "README.txt").read_text())
    command = [sys.executable, "-I", "-S", "-c", code]
    return subprocess.run(command, cwd=out, capture_output=True, text=True, check=False)


def test_all_files_are_written_and_named_in_order(manager, out):
    assert export(manager.space, out) == [out / name for name in FILES]
    assert sorted(p.name for p in out.iterdir()) == sorted(FILES)


def test_the_model_is_the_served_one(manager, out):
    export(manager.space, out)
    status = json.loads((out / "status.json").read_text())
    found = hashlib.sha256((out / "served.model").read_bytes()).hexdigest()
    assert found == status["served"] == manager.status().served
    loaded = METHOD.learner.load(out / "served.model")
    X = named().X
    np.testing.assert_array_equal(loaded.predict_proba(X), manager.predict(X))


def test_schema_and_public_key_are_those_of_the_workspace(manager, out):
    manager.request_erasure(subject="canary-person-3")
    manager.forget()
    certificate = manager.certify()
    export(manager.space, out)
    assert Schema.from_toml((out / "schema.toml").read_text()) == named().schema
    assert tomllib.loads((out / "schema.toml").read_text())
    verify(certificate, key=PublicKey.load(out / "signing.pub"))


def test_the_ledger_is_complete_and_status_knows_its_head(manager, out):
    manager.request_erasure(subject="canary-person-3")
    export(manager.space, out)
    lines = [json.loads(line) for line in (out / "ledger.jsonl").read_text().splitlines()]
    told = [(e.number, e.kind, e.digest) for e in manager.space.ledger.entries()]
    assert [(e["number"], e["kind"], e["digest"]) for e in lines] == told
    status = json.loads((out / "status.json").read_text())
    assert status["ledger"] == {"number": lines[-1]["number"], "digest": lines[-1]["digest"]}
    assert (status["requests"]["open"], status["running"]) == (1, None)


def test_a_stranger_can_check_the_ledger_as_the_readme_says(manager, out):
    manager.request_erasure(subject="canary-person-3")
    manager.advance(manager.status().waiting[0]["request"], State.CANCELLED, reason="zurückgezogen, 1e-7 ✓")
    export(manager.space, out)
    done, head = check(out), manager.space.ledger.head()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == f"{head.number} entries, the last with digest {head.digest}".split()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda lines: [lines[0].replace('"', '"!', 1), *lines[1:]], "Error"),
        (lambda lines: [lines[0].replace("digest_key", "digest_cue"), *lines[1:]], "was changed"),
        (lambda lines: [*lines[:2], *lines[3:]], "entry 3 is missing"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "entry 1 is missing"),
        (lambda lines: lines[1:], "entry 1 is missing"),
    ],
    ids=["broken", "changed", "cut out", "swapped", "beginning cut off"],
)
def test_a_stranger_notices_a_change(manager, out, change, told):
    export(manager.space, out)
    lines = (out / "ledger.jsonl").read_text().splitlines()
    assert "digest_key" in lines[0]
    (out / "ledger.jsonl").write_text("\n".join(change(lines)) + "\n")
    done = check(out)
    assert done.returncode == 1
    assert told in done.stderr


def test_nothing_personal_and_no_secret_leaves(manager, out):
    manager.request_erasure(subject="canary-person-3", channel="letter")
    manager.request_erasure(record="canary-record-30")
    manager.forget()
    manager.certify()
    export(manager.space, out)
    keys = manager.space.folder / "keys"
    secret, private = (keys / "digest.key").read_bytes(), (keys / "signing.key").read_bytes()
    body = b"".join(private.splitlines()[1:-1])
    for path in out.iterdir():
        content = opened(path)
        for value in (b"canary", secret, secret.hex().encode(), b"PRIVATE KEY", body):
            assert value not in content, path.name


def test_the_ledger_notes_that_a_copy_was_made(manager, out):
    export(manager.space, out)
    noted = list(manager.space.ledger.entries(kinds=["export"]))
    assert [e.body for e in noted] == [{"what": "served model", "digest": manager.status().served, "to": "folder"}]
    assert str(out) not in noted[0].body.values()
    manager.verify()


@pytest.mark.parametrize("name", ["something", ".hidden"])
def test_a_folder_that_is_not_empty_is_refused_untouched(manager, out, name):
    out.mkdir()
    (out / name).write_text("mine")
    with pytest.raises(ParameterError, match="must be empty or new, got one with 1 file"):
        export(manager.space, out)
    assert [p.name for p in out.iterdir()] == [name]
    assert list(manager.space.ledger.entries(kinds=["export"])) == []


def test_an_empty_folder_is_used(manager, out):
    out.mkdir()
    assert len(export(manager.space, out)) == len(FILES)


def test_a_file_in_the_place_of_the_folder_is_refused(manager, out):
    out.write_text("mine")
    with pytest.raises(ParameterError, match="is a file, expected a folder"):
        export(manager.space, out)


@pytest.mark.parametrize("inside", ["export", "store/export", "."])
def test_a_place_inside_the_workspace_is_refused(manager, inside):
    with pytest.raises(ParameterError, match="part of the workspace"):
        export(manager.space, manager.space.folder / inside)


def test_an_untrained_workspace_has_nothing_to_export(tmp_path, out):
    empty = Manager(tmp_path / "empty", METHOD)
    with pytest.raises(WrongState, match="run train first"):
        export(empty.space, out)
    empty.close()
    assert not out.exists()


def test_a_damaged_workspace_is_not_handed_out(manager, out):
    path = manager.space.store.folder / manager.status().served
    path.write_bytes(path.read_bytes() + b"!")
    with pytest.raises(StoreCorrupt, match="damaged"):
        export(manager.space, out)
    assert not out.exists()


def test_nothing_is_exported_while_the_workspace_changes(manager, out, monkeypatch):
    monkeypatch.setattr(workspace_module, "_PATIENCE_S", 0.05)
    other = Manager(manager.space.folder)
    with changing(other.space, "forget"), pytest.raises(LockHeld, match="forget"):
        export(manager.space, out)
    other.close()
    assert not out.exists()


def test_a_full_disk_leaves_whole_files_and_no_readme(manager, out, monkeypatch):
    written = []

    def fill_up_at_the_fourth(path, content):
        written.append(path.name)
        if len(written) == 4:
            monkeypatch.setattr(os, "fsync", failing(errno.ENOSPC))
        write_atomically(path, content)

    monkeypatch.setattr(export_module, "write_atomically", fill_up_at_the_fourth)
    with pytest.raises(StorageError, match="no space is left"):
        export(manager.space, out)
    assert sorted(p.name for p in out.iterdir()) == sorted(FILES[:3])
