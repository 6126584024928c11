"""The report on images: the paper's table, two recipes, blocks and epochs, each with as many runs as were made."""

import re

import pytest

from eupg_reproduction.cli import main
from eupg_reproduction.report.agreement import agreement, compared_pictures
from eupg_reproduction.report.book import REPEATS, Book, asked
from eupg_reproduction.report.figures import draw
from eupg_reproduction.report.goals import goals
from eupg_reproduction.report.linkage import Linkage
from eupg_reproduction.report.origin import origin
from eupg_reproduction.report.overview import overview
from eupg_reproduction.report.page import page
from eupg_reproduction.report.picture_places import SET, blocks, by_block, paper_recipe
from eupg_reproduction.report.pictures import control, images, picture_goals
from eupg_reproduction.report.words import MISSING
from made_up import book, pictured, quality
from test_report import row

BETTER = "better_resnet18"
EIGHT = "EUPG k=30, blocks 8×8"


def swept(method, utility, epochs, **more):
    return pictured(method, [utility], name="blocks_resnet18", changed={"finetune": epochs}, **more)


def met(made: Book, begin: str) -> tuple[str, str]:
    (found,) = [(value, good) for words, value, good in picture_goals(made) if words.startswith(f"images, {begin}")]
    return found


def test_three_runs_are_all_of_them_and_two_are_not():
    three = images(book(pictured("Retrain", [94.0, 94.2, 94.4])))
    assert row(three["table_utility"], "Retrain")[4:] == ["94.20 ± 0.16 (3 runs)", "94.25 ± 0.23", "−0.05", "yes"]
    two = images(book(pictured("Retrain", [94.0, 94.4])))
    assert row(two["table_utility"], "Retrain")[4] == "94.20 ± 0.20 (2 of 3)"


def test_a_single_run_has_no_deviation():
    found = images(book(pictured("SISA", [87.0])))
    assert row(found["table_utility"], "SISA")[4:] == ["87.00 (1 run)", "69.19 ± 0.21", "+17.81", "no"]


def test_runs_are_counted_by_the_experiment_that_asks_for_most():
    # At 5 epochs the sweep, which asks for one run, shares its cell with the table, which asks for three.
    assert asked(paper_recipe(book(), 5).where(SET, "EUPG ε=1")) == 3
    assert asked(paper_recipe(book(), 10).where(SET, "EUPG ε=1")) == 1
    assert asked(paper_recipe(book(), 7).where(SET, "EUPG ε=1")) == 0


def test_runs_that_nobody_asked_for_do_not_count():
    made = book(pictured("SISA", [87.0, 12.0]), pictured("Retrain", [94.0, 94.0, 94.0, 12.0]))
    found = images(made)["table_utility"]
    assert row(found, "SISA")[4] == "87.00 (1 run)"
    assert row(found, "Retrain")[4] == "94.00 ± 0.00 (3 runs)"


def test_cells_of_images_are_counted_with_their_own_repetitions():
    made = book(pictured("Retrain", [94.0, 94.1, 94.2]), quality("Retrain", [85.0]))
    assert row(origin(made)["experiments_table"], "`quality_resnet18`")[1:3] == ["15", "3; 12 missing"]
    assert origin(made)["cells"] == "4"
    assert overview(made)["repeats"] == f"{REPEATS} (images: 1 or 3; `epsilon_models`: 1)"
    assert images(made)["runs"].startswith("3 of ")


def test_the_device_is_named_with_the_machine():
    found = origin(book(pictured("Retrain", [94.0]), quality("Retrain", [85.0])))["machines_table"]
    assert row(found, "a pencil, 1 cores, an abacus")[-1] == "1"
    assert row(found, "a pencil, 1 cores")[-1] == "1"


def test_the_short_retrain_stands_in_every_table_of_images():
    found = images(book())
    for name in ("table_utility", "table_mia_auc", "recipes_table", "epochs_utility", "forget_table", "phases_table"):
        assert "Short retrain" in found[name], name
    assert "short retrain" in found["blocks_table"]


