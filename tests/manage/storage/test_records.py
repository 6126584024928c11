"""Records on disk: an exact round trip, and erasures that touch only the files that hold the person."""

import io
import json
import os
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eupg.data.attribute import Categorical, Missing, Numeric, Role
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.errors import DataError, ParameterError, StorageError, StoreCorrupt, WorkspaceDamaged
from eupg.files import is_partial
from eupg.manage.storage.records import RecordFiles
from record_files import write
from trouble import REFUSALS, crashes, failing, on_small_disk

SCHEMA = Schema(
    (
        Numeric(name="income", lower=-1e300, upper=1e300, missing=Missing.KEEP),
        Categorical(name="town", categories=("north", "south"), missing=Missing.KEEP),
        Categorical(name="ill", role=Role.LABEL, categories=("no", "yes")),
    )
)
NAMES = st.one_of(
    st.text(max_size=5),
    st.sampled_from(["../../etc/passwd", "a\x00b", "\x00", "", "a", "A", " a", "Ж", "😀", "nan", "None", "x" * 5000]),
).filter(lambda text: not text.endswith("\x00"))

# The records themselves are exact up to 1e300, but the spread of a column in a sketch overflows beyond about 1e154.
huge_values = pytest.mark.filterwarnings("ignore:overflow encountered in (square|reduce):RuntimeWarning")


def table(ids, subjects=None, seed: int = 0) -> Dataset:
    rng, rows = np.random.default_rng(seed), len(ids)
    X = np.column_stack([rng.normal(0, 1e5, rows), rng.integers(0, 2, rows).astype(float)])
    X[rng.random((rows, 2)) < 0.1] = np.nan
    names = np.array(ids, dtype=np.str_)
    return Dataset(
        SCHEMA, X, rng.integers(0, 2, rows), names, names if subjects is None else np.array(subjects, dtype=np.str_)
    )


def crowd(people: int = 40, each: int = 3, seed: int = 0) -> Dataset:
    """Several records a person, in no order."""
    order = np.random.default_rng(seed).permutation(people * each)
    return table([f"r{i}" for i in order], [f"person {i % people}" for i in order], seed)


def assert_same(one: Dataset, other: Dataset) -> None:
    assert one.schema == other.schema
    assert one.X.tobytes() == other.X.tobytes()
    assert one.y.tolist() == other.y.tolist()
    assert one.ids.tolist() == other.ids.tolist()
    assert one.subjects.tolist() == other.subjects.tolist()


@pytest.fixture
def records(tmp_path):
    return RecordFiles(tmp_path / "records", SCHEMA)


@st.composite
def tables(draw):
    ids = draw(st.lists(NAMES, unique=True, max_size=12))
    people = draw(st.lists(NAMES, min_size=1, max_size=4))
    subjects = draw(st.lists(st.sampled_from(people), min_size=len(ids), max_size=len(ids)))
    values = st.one_of(st.floats(-1e300, 1e300), st.just(float("nan")), st.just(-0.0))
    incomes = draw(st.lists(values, min_size=len(ids), max_size=len(ids)))
    return replace(table(ids, subjects), X=np.column_stack([incomes, table(ids).X[:, 1]]).reshape(-1, 2))


@huge_values
@given(tables(), st.integers(1, 5))
def test_what_is_written_is_read_bit_for_bit(tmp_path_factory, data, rows_per_part):
    records = RecordFiles(tmp_path_factory.mktemp("records"), SCHEMA)
    assert_same(write(records, data, rows_per_part=rows_per_part).read(), data)


