"""Temporary folders: inside a workspace that changes, and otherwise deleted even after a kill."""

import gc
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO

import pytest

from eupg import Seeded
from eupg.errors import StorageError
from eupg.forget import SISA
from eupg.learn import SklearnLearner
from eupg.temporary import TemporaryFolder, lent_as_file, temporary_files_in, written_bytes
from managed import METHODS, person, trained
from people import people
from traces import files_in

_HOLD = """
import sys, time
from eupg.temporary import TemporaryFolder
folder = TemporaryFolder()
(folder.path / "model").write_bytes(b"numbers")
print(folder.path, flush=True)
time.sleep(600)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_disappears_with_its_block_or_its_object(place):
    with TemporaryFolder() as folder:
        assert list(place.iterdir()) == [folder]
        assert folder.stat().st_mode & 0o777 == 0o700
    kept = TemporaryFolder()
    (kept.path / "model").write_bytes(b"numbers")
    del kept
    gc.collect()
    assert not list(place.iterdir())


def test_what_a_killed_process_left_is_deleted_by_the_next_and_what_a_living_one_uses_is_not(place):
    environment = os.environ | {"TMPDIR": str(place), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    processes = [
        subprocess.Popen([sys.executable, "-c", _HOLD], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    killed, living = (Path(told_by(process).readline().strip()) for process in processes)
    processes[0].send_signal(signal.SIGKILL)
    processes[0].wait()
    assert (killed / "model").exists()
    with TemporaryFolder() as folder:
        assert sorted(place.iterdir()) == sorted([folder, living])
    assert (living / "model").exists()
    processes[1].kill()
    for process in processes:
        process.wait()
        told_by(process).close()


def told_by(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def test_a_forked_process_does_not_delete_the_folder_of_its_parent(place):
    with TemporaryFolder() as folder:
        child = subprocess.run(
            [
                sys.executable,
                "-c",
                "import os, sys; from eupg.temporary import TemporaryFolder; kept = TemporaryFolder()\n"
                "child = os.fork()\n"
                "if child: os.waitpid(child, 0); print(kept.path.exists())\n"
                "else: sys.exit()",
            ],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            check=True,
        )
        assert child.stdout.strip() == "True"
        assert folder.exists()


def test_a_place_may_be_named(tmp_path, place):
    inside = tmp_path / "workspace"
    inside.mkdir()
    with temporary_files_in(inside), TemporaryFolder() as folder:
        assert folder.parent == inside
    with pytest.raises(StorageError, match="cannot make a temporary folder"), temporary_files_in(tmp_path / "none"):
        TemporaryFolder()


def test_bytes_pass_through_files_that_leave_nothing(tmp_path, place, monkeypatch):
    with lent_as_file(b"numbers") as path:
        assert path.read_bytes() == b"numbers"
        assert not list(place.iterdir())
    monkeypatch.delattr(os, "memfd_create")
    with lent_as_file(b"numbers") as path:
        assert path.read_bytes() == b"numbers"
    assert written_bytes(_write, beside=tmp_path / "model") == b"numbers"
    with pytest.raises(ValueError, match="no"):
        written_bytes(_write_and_fail, beside=tmp_path / "model")
    assert not list(tmp_path.iterdir())


def _write(path: Path) -> None:
    path.write_bytes(b"numbers")


def _write_and_fail(path: Path) -> None:
    path.write_bytes(b"part")
    raise ValueError("no")


@pytest.mark.parametrize("name", METHODS)
def test_no_method_leaves_a_file_anywhere(name, tmp_path, place):
    outside = tmp_path / "outside"
    outside.mkdir()
    tempfile.tempdir = str(outside)
    with trained(tmp_path / "workspace", METHODS[name]) as manager:
        manager.request_erasure(subject=person(3))
        manager.forget()
        assert not list(manager.space.scratch.iterdir())
    assert not files_in(outside)


def test_a_workspace_does_not_use_the_folder_of_checkpoints(tmp_path):
    method = SISA(SklearnLearner(), effort=1, shards=2, slices=2, folder=tmp_path / "own", jobs=1)
    with trained(tmp_path / "workspace", method):
        assert not (tmp_path / "own").exists()
    method.train(people(60), Seeded(1))
    assert list((tmp_path / "own").iterdir())
