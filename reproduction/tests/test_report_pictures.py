"""The report on images: the paper's table, two recipes, blocks and epochs, each with as many runs as were made."""

import re

import pytest

from eupg_reproduction.cli import main
from eupg_reproduction.report.figures import draw
from eupg_reproduction.report.findings import (
    agreement_table,
    block_table,
    by_recipe,
    covered_in,
    pick,
    quality_table,
    range_of,
    reached,
    rebuilt,
    repeats,
    speed_table,
    standing,
)
from eupg_reproduction.report.page import page, tables
from eupg_reproduction.report.picture_files import Linkage
from eupg_reproduction.report.tidy import REPEATS, asked, places
from eupg_reproduction.report.words import MISSING, NONE, markdown, of_all
from made_up import measurements, pictured, quality
from reading import beside, cells, known, made, row

BETTER = "better_resnet18"
EIGHT = "EUPG k=30, blocks 8×8"


def swept(method, utility, epochs, **more):
    return pictured(method, [utility], name="blocks_resnet18", changed={"finetune": epochs}, **more)


def goals(*groups):
    return [tuple(one) for one in made(*groups)["goals"].itertuples(index=False) if one.goal.startswith("images")]


def met(begin, *groups):
    (found,) = [(value, good) for words, value, good in goals(*groups) if words.startswith(f"images, {begin}")]
    return found


def judged(*groups):
    """What is said of EUPG against the short retrain of the same recipe, by method."""
    table = by_recipe(made(*groups))
    return {name: standing(table, name, by="recipe", word="under") for name in ("EUPG k=30", "EUPG ε=1", EIGHT)}


def at(epochs, method="EUPG ε=1"):
    usual = next(where for where in places("quality_resnet18") if where["method"] == method)
    return asked({**usual, "finetune": epochs})


def test_three_runs_are_all_of_them_and_two_are_not():
    three = made(pictured("Retrain", [94.0, 94.2, 94.4]))["quality_resnet18"]
    mine = beside(row(three, method="Retrain"), "utility after")
    assert mine == ["94.20 ± 0.16 (3 runs)", "94.25 ± 0.23", "−0.05", "yes"]
    two = made(pictured("Retrain", [94.0, 94.4]))["quality_resnet18"]
    assert beside(row(two, method="Retrain"), "utility after")[0] == "94.20 ± 0.20 (2 of 3)"


def test_a_single_run_has_no_deviation():
    table = made(pictured("SISA", [87.0]))["quality_resnet18"]
    mine = beside(row(table, method="SISA"), "utility after")
    assert mine == ["87.00 (1 run)", "69.19 ± 0.21", "+17.81", "no"]


def test_runs_are_counted_by_the_experiment_that_asks_for_most():
    # At 5 epochs the sweep, which asks for one run, shares its cell with the table, which asks for three.
    assert (at(5), at(10), at(7)) == (3, 1, 0)


def test_runs_that_nobody_asked_for_do_not_count():
    table = made(pictured("SISA", [87.0, 12.0]), pictured("Retrain", [94.0, 94.0, 94.0, 12.0]))["quality_resnet18"]
    assert beside(row(table, method="SISA"), "utility after")[0] == "87.00 (1 run)"
    assert beside(row(table, method="Retrain"), "utility after")[0] == "94.00 ± 0.00 (3 runs)"


def test_cells_of_images_are_counted_with_their_own_repetitions():
    groups = [pictured("Retrain", [94.0, 94.1, 94.2]), quality("Retrain", [85.0])]
    mine = row(made(*groups)["experiments"], experiment="quality_resnet18")
    assert [mine[name] for name in ("cells", "measured", "missing")] == [15, 3, 12]
    assert len(measurements(*groups).used()) == 4
    assert repeats() == f"{REPEATS} (images: 1 or 3; `epsilon_models`: 1)"


def test_the_device_is_named_with_the_machine():
    table = made(pictured("Retrain", [94.0]), quality("Retrain", [85.0]))["machines"]
    assert row(table, machine="a pencil, 1 cores, an abacus")["cells"] == 1
    assert row(table, machine="a pencil, 1 cores")["cells"] == 1