@huge_values
@settings(max_examples=60)
@given(tables(), st.integers(1, 5), st.data())
def test_forgetting_on_disk_is_forgetting_in_memory(tmp_path_factory, data, rows_per_part, draw):
    records = RecordFiles(tmp_path_factory.mktemp("records"), SCHEMA)
    before = write(records, data, rows_per_part=rows_per_part)
    people = draw.draw(st.sets(st.sampled_from(sorted(set(data.subjects.tolist()))))) if len(data) else set()
    ids = draw.draw(st.sets(st.sampled_from(data.ids.tolist()))) if len(data) else set()
    gone = data.where(ids) | data.where_subjects(people)
    holding = {d for d in before.manifest if np.isin(records.read((d,)).ids, data.ids[gone]).any()}
    after, erased = before.erase(np.flatnonzero(gone))
    assert_same(after.read(), data.select(~gone))
    assert_same(erased.forgotten, data.select(gone))
    assert erased.rows.tolist() == np.flatnonzero(gone).tolist()
    assert set(before.manifest) - set(after.manifest) == holding
    assert {sketch for _, sketch in before.noted.sidecars.values()} - after.live == {
        before.noted.sidecars[digest][1] for digest in holding
    }
    assert set(erased.sidecars) == set(after.manifest)
    assert set(erased.written) == after.live - before.live
    assert records.check_sketches(after.manifest, erased.sidecars)
    assert_same(before.read(), data)


@huge_values
@given(tables(), tables(), st.integers(1, 5))
def test_appending_on_disk_is_adding_in_memory(tmp_path_factory, data, more, rows_per_part):
    records = RecordFiles(tmp_path_factory.mktemp("records"), SCHEMA)
    before = write(records, data, rows_per_part=rows_per_part)
    more = more.select(~np.isin(more.ids, data.ids))
    longer = before.append(more, rows_per_part=rows_per_part)
    assert before.live <= longer.live
    assert_same(longer.read(), data.plus(more))


@given(st.lists(st.sampled_from("abcdefgh"), max_size=60), st.integers(1, 20))
def test_nobody_lies_in_two_files_unless_they_alone_exceed_one(tmp_path_factory, subjects, rows_per_part):
    records = RecordFiles(tmp_path_factory.mktemp("records"), SCHEMA)
    data = table([str(i) for i in range(len(subjects))], subjects)
    parts = [records.read((d,)) for d in write(records, data, rows_per_part=rows_per_part).manifest]
    assert all(1 <= len(part) <= rows_per_part for part in parts)
    for person in set(subjects):
        files = sum(person in part.subjects for part in parts)
        assert files == 1 or subjects.count(person) > rows_per_part


def test_one_persons_erasure_rewrites_one_file(records):
    data = crowd()
    before = write(records, data, rows_per_part=10)
    assert len(before.manifest) > 5
    after, erased = before.erase(np.flatnonzero(data.where_subjects(["person 7"])))
    assert len(set(after.manifest) - set(before.manifest)) == 1
    assert len(set(before.manifest) & set(after.manifest)) == len(before.manifest) - 1
    assert len(erased.written) == len(before.live - after.live) == 2  # the file and its sketch


def test_order_survives_erasures_and_additions(records):
    data, more = crowd(), table(["n2", "n1"], ["person 3", "nobody yet"])
    held, _ = write(records, data, rows_per_part=10).erase(np.flatnonzero(data.where_subjects(["person 3"])))
    held = held.append(more)
    held, _ = held.erase([*np.flatnonzero(data.where(["r1"])), len(data)])
    expected = data.select(~data.where_subjects(["person 3"])).without(["r1"]).plus(more.without(["n2"]))
    assert_same(held.read(), expected)


def test_file_of_which_nothing_is_left_vanishes(records):
    before = write(records, table(["a", "b"]), rows_per_part=1)
    after, erased = before.erase([0])
    assert (after.manifest, erased.written) == (before.manifest[1:], ())
    assert len(before.live - after.live) == 2
    nobody, last = after.erase([1])
    assert (nobody.manifest, last.sidecars, last.written) == ((), {}, ())


def test_nobody_to_forget_changes_nothing(records):
    before = write(records, crowd())
    after, erased = before.erase([])
    assert (after.manifest, erased.sidecars, erased.written) == (before.manifest, before.noted.sidecars, ())
    assert (len(erased.forgotten), len(erased.rows)) == (0, 0)


