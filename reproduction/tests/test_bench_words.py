"""What ``eupg-reproduction`` answers to wrong use, and about reference models taken from a cache."""

import pytest

from eupg_reproduction.cli import main
from eupg_reproduction.run import _gist


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")


@pytest.mark.parametrize(
    "arguments",
    [("run", "smoke", "--dry-run", "--jobs", "0"), ("list", "--repeats", "0"), ("run", "smoke", "--repeats", "-1")],
)
def test_counts_below_one_are_wrong_use(arguments, tmp_path, capsys):
    assert main([*arguments, "--results", str(tmp_path / "r")]) == 2
    assert "at least one" in capsys.readouterr().out


@pytest.mark.parametrize("part", [("list",), ("run", "smoke"), ("report",)])
def test_a_folder_for_a_results_file_is_answered_in_words(part, tmp_path, capsys):
    assert main([*part, "--results", str(tmp_path)])
    assert "name another file with --results" in capsys.readouterr().out


def test_a_run_names_the_code_that_made_references_it_takes_from_a_cache():
    message = {"metrics": {"utility": 80.0, "references_reused": 8, "references_made_by": {"0.0.1+older": 8}}}
    assert _gist(message | {"seconds": {}}) == "80.00, 0.0 s; references reused, made by 0.0.1+older"
