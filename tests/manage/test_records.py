"""Records on disk: an exact round trip, and erasures that touch only the files that hold the person."""

import io
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
from eupg.errors import DataError, ParameterError, StorageError, StoreCorrupt, UnknownRecord
from eupg.manage.atomic import is_partial
from eupg.manage.records import RecordFiles, Rewrite
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


@given(tables(), st.integers(1, 5))
def test_what_is_written_is_read_bit_for_bit(tmp_path_factory, data, rows_per_part):
    records = RecordFiles(tmp_path_factory.mktemp("records"), SCHEMA)
    assert_same(records.read(records.write(data, rows_per_part=rows_per_part)), data)


@settings(max_examples=60)
@given(tables(), st.integers(1, 5), st.data())
def test_forgetting_on_disk_is_forgetting_in_memory(tmp_path_factory, data, rows_per_part, draw):
    records = RecordFiles(tmp_path_factory.mktemp("records"), SCHEMA)
    manifest = records.write(data, rows_per_part=rows_per_part)
    people = draw.draw(st.sets(st.sampled_from(sorted(set(data.subjects.tolist()))))) if len(data) else set()
    ids = draw.draw(st.sets(st.sampled_from(data.ids.tolist()))) if len(data) else set()
    gone = data.where(ids) | data.where_subjects(people)
    holding = {d for d in manifest if np.isin(records.read((d,)).ids, data.ids[gone]).any()}
    rewrite = records.without(manifest, subjects=people, ids=ids)
    assert_same(records.read(rewrite.manifest), data.select(~gone))
    assert set(rewrite.replaced) == holding == set(manifest) - set(rewrite.manifest)
    assert set(rewrite.written) == set(rewrite.manifest) - set(manifest)
    assert_same(records.read(manifest), data)


@given(tables(), tables(), st.integers(1, 5))
def test_appending_on_disk_is_adding_in_memory(tmp_path_factory, data, more, rows_per_part):
    records = RecordFiles(tmp_path_factory.mktemp("records"), SCHEMA)
    manifest = records.write(data, rows_per_part=rows_per_part)
    more = more.select(~np.isin(more.ids, data.ids))
    longer = records.append(manifest, more, rows_per_part=rows_per_part)
    assert longer[: len(manifest)] == manifest
    assert_same(records.read(longer), data.plus(more))


@given(st.lists(st.sampled_from("abcdefgh"), max_size=60), st.integers(1, 20))
def test_nobody_lies_in_two_files_unless_they_alone_exceed_one(tmp_path_factory, subjects, rows_per_part):
    records = RecordFiles(tmp_path_factory.mktemp("records"), SCHEMA)
    data = table([str(i) for i in range(len(subjects))], subjects)
    parts = [records.read((d,)) for d in records.write(data, rows_per_part=rows_per_part)]
    assert all(1 <= len(part) <= rows_per_part for part in parts)
    for person in set(subjects):
        files = sum(person in part.subjects for part in parts)
        assert files == 1 or subjects.count(person) > rows_per_part


def test_one_persons_erasure_rewrites_one_file(records):
    data = crowd()
    manifest = records.write(data, rows_per_part=10)
    assert len(manifest) > 5
    rewrite = records.without(manifest, subjects=["person 7"])
    assert (len(rewrite.written), len(rewrite.replaced)) == (1, 1)
    assert len(set(manifest) & set(rewrite.manifest)) == len(manifest) - 1


def test_order_survives_erasures_and_additions(records):
    data, more = crowd(), table(["n2", "n1"], ["person 3", "nobody yet"])
    manifest = records.write(data, rows_per_part=10)
    manifest = records.without(manifest, subjects=["person 3"]).manifest
    manifest = records.append(manifest, more)
    manifest = records.without(manifest, ids=["r1", "n2"]).manifest
    expected = data.select(~data.where_subjects(["person 3"])).without(["r1"]).plus(more.without(["n2"]))
    assert_same(records.read(manifest), expected)


def test_file_of_which_nothing_is_left_vanishes(records):
    manifest = records.write(table(["a", "b"]), rows_per_part=1)
    rewrite = records.without(manifest, ids=["a"])
    assert rewrite == Rewrite(manifest=manifest[1:], written=(), replaced=manifest[:1])
    assert records.without(rewrite.manifest, subjects=["b"]).manifest == ()


