"""Exact trees of tables in files: the counts and the model of memory bit by bit, from which people can be erased."""

import numpy as np
import pytest

import tasks
from eupg import ExactTrees, Seeded
from eupg.data import Dataset
from eupg.errors import NothingRetained
from eupg.executor import InProcess, LocalProcesses
from eupg.forget.exact_trees import CountedModel
from eupg.protect.streaming import chunks
from large import SCHEMA, people

METHOD = ExactTrees(most_cells=300)


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(chunks.chunks_of, "__kwdefaults__", {"rows": 200})
    (tmp_path / "table").mkdir()
    people(900).to_parquet(tmp_path / "table" / "people.parquet", row_group_size=200)
    return tmp_path / "table" / "people.parquet"


@pytest.mark.parametrize("processes", [1, 2])
def test_files_give_the_model_of_memory_bit_by_bit(path, tmp_path, processes):
    inside = tmp_path / "inside"
    inside.mkdir()
    killing = tasks.Killing(LocalProcesses(processes), tmp_path / "killed")
    counted = METHOD.count_files(path, SCHEMA, executor=killing, folder=inside)
    assert (tmp_path / "killed").exists() is (processes > 1)
    data = Dataset.read(path, SCHEMA)
    memory = METHOD.train(data, Seeded(1)).memory
    assert isinstance(memory, CountedModel)
    assert counted.statistics == memory.statistics
    assert counted.model.cells == memory.model.cells
    np.testing.assert_array_equal(counted.model.scores, memory.model.scores)
    assert list(inside.iterdir()) == []
    some = data.where_subjects(["P000007", "P000431"])
    erased, never = METHOD.subtract(counted, data.select(some)), METHOD.train(data.select(~some), Seeded(2)).memory
    assert isinstance(never, CountedModel)
    np.testing.assert_array_equal(erased.model.scores, never.model.scores)


def test_empty_table_is_refused(tmp_path):
    people(5)[:0].to_parquet(tmp_path / "empty.parquet")
    with pytest.raises(NothingRetained, match="the table has no record to train on"):
        METHOD.count_files(tmp_path / "empty.parquet", SCHEMA, executor=InProcess())