def test_the_short_retrain_stands_in_every_table_of_images():
    found = made()
    for name in ("quality_resnet18", "better_resnet18", "epochs_resnet18", "runtime_resnet18"):
        assert "Short retrain" in set(found[name]["method"]), name
    assert "short retrain" in set(block_table(found)["block"])
    for show in (quality_table, speed_table):
        assert "Short retrain" in show(found)


def test_recipes_stand_side_by_side_and_what_no_experiment_has_is_a_dash():
    table = made(
        pictured("Short retrain", [86.0, 86.0, 86.0]),
        pictured("Short retrain", [87.5, 87.5, 87.5], name=BETTER),
        pictured(EIGHT, [90.0, 90.5, 91.0], name=BETTER),
    )["better_resnet18"]
    short, eight = row(table, method="Short retrain"), row(table, method=EIGHT)
    assert not known(short["pretrain"])
    assert beside(short, "utility after")[0] == "87.50 ± 0.00 (3 runs)"
    assert (short["paper's recipe"], short["paper's recipe, difference"]) == (86.0, 1.5)
    assert beside(eight, "utility after")[0] == "90.50 ± 0.41 (3 runs)"
    assert not known(eight["paper's recipe"])


def test_where_the_short_retrain_of_the_same_recipe_beats_eupg_is_said():
    said = judged(
        pictured("Short retrain", [86.0, 86.2]),
        pictured("EUPG k=30", [84.0, 84.2]),
        pictured("Short retrain", [87.0, 87.2], name=BETTER),
        pictured("EUPG k=30", [87.1, 87.3], name=BETTER),
        pictured(EIGHT, [90.0, 90.2], name=BETTER),
    )
    behind = "behind under the paper's recipe (−2.00) and level under the better recipe (+0.10)"
    assert said["EUPG k=30"] == f"EUPG k=30 is {behind}"
    assert said[EIGHT] == f"{EIGHT} is ahead under the better recipe (+3.00)"
    assert said["EUPG ε=1"] == f"EUPG ε=1: {MISSING}"


def test_a_single_run_is_not_judged():
    said = judged(pictured("Short retrain", [86.0, 86.2, 86.1]), pictured("EUPG k=30", [88.1]))
    single = "not judged, with a single run, under the paper's recipe (+2.00)"
    assert said["EUPG k=30"] == f"EUPG k=30 is {single} and {MISSING} under the better recipe"


def test_blocks_show_the_base_alone_and_after_fine_tuning():
    found = made(
        swept("EUPG k=30", 24.0, 0, auc=50.5),
        swept("EUPG k=30", 87.5, 5, auc=50.6),
        swept("EUPG k=30, blocks 16×16", 75.0, 0),
        swept("EUPG k=30, blocks 16×16", 91.3, 5, auc=51.2),
        pictured("Short retrain", [87.0, 87.0, 87.0], name=BETTER),
    )
    table = markdown(block_table(found))
    assert cells(table, "single pixels")[:4] == ["24.00 (1 run)", "87.50 (1 of 3)", "+0.50", "50.6 (1 of 3)"]
    alone = row(found["blocks_resnet18"], method="EUPG k=30", finetune=0)
    assert beside(alone, "AUC after", 1)[0] == "50.5 (1 run)"
    assert cells(table, "2×2")[:2] == [MISSING, MISSING]
    assert range_of(found["blocks_resnet18"], "utility after", finetune=0) == "24.0 to 75.0"
    assert range_of(found["blocks_resnet18"], "AUC after", finetune=5) == "50.6 to 51.2"


def test_a_block_that_two_experiments_have_shows_all_its_runs():
    table = markdown(block_table(made(pictured(EIGHT, [90.0, 90.5, 91.0], name=BETTER))))
    assert cells(table, "8×8")[1] == "90.50 ± 0.41 (3 runs)"