def test_nobody_to_forget_changes_nothing(records):
    manifest = records.write(crowd())
    assert records.without(manifest) == Rewrite(manifest, (), ())


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"subjects": ["person 1", "nobody"]}, r"1 of 2 are not here, first person 'nobody'"),
        ({"ids": ["r1", "r1000"]}, r"1 of 2 are not here, first record id 'r1000'"),
        ({"ids": ["person 1"]}, "record id 'person 1'"),
        ({"subjects": ["r1"], "ids": ["r1"]}, "person 'r1'"),
        ({"ids": ["../../etc/passwd"]}, "not here"),
    ],
)
def test_someone_who_is_not_here_is_named_and_nothing_is_written(records, wanted, words):
    manifest = records.write(crowd(), rows_per_part=10)
    with pytest.raises(UnknownRecord, match=words):
        records.without(manifest, **wanted)
    assert records.files.digests() == set(manifest)


def test_single_name_instead_of_a_list_is_refused(records):
    with pytest.raises(ParameterError, match=r"write \['r1'\]"):
        records.without(records.write(crowd()), ids="r1")


def test_taken_ids_are_refused_and_nothing_is_written(records):
    manifest = records.write(crowd(), rows_per_part=10)
    with pytest.raises(DataError, match="2 ids of 3 new records are taken, first 'r1'"):
        records.append(manifest, table(["r5", "new", "r1"]))
    assert records.files.digests() == set(manifest)


@pytest.mark.parametrize("wrong", [0, -1, True, 2.5])
def test_file_size_that_is_no_number_of_rows_is_refused(records, wrong):
    with pytest.raises(ParameterError, match="rows_per_part must be a whole number"):
        records.write(crowd(), rows_per_part=wrong)


def test_name_that_is_no_unicode_is_refused_and_nothing_is_left(records):
    """The second file cannot be written, and takes the first one with it."""
    with pytest.raises(DataError, match="not valid Unicode"):
        records.write(table(["a", "\ud800"]), rows_per_part=1)
    assert os.listdir(records.folder) == []


def test_columns_may_be_called_anything(tmp_path):
    names = ("record", "_record", "subject", "subject.x", "position", "a\x00b", "", "ä")
    features = tuple(Numeric(name=n, lower=0, upper=9) for n in names)
    schema = Schema((*features, Categorical(name="__record", role=Role.LABEL, categories=("no", "yes"))))
    X = np.arange(16, dtype=float).reshape(2, 8) % 10
    data = Dataset(schema, X, np.array([0, 1]), np.array(["a", "b"]), np.array(["p", "q"]))
    records = RecordFiles(tmp_path, schema)
    manifest = records.write(data)
    assert_same(records.read(manifest), data)
    assert_same(records.read(records.without(manifest, subjects=["p"]).manifest), data.without(["a"]))


def test_other_schema_is_refused(records):
    narrower = Schema((replace(SCHEMA["income"], upper=1.0), *SCHEMA.attributes[1:]))
    manifest = records.write(crowd())
    with pytest.raises(DataError, match="written under another schema"):
        RecordFiles(records.folder, narrower).read(manifest)
    with pytest.raises(DataError, match="under the schema of these files"):
        RecordFiles(records.folder, narrower).write(crowd())


def test_file_that_holds_no_records_is_named(records):
    digest = records.files.put(b"PAR1 but not Parquet PAR1")
    with pytest.raises(DataError, match=f"{digest} is not a record file"):
        records.read((digest,))


@given(st.integers(min_value=0), st.integers(1, 255))
def test_flipped_byte_is_found_and_named(tmp_path_factory, position, change):
    records = RecordFiles(tmp_path_factory.mktemp("records"), SCHEMA)
    manifest = records.write(crowd(6), rows_per_part=9)
    path = records.folder / manifest[-1]
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= change
    path.write_bytes(content)
    for use in (
        records.read,
        lambda m: records.without(m, ids=["r1"]),
        lambda m: records.append(m, table(["new"])),
        records.files.verify,
    ):
        with pytest.raises(StoreCorrupt, match=f"{path} is damaged"):
            use(manifest)
    assert records.files.digests() == set(manifest)


def test_digest_does_not_give_a_guess_away(records):
    """The same rows give another digest each time, so that a digest in the ledger confirms nothing about them."""
    one, two = records.write(table(["a"])), records.write(table(["a"]))
    assert one != two


def test_files_hold_no_statistics_dictionaries_or_foreign_metadata(records):
    (digest,) = records.write(crowd())
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


