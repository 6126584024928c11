"""Sketches of record files: few files tell which records have a twin, and nothing of a record outlives it."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eupg.audit.duplicates import near_duplicates
from eupg.data.attribute import Categorical, Missing, Numeric, Ordinal, Role
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.errors import StoreCorrupt, WorkspaceDamaged
from eupg.manage.forgetting import twins_among
from eupg.manage.storage.records import RecordFiles
from eupg.manage.storage.sketches import ColumnMoments, Sketch, code_ranges, codes, hashes

SCHEMA = Schema(
    (
        Categorical(name="town", categories=("A", "B", "C")),
        Numeric(name="age", lower=0, upper=90, resolution=0.1, missing=Missing.KEEP),
        Numeric(name="income", lower=-1e6, upper=1e6, resolution=0.01),
        Ordinal(name="grade", categories=("low", "mid", "high")),
        Categorical(name="ill", role=Role.LABEL, categories=("no", "yes")),
    )
)


def table(rows: int, seed: int, *, step: float) -> Dataset:
    """Draw records on a grid: a coarse one gives many twins, a fine one few."""
    draw = np.random.default_rng(seed)
    age = np.where(draw.random(rows) < 0.1, np.nan, np.round(draw.normal(45, 15, rows).clip(0, 90) / step) * step)
    income = np.round(draw.lognormal(8, 1.5, rows).clip(0, 1e6) / (100 * step)) * 100 * step
    X = np.column_stack([draw.integers(0, 3, rows), age.clip(0, 90), income.clip(0, 1e6), draw.integers(0, 3, rows)])
    ids = np.array([f"r{i}" for i in range(rows)])
    return Dataset(SCHEMA, X, draw.integers(0, 2, rows), ids, np.array([f"p{i // 2}" for i in range(rows)]))


@pytest.mark.parametrize("step", [0.1, 1.0, 5.0, 30.0])
def test_twins_are_those_that_a_pass_over_all_records_finds(step, tmp_path):
    files = RecordFiles(tmp_path, SCHEMA)
    for seed in range(4):
        data = table(400, seed, step=step)
        written = files.write_sketched(data, np.arange(len(data)), first_slot=0, rows_per_part=60)
        going = np.random.default_rng(seed).permutation(len(data))[:12]
        slots = {slot: np.intersect1d(rows, going) for slot, rows in written.rows.items()}
        erased = files.erase(
            written.manifest, written.sidecars, {slot: rows for slot, rows in slots.items() if len(rows)}
        )
        sketches = {digest: files.read_sketch(erased.sidecars[digest][1]) for digest in erased.manifest}
        forgotten, retained = erased.forgotten, files.read(erased.manifest)
        np.testing.assert_array_equal(np.sort(erased.rows), np.sort(going))
        found, expected = twins_among(forgotten, sketches, files), near_duplicates(forgotten, retained)
        assert found == expected
        assert found is not None
        assert found.twins is not None
        assert expected.twins is not None
        np.testing.assert_array_equal(found.twins.identical, expected.twins.identical)
        np.testing.assert_array_equal(found.twins.same_label, expected.twins.same_label)
        np.testing.assert_array_equal(found.distances <= 0.1, expected.distances <= 0.1)


def test_both_kinds_of_table_have_twins_to_find():
    """Otherwise the test above would compare nothing with nothing."""
    counts = []
    for step in (0.1, 30.0):
        data, first = table(400, 0, step=step), np.arange(400) < 12
        report = near_duplicates(data.select(first), data.select(~first))
        counts.append((report.identical, report.near))
    assert counts[0][0] < counts[1][0]
    assert counts[1][1] > 0


@given(st.lists(st.floats(-1e5, 1e5), min_size=1, max_size=60), st.integers(1, 5))
def test_moments_of_parts_are_those_of_the_whole(values, parts):
    X = np.array(values)[:, None]
    whole, joined = (
        ColumnMoments.of(X),
        ColumnMoments.together(ColumnMoments.of(part) for part in np.array_split(X, parts)),
    )
    np.testing.assert_allclose(joined.spread, whole.spread, rtol=1e-9, atol=1e-6)


@given(st.floats(0, 90), st.floats(0, 5), st.floats(-1, 1))
def test_value_within_reach_has_a_code_in_range(value, reach, part):
    other = float(np.clip(value + part * reach, 0, 90))
    row = np.array([1.0, value, 0.0, 2.0])
    low, high = code_ranges(SCHEMA, row, np.array([0.0, reach, 0.0, 0.0]))[1]
    code = codes(SCHEMA, np.array([[1.0, other, 0.0, 2.0]]))[1][0]
    assert low <= code <= high


def test_equal_rows_have_equal_hashes():
    X = np.array([[0.0, np.nan], [-0.0, np.nan], [0.0, 1.0], [np.nan, 0.0]])
    first, second, *others = hashes(X).tolist()
    assert first == second
    assert len({first, *others}) == 3


def test_nothing_of_a_record_is_left_in_the_sketch_after_it(tmp_path):
    """The sketch after an erasure is the one that was made of the others alone, but for the salt."""
    data, files = table(50, 1, step=0.1), RecordFiles(tmp_path, SCHEMA)
    written = files.write_sketched(data, np.arange(50), first_slot=0)
    erased = files.erase(written.manifest, written.sidecars, {0: np.array([7])})
    left = np.arange(50) != 7
    alone = Sketch.of(SCHEMA, data.X[left], data.y[left], np.arange(50)[left])
    ((slot, sketch),) = erased.sidecars.values()
    order = np.argsort(files.read_sketch(sketch).rows)
    found = files.read_sketch(sketch)
    ordered = dataclasses.replace(
        found,
        rows=found.rows[order],
        labels=found.labels[order],
        hashes=found.hashes[order],
        codes=found.codes[:, order],
    )
    assert slot == 0
    assert ordered.same_as(alone)
    assert not Sketch.of(SCHEMA, data.X, data.y, np.arange(50)).same_as(alone)


def test_two_sketches_of_the_same_rows_have_other_digests():
    data = table(5, 1, step=0.1)
    sketch = Sketch.of(SCHEMA, data.X, data.y, np.arange(5))
    assert sketch.to_bytes() != sketch.to_bytes()
    assert Sketch.from_bytes(sketch.to_bytes()).same_as(sketch)


def test_sketch_of_the_first_format_is_read():
    """It held labels and hashes in 64 bits each."""
    data = table(5, 1, step=0.1)
    sketch = Sketch.of(SCHEMA, data.X, data.y, np.arange(5))
    about = {"format": "eupg-sketch-1", "rows": 5, "codes": 4, "columns": 4, "salt": "00"}
    # The upper half of a hash is what is kept of it now; the lower one can be anything.
    hashed = (sketch.hashes.astype(np.uint64) << np.uint64(32)) + np.uint64(7)
    moments = (sketch.moments.number, sketch.moments.mean, sketch.moments.squares)
    arrays = (sketch.rows, sketch.labels.astype(np.int64), hashed, sketch.codes, *moments)
    content = json.dumps(about).encode() + b"\n" + b"".join(array.tobytes() for array in arrays)
    assert Sketch.from_bytes(content).same_as(sketch)
    assert len(sketch.to_bytes()) < len(content) + 100


@given(st.binary(max_size=80))
def test_other_bytes_are_refused(content):
    with pytest.raises(StoreCorrupt, match="cannot be read"):
        Sketch.from_bytes(content)


@pytest.mark.parametrize("rows", [{0: np.array([99])}, {5: np.array([1])}], ids=["row", "file"])
def test_rows_that_are_not_there_are_refused_and_nothing_is_written(rows, tmp_path):
    data, files = table(50, 1, step=0.1), RecordFiles(tmp_path, SCHEMA)
    written = files.write_sketched(data, np.arange(50), first_slot=0)
    before = files.files.digests()
    with pytest.raises(WorkspaceDamaged, match="other rows than the record files hold"):
        files.erase(written.manifest, written.sidecars, rows)
    assert files.files.digests() == before