def test_recipes_stand_side_by_side_and_what_no_experiment_has_is_a_dash():
    made = book(
        pictured("Short retrain", [86.0, 86.0, 86.0]),
        pictured("Short retrain", [87.5, 87.5, 87.5], name=BETTER),
        pictured(EIGHT, [90.0, 90.5, 91.0], name=BETTER),
    )
    table = images(made)["recipes_table"]
    assert row(table, "Short retrain")[:4] == ["no base", "86.00 ± 0.00 (3 runs)", "87.50 ± 0.00 (3 runs)", "+1.50"]
    assert row(table, EIGHT)[1:4] == ["–", "90.50 ± 0.41 (3 runs)", "–"]
    assert images(made)["better_short"] == "+1.50"


def test_where_the_short_retrain_of_the_same_recipe_beats_eupg_is_said():
    made = book(
        pictured("Short retrain", [86.0, 86.2]),
        pictured("EUPG k=30", [84.0, 84.2]),
        pictured("Short retrain", [87.0, 87.2], name=BETTER),
        pictured("EUPG k=30", [87.1, 87.3], name=BETTER),
        pictured(EIGHT, [90.0, 90.2], name=BETTER),
    )
    said = control(made)
    assert (
        "EUPG k=30 is beaten under the paper's recipe (−2.00), level under the better recipe (+0.10) and ahead nowhere."
        in said
    )
    assert f"{EIGHT} is beaten nowhere, level nowhere and ahead under the better recipe (+3.00)." in said
    assert f"EUPG ε=1: {MISSING}." in said


def test_a_single_run_is_not_judged():
    made = book(pictured("Short retrain", [86.0, 86.2, 86.1]), pictured("EUPG k=30", [88.1]))
    assert "EUPG k=30" in control(made)
    assert "ahead under the paper's recipe" not in control(made)
    assert "under the paper's recipe +2.00 in a single run, too few to judge" in control(made)


def test_blocks_show_the_base_alone_and_after_fine_tuning():
    made = book(
        swept("EUPG k=30", 24.0, 0, auc=50.5),
        swept("EUPG k=30", 87.5, 5, auc=50.6),
        swept("EUPG k=30, blocks 16×16", 75.0, 0),
        swept("EUPG k=30, blocks 16×16", 91.3, 5, auc=51.2),
        pictured("Short retrain", [87.0, 87.0, 87.0], name=BETTER),
    )
    found = images(made)
    cells = row(found["blocks_table"], "single pixels")
    assert cells[:5] == ["24.00 (1 run)", "87.50 (1 of 3)", "+0.50", "50.5 (1 run)", "50.6 (1 of 3)"]
    assert len(cells) == 5
    assert row(found["blocks_table"], "2×2")[:2] == [MISSING, MISSING]
    assert (found["blocks_base"], found["blocks_gain"], found["blocks_rmia"]) == ("+51.0", "+3.8", "50.6 to 51.2")


def test_a_block_that_two_experiments_have_shows_all_its_runs():
    made = book(pictured(EIGHT, [90.0, 90.5, 91.0], name=BETTER))
    assert row(images(made)["blocks_table"], "8×8")[1] == "90.50 ± 0.41 (3 runs)"
    assert list(blocks()) == [1, 2, 4, 8, 16]
    assert by_block(made, 5).where(SET, blocks()[8])["finetune"] == 5


def test_epochs_stand_beside_the_papers_and_beside_as_many_from_scratch():
    made = book(
        pictured("EUPG ε=1", [88.0], name="epochs_resnet18", changed={"finetune": 10}),
        pictured("Short retrain", [89.5], name="epochs_resnet18", changed={"finetune": 10}),
    )
    found = images(made)
    cells = row(found["epochs_utility"], "10")
    assert cells[:4] == ["89.50 (1 run)", "88.00 (1 run)", "87.87 ± 0.17", "+0.13"]
    assert cells[4:] == [MISSING, "52.81 ± 0.55", "–"]
    assert row(found["epochs_utility"], "0") == ["–", MISSING, "20.49 ± 1.00", "–", "–", "10.00 ± 0.00", "–"]
    assert row(found["epochs_mia_auc"], "10")[1:4] == ["50.00 (1 run)", "48.17 ± 0.33", "+1.83"]
    assert (found["epochs_eupg_apart"], found["epochs_eupg_at"]) == ("−1.50", "10")
    assert found["epochs_certified_at"] == MISSING