def test_nothing_of_a_forgotten_person_is_left_in_any_file(records):
    """Their name, ids and values lie at the ends of sorting orders, where statistics would keep them."""
    data = crowd(60)
    X, ids, subjects = data.X.copy(), data.ids.astype("<U40"), data.subjects.astype("<U40")
    theirs = np.array([3, 50, 99])
    X[theirs, 0] = [-9.87654321e299, 8.7654321e299, 0.123456789]
    ids[theirs], subjects[theirs] = ["!canary-low", "~canary-high", "m-canary-mid"], "zz Canary Person"
    data = replace(data, X=X, ids=ids, subjects=subjects)
    traces = [b"canary", b"Canary Person", *(v.tobytes() for v in X[theirs, 0])]
    manifest = records.append(records.write(data.select(data.y == 0), rows_per_part=20), data.select(data.y == 1))
    held = b"".join(everything_in(p.read_bytes()) for p in records.folder.iterdir())
    assert all(trace in held for trace in traces)
    rewrite = records.without(manifest, subjects=["zz Canary Person"])
    for digest in rewrite.replaced:
        records.files.delete(digest)
    left = b"".join(everything_in(p.read_bytes()) for p in records.folder.iterdir())
    assert not [trace for trace in traces if trace in left]
    assert b"person 7" in left
    assert not [name for name in os.listdir(records.folder) if "anary" in name]


FORGET = """
import sys
from pathlib import Path
from eupg.data.schema import Schema
from eupg.manage.records import RecordFiles
folder = Path(sys.argv[1])
records = RecordFiles(folder / "records", Schema.load(folder / "schema.toml"))
manifest = tuple((folder / "manifest").read_text().split())
records.without(manifest, subjects=["person 3"], ids=["r1"])
"""


def test_kill_while_forgetting_leaves_the_old_records_whole(tmp_path):
    before, data = tmp_path / "before", crowd()
    records = RecordFiles(before / "records", SCHEMA)
    manifest = records.write(data, rows_per_part=25)
    SCHEMA.save(before / "schema.toml")
    (before / "manifest").write_text("\n".join(manifest))
    steps = []
    for step, folder in crashes(FORGET, before, tmp_path):
        steps.append(step)
        left = RecordFiles(folder / "records", SCHEMA)
        assert_same(left.read(manifest), data)
        for name in left.files.verify(left.files.digests()):
            assert is_partial(name)
        left.files.collect(manifest)
        assert left.files.digests() == set(os.listdir(left.folder)) == set(manifest)
        again = left.without(manifest, subjects=["person 3"])
        assert_same(left.read(again.manifest), data.select(~data.where_subjects(["person 3"])))
    assert steps.count("mid-write") == 2


def test_kill_while_deleting_what_was_replaced_leaves_the_new_records_whole(tmp_path):
    before, data = tmp_path / "before", crowd()
    records = RecordFiles(before / "records", SCHEMA)
    manifest = records.write(data, rows_per_part=25)
    SCHEMA.save(before / "schema.toml")
    new = records.without(manifest, subjects=["person 3", "person 30"], ids=["r1"]).manifest
    code = FORGET.partition("manifest =")[0] + f"records.files.collect({new!r})"
    steps = []
    for step, folder in crashes(code, before, tmp_path):
        steps.append(step)
        left = RecordFiles(folder / "records", SCHEMA)
        gone = data.where_subjects(["person 3", "person 30"]) | data.where(["r1"])
        assert_same(left.read(new), data.select(~gone))
        left.files.collect(new)
        assert set(os.listdir(left.folder)) == set(new)
    assert steps.count("after unlink") == 3


@pytest.mark.parametrize(("number", "words"), REFUSALS)
@pytest.mark.parametrize("at", [1, 4])
def test_refusing_disk_leaves_the_old_records_and_nothing_else(records, monkeypatch, number, words, at):
    """The first file is refused, or the second after the first was written."""
    data = crowd()
    manifest = records.write(data, rows_per_part=25)
    write, refuse = os.write, failing(number, at=at)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda n, piece: refuse() or write(n, piece))
        with pytest.raises(StorageError, match=words):
            records.without(manifest, subjects=["person 3", "person 30"])
    assert set(os.listdir(records.folder)) == set(manifest)
    assert_same(records.read(manifest), data)


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
from eupg.manage.records import RecordFiles
schema = Schema((Numeric(name="x", lower=0, upper=1), Categorical(name="y", role=Role.LABEL, categories=("a", "b"))))
ids = np.arange(10_000).astype(str)
data = Dataset(schema, np.random.default_rng(0).random((10_000, 1)), np.zeros(10_000, dtype=int), ids, ids)
records = RecordFiles(Path(sys.argv[1]) / "records", schema)
manifest = records.write(data, rows_per_part=1000)
try:
    records.without(manifest, ids=ids[::100])
except StorageError as error:
    assert "no space is left" in str(error), error
else:
    raise AssertionError("written")
assert set(os.listdir(records.folder)) == set(manifest)
assert (records.read(manifest).X == data.X).all()
# One person's erasure needs room for one file only.
assert len(records.without(manifest, ids=["7"]).written) == 1
""",
        tmp_path,
        "220k",
    )