def test_epochs_stand_beside_the_papers_and_beside_as_many_from_scratch():
    table = made(
        pictured("EUPG ε=1", [88.0], name="epochs_resnet18", changed={"finetune": 10}),
        pictured("Short retrain", [89.5], name="epochs_resnet18", changed={"finetune": 10}),
    )["epochs_resnet18"]
    mine = row(table, method="EUPG ε=1", finetune=10)
    assert beside(row(table, method="Short retrain", finetune=10), "utility after")[0] == "89.50 (1 run)"
    assert beside(mine, "utility after")[:3] == ["88.00 (1 run)", "87.87 ± 0.17", "+0.13"]
    certified = row(table, method="Certified-SP", finetune=10)
    assert beside(certified, "utility after")[:3] == [MISSING, "52.81 ± 0.55", NONE]
    assert beside(row(table, method="EUPG ε=1", finetune=0), "utility after")[:3] == [MISSING, "20.49 ± 1.00", NONE]
    assert pick(table, finetune=0)["method"].tolist() == ["EUPG ε=1"]
    assert beside(mine, "AUC after")[:3] == ["50.00 (1 run)", "48.17 ± 0.33", "+1.83"]
    assert mine["short retrain, difference"] == -1.5
    assert not known(certified["short retrain, difference"])


def test_times_are_compared_as_ratios():
    table = made(
        pictured("Retrain", [94.0] * 3, seconds={"forget": 100.0}),
        pictured("EUPG k=30", [86.0] * 3, seconds={"protect": 2.0, "pretrain": 96.0, "finetune": 2.0, "forget": 5.0}),
    )["runtime_resnet18"]
    mine = row(table, method="EUPG k=30", recipe="paper", finetune=5)
    # The paper: 417.32 s and 23.62 s.
    figures = [mine[name] for name in ("forget, s", "speed-up", "speed-up, paper", "speed-up, difference")]
    assert [f"{one:.1f}" for one in figures] == ["5.0", "20.0", "17.7", "2.3"]
    assert mine["speed-up, inside"] == "no"
    sisa = row(table, method="SISA")
    assert not known(sisa["forget, s"])
    assert not known(sisa["speed-up"])
    assert f"{sisa['speed-up, paper']:.2f}" == "0.79"
    assert (mine["protect, s"], round(mine["protect, s, paper"])) == (2.0, 327)
    once = [mine[name] for name in ("once, %", "once, %, paper", "once, difference")]
    assert [round(one) for one in once] == [98, 97, 1]


def test_the_papers_utilities_of_images_are_counted_apart():
    found = made(
        pictured("Retrain", [94.3] * 3, before=[94.0] * 3),
        pictured("EUPG k=30", [86.5] * 3, before=[86.0] * 3),
        quality("Retrain", [85.2], before=[85.3]),
    )
    table, compared = markdown(agreement_table(found["agreement"])), found["agreement"]
    assert cells(table, "quality_resnet18")[:5] == ["10", "2", "1", "1", "6"]
    assert cells(table, "all tables of people")[1] == "2"
    assert reached(compared[compared["set"] != "CIFAR-10"]) == "2 of 2 (100 %)"
    assert reached(compared[compared["set"] == "CIFAR-10"]) == "3 of 4 (75 %)"
    assert found["misses"].iloc[0, :4].tolist() == ["CIFAR-10", "ResNet-18", "Retrain", "−0.70 before"]


def test_every_utility_of_the_papers_images_that_is_asked_for_is_compared_once():
    table = pick(made()["agreement"], set="CIFAR-10")
    # Ten of its table; of its epochs all but 5, which is in the table, and Certified-SP at 0, which is noise alone.
    assert len(table) == 10 + 6 + 5
    assert not table.duplicated(["table", "method", "when"]).any()


@pytest.mark.parametrize(("utility", "good"), [(94.0, "yes"), (93.9, "no")])
def test_retrain_is_to_reach_94(utility, good):
    assert met("Retrain", pictured("Retrain", [utility] * 3))[1] == good


@pytest.mark.parametrize(("method", "least"), [("EUPG k=30", 85.4), ("EUPG ε=1", 83.2)])
def test_eupg_is_to_reach_the_papers_utility(method, least):
    assert met(method, pictured(method, [least] * 3))[1] == "yes"
    below = [least - 0.1] * 3
    both = f"{least - 0.1:.2f} ± 0.00 (3 runs), short retrain {MISSING}"
    none = f"{MISSING}, short retrain {MISSING}"
    assert met(method, pictured(method, below)) == (f"the paper's recipe {both}; the better {none}", "no")
    assert met(method, pictured(method, below), pictured(method, [least] * 3, name=BETTER))[1] == "yes"