def test_times_are_compared_as_ratios():
    made = book(
        pictured("Retrain", [94.0] * 3, seconds={"forget": 100.0}),
        pictured("EUPG k=30", [86.0] * 3, seconds={"protect": 2.0, "pretrain": 96.0, "finetune": 2.0, "forget": 5.0}),
    )
    found = images(made)
    # The paper: 417.32 s and 23.62 s.
    assert row(found["forget_table"], "EUPG k=30") == ["5.00 ± 0.00 (3 runs)", "20.0×", "17.7×", "+2.3", "no"]
    assert row(found["forget_table"], "SISA")[:3] == [MISSING, MISSING, "0.79×"]
    cells = row(found["phases_table"], "EUPG k=30")
    assert cells[0] == "2.00 ± 0.00 (3 runs), paper 327"
    assert cells[4:] == ["98 %", "97 %", "+1"]


def test_the_papers_utilities_of_images_are_counted_apart():
    made = book(
        pictured("Retrain", [94.3] * 3, before=[94.0] * 3),
        pictured("EUPG k=30", [86.5] * 3, before=[86.0] * 3),
        quality("Retrain", [85.2], before=[85.3]),
    )
    found = agreement(made)
    assert row(found["table"], "quality, ResNet-18")[:5] == ["10", "2", "1", "1", "6"]
    assert row(found["table"], "**all tables of people**")[1] == "2"
    assert found["reached"] == "2 of 2 (100 %)"
    assert found["reached_images"] == "3 of 4 (75 %)"
    assert found["missed_list"].startswith("- **CIFAR-10, ResNet-18, Retrain** (−0.70 before): ")


def test_every_utility_of_the_papers_images_that_is_asked_for_is_compared_once():
    cells = list(compared_pictures(book()))
    # Ten of its table; of its epochs all but 5, which is in the table, and Certified-SP at 0, which is noise alone.
    assert len(cells) == 10 + 6 + 5
    assert len({cell[:5] for cell in cells}) == len(cells)


@pytest.mark.parametrize(("utility", "good"), [(94.0, "yes"), (93.9, "no")])
def test_retrain_is_to_reach_94(utility, good):
    assert met(book(pictured("Retrain", [utility] * 3)), "Retrain")[1] == good


@pytest.mark.parametrize(("method", "least"), [("EUPG k=30", 85.4), ("EUPG ε=1", 83.2)])
def test_eupg_is_to_reach_the_papers_utility(method, least):
    assert met(book(pictured(method, [least] * 3)), method)[1] == "yes"
    below = [least - 0.1] * 3
    beside = f"{least - 0.1:.2f} ± 0.00 (3 runs), short retrain {MISSING}"
    none = f"{MISSING}, short retrain {MISSING}"
    assert met(book(pictured(method, below)), method) == (f"the paper's recipe {beside}; the better {none}", "no")
    both = book(pictured(method, below), pictured(method, [least] * 3, name=BETTER))
    assert met(both, method)[1] == "yes"


@pytest.mark.parametrize(("best", "short", "good"), [(90.6, 87.5, "yes"), (90.6, 89.7, "no"), (89.9, 85.0, "no")])
def test_the_best_block_is_to_be_above_90_and_clearly_above_the_short_retrain(best, short, good):
    made = book(
        swept("EUPG k=30", best - 3, 5), swept(EIGHT, best, 5), pictured("Short retrain", [short] * 3, name=BETTER)
    )
    value, found = met(made, "k=30 with its best block")
    assert found == good
    assert value.startswith(f"{best:.2f} (1 of 3) ({EIGHT}); short retrain {short:.2f}")


