"""Counts in cells: they agree with sums of a dense matrix, and records leave and join them without a trace."""

import json
from functools import cache

import numpy as np
import pytest

from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.errors import DataError, ModelFileError
from eupg.learn.leaves.cells import LeafCells
from eupg.learn.leaves.public_cells import public_cells
from eupg.learn.leaves.ridge import ridge_scores
from eupg.learn.leaves.statistics import RidgeStatistics
from people import SCHEMA, people

FEW = 150


@cache
def cells_of(schema: Schema) -> LeafCells:
    return public_cells(schema, most=FEW)


def few_cells(data: Dataset) -> LeafCells:
    return cells_of(data.schema)


def counted(data: Dataset, rows: np.ndarray | slice = slice(None)) -> RidgeStatistics:
    return RidgeStatistics.count_in(few_cells(data), data.X[rows], data.y[rows], classes=data.schema.classes)


def dense(codes: np.ndarray, cells: int) -> np.ndarray:
    X = np.zeros((len(codes), cells + 1), dtype=np.int64)
    for column in codes.T:
        X[np.arange(len(codes)), column] = 1
    return X[:, :cells]


class TestCounts:
    @pytest.mark.parametrize("classes", [2, 4])
    @pytest.mark.parametrize("rows", [0, 1, 300, 5000])
    def test_counts_are_the_sums_of_a_dense_matrix(self, classes, rows):
        data = people(max(rows, 9), classes=classes)
        data = data.select(np.arange(len(data)) < rows)
        cells = few_cells(data)
        X, labels = dense(cells.codes(data.X), cells.count), np.eye(classes, dtype=np.int64)[data.y]
        statistics = counted(data)
        parts = [X[data.y == 0], X[data.y == 1]] if classes == 2 else [X]
        np.testing.assert_array_equal(statistics.pairs, [np.triu(part.T @ part) for part in parts])
        np.testing.assert_array_equal(statistics.labels, X.T @ labels)
        np.testing.assert_array_equal(statistics.records, labels.sum(axis=0))
        assert statistics.count == rows

    def test_a_record_in_no_cell_of_a_group_is_counted_elsewhere(self):
        codes = np.array([[0, 3], [3, 2], [3, 3]], dtype=np.int32)
        statistics = RidgeStatistics.of(codes, np.array([0, 1, 1]), cells=3, classes=2)
        assert statistics.pairs.tolist() == [[[1, 0, 0], [0] * 3, [0] * 3], [[0] * 3, [0] * 3, [0, 0, 1]]]
        assert statistics.labels.tolist() == [[1, 0], [0, 0], [0, 1]]
        assert statistics.records.tolist() == [1, 2]

    def test_missing_values_have_cells_of_their_own_where_the_schema_keeps_them(self):
        data = people(300)
        cells = few_cells(data)
        missing = np.isnan(data.X[:, 4])
        group = next(i for i, g in enumerate(cells.groups) if getattr(g, "column", None) == 4)
        last = cells.offsets[group] + cells.sizes[group] - 1
        assert counted(data).pairs[:, last, last].sum() == missing.sum() > 0

    def test_rows_are_counted_in_parts(self, monkeypatch):
        data = people(300)
        whole = counted(data)
        monkeypatch.setattr("eupg.learn.leaves.statistics._ROWS", 7)
        assert counted(data) == whole

    def test_counts_cannot_be_written_to(self):
        with pytest.raises(ValueError, match="read-only"):
            counted(people(20)).pairs[0, 0, 0] = 1


class TestLeavingAndJoining:
    @pytest.mark.parametrize("classes", [2, 3])
    def test_a_thousand_sequences_in_any_order_end_where_those_who_left_were_never_there(self, classes):
        """Each sequence starts with some records, then erases and adds records one to five at a time."""
        data, rng = people(60, classes=classes), np.random.default_rng(classes)
        single = [counted(data, np.array([i])) for i in range(60)]
        for sequence in range(500):
            present = set(rng.choice(60, 30, replace=False).tolist())
            statistics = counted(data, np.array(sorted(present)))
            for _ in range(rng.integers(2, 9)):
                for record in rng.permutation(60)[: rng.integers(1, 6)].tolist():
                    change = statistics.minus if record in present else statistics.plus
                    statistics = change(single[record])
                    present ^= {record}
            never_there = counted(data, rng.permutation(sorted(present)).astype(int))
            assert statistics == never_there, sequence
            np.testing.assert_array_equal(ridge_scores(statistics, 10.0), ridge_scores(never_there, 10.0))

    def test_records_that_were_never_added_are_refused(self):
        data = people(60)
        statistics = counted(data, slice(0, 30))
        for record in range(30, 60):
            with pytest.raises(DataError, match="not all among the 30 counted here"):
                statistics.minus(counted(data, np.array([record])))

    def test_a_record_is_subtracted_once(self):
        data = people(60)
        one = counted(data, np.array([3]))
        with pytest.raises(DataError, match="not erased since"):
            one.minus(one).minus(one)

    def test_counts_in_other_cells_are_refused(self):
        two, three = counted(people(20)), counted(people(20, classes=3))
        with pytest.raises(DataError, match="count the records in the same cells"):
            two.plus(three)
        with pytest.raises(DataError, match="count the records in the same cells"):
            two.minus(three)

    def test_a_label_that_differs_makes_a_difference(self):
        data = people(60)
        other = Dataset(data.schema, data.X, np.where(np.arange(60) == 7, 1 - data.y, data.y), data.ids, data.subjects)
        assert counted(data) != counted(other)


class TestFiles:
    @pytest.mark.parametrize("classes", [2, 3])
    def test_loaded_counts_are_the_saved_ones(self, classes, tmp_path):
        data = people(200, classes=classes)
        statistics = counted(data)
        statistics.save(tmp_path / "counts", data.schema)
        again = RidgeStatistics.load(tmp_path / "counts")
        assert again == statistics
        assert ridge_scores(again, 10.0).tobytes() == ridge_scores(statistics, 10.0).tobytes()

    def test_damage_is_recognised(self, tmp_path):
        counted(people(50)).save(tmp_path / "counts", SCHEMA)
        content = bytearray((tmp_path / "counts").read_bytes())
        content[-5] ^= 1
        (tmp_path / "counts").write_bytes(content)
        with pytest.raises(ModelFileError, match="damaged"):
            RidgeStatistics.load(tmp_path / "counts")

    @pytest.mark.parametrize("cells", [0, 10**6, "3", None])
    def test_a_file_with_another_number_of_cells_is_refused(self, cells, tmp_path, monkeypatch):
        monkeypatch.setattr("eupg.learn.envelope._digest", lambda about, payload: "same")
        counted(people(50)).save(tmp_path / "counts", SCHEMA)
        line, payload = (tmp_path / "counts").read_bytes().split(b"\n", 1)
        (tmp_path / "counts").write_bytes(json.dumps(json.loads(line) | {"cells": cells}).encode() + b"\n" + payload)
        with pytest.raises(ModelFileError, match="save the statistics again"):
            RidgeStatistics.load(tmp_path / "counts")

    def test_counts_below_zero_are_refused(self, tmp_path):
        statistics = counted(people(50))
        RidgeStatistics(-statistics.pairs, statistics.labels, statistics.records).save(tmp_path / "counts", SCHEMA)
        with pytest.raises(ModelFileError, match="below zero"):
            RidgeStatistics.load(tmp_path / "counts")
