"""The comparison writes one line per cell, goes on where it stopped, and records what failed."""

import json
import os

import numpy as np
import pytest

from eupg.data.score import auc
from eupg.data.sources import Source
from eupg.errors import DataError
from eupg.rng import Seeded
from eupg_reproduction.cli import main
from eupg_reproduction.rivals import measure as measuring
from eupg_reproduction.rivals import suite
from eupg_reproduction.rivals.methods import RIVALS, Rival
from eupg_reproduction.rivals.rewind import RewindToDelete
from eupg_reproduction.rivals.summary import failures, runs, summary
from small_people import small_people


@pytest.fixture
def quick(monkeypatch):
    """Measure nothing: cells say which process they ran in."""
    monkeypatch.setattr(suite, "load", lambda table: None)

    def choose(table, method):
        return {"chosen": {"depth": 4}}

    def measure(table, method, number, settings):
        if method == "sisa":
            raise ValueError("no luck")
        return {"process": os.getpid(), "settings": settings}

    monkeypatch.setattr(suite, "choose", choose)
    monkeypatch.setattr(suite, "measure", measure)


def test_a_run_goes_on_where_it_stopped_and_each_cell_has_its_process(quick, tmp_path):
    path, told = tmp_path / "rivals.jsonl", list[str]()
    assert suite.run(path, ["adult"], ["retrain", "sisa"], range(2), told.append) == 6
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    cells = {line["cell"]: line for line in lines if "cell" in line}
    assert set(cells) == {f"adult/{m}/{i}" for m in ("retrain", "sisa") for i in (0, 1)}
    assert cells["adult/retrain/0"]["settings"] == {"depth": 4}
    processes = {cells[f"adult/retrain/{i}"]["process"] for i in (0, 1)} | {os.getpid()}
    assert len(processes) == 3
    assert cells["adult/sisa/0"]["failed"] == "ValueError: no luck"
    assert failures(path) == ["adult/sisa/0: ValueError: no luck", "adult/sisa/1: ValueError: no luck"]
    assert suite.run(path, ["adult"], ["retrain", "sisa"], range(2), told.append) == 0
    assert suite.run(path, ["adult"], ["retrain"], range(3), told.append) == 1


def test_a_line_that_is_cut_off_is_named(tmp_path):
    (tmp_path / "rivals.jsonl").write_text('{"cell": "adult/', encoding="utf-8")
    with pytest.raises(DataError, match="cannot be read"):
        suite.read_lines(tmp_path / "rivals.jsonl")
    (tmp_path / "empty.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="no figures"):
        runs(tmp_path / "empty.jsonl")


def test_the_command_refuses_names_that_do_not_exist(capsys):
    assert main(["rivals", "run", "x.jsonl", "--table", "nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().out


@pytest.fixture
def small(monkeypatch):
    data = small_people(1_000)
    tested = data.where_subjects([f"p {i}" for i in range(100)])
    source = Source("adult", data.select(~tested), data.select(tested), auc)
    monkeypatch.setattr(measuring, "load", lambda name: source)
    return source


@pytest.mark.parametrize("method", ["short-retrain", "private-trees", "rewind"])
def test_a_cell_has_all_figures(small, method, tmp_path):
    mine = RIVALS[method]
    chosen = measuring.choose("adult", method)
    assert [one["settings"] for one in chosen["tries"]] == [dict(settings) for settings in mine.choices]
    best = max(one["utility"] for one in chosen["tries"])
    assert next(one for one in chosen["tries"] if one["utility"] == best)["settings"] == chosen["chosen"]
    figures = measuring.measure("adult", method, 0, chosen["chosen"])
    line = json.dumps({"cell": f"adult/{method}/0", **figures})
    (tmp_path / "rivals.jsonl").write_text(line + "\n", encoding="utf-8")
    row = summary(runs(tmp_path / "rivals.jsonl")).iloc[0]
    assert row["month of 1,000, s"] == pytest.approx(1_000 * np.mean(figures["one_s"]))
    assert len(figures["one_s"]) == 10
    assert row["utility"] > 60
    assert figures["versions_one"]["erasures"] == 10
    assert figures["versions_one"]["changed"] == (not mine.unchanged)
    assert figures["forgotten"] >= figures["many_people"] + 10
    assert 0 < figures["before"]["rmia"]["auc"] < 100


def test_reference_models_never_divide_a_person(small):
    seen: list[set[str]] = []

    class Noted(RewindToDelete):
        def train(self, data, rng):
            seen.append(set(data.subjects.tolist()))
            return super().train(data, rng)

    references = measuring._references(Noted(steps=5, rewound=2), small, Seeded(1))
    assert len(seen) == measuring.REFERENCES
    for first, second in zip(seen[::2], seen[1::2], strict=True):
        assert not first & second
    assert (references.inside.sum(axis=0) == measuring.REFERENCES // 2).all()


def test_methods_that_may_look_have_six_choices_and_private_ones_none():
    for rival in RIVALS.values():
        assert isinstance(rival, Rival)
        assert len(rival.choices) == (1 if rival.unchanged else 6), rival.label
