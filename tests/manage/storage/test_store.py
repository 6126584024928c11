"""Files named by digest: written once, checked when read, gone when deleted; whatever happens meanwhile."""

import errno
import hashlib
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

import eupg.manage.storage.store as store_module
from eupg.errors import DataError, ParameterError, StorageError, StoreCorrupt
from eupg.files import is_partial
from eupg.manage.storage.store import Deleted, Store
from trouble import REFUSALS, crashes, failing, on_small_disk

CONTENT = b"a model " * 500


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def flip(path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= 0x10
    path.write_bytes(content)


def test_content_is_named_by_its_sha256_and_read_back(store):
    digest = store.put(CONTENT)
    assert digest == sha(CONTENT)
    assert store.read(digest) == store.path(digest).read_bytes() == CONTENT
    assert (store.digests(), digest in store) == ({digest}, True)


def test_same_content_twice_is_one_file_that_is_not_written_again(store):
    digest = store.put(CONTENT)
    inode = store.path(digest).stat().st_ino
    assert store.put(CONTENT) == digest
    assert store.path(digest).stat().st_ino == inode
    assert os.listdir(store.folder) == [digest]


def test_file_found_in_place_is_forced_to_disk_before_put_returns(store, monkeypatch):
    """Its writer may have been killed between giving the name and forcing the folder to disk."""
    store.put(CONTENT)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    store.put(CONTENT)
    assert len(synced) == 1


@pytest.mark.parametrize("content", [b"", b"x", CONTENT, b"large" * 700_000], ids=["empty", "byte", "small", "large"])
def test_file_is_copied_as_its_bytes_would_be(store, tmp_path, content):
    source = tmp_path / "source"
    source.write_bytes(content)
    assert store.put(source) == sha(content)
    assert store.read(sha(content)) == source.read_bytes() == content


def test_file_that_changes_while_it_is_copied_is_not_stored(store, tmp_path, monkeypatch):
    source = tmp_path / "source"
    source.write_bytes(CONTENT)
    monkeypatch.setattr(store_module, "_digest_of", lambda path: sha(b"as it was"))
    with pytest.raises(DataError, match="changed while it was copied"):
        store.put(source)
    assert os.listdir(store.folder) == []


def test_file_to_copy_that_is_not_there_is_named(store, tmp_path):
    with pytest.raises(StorageError, match=r"cannot read .*nowhere"):
        store.put(tmp_path / "nowhere")


def test_text_is_neither_content_nor_path(store):
    with pytest.raises(ParameterError, match="expected bytes or a Path"):
        store.put("name")


def test_files_are_their_owners_alone(store):
    path = store.path(store.put(CONTENT))
    assert (path.stat().st_mode & 0o777, store.folder.stat().st_mode & 0o777) == (0o600, 0o700)


@given(position=st.integers(min_value=0), content=st.binary(min_size=1, max_size=300))
def test_flipped_byte_is_found_and_named(tmp_path_factory, position, content):
    store = Store(tmp_path_factory.mktemp("store"))
    digest = store.put(content)
    flip(store.folder / digest, position)
    damaged = sha((store.folder / digest).read_bytes())
    for look in (store.read, store.path, lambda d: store.verify({d})):
        with pytest.raises(StoreCorrupt, match=f"{store.folder / digest} is damaged.*{damaged}.*{digest}"):
            look(digest)


@pytest.mark.parametrize("size", [0, 1, len(CONTENT) - 1])
def test_shortened_file_is_found(store, size):
    digest = store.put(CONTENT)
    os.truncate(store.folder / digest, size)
    with pytest.raises(StoreCorrupt, match="is damaged"):
        store.read(digest)


def test_missing_file_is_named(store):
    for look in (store.read, store.path, store.delete, lambda d: store.verify({d}), lambda d: store.collect({d})):
        with pytest.raises(StoreCorrupt, match=f"{sha(b'none')} is missing"):
            look(sha(b"none"))


def test_good_content_put_again_repairs_a_damaged_file(store):
    digest = store.put(CONTENT)
    flip(store.folder / digest, 7)
    store.put(CONTENT)
    assert store.read(digest) == CONTENT


@pytest.mark.parametrize(
    "trick",
    [
        *("../secret", "/etc/passwd", "", ".", "..", "../" + "a" * 61, "a" * 63, "a" * 65, "A" * 64, "g" * 64),
        *("٣" * 64, "a" * 63 + "\n", "a" * 64 + "\n", "a" * 64 + "\x00", None, 7, b"a" * 64),
    ],
)
def test_whatever_is_no_digest_is_refused(store, tmp_path, trick):
    (tmp_path / "secret").write_bytes(b"stays")
    for use in (
        store.read,
        store.path,
        store.delete,
        store.__contains__,
        lambda d: store.collect([d]),
        lambda d: store.verify([d]),
    ):
        with pytest.raises(ParameterError, match="expected a digest of 64 digits"):
            use(trick)
    assert (tmp_path / "secret").read_bytes() == b"stays"


def test_links_are_refused_and_their_targets_untouched(store, tmp_path):
    outside = tmp_path / "outside"
    outside.write_bytes(CONTENT)
    digest = sha(CONTENT)
    (store.folder / digest).symlink_to(outside)
    for use in (store.read, store.path, store.delete, lambda d: store.verify({d}), lambda d: store.put(CONTENT)):
        with pytest.raises(StoreCorrupt, match=r"is not a plain file.*symbolic link"):
            use(digest)
    assert store.digests() == set()
    assert outside.read_bytes() == CONTENT


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_plain_file_is_refused(store, make):
    make(store.folder / sha(CONTENT))
    for use in (store.read, store.path, store.delete):
        with pytest.raises(StoreCorrupt, match="is not a plain file"):
            use(sha(CONTENT))


def test_deleted_file_is_gone_and_told(store):
    kept, digest = store.put(b"stays"), store.put(CONTENT)
    assert store.delete(digest) == Deleted(digest, len(CONTENT))
    assert (digest in store, store.digests()) == (False, {kept})
    assert not [p for p in store.folder.iterdir() if CONTENT in p.read_bytes()]


def test_damaged_file_can_be_deleted(store):
    digest = store.put(CONTENT)
    flip(store.folder / digest, 0)
    store.delete(digest)
    assert os.listdir(store.folder) == []


def test_deletion_reaches_the_disk_before_it_returns(store, monkeypatch):
    digest, synced = store.put(CONTENT), []
    monkeypatch.setattr(os, "fsync", lambda n: synced.append((os.readlink(f"/proc/self/fd/{n}"), digest in store)))
    store.delete(digest)
    assert synced == [(str(store.folder), False)]


def test_several_files_are_deleted_at_once_and_those_that_are_gone_are_left_out(store):
    """Files of one size and one beginning are told apart by their content."""
    long = [b"begin" * 100 + bytes([i]) for i in range(3)]
    digests = [store.put(content) for content in long]
    store.delete(digests[0])
    store.delete_all(digests[:2])
    assert store.digests() == {digests[2]}
    (store.folder / "copy").write_bytes(long[2])
    with pytest.raises(StoreCorrupt, match=f"copy still holds the deleted bytes of {digests[2]}"):
        store.delete_all(digests)


@pytest.mark.parametrize("name", ["copy.bin", ".x.partial", "0" * 64])
def test_copy_of_deleted_bytes_under_another_name_is_found(store, name):
    digest = store.put(CONTENT)
    (store.folder / name).write_bytes(CONTENT)
    with pytest.raises(StoreCorrupt, match=f"{name} still holds the deleted bytes of {digest}"):
        store.delete(digest)


def test_deletion_that_did_not_happen_is_found(store, monkeypatch):
    digest = store.put(CONTENT)
    monkeypatch.setattr(os, "unlink", lambda path: None)
    with pytest.raises(StoreCorrupt, match=f"{digest} was deleted and exists again"):
        store.delete(digest)


def test_bytes_that_a_hard_link_would_keep_stop_the_deletion(store, tmp_path):
    digest = store.put(CONTENT)
    os.link(store.folder / digest, tmp_path / "elsewhere")
    with pytest.raises(StoreCorrupt, match=r"has 2 names \(hard links\)"):
        store.delete(digest)
    assert store.read(digest) == CONTENT
    (tmp_path / "elsewhere").unlink()
    assert store.delete(digest).digest == digest


def test_collect_leaves_live_files_alone(store):
    live, old = store.put(b"live"), store.put(b"old")
    (store.folder / f".{old}.ab.partial").write_bytes(b"half")
    (store.folder / "notes.txt").write_bytes(b"notes")
    deleted = store.collect({live})
    assert sorted(deleted, key=lambda d: d.size) == [
        Deleted(old, 3),
        Deleted(sha(b"half"), 4),
        Deleted(sha(b"notes"), 5),
    ]
    assert os.listdir(store.folder) == [live]
    assert store.collect({live}) == []


def test_collect_does_not_report_a_copy_of_a_live_file_as_deleted(store):
    live = store.put(CONTENT)
    (store.folder / ".x.partial").write_bytes(CONTENT)
    assert store.collect({live}) == []
    assert os.listdir(store.folder) == [live]


def test_collect_with_a_live_file_missing_deletes_nothing(store):
    old = store.put(b"old")
    with pytest.raises(StoreCorrupt, match="nothing was deleted"):
        store.collect({sha(b"lost")})
    assert store.read(old) == b"old"


def test_collect_names_links_and_folders_after_deleting_the_rest(store, tmp_path):
    outside = tmp_path / "outside"
    outside.write_bytes(b"stays")
    store.put(b"old")
    (store.folder / "link").symlink_to(outside)
    with pytest.raises(StoreCorrupt, match="link is not a file of this store"):
        store.collect(set())
    assert (os.listdir(store.folder), outside.read_bytes()) == (["link"], b"stays")


def test_verify_tells_strangers(store):
    live, old = store.put(b"live"), store.put(b"old")
    (store.folder / "notes.txt").touch()
    assert store.verify({live, old}) == ("notes.txt",)
    assert store.verify({live}) == tuple(sorted((old, "notes.txt")))


FLOW = """
import sys
from pathlib import Path
from eupg.manage.storage.store import Store
folder = Path(sys.argv[1])
store = Store(folder / "store")
"""
FLOWS = {
    "put": FLOW + f"store.put({CONTENT!r})",
    "copy": FLOW + "store.put(folder / 'source')",
    "delete": FLOW + f"store.delete({sha(b'old')!r})",
    "collect": FLOW + f"store.collect([{sha(b'live')!r}])",
}


@pytest.mark.parametrize("flow", FLOWS)
def test_kill_at_any_step_leaves_whole_files_and_a_store_that_goes_on(tmp_path, flow):
    before = tmp_path / "before"
    ready = Store(before / "store")
    live, old = ready.put(b"live"), ready.put(b"old")
    (before / "source").write_bytes(CONTENT)
    steps = 0
    for step, folder in crashes(FLOWS[flow], before, tmp_path):
        steps += 1
        store = Store(folder / "store")
        assert store.digests() <= {live, old, sha(CONTENT)}, step
        assert live in store
        for name in store.verify(store.digests()):
            assert is_partial(name)
        assert store.put(CONTENT) == sha(CONTENT)
        store.collect({live, sha(CONTENT)})
        assert sorted(os.listdir(store.folder)) == sorted([live, sha(CONTENT)])
    assert steps == {"put": 6, "copy": 6, "delete": 3, "collect": 3}[flow]


@pytest.mark.parametrize(("number", "words"), REFUSALS)
def test_refusing_disk_leaves_the_store_as_it_was(store, monkeypatch, number, words):
    old = store.put(b"old")
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", failing(number))
        with pytest.raises(StorageError, match=f"cannot write .*{words}"):
            store.put(CONTENT)
    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", failing(number))
        with pytest.raises(StorageError, match=f"cannot remove .*{words}"):
            store.delete(old)
    assert os.listdir(store.folder) == [old]
    assert store.read(old) == b"old"


def test_unreadable_file_is_named(store, monkeypatch):
    digest = store.put(CONTENT)
    monkeypatch.setattr(os, "open", failing(errno.EACCES))
    with pytest.raises(StorageError, match=f"cannot read .*{digest}: this user has no permission"):
        store.read(digest)


def test_really_full_or_read_only_disk_leaves_the_store_as_it_was(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    on_small_disk(
        """
import os
from pathlib import Path
from eupg.errors import StorageError
from eupg.manage.storage.store import Store
store = Store(Path(sys.argv[1]) / "store")
old = store.put(b"old")

def refused(word, act, *arguments):
    try:
        act(*arguments)
    except StorageError as error:
        assert word in str(error), error
    else:
        raise AssertionError(act)
    assert os.listdir(store.folder) == [old] and store.read(old) == b"old"

refused("no space is left", store.put, b"new" * 100_000)
large = Path(sys.argv[1]).parent / "large"
large.write_bytes(b"new" * 100_000)
refused("no space is left", store.put, large)
make_read_only()
refused("read-only", store.put, b"new")
refused("read-only", store.delete, old)
refused("read-only", store.collect, [])
""",
        disk,
        "64k",
    )
