"""What the report on images reads from beside the results: what blocks show, and how the better recipe was found."""

import json
from pathlib import Path

import pytest

from eupg.errors import DataError
from eupg_reproduction.picture_methods import resnet18_finetuner
from eupg_reproduction.picture_recipes import BETTER, PAPER, recipe_words
from eupg_reproduction.report.findings import block_table
from eupg_reproduction.report.page import page, tables
from eupg_reproduction.report.picture_files import (
    BASE,
    LINKAGE,
    SCRATCH,
    SEARCH,
    Linkage,
    Searched,
    read_linkage,
    read_search,
    search_rank,
    search_tables,
)
from eupg_reproduction.report.tidy import Measurements, places
from eupg_reproduction.report.words import MISSING, markdown
from made_up import measurements, pictured
from reading import cells, row

RESULTS = Path(__file__).resolve().parents[1] / "results"


def results_in(folder):
    file = folder / "r.jsonl"
    file.write_text(json.dumps(pictured("Retrain", [94.0])[0].line) + "\n", encoding="utf-8")
    return file


def test_what_matching_blocks_finds_is_read_from_beside_the_results(tmp_path):
    shares = Linkage(6000, 3000, 99.94, 12.5, 3.4, 2.81, 4.1, 3.333, 81.12, 80.3, 82.0, 57.0)
    (tmp_path / LINKAGE).write_text(json.dumps([{"block": 8, **shares._asdict()}]), encoding="utf-8")
    made = Measurements.read(results_in(tmp_path))
    assert made.linkage == {8: shares}
    table = tables(made)["block_linkage"]
    assert row(table, block=8) == {"block": 8, **shares._asdict()}
    assert list(table["block"]) == [8]
    shown = markdown(block_table(tables(made)))
    assert cells(shown, "8×8")[-1] == "57.0 %"
    assert cells(shown, "4×4")[-1] == MISSING
    assert cells(markdown(block_table(tables(measurements()))), "8×8")[-1] == MISSING


def test_the_blocks_that_were_measured_are_those_of_the_table():
    methods = dict.fromkeys(str(where["method"]) for where in places("blocks_resnet18"))
    sizes = [int(method.rpartition("×")[2]) if "×" in method else 1 for method in methods]
    assert sorted(read_linkage(RESULTS)) == sizes == [1, 2, 4, 8, 16]


def test_the_search_for_a_recipe_is_read_from_beside_the_results(tmp_path):
    recipes = [
        ({}, 86.0, 80.0),
        (BETTER, 88.0, 87.0),
        ({"learning_rate": 0.4}, 89.0, 85.0),
        ({"padding": 2}, 90.0, None),
    ]
    lines = [{"what": {"base": BASE, "epochs": 30}, "held_out": 60.0}]
    for change, based, scratch in recipes:
        for start, found in ((BASE, based), (SCRATCH, scratch), ("k=30", 99.0)):
            if found is not None:
                lines.append({"what": {"start": start, **change}, "held_out": found})
    lines.append({"what": {"base": BASE, "epochs": 30}, "held_out": 61.0})
    for name, alone in (("closer", 70.0), ("never tuned", 9.0)):
        lines.append({"what": {"base": name, "epochs": 30, "schedule": "one-cycle"}, "held_out": alone})
    lines.append({"what": {"start": "closer", **BETTER}, "held_out": 91.0})
    lines.append({"what": {"noise": "some"}, "held_out": 12.0})
    lines.append({"what": {"base": "single", "epochs": 100}, "held_out": 25.0})
    for variant, change, held_out in (
        ({}, {}, 82.0), ({}, BETTER, 87.0), ({"variant": "moving"}, {}, 83.0), ({"variant": "moving"}, BETTER, 88.5)
    ):  # fmt: skip
        lines.append({"what": {"start": "single", **variant, **change}, "held_out": held_out})
    lines.append({"what": {"start": SCRATCH, "variant": "still", **BETTER}, "held_out": 86.5})
    (tmp_path / SEARCH).write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    searched = read_search(tmp_path)
    found = {name: markdown(table) for name, table in search_tables(searched).items()}
    assert cells(found["recipes"], f"**{recipe_words(BETTER)}**") == ["88.0", "87.0", "87.5"]
    assert cells(found["recipes"], "the paper's") == ["86.0", "80.0", "83.0"]
    assert cells(found["recipes"], "the base alone") == ["60.0", "–", "–"]
    assert cells(found["recipes"], "the base alone, training 2") == ["61.0", "–", "–"]
    assert cells(found["recipes"], "shifts of 2 pixels") == ["90.0", "–", "–"]
    assert "99.0" not in found["recipes"]
    assert cells(found["bases"], "k=30") == ["–", "99.0", "99.0"]
    assert cells(found["bases"], "closer") == ["70.0", "–", "91.0"]
    assert "never tuned" not in found["bases"]
    assert "single" not in found["bases"]
    assert cells(found["variants"], "single") == ["82.0 (87.0)", "83.0 (88.5)", "–"]
    assert cells(found["variants"], SCRATCH) == ["80.0 (87.0)", "–", "– (86.5)"]
    assert search_rank(searched) == "the best of the 3 recipes tried from both starts"


def test_a_recipe_that_was_not_the_best_is_called_so():
    searched = Searched({recipe_words(BETTER): {BASE: 88.0, SCRATCH: 86.0}, "another": {BASE: 89.0, SCRATCH: 86.0}})
    assert search_rank(searched) == "number 2 of the 2 recipes tried from both starts"
    assert search_rank(Searched()) == MISSING
    assert all(table.empty for table in search_tables(Searched()).values())


@pytest.mark.parametrize("text", ["{", "3", '{"what": {}}', '{"what": 3, "held_out": 1}'])
def test_a_file_of_a_search_that_is_none_is_refused(text, tmp_path):
    (tmp_path / SEARCH).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="must have what and held_out in every line"):
        read_search(tmp_path)


@pytest.mark.parametrize("text", ["{", "3", '[{"block": 8}]', '[{"block": "x"}]', "[1]"])
def test_a_file_of_matched_blocks_that_is_none_is_refused(text, tmp_path):
    (tmp_path / LINKAGE).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="must be a list of objects with block, pictures, originals, unique_blocks"):
        read_linkage(tmp_path)


def test_the_papers_recipe_is_told_as_it_is():
    paper = resnet18_finetuner(device="cpu")
    names = ("learning_rate", "weight_decay", "batch_size", "warm_up")
    assert {name: PAPER[name] for name in names} | {"padding": 4} == PAPER
    assert {name: getattr(paper, name) for name in names} == {name: PAPER[name] for name in names}
    assert (paper.augment.padding, paper.augment.border) == (PAPER["padding"], "zero")
    assert "the paper's: learning rate 0.05, weight decay 0.0005" in page(measurements())