@pytest.mark.parametrize(("best", "short", "good"), [(90.6, 87.5, "yes"), (90.6, 89.7, "no"), (89.9, 85.0, "no")])
def test_the_best_block_is_to_be_above_90_and_clearly_above_the_short_retrain(best, short, good):
    groups = [swept("EUPG k=30", best - 3, 5), swept(EIGHT, best, 5)]
    value, found = met("k=30 with its best block", *groups, pictured("Short retrain", [short] * 3, name=BETTER))
    assert found == good
    assert value.startswith(f"{best:.2f} (1 of 3) ({EIGHT}); short retrain {short:.2f}")


def test_the_best_block_waits_for_its_control():
    assert met("k=30 with its best block", swept(EIGHT, 91.0, 5))[1] == MISSING


@pytest.mark.parametrize(("after", "good"), [(86.5, "yes"), (88.0, "yes"), (84.9, "no"), (69.0, "no")])
def test_sisa_is_not_to_collapse(after, good):
    assert met("SISA", pictured("SISA", [after], before=[87.0])) == (f"87.00 (1 run) → {after:.2f} (1 run)", good)


def test_audits_of_images_after_unlearning_are_counted_without_bases_alone():
    groups = [
        pictured("Retrain", [94.0] * 3, auc=50.5),
        pictured("EUPG k=30", [86.0] * 2, auc=51.5),
        swept("EUPG k=30", 24.0, 0, auc=60.0),
    ]
    assert met("audits", *groups) == ("3 of 5", "no")
    assert of_all(3, 5, share=True) == "3 of 5 (60 %)"
    found = made(*groups)
    alone = row(found["blocks_resnet18"], method="EUPG k=30", finetune=0)
    assert (alone["covers 50"], alone["runs"], alone["AUC after"]) == (0, 1, 60.0)
    assert str(covered_in(pick(found["quality_resnet18"], method="EUPG k=30"))) == "0 of 2"


def test_every_goal_of_images_is_open_where_nothing_was_measured():
    assert [good for _, _, good in goals()] == [MISSING] * 6


def test_a_page_with_some_images_measured_has_no_open_place():
    text = page(measurements(pictured("Retrain", [94.0, 94.1]), swept(EIGHT, 91.0, 5)))
    assert not re.search(r"\{\w*\}|\bNone\b|\bnan\b", text)
    assert "94.05 ± 0.05 (2 of 3)" in text


@pytest.mark.parametrize("name", ["images_epochs", "images_blocks"])
def test_figures_of_images_say_so_where_nothing_was_measured(name, tmp_path):
    assert MISSING in draw(name, measurements(), tmp_path).read_text(encoding="utf-8")


def test_figures_of_images_show_ours_and_the_papers(tmp_path):
    some = measurements(
        pictured("EUPG ε=1", [83.0, 83.2]),
        pictured("Retrain", [94.0]),
        swept("EUPG k=30", 24.0, 0),
        pictured("Short retrain", [87.0], name=BETTER),
    )
    drawn = draw("images_epochs", some, tmp_path).read_text(encoding="utf-8")
    for words in ("EUPG ε=1, paper", "Certified-SP, paper", "Retrain, 100 epochs"):
        assert words in drawn
    assert MISSING not in drawn
    assert "base alone" in draw("images_blocks", some, tmp_path).read_text(encoding="utf-8")


def test_blocks_stand_with_their_own_size_among_the_findings():
    some = measurements(
        pictured("EUPG k=30, blocks 8×8", [90.0] * 3, name=BETTER),
        pictured("EUPG k=30, blocks 16×16", [91.0] * 3, name=BETTER),
    )
    some.linkage = {size: Linkage(*[0.0] * 11, rows) for size, rows in ((8, 55.2), (16, 90.2))}
    text = " ".join(page(some).split())
    assert "8×8 90.00 ± 0.00 (3 runs) and 16×16 91.00 ± 0.00 (3 runs)" in text
    assert (rebuilt(tables(some), 8), rebuilt(tables(some), 16)) == ("55 %", "90 %")
    assert f"Single pixels, as in the paper: {MISSING}." in text


def test_minutes_on_a_gpu_are_marked_in_the_list(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["list", "--results", str(tmp_path / "none")]) == 0
    text = capsys.readouterr().out
    (line,) = [one for one in text.splitlines() if "quality_resnet18" in one]
    assert re.search(r"\d+ GPU", line)
    (other,) = [one for one in text.splitlines() if " quality_mlp " in one]
    assert "GPU" not in other
