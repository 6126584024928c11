"""The results file: only appended to, readable after any kill, fit to be split and put together again."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eupg.errors import DataError, LockHeld, StorageError
from eupg_reproduction.results import Writer, compact, full, read, versions
from lines import line, text

THREE = [line(m) for m in ("Retrain", "SISA", "EUPG ε=1")]
WHOLE = text(*THREE).encode()
HERE = Path(__file__).parent
# Every sixtieth line of the committed results as it was written when each line named machine and claim in full.
FULL = [json.loads(one) for one in gzip.decompress((HERE / "golden" / "full_lines.jsonl.gz").read_bytes()).splitlines()]


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
    with pytest.raises(DataError, match=r"line 2 is not a result \('config'\)"):
        read(tmp_path / "r")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"metrics": None}, "metrics and seconds must be figures by name"),
        ({"metrics": {}}, "metrics and seconds must be figures by name"),
        ({"seconds": None}, "metrics and seconds must be figures by name"),
        ({"config": None}, "line 1 is not a result"),
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


def on(machine: dict, method: str, **metrics: object) -> dict:
    one = line(method) | {"machine": machine}
    return one | {"metrics": one["metrics"] | metrics}


def test_the_committed_results_say_what_the_full_lines_said():
    found = read(HERE.parent / "results" / "bench.jsonl").newest
    assert len(FULL) > 100
    for one in FULL:
        # As text: the order of what a line says counts too.
        assert json.dumps(found[one["cell"]].line) == json.dumps(one)


def test_a_full_line_and_a_compact_one_say_the_same():
    for one in FULL:
        short, shared = compact(one)
        assert len(json.dumps(short)) < len(json.dumps(one))
        assert full(short, shared) == one


def test_machine_and_claim_are_written_once(tmp_path):
    lines = [on({"cpu": "a"}, m, claim={"notion": "exact"}) for m in ("Retrain", "SISA")]
    lines.append(on({"cpu": "b"}, "EUPG ε=1", claim={"notion": "exact"}))
    for one in lines:
        # A run that goes on later knows what the file has.
        with Writer(tmp_path / "r") as writer:
            writer.append(one)
    content = (tmp_path / "r").read_text(encoding="utf-8")
    assert (content.count('"cpu":"a"'), content.count('"cpu":"b"'), content.count("exact")) == (1, 1, 1)
    assert [r.line for r in read(tmp_path / "r").newest.values()] == lines


@pytest.mark.parametrize("backwards", [False, True])
def test_files_can_be_split_anywhere_and_put_together_in_any_order(tmp_path, backwards):
    lines = [on({"cpu": "a"}, "Retrain"), on({"cpu": "a"}, "SISA")]
    with Writer(tmp_path / "r") as writer:
        for one in lines:
            writer.append(one)
    parts = (tmp_path / "r").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "r").write_text("".join(reversed(parts) if backwards else parts), encoding="utf-8")
    assert {r.cell.method for r in read(tmp_path / "r").newest.values()} == {"Retrain", "SISA"}
    assert all(r.line["machine"] == {"cpu": "a"} for r in read(tmp_path / "r").newest.values())


def test_a_kill_inside_what_cells_have_in_common_costs_the_last_cell_alone(tmp_path):
    first, second = on({"cpu": "a"}, "Retrain"), on({"cpu": "b"}, "SISA", claim={"notion": "exact"})
    with Writer(tmp_path / "r") as writer:
        writer.append(first)
        size = (tmp_path / "r").stat().st_size
        writer.append(second)
    whole = (tmp_path / "r").read_bytes()
    for cut in range(size, len(whole) - 1):
        (tmp_path / "r").write_bytes(whole[:cut])
        assert [r.line for r in read(tmp_path / "r").newest.values()] == [first]
        with Writer(tmp_path / "r") as writer:
            writer.append(second)
        assert [r.line for r in read(tmp_path / "r").newest.values()] == [first, second]


def test_a_torn_file_before_one_that_begins_with_a_machine_costs_the_torn_line_alone(tmp_path):
    with Writer(tmp_path / "r") as writer:
        writer.append(on({"cpu": "a"}, "Retrain"))
    (tmp_path / "both").write_text(text(THREE[1])[:-20] + (tmp_path / "r").read_text(encoding="utf-8"))
    found = read(tmp_path / "both")
    assert ([r.cell.method for r in found.newest.values()], found.torn) == (["Retrain"], 1)


def test_a_line_that_names_a_machine_which_nobody_describes_is_refused(tmp_path):
    (tmp_path / "r").write_text(text(line() | {"machine": "0123abcd"}), encoding="utf-8")
    with pytest.raises(DataError, match=r"line 1 is not a result \('0123abcd'\)"):
        read(tmp_path / "r")