@pytest.mark.parametrize(
    "wrong",
    [lambda placed: {1: [1000]}, lambda placed: {1: [placed[1][0], 1000]}, lambda placed: {99: placed[1][:1]}],
    ids=["row", "one of two rows", "file"],
)
def test_someone_who_is_not_here_is_refused_and_nothing_is_written(records, wrong):
    """The first file is rewritten before the second is found to be wrong, and its successor goes again."""
    held = write(records, crowd(), rows_per_part=10)
    placed = held.noted.rows
    rows = {0: placed[0][:1], **{slot: np.array(some) for slot, some in wrong(placed).items()}}
    with pytest.raises(WorkspaceDamaged, match="other rows than the record files hold"):
        records.erase(held.manifest, held.noted.sidecars, rows)
    assert set(os.listdir(records.folder)) == held.live


def test_taken_ids_are_refused_and_nothing_is_written(records):
    held = write(records, crowd(), rows_per_part=10)
    with pytest.raises(DataError, match="2 ids of 3 new records are taken, first 'r1'"):
        held.append(table(["r5", "new", "r1"]))
    assert records.files.digests() == held.live


@pytest.mark.parametrize("wrong", [0, -1, True, 2.5])
def test_file_size_that_is_no_number_of_rows_is_refused(records, wrong):
    with pytest.raises(ParameterError, match="rows_per_part must be a whole number"):
        write(records, crowd(), rows_per_part=wrong)


def test_name_that_is_no_unicode_is_refused_and_nothing_is_left(records):
    """The second file cannot be written, and takes the first one with it."""
    with pytest.raises(DataError, match="not valid Unicode"):
        write(records, table(["a", "\ud800"]), rows_per_part=1)
    assert os.listdir(records.folder) == []


def test_columns_may_be_called_anything(tmp_path):
    names = ("record", "_record", "subject", "subject.x", "position", "a\x00b", "", "ä")
    features = tuple(Numeric(name=n, lower=0, upper=9) for n in names)
    schema = Schema((*features, Categorical(name="__record", role=Role.LABEL, categories=("no", "yes"))))
    X = np.arange(16, dtype=float).reshape(2, 8) % 10
    data = Dataset(schema, X, np.array([0, 1]), np.array(["a", "b"]), np.array(["p", "q"]))
    records = RecordFiles(tmp_path, schema)
    held = write(records, data)
    assert_same(held.read(), data)
    assert_same(held.erase([0])[0].read(), data.without(["a"]))


def test_other_schema_is_refused(records):
    narrower = Schema((replace(SCHEMA["income"], upper=1.0), *SCHEMA.attributes[1:]))
    held = write(records, crowd())
    with pytest.raises(DataError, match="written under another schema"):
        RecordFiles(records.folder, narrower).read(held.manifest)
    with pytest.raises(DataError, match="another schema than these files"):
        write(RecordFiles(records.folder, narrower), crowd())


def test_file_that_holds_no_records_is_named(records):
    digest = records.files.put(b"PAR1 but not Parquet PAR1")
    with pytest.raises(DataError, match=f"{digest} is not a record file"):
        records.read((digest,))


def flip(path, position: int, change: int) -> None:
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= change
    path.write_bytes(content)


@given(st.integers(min_value=0), st.integers(1, 255))
def test_flipped_byte_is_found_and_named(tmp_path_factory, position, change):
    records = RecordFiles(tmp_path_factory.mktemp("records"), SCHEMA)
    held = write(records, crowd(6), rows_per_part=9)
    assert len(held.manifest) > 1
    path = records.folder / held.manifest[-1]
    flip(path, position, change)
    for use in (
        held.read,
        lambda: held.erase(np.arange(18)),
        lambda: held.append(table(["new"])),
        lambda: records.check_sketches(held.manifest, held.noted.sidecars),
        lambda: records.files.verify(held.live),
    ):
        with pytest.raises(StoreCorrupt, match=f"{path} is damaged"):
            use()
    assert records.files.digests() == held.live


@given(st.integers(min_value=0), st.integers(1, 255))
def test_flipped_byte_of_a_sketch_is_found_and_named(tmp_path_factory, position, change):
    records = RecordFiles(tmp_path_factory.mktemp("records"), SCHEMA)
    held = write(records, crowd(6), rows_per_part=9)
    places, sketch = held.places(np.arange(0, 18, 2)), held.noted.sidecars[held.manifest[-1]][1]
    assert len(places) > 1
    path = records.folder / sketch
    flip(path, position, change)
    for use in (
        lambda: records.read_sketch(sketch),
        lambda: records.erase(held.manifest, held.noted.sidecars, places),
        lambda: records.check_sketches(held.manifest, held.noted.sidecars),
        lambda: records.files.verify(held.live),
    ):
        with pytest.raises(StoreCorrupt, match=f"{path} is damaged"):
            use()
    assert records.files.digests() == held.live


