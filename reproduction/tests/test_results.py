"""The results file: only appended to, readable after any kill, fit to be split and put together again."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eupg.errors import DataError, LockHeld, StorageError
from eupg_reproduction.results import Writer, read, versions
from lines import line, text

THREE = [line(m) for m in ("Retrain", "SISA", "EUPG ε=1")]
WHOLE = text(*THREE).encode()


def test_a_file_that_is_not_there_is_empty(tmp_path):
    assert read(tmp_path / "none").newest == {}


def test_lines_come_back_as_they_were_written(tmp_path):
    with Writer(tmp_path / "deep" / "r") as writer:
        for one in THREE:
            writer.append(one)
    found = read(tmp_path / "deep" / "r")
    assert [r.line for r in found.newest.values()] == THREE
    assert (found.lines, found.repeated, found.torn) == (3, 0, 0)


def test_a_second_writer_is_refused(tmp_path):
    with Writer(tmp_path / "r"), pytest.raises(LockHeld, match="another run is writing"):
        Writer(tmp_path / "r")
    Writer(tmp_path / "r").__exit__(None, None, None)


@given(cut=st.integers(0, len(WHOLE)))
@settings(max_examples=100)
def test_a_kill_in_the_middle_of_a_line_loses_that_line_alone(cut, tmp_path_factory):
    path = tmp_path_factory.mktemp("cut") / "r"
    path.write_bytes(WHOLE[:cut])
    # A line that lacks nothing but its end is whole.
    lacks_its_end = WHOLE[cut : cut + 1] == b"\n"
    left = WHOLE[:cut].count(b"\n") + lacks_its_end
    found = read(path)
    assert found.lines == left
    assert found.torn == (not lacks_its_end and cut > 0 and WHOLE[cut - 1 : cut] != b"\n")
    extra = line("Short retrain")
    with Writer(path) as writer:
        writer.append(extra)
    again = [json.loads(one) for one in path.read_text(encoding="utf-8").splitlines()]
    assert again == [*THREE[:left], extra]


def test_a_torn_file_before_a_whole_one_costs_the_torn_line_alone(tmp_path):
    torn = text(*THREE[:2])[:-20]
    (tmp_path / "r").write_text(torn + text(THREE[2], line("Short retrain")), encoding="utf-8")
    found = read(tmp_path / "r")
    assert [r.cell.method for r in found.newest.values()] == ["Retrain", "EUPG ε=1", "Short retrain"]
    assert found.torn == 1


def test_what_two_files_both_hold_is_recognised(tmp_path):
    other = line("Retrain", version="2", at="2026-01-02")
    (tmp_path / "r").write_text(text(*THREE, *THREE, other), encoding="utf-8")
    found = read(tmp_path / "r")
    assert (found.lines, found.repeated, len(found.newest)) == (7, 3, 3)


@pytest.mark.parametrize("backwards", [False, True])
def test_the_newest_line_counts_wherever_it_stands(tmp_path, backwards):
    lines = [line(version="1", at="2026-01-01"), line(version="2", at="2026-02-01")]
    (tmp_path / "r").write_text(text(*(reversed(lines) if backwards else lines)), encoding="utf-8")
    (only,) = read(tmp_path / "r").newest.values()
    assert only.version == "2"


def test_a_line_whose_hash_is_not_that_of_its_configuration_is_refused(tmp_path):
    changed = line()
    changed["config"] = changed["config"] | {"method": "SISA"}
    (tmp_path / "r").write_text(text(changed), encoding="utf-8")
    with pytest.raises(DataError, match="line 1: the hash"):
        read(tmp_path / "r")


def test_a_line_that_is_no_result_is_named(tmp_path):
    (tmp_path / "r").write_text(text(THREE[0], {"cell": "x"}), encoding="utf-8")
    with pytest.raises(DataError, match=r"line 2 is no result \('config'\)"):
        read(tmp_path / "r")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"metrics": None}, "metrics and seconds must be figures by name"),
        ({"metrics": {}}, "metrics and seconds must be figures by name"),
        ({"seconds": None}, "metrics and seconds must be figures by name"),
        ({"config": None}, "line 1 is no result"),
        ({"config": {"kind": "quality", "set": "adult", "model": "mlp", "method": "SISA", "repetition": "x"}}, "'x'"),
    ],
)
def test_a_line_without_figures_does_not_count_as_done(tmp_path, changed, why):
    (tmp_path / "r").write_text(text(line() | changed), encoding="utf-8")
    with pytest.raises(DataError, match=why):
        read(tmp_path / "r")


def test_a_folder_is_no_results_file(tmp_path):
    with pytest.raises(StorageError, match="name another file with --results"):
        read(tmp_path)


def test_results_are_counted_by_the_code_that_made_them(tmp_path):
    (tmp_path / "r").write_text(text(line("SISA", version="a"), line(version="b"), line("X", version="b")))
    assert versions(read(tmp_path / "r").newest.values()) == {"a": 1, "b": 2}
