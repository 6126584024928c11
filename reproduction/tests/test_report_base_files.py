"""Base models beside the results: the file is read strictly, the table and the missed aims follow from it."""

import json
from pathlib import Path

import pytest

from eupg.errors import DataError
from eupg_reproduction.report.base_files import (
    BASES,
    base_utility,
    bases_at_one,
    bases_table,
    missed_aims,
    read_bases,
    utilities,
)
from eupg_reproduction.report.words import markdown

ROOT = Path(__file__).parents[2]


def written(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return read_bases(path)


def line(cell, utility):
    return {"cell": cell, "utility": utility, "cpu_s": 2.0, "peak_mb": 300}


def test_without_a_file_nothing_was_measured(tmp_path):
    assert read_bases(tmp_path / BASES) == []
    assert "not measured yet" in missed_aims([])


def test_a_line_that_is_not_a_run_is_refused_with_the_file(tmp_path):
    (tmp_path / BASES).write_text('{"cell": "adult"}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"private_peers.jsonl cannot be read .*: write it again"):
        read_bases(tmp_path / BASES)


def test_runs_of_one_place_are_summarised_and_failures_are_not(tmp_path):
    lines = [line("adult/1/aim/0", 80.0), line("adult/1/aim/1", 82.0), {"cell": "adult/1/aim/2", "failed": "cut off"}]
    runs = written(tmp_path / BASES, [*lines, line("adult/1/aim/0/300", 50.0), {"search": "adult/aim"}])
    assert len(runs) == 4
    spread = utilities(runs)["aim", "adult", 1.0]
    assert (spread.mean, spread.std, spread.count) == (81.0, 1.0, 2)
    assert utilities(runs, 300)["aim", "adult", 1.0].mean == 50.0
    (row,) = bases_table(runs).to_dict("records")
    assert row["Adult"] == "–, 81.00 ± 1.00 (2 runs), –"
    assert row["Heart"] == "–, –, –"
    assert bases_at_one(runs).to_numpy().tolist() == [["AIM + XGBoost (OpenDP, mbi)", "81.0", "–", "–"]]


def test_an_aim_is_missed_below_it_and_met_at_it(tmp_path):
    runs = written(tmp_path / BASES, [line("heart/0/exact-trees/0", 72.9951), line("adult/0/exact-trees/0", 86.0)])
    assert "ExactTrees on Heart, 72.995 for 73.0" in missed_aims(runs)
    assert "ExactTrees on Adult" not in missed_aims(runs)
    assert base_utility(runs, "exact-trees") == "86.0, 73.0 and not measured yet"


def test_the_record_shows_the_committed_runs():
    runs = read_bases(ROOT / "reproduction" / "results" / BASES)
    record = (ROOT / "docs" / "decisions" / "private-peers.md").read_text(encoding="utf-8")
    assert markdown(bases_table(runs)) in record
