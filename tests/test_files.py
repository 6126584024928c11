"""Files are there whole or not at all."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eupg.errors import StorageError
from eupg.files import create_once, is_partial, make_folder, remove_partials, write_atomically
from trouble import REFUSALS, crashes, failing, on_small_disk

OLD, NEW = b"what was there", b"what comes " * 1000


@given(st.binary(max_size=200))
def test_what_is_written_is_read(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("files") / "file"
    write_atomically(path, content)
    assert path.read_bytes() == content
    assert os.listdir(path.parent) == ["file"]


def test_file_is_its_owners_alone_unless_told_otherwise(tmp_path):
    before = os.umask(0o077)
    try:
        write_atomically(tmp_path / "secret", b"x")
        write_atomically(tmp_path / "public", b"x", mode=0o644)
    finally:
        os.umask(before)
    assert [(tmp_path / n).stat().st_mode & 0o777 for n in ("secret", "public")] == [0o600, 0o644]


def test_content_reaches_the_disk_before_the_name_and_the_name_before_the_return(tmp_path, monkeypatch):
    steps = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda n: (steps.append(Path(os.readlink(f"/proc/self/fd/{n}")).suffix or "folder"), fsync(n))
    )
    monkeypatch.setattr(os, "replace", lambda a, b: (steps.append("rename"), replace(a, b)))
    write_atomically(tmp_path / "file", NEW)
    assert steps == [".partial", "rename", "folder"]


def test_pieces_are_joined_and_an_error_among_them_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, iter([b"a", b"", b"bc"]))
    assert path.read_bytes() == b"abc"
    with pytest.raises(ZeroDivisionError):
        write_atomically(path, (b"x" * (1 // n) for n in (1, 0)))
    assert path.read_bytes() == b"abc"
    assert os.listdir(tmp_path) == ["file"]


def test_interrupted_write_cleans_up(tmp_path, monkeypatch):
    def interrupt(number):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "file", NEW)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("step", ["open", "write", "fsync", "replace"])
@pytest.mark.parametrize(("number", "words"), REFUSALS)
def test_refusing_disk_leaves_the_old_state_and_is_explained(tmp_path, monkeypatch, step, number, words):
    path = tmp_path / "file"
    path.write_bytes(OLD)
    with monkeypatch.context() as patched:
        patched.setattr(os, step, failing(number))
        with pytest.raises(StorageError, match=rf"cannot write .*file: .*{words}") as told:
            write_atomically(path, NEW)
    assert "the old content is unchanged" in str(told.value)
    assert isinstance(told.value, OSError)
    assert (path.read_bytes(), os.listdir(tmp_path)) == (OLD, ["file"])


def test_half_written_on_a_disk_that_fills_up_is_taken_away(tmp_path, monkeypatch):
    path, write = tmp_path / "file", os.write
    path.write_bytes(OLD)
    full = failing(errno.ENOSPC, at=3)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda n, piece: full() or write(n, piece[:100]))
        with pytest.raises(StorageError, match="no space"):
            write_atomically(path, NEW)
    assert (path.read_bytes(), os.listdir(tmp_path)) == (OLD, ["file"])


def test_disk_that_takes_little_at_a_time_gets_it_all(tmp_path, monkeypatch):
    write = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda n, piece: write(n, piece[:7]))
        write_atomically(tmp_path / "file", NEW)
    assert (tmp_path / "file").read_bytes() == NEW


def test_folder_that_cannot_be_forced_to_disk_does_not_claim_the_old_state(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(OLD)
    fsync, late = os.fsync, failing(errno.EIO, at=2)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", lambda n: late() or fsync(n))
        with pytest.raises(StorageError, match="is written, but may not survive") as told:
            write_atomically(path, NEW)
    assert "unchanged" not in str(told.value)
    assert path.read_bytes() == NEW


def test_missing_folder_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"none/file: the folder does not exist"):
        write_atomically(tmp_path / "none" / "file", NEW)


def test_folder_where_a_file_lies_is_refused(tmp_path):
    (tmp_path / "taken").write_bytes(OLD)
    with pytest.raises(StorageError, match="cannot make the folder"):
        make_folder(tmp_path / "taken")
    assert (tmp_path / "taken").read_bytes() == OLD


WRITE = f"""
import sys
from pathlib import Path
from eupg.files import write_atomically
write_atomically(Path(sys.argv[1]) / "file", {NEW!r})
"""


def test_kill_at_any_step_leaves_the_old_or_the_new_file(tmp_path):
    before = tmp_path / "before"
    before.mkdir()
    (before / "file").write_bytes(OLD)
    seen = {}
    for step, folder in crashes(WRITE, before, tmp_path):
        (half,) = [p.stat().st_size for p in folder.iterdir() if is_partial(p.name)] or [None]
        seen[step] = ((folder / "file").read_bytes() == NEW, half)
        assert (folder / "file").read_bytes() in (OLD, NEW)
        assert len(remove_partials(folder)) == (half is not None)
        assert os.listdir(folder) == ["file"]
    assert seen == {
        "before write": (False, 0),
        "mid-write": (False, len(NEW) // 2),
        "after write": (False, len(NEW)),
        "after fsync": (False, len(NEW)),
        "after rename": (True, None),
        "after folder fsync": (True, None),
    }


CREATE = """
import sys
from pathlib import Path
from eupg.files import create_once
create_once(Path(sys.argv[1]) / "file", b"new")
"""


def test_file_that_is_there_already_is_not_replaced_by_a_second_one(tmp_path):
    create_once(tmp_path / "file", OLD)
    create_once(tmp_path / "file", NEW)
    assert (tmp_path / "file").read_bytes() == OLD
    assert os.listdir(tmp_path) == ["file"]


def test_kill_at_any_step_leaves_a_whole_new_file_or_none(tmp_path):
    before = tmp_path / "before"
    before.mkdir()
    seen = {}
    for step, folder in crashes(CREATE, before, tmp_path):
        remove_partials(folder)
        seen[step] = [(p.name, p.read_bytes()) for p in folder.iterdir()]
    assert {step for step, content in seen.items() if content == [("file", b"new")]} == {
        "after link",
        "after folder fsync",
    }
    assert all(content == [] for step, content in seen.items() if not step.startswith(("after link", "after folder")))


def test_partial_files_alone_are_removed_and_links_are_not_followed(tmp_path):
    outside = tmp_path / "outside.partial"
    outside.write_bytes(OLD)
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in (".file.ab12.partial", "file", "file.partial", ".hidden"):
        (folder / name).write_bytes(OLD)
    (folder / ".link.partial").symlink_to(outside)
    (folder / ".folder.partial").mkdir()
    assert remove_partials(folder) == (".file.ab12.partial",)
    assert sorted(os.listdir(folder)) == [".folder.partial", ".hidden", ".link.partial", "file", "file.partial"]
    assert outside.read_bytes() == OLD


def test_partial_file_that_cannot_be_removed_is_named(tmp_path, monkeypatch):
    (tmp_path / ".a.partial").touch()
    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", failing(errno.EROFS))
        with pytest.raises(StorageError, match=r"cannot remove .*\.a\.partial: .*read-only"):
            remove_partials(tmp_path)


def test_really_full_disk_leaves_the_old_file(tmp_path):
    on_small_disk(
        """
import os
from pathlib import Path
from eupg.errors import StorageError
from eupg.files import write_atomically
path = Path(sys.argv[1]) / "file"
write_atomically(path, b"old")
try:
    write_atomically(path, b"new" * 100_000)
except StorageError as error:
    assert "no space is left" in str(error), error
else:
    raise AssertionError("written")
assert path.read_bytes() == b"old" and os.listdir(path.parent) == ["file"]
""",
        tmp_path,
        "64k",
    )


def test_really_read_only_disk_leaves_the_old_file(tmp_path):
    on_small_disk(
        """
import os
from pathlib import Path
from eupg.errors import StorageError
from eupg.files import write_atomically
path = Path(sys.argv[1]) / "file"
write_atomically(path, b"old")
make_read_only()
try:
    write_atomically(path, b"new")
except StorageError as error:
    assert "read-only" in str(error), error
else:
    raise AssertionError("written")
assert path.read_bytes() == b"old" and os.listdir(path.parent) == ["file"]
""",
        tmp_path,
        "64k",
    )