def test_digest_does_not_give_a_guess_away(records):
    """The same rows give another digest each time, so that a digest in the ledger confirms nothing about them."""
    one, two = write(records, table(["a"])), write(records, table(["a"]))
    assert not one.live & two.live


def test_files_hold_no_statistics_dictionaries_or_foreign_metadata(records):
    (digest,) = write(records, crowd()).manifest
    meta = pq.ParquetFile(records.files.path(digest)).metadata
    assert set(meta.metadata) == {b"eupg.schema", b"eupg.salt", b"eupg.format"}
    columns = [meta.row_group(0).column(j) for j in range(meta.num_columns)]
    assert meta.num_row_groups == 1
    for column in columns:
        assert (column.is_stats_set, column.has_dictionary_page, column.compression) == (False, False, "ZSTD")


def everything_in(content: bytes) -> bytes:
    """Return the raw bytes of a file and whatever any compressed part of them holds."""
    parts, at = [content], content.find(b"\x28\xb5\x2f\xfd")
    while at >= 0:
        stream = pa.CompressedInputStream(io.BytesIO(content[at:]), "zstd")
        try:
            while piece := stream.read(64):
                parts.append(piece)
        except OSError:
            pass  # the compressed part is over
        parts.append(b" | ")
        at = content.find(b"\x28\xb5\x2f\xfd", at + 1)
    return b"".join(parts)


@huge_values
def test_nothing_of_a_forgotten_person_is_left_in_any_file(records):
    """Their name, ids and values lie at the ends of sorting orders, where statistics would keep them."""
    data = crowd(60)
    X, ids, subjects = data.X.copy(), data.ids.astype("<U40"), data.subjects.astype("<U40")
    theirs = np.array([3, 50, 99])
    X[theirs, 0] = [-9.87654321e299, 8.7654321e299, 0.123456789]
    ids[theirs], subjects[theirs] = ["!canary-low", "~canary-high", "m-canary-mid"], "zz Canary Person"
    data = replace(data, X=X, ids=ids, subjects=subjects)
    traces = [b"canary", b"Canary Person", *(v.tobytes() for v in X[theirs, 0])]
    parts = [data.select(data.y == 0), data.select(data.y == 1)]
    before = write(records, parts[0], rows_per_part=20).append(parts[1])
    held = b"".join(everything_in(p.read_bytes()) for p in records.folder.iterdir())
    assert all(trace in held for trace in traces)
    after, _ = before.erase(np.flatnonzero(np.concatenate([p.subjects == "zz Canary Person" for p in parts])))
    for digest in before.live - after.live:
        records.files.delete(digest)
    left = b"".join(everything_in(p.read_bytes()) for p in records.folder.iterdir())
    assert not [trace for trace in traces if trace in left]
    assert b"person 7" in left
    assert not [name for name in os.listdir(records.folder) if "anary" in name]


FORGET = """
import json
import sys
from pathlib import Path
import numpy as np
from eupg.data.schema import Schema
from eupg.manage.storage.records import RecordFiles
folder = Path(sys.argv[1])
records = RecordFiles(folder / "records", Schema.load(folder / "schema.toml"))
manifest, sidecars, rows = json.loads((folder / "erasure").read_text())
records.erase(tuple(manifest), sidecars, {int(slot): np.array(some) for slot, some in rows.items()})
"""


