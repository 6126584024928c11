"""Synthesis of tables in files: the release of the table in memory bit by bit, and nothing left behind."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tasks
from eupg import Seeded
from eupg.data import Dataset
from eupg.data.schema import Schema
from eupg.errors import DataError, ParameterError
from eupg.executor import InProcess, LocalProcesses
from eupg.protect import DPSynthesis
from large import SCHEMA, people

RECORDWISE = Schema(SCHEMA.attributes[1:])


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    path: Path = tmp_path_factory.mktemp("table") / "people.parquet"
    frame, rng = people(2000), np.random.default_rng(1)
    frame["person"] = [f"P{i}" for i in rng.integers(0, 900, 2000)]
    frame.to_parquet(path, row_group_size=300)
    return path


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    monkeypatch.setattr("eupg.protect.streaming.record_parts.ROWS", 300)


def same(mechanism: DPSynthesis, source: Path, schema: Schema, executor=None, part=250) -> bool:
    expected = mechanism.protect(Dataset.read(source, schema), Seeded(7))
    executor = InProcess() if executor is None else executor
    release = mechanism.protect_files(source, schema, rng=Seeded(7), executor=executor, part=part)
    equal = [np.array_equal(release.X, expected.X, equal_nan=True), np.array_equal(release.y, expected.y)]
    return all(equal) and (release.guarantee, release.schema) == (expected.guarantee, expected.schema)


@pytest.mark.parametrize("schema", [RECORDWISE, SCHEMA], ids=["records", "people"])
@pytest.mark.parametrize(("epsilon", "delta", "most"), [(1.0, 0.0, 1), (20.0, 0.0, 2), (4.0, 1e-6, 1)])
def test_files_give_the_release_of_memory_bit_by_bit(path, schema, epsilon, delta, most):
    mechanism = DPSynthesis(epsilon, delta, max_records=most)
    for part in (90, 10_000):
        assert same(mechanism, path, schema, part=part)


def test_pairs_may_take_several_readings(path, monkeypatch):
    for numbers in (1, 500):
        monkeypatch.setattr("eupg.protect.synthesis.streamed._NUMBERS", numbers)
        assert same(DPSynthesis(20.0), path, SCHEMA)


def test_two_processes_of_which_one_is_killed_give_the_bits_of_one(path, tmp_path):
    assert same(DPSynthesis(4.0), path, SCHEMA, tasks.Killing(LocalProcesses(2), tmp_path / "killed"))
    assert (tmp_path / "killed").exists()


def test_empty_table_is_not_told_from_one_person(tmp_path):
    people(5)[:0].astype({"town": object}).to_parquet(tmp_path / "empty.parquet")
    assert same(DPSynthesis(1.0), tmp_path / "empty.parquet", SCHEMA)


def test_records_are_erased_and_wrong_values_refused(path, tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    run = DPSynthesis(1.0, rows=10).protect_files
    assert len(run(path, SCHEMA, executor=InProcess(), folder=inside)) == 10
    assert list(inside.iterdir()) == []
    pd.read_parquet(path).assign(age=500).to_parquet(tmp_path / "wrong.parquet")
    with pytest.raises(DataError, match="column 'age'"):
        run(tmp_path / "wrong.parquet", SCHEMA, executor=InProcess(), folder=inside)
    with pytest.raises(ParameterError, match="part must be a whole number"):
        run(path, SCHEMA, part=0)
    assert list(inside.iterdir()) == []