def test_the_best_block_waits_for_its_control():
    assert met(book(swept(EIGHT, 91.0, 5)), "k=30 with its best block")[1] == MISSING


@pytest.mark.parametrize(("after", "good"), [(86.5, "yes"), (88.0, "yes"), (84.9, "no"), (69.0, "no")])
def test_sisa_is_not_to_collapse(after, good):
    assert met(book(pictured("SISA", [after], before=[87.0])), "SISA") == (f"87.00 (1 run) → {after:.2f} (1 run)", good)


def test_audits_of_images_after_unlearning_are_counted_without_bases_alone():
    made = book(
        pictured("Retrain", [94.0] * 3, auc=50.5),
        pictured("EUPG k=30", [86.0] * 2, auc=51.5),
        swept("EUPG k=30", 24.0, 0, auc=60.0),
    )
    assert met(made, "audits") == ("3 of 5", "no")
    found = images(made)
    assert found["covers"] == "3 of 5 (60 %)"
    assert row(found["audits_table"], "EUPG k=30, base alone") == ["0 of 1", "60.0"]
    assert row(found["audits_table"], "EUPG k=30") == ["0 of 2", "51.5"]


def test_every_goal_of_images_is_open_where_nothing_was_measured():
    assert [good for _, _, good in picture_goals(book())] == [MISSING] * len(picture_goals(book()))
    assert [row for row in goals(book()) if row[0].startswith("images")] == picture_goals(book())


def test_a_page_with_some_images_measured_has_no_open_place():
    text = page(book(pictured("Retrain", [94.0, 94.1]), swept(EIGHT, 91.0, 5)))
    assert not re.search(r"\{\w*\}|\bNone\b|\bnan\b", text)
    assert "94.05 ± 0.05 (2 of 3)" in text


@pytest.mark.parametrize("name", ["images_epochs", "images_blocks"])
def test_figures_of_images_say_so_where_nothing_was_measured(name, tmp_path):
    assert MISSING in draw(name, book(), tmp_path).read_text(encoding="utf-8")


def test_figures_of_images_show_ours_and_the_papers(tmp_path):
    made = book(
        pictured("EUPG ε=1", [83.0, 83.2]),
        pictured("Retrain", [94.0]),
        swept("EUPG k=30", 24.0, 0),
        pictured("Short retrain", [87.0], name=BETTER),
    )
    drawn = draw("images_epochs", made, tmp_path).read_text(encoding="utf-8")
    for words in ("EUPG ε=1, paper", "Certified-SP, paper", "Retrain, 100 epochs"):
        assert words in drawn
    assert MISSING not in drawn
    assert "base alone" in draw("images_blocks", made, tmp_path).read_text(encoding="utf-8")


def test_blocks_stand_with_their_own_size_on_the_first_page():
    made = book(
        pictured("EUPG k=30, blocks 8×8", [90.0] * 3, name=BETTER),
        pictured("EUPG k=30, blocks 16×16", [91.0] * 3, name=BETTER),
    )
    made.linkage = {size: Linkage(*[0.0] * 11, rows) for size, rows in ((8, 55.2), (16, 90.2))}
    found = overview(made)
    assert found["blocks_after"] == "8×8 90.00 ± 0.00 (3 runs) and 16×16 91.00 ± 0.00 (3 runs)"
    assert found["blocks_rows"] == "55 % at 8×8 and 90 % at 16×16"
    assert found["pixels_after"] == MISSING


def test_minutes_on_a_gpu_are_marked_in_the_list(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["list", "--results", str(tmp_path / "none")]) == 0
    text = capsys.readouterr().out
    (line,) = [one for one in text.splitlines() if "quality_resnet18" in one]
    assert re.search(r"\d+ GPU", line)
    (other,) = [one for one in text.splitlines() if " quality_mlp " in one]
    assert "GPU" not in other