def test_kill_while_forgetting_leaves_the_old_records_whole(tmp_path):
    before, data = tmp_path / "before", crowd()
    held = write(RecordFiles(before / "records", SCHEMA), data, rows_per_part=25)
    SCHEMA.save(before / "schema.toml")
    gone = data.where_subjects(["person 3"]) | data.where(["r1"])
    places = {slot: rows.tolist() for slot, rows in held.places(np.flatnonzero(gone)).items()}
    (before / "erasure").write_text(json.dumps([held.manifest, dict(held.noted.sidecars), places]))
    steps = []
    for step, folder in crashes(FORGET, before, tmp_path):
        steps.append(step)
        left = replace(held, files=RecordFiles(folder / "records", SCHEMA))
        assert_same(left.read(), data)
        for name in left.files.files.verify(left.files.files.digests()):
            assert is_partial(name)
        left.files.files.collect(held.live)
        assert left.files.files.digests() == set(os.listdir(left.files.folder)) == held.live
        again, _ = left.erase(np.flatnonzero(data.where_subjects(["person 3"])))
        assert_same(again.read(), data.select(~data.where_subjects(["person 3"])))
    assert steps.count("mid-write") == 4  # two files and their sketches


def test_kill_while_deleting_what_was_replaced_leaves_the_new_records_whole(tmp_path):
    before, data = tmp_path / "before", crowd()
    held = write(RecordFiles(before / "records", SCHEMA), data, rows_per_part=25)
    SCHEMA.save(before / "schema.toml")
    gone = data.where_subjects(["person 3", "person 30"]) | data.where(["r1"])
    new, _ = held.erase(np.flatnonzero(gone))
    code = FORGET.partition("manifest,")[0] + f"records.files.collect({sorted(new.live)!r})"
    steps = []
    for step, folder in crashes(code, before, tmp_path):
        steps.append(step)
        left = replace(new, files=RecordFiles(folder / "records", SCHEMA))
        assert_same(left.read(), data.select(~gone))
        assert left.files.check_sketches(left.manifest, left.noted.sidecars)
        left.files.files.collect(new.live)
        assert set(os.listdir(left.files.folder)) == new.live
    assert steps.count("after unlink") == 6  # three files and their sketches


@pytest.mark.parametrize(("number", "words"), REFUSALS)
@pytest.mark.parametrize("at", [1, 4, 6, 8])
def test_refusing_disk_leaves_the_old_records_and_nothing_else(records, monkeypatch, number, words, at):
    """The first file is refused, or its sketch, or the second file or its sketch after others were written."""
    data = crowd()
    held = write(records, data, rows_per_part=25)
    places = held.places(np.flatnonzero(data.where_subjects(["person 3", "person 30"])))
    assert len(places) == 2
    write_piece, refuse = os.write, failing(number, at=at)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda n, piece: refuse() or write_piece(n, piece))
        with pytest.raises(StorageError, match=words):
            records.erase(held.manifest, held.noted.sidecars, places)
    assert set(os.listdir(records.folder)) == held.live
    assert_same(held.read(), data)


def test_really_full_disk_leaves_the_old_records_and_nothing_else(tmp_path):
    on_small_disk(
        """
import os
from pathlib import Path
import numpy as np
from eupg.data.attribute import Categorical, Numeric, Role
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.errors import StorageError
from eupg.manage.storage.records import RecordFiles
schema = Schema((Numeric(name="x", lower=0, upper=1), Categorical(name="y", role=Role.LABEL, categories=("a", "b"))))
ids = np.arange(14_000).astype(str)
data = Dataset(schema, np.random.default_rng(0).random((14_000, 1)), np.zeros(14_000, dtype=int), ids, ids)
records = RecordFiles(Path(sys.argv[1]) / "records", schema)
held = records.write_sketched(data, np.arange(14_000), first_slot=0, rows_per_part=1000)
live = {*held.manifest, *(sketch for _, sketch in held.sidecars.values())}
try:
    records.erase(held.manifest, held.sidecars, {slot: rows[::100] for slot, rows in held.rows.items()})
except StorageError as error:
    assert "no space is left" in str(error), error
else:
    raise AssertionError("written")
assert set(os.listdir(records.folder)) == live
assert (records.read(held.manifest).X == data.X).all()
# One person's erasure needs room for one file and its sketch only.
assert len(records.erase(held.manifest, held.sidecars, {7: held.rows[7][:1]}).written) == 2
""",
        tmp_path,
        "600k",
    )
