"""Private trees of tables in files: the bits of training in memory, people cut together, and nothing left behind."""

import dataclasses
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tasks
from eupg import PrivateTrees, Seeded
from eupg.data import Categorical, Dataset, Role
from eupg.data.schema import Schema
from eupg.errors import DataError, NothingRetained, ParameterError
from eupg.executor import InProcess, LocalProcesses
from eupg.learn import LeafLearner
from eupg.progress import SILENT
from eupg.protect.streaming.record_parts import gather
from eupg.protect.streaming.steps import Steps
from eupg.rng import Secret
from large import SCHEMA, people

RECORDWISE = Schema(SCHEMA.attributes[1:])
THREE = Schema((*SCHEMA.attributes[:-1], Categorical(name="ill", role=Role.LABEL, categories=("no", "yes", "perhaps"))))


def table(rows: int = 700, *, persons: int = 250) -> pd.DataFrame:
    """Return a table in which a person's records lie far apart, and one person has a hundred."""
    frame, rng = people(rows), np.random.default_rng(1)
    frame["person"] = [f"P{i}" for i in rng.integers(0, persons, rows)]
    frame.loc[rng.choice(rows, 100, replace=False), "person"] = "P7"
    return frame


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    path: Path = tmp_path_factory.mktemp("table") / "people.parquet"
    table().to_parquet(path, row_group_size=100)
    return path


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    monkeypatch.setattr("eupg.protect.streaming.record_parts.ROWS", 100)


def in_memory(method: PrivateTrees, path: Path, schema: Schema):
    return method.pretrain(Dataset.read(path, schema), LeafLearner(), effort=1, rng=Seeded(7))


def in_files(method: PrivateTrees, source, schema: Schema, *, executor=None, part=90, **more):
    executor = InProcess() if executor is None else executor
    return method.pretrain_files(source, schema, rng=Seeded(7), executor=executor, part=part, **more)


def same(first, second) -> bool:
    (a, claim), (b, other) = first, second
    return a.cells == b.cells and np.array_equal(a.scores, b.scores) and claim == other and a.schema == b.schema


@pytest.mark.parametrize(
    ("schema", "max_records"), [(RECORDWISE, 1), (SCHEMA, 1), (SCHEMA, 3), (THREE, 1), (THREE, 3)], ids=repr
)
@pytest.mark.parametrize("delta", [1e-5, 0.0])
def test_files_give_the_model_of_memory_bit_by_bit(path, schema, delta, max_records):
    method = PrivateTrees(1.0, delta, max_records)
    expected = in_memory(method, path, schema)
    for part in (40, 10_000):
        assert same(in_files(method, path, schema, part=part), expected)


def test_two_processes_of_which_one_is_killed_give_the_bits_of_one(path, tmp_path):
    method = PrivateTrees(1.0, 0.0, 3)
    killing = tasks.Killing(LocalProcesses(2), tmp_path / "killed")
    assert same(in_files(method, path, SCHEMA, executor=killing), in_memory(method, path, SCHEMA))
    assert (tmp_path / "killed").exists()


def test_text_and_folders_of_files_are_read_as_one_table(path, tmp_path):
    method, frame = PrivateTrees(1.0, 0.0, 3), table()
    expected = in_memory(method, path, SCHEMA)
    frame.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "parts").mkdir()
    frame[:250].to_parquet(tmp_path / "parts" / "a.parquet")
    frame[250:].to_parquet(tmp_path / "parts" / "b.parquet")
    for source in (tmp_path / "people.csv", tmp_path / "parts"):
        assert same(in_files(method, source, SCHEMA), expected)


def gathered(path: Path, folder: Path, most: int, rng=None):
    folder.mkdir()
    steps = Steps(InProcess(), SILENT)
    return gather(path, SCHEMA, folder, most=most, rng=rng or Secret(), steps=steps, part=50)


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_all_records_of_a_person_lie_in_one_part(path, tmp_path, most):
    """The column ``illness`` numbers the rows."""
    parts = gathered(path, tmp_path / "run", most)
    person = table()["person"].to_numpy()
    seen: dict[str, int] = {}
    for number, part in enumerate(parts):
        X, _, starts = part.read()
        for first, end in pairwise(starts):
            rows = X[first:end, 5].astype(int)
            (name,) = set(person[rows])
            assert seen.setdefault(name, number) == number
            assert (np.diff(rows) > 0).all()
            assert len(rows) == min(most, (person == name).sum())
            seen[name] = number
    assert len(parts) > 5
    assert set(seen) == set(person)
    assert sum(part.rows for part in parts) == sum(np.minimum(pd.Series(person).value_counts(), most))


def test_choice_of_one_person_does_not_depend_on_the_others(path, tmp_path):
    alone = table()
    alone.loc[alone["person"] != "P7", "person"] = [f"Q{i}" for i in range((alone["person"] != "P7").sum())]
    alone.to_parquet(tmp_path / "alone.parquet", row_group_size=300)
    chosen = []
    for number, source in enumerate((path, tmp_path / "alone.parquet")):
        rows = np.concatenate([p.read()[0][:, 5] for p in gathered(source, tmp_path / f"{number}", 3, Seeded(2))])
        chosen.append(sorted(set(rows) & set(np.flatnonzero(alone["person"] == "P7"))))
    assert len(chosen[0]) == 3
    assert chosen[0] == chosen[1]


@dataclasses.dataclass(frozen=True)
class Watching:
    """An executor that notes the files in a folder after every call, and may fail."""

    folder: Path
    seen: list[int]
    fails: bool = False

    def map(self, work, items) -> Iterator:
        yield from InProcess().map(work, items)
        self.seen.append(len([p for p in self.folder.rglob("*") if p.is_file()]))
        if self.fails and len(self.seen) > 4:
            raise OSError("the disk is full")


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("own", [False, True])
def test_records_lie_in_a_temporary_folder_that_is_erased(path, tmp_path, monkeypatch, own, fails):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    watching = Watching(tmp_path, [], fails)
    method, folder = PrivateTrees(1.0, 0.0, 3), tmp_path if own else None
    with pytest.raises(OSError, match="the disk is full") if fails else nullcontext():
        in_files(method, path, SCHEMA, executor=watching, folder=folder)
    assert max(watching.seen) > 10
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.assign(age=-1), "column 'age': 100 of 100 rows lie outside"),
        (lambda frame: frame.assign(person=None), "names are empty: fill them in"),
        (lambda frame: frame.drop(columns="person"), "lacks 'person', which the schema declares"),
        (lambda frame: frame[:0], "the table has no record to train on"),
    ],
)
def test_wrong_tables_are_refused(tmp_path, change, message):
    change(table(100)).to_parquet(tmp_path / "wrong.parquet")
    with pytest.raises((DataError, NothingRetained), match=message):
        in_files(PrivateTrees(1.0), tmp_path / "wrong.parquet", SCHEMA)
    with pytest.raises(ParameterError, match="part must be a whole number of at least 1"):
        in_files(PrivateTrees(1.0), tmp_path / "wrong.parquet", SCHEMA, part=0)


def test_claim_says_whether_a_seed_was_used(path):
    method = PrivateTrees(1.0, 0.0)
    _, claim = method.pretrain_files(path, SCHEMA, executor=InProcess())
    assert not claim.seeded
    assert in_files(method, path, SCHEMA)[1] == dataclasses.replace(claim, seeded=True)
