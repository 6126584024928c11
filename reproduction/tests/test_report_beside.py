"""What the report on images reads from beside the results: what blocks show, and how the better recipe was found."""

import json
from pathlib import Path

import pytest

from eupg.errors import DataError
from eupg.learn.resnet_recipes import resnet18_finetuner
from eupg_reproduction.picture_recipes import BETTER, PAPER, recipe_words
from eupg_reproduction.report.linkage import FILE, Linkage, read_linkage
from eupg_reproduction.report.page import book_of
from eupg_reproduction.report.picture_places import blocks
from eupg_reproduction.report.picture_search import BASE, SCRATCH, Searched, read_search, search_table
from eupg_reproduction.report.picture_search import FILE as SEARCH
from eupg_reproduction.report.pictures import images
from eupg_reproduction.report.words import MISSING
from made_up import book, pictured
from test_report import row

RESULTS = Path(__file__).resolve().parents[1] / "results"


def results_in(folder):
    file = folder / "r.jsonl"
    file.write_text(json.dumps(pictured("Retrain", [94.0])[0].line) + "\n", encoding="utf-8")
    return file


def test_what_matching_blocks_finds_is_read_from_beside_the_results(tmp_path):
    shares = Linkage(6000, 3000, 99.94, 12.5, 3.4, 2.81, 4.1, 3.333, 81.12, 80.3, 82.0, 57.0)
    (tmp_path / FILE).write_text(json.dumps([{"block": 8, **shares._asdict()}]), encoding="utf-8")
    made = book_of(results_in(tmp_path))
    assert made.linkage == {8: shares}
    found = images(made)
    eight = ["99.9 %", "12.5 %", "3.4 % (2.8 to 4.1)", "3.3 %", "81.1 % (80.3 to 82.0)", "57.0 %"]
    assert row(found["shown_table"], "8×8") == eight
    assert row(found["shown_table"], "4×4") == [MISSING] * 6
    assert (found["shown_pictures"], found["shown_originals"]) == ("6,000", "3,000")
    assert images(book())["shown_pictures"] == MISSING


def test_the_blocks_that_were_measured_are_those_of_the_table():
    assert sorted(read_linkage(RESULTS)) == list(blocks())


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
    found = images(book_of(results_in(tmp_path)))
    assert row(found["search_table"], f"**{recipe_words(BETTER)}**") == ["88.0", "87.0", "87.5"]
    assert row(found["search_table"], "the paper's") == ["86.0", "80.0", "83.0"]
    assert row(found["search_table"], "the base alone") == ["60.0", "–", "–"]
    assert row(found["search_table"], "the base alone, training 2") == ["61.0", "–", "–"]
    assert row(found["search_table"], "shifts of 2 pixels") == ["90.0", "–", "–"]
    assert "99.0" not in found["search_table"]
    assert row(found["search_bases"], "k=30") == ["–", "99.0", "99.0"]
    assert row(found["search_bases"], "closer") == ["70.0", "–", "91.0"]
    assert "never tuned" not in found["search_bases"]
    assert "single" not in found["search_bases"]
    assert row(found["search_variants"], "single") == ["82.0 (87.0)", "83.0 (88.5)", "–"]
    assert row(found["search_variants"], SCRATCH) == ["80.0 (87.0)", "–", "– (86.5)"]
    assert found["search_rank"] == "the best of the 3 recipes that were tried from both"


def test_a_recipe_that_was_not_the_best_is_called_so():
    searched = Searched({recipe_words(BETTER): {BASE: 88.0, SCRATCH: 86.0}, "another": {BASE: 89.0, SCRATCH: 86.0}})
    assert search_table(searched)["search_rank"] == "number 2 of the 2 recipes that were tried from both"
    assert search_table(Searched())["search_rank"] == search_table(Searched())["search_table"] == MISSING


@pytest.mark.parametrize("text", ["{", "3", '{"what": {}}', '{"what": 3, "held_out": 1}'])
def test_a_file_of_a_search_that_is_none_is_refused(text, tmp_path):
    (tmp_path / SEARCH).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="must have what and held_out in every line"):
        read_search(tmp_path)


@pytest.mark.parametrize("text", ["{", "3", '[{"block": 8}]', '[{"block": "x"}]', "[1]"])
def test_a_file_of_matched_blocks_that_is_none_is_refused(text, tmp_path):
    (tmp_path / FILE).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="must be a list of objects with block, pictures, originals, unique_blocks"):
        read_linkage(tmp_path)


def test_the_papers_recipe_is_told_as_it_is():
    paper = resnet18_finetuner(device="cpu")
    names = ("learning_rate", "weight_decay", "batch_size", "warm_up")
    assert {name: PAPER[name] for name in names} | {"padding": 4} == PAPER
    assert {name: getattr(paper, name) for name in names} == {name: PAPER[name] for name in names}
    assert (paper.augment.padding, paper.augment.border) == (PAPER["padding"], "zero")
    assert "learning rate 0.05, weight decay 0.0005" in search_table(Searched())["search_paper"]
