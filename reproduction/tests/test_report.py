"""The report: figures that a pencil confirms, nothing invented where nothing was measured, the control always there."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eupg_reproduction.experiments import experiment
from eupg_reproduction.published import published
from eupg_reproduction.report import findings
from eupg_reproduction.report.audits import coverage, exposed_groups
from eupg_reproduction.report.findings import FEW, MANY, counted, frontier_table, missed, reached, standing, worse_draws
from eupg_reproduction.report.tables import PICTURES, QUALITY, against, published_speed_up, smallest, speed_up
from eupg_reproduction.report.tidy import place as of_experiment
from eupg_reproduction.report.words import SETS, markdown
from eupg_reproduction.spread import Spread
from made_up import exposed, measurements, place, quality, result, runtime
from reading import MISSING, NONE, beside, cells, known, made, row

spreads = st.builds(Spread, st.floats(0, 100), st.floats(0, 5), st.just(5))


def test_a_cell_shows_ours_the_papers_the_difference_and_whether_it_lies_inside():
    # Mean 85.18, deviation 0.04; the paper prints 85.35 ± 0.08 before and 85.21 ± 0.10 after.
    found = made(quality("Retrain", [85.14, 85.22, 85.14, 85.22], before=[85.4, 85.4, 85.4, 85.4]))
    mine = row(found["quality_mlp"], set="Adult", method="Retrain")
    assert beside(mine, "utility before") == ["85.40 ± 0.00 (4 of 5)", "85.35 ± 0.08", "+0.05", "yes"]
    assert beside(mine, "utility after") == ["85.18 ± 0.04 (4 of 5)", "85.21 ± 0.10", "−0.03", "yes"]
    assert (found["agreement"]["inside"] == "yes").sum() == 2


@pytest.mark.parametrize(("mean", "inside"), [(85.35, "yes"), (85.36, "no"), (85.07, "yes"), (85.06, "no")])
def test_inside_means_no_further_than_the_two_deviations_together(mean, inside):
    # The paper's 85.21 ± 0.10 and ours ± 0.04: up to 0.14 apart.
    found = made(quality("Retrain", [mean - 0.04, mean + 0.04] * 2))
    assert row(found["quality_mlp"], set="Adult", method="Retrain")["utility after, inside"] == inside


@given(spreads, spreads)
def test_agreeing_is_mutual(one, other):
    assert one.agrees(other) == other.agrees(one)
    assert one.agrees(one)


def test_what_was_not_measured_is_said_to_be_missing_and_the_papers_value_stays():
    found = made(quality("SISA", [85.0]))
    table = found["quality_mlp"]
    assert beside(row(table, set="Adult", method="Retrain"), "utility after") == [MISSING, "85.21 ± 0.10", NONE, NONE]
    assert beside(row(table, set="Adult", method="Short retrain"), "utility after") == [MISSING, NONE, NONE, NONE]
    assert (found["agreement"]["inside"] == "yes").sum() == 0
    assert found["agreement"]["inside"].notna().sum() == 2


def test_the_short_retrain_stands_in_every_table_of_quality():
    found = made()
    # The experiments share their short retrain: those that lack its row have it as a column.
    for name in (*QUALITY, "quality_resnet18", "better_resnet18", "blocks_resnet18", "epochs_resnet18"):
        assert "short retrain, difference" in found[name], name
    for name in (*QUALITY, "quality_resnet18", "better_resnet18", "epochs_resnet18", "runtime", "runtime_tuned"):
        assert "Short retrain" in set(found[name]["method"]), name
    for name in ("exposure", "synthesis"):
        assert {"short retrain", "short retrain, difference", "short retrain, side"} <= set(found[name])
    for show in (findings.quality_table, findings.speed_table):
        assert "Short retrain" in show(found)
    assert "short retrain" in findings.base_table(found)
    assert "short retrain, all seen" in frontier_table(found["exposure"], "k=30", FEW)
    assert len(PICTURES) == 5


def test_other_settings_and_later_repetitions_do_not_count():
    ours = quality("Short retrain", [80.0] * 5)
    other = quality("Short retrain", [99.0] * 5, changed={"finetune": 3})
    (sixth,) = [r for r in quality("Short retrain", [99.0] * 6) if r.cell.repetition == 5]
    found = made(ours, other, [sixth])
    mine = row(found["quality_mlp"], set="Adult", method="Short retrain")
    assert beside(mine, "utility after")[0] == "80.00 ± 0.00"


def test_where_a_method_is_beaten_by_its_control_is_said():
    tables = {"adult": (84.0, 85.0), "heart": (73.0, 73.05), "credit": (86.0, 85.0)}
    groups = []
    for table, (eupg, short) in tables.items():
        groups += [
            quality("EUPG k=30", [eupg - 0.1, eupg + 0.1], table=table),
            quality("Short retrain", [short], table=table),
        ]
    said = standing(made(*groups)["quality_mlp"], "EUPG k=30")
    assert said == "EUPG k=30 is behind on Adult (−1.00), level on Heart (−0.05) and ahead on Credit (+1.00)"


@given(st.lists(st.tuples(st.none() | spreads, st.none() | spreads), min_size=1, max_size=6))
def test_a_standing_names_every_place_once_unless_nothing_is_known(values):
    places = [{"method": "M", "set": f"P{i}.", **against("short retrain", *pair)} for i, pair in enumerate(values)]
    text = standing(pd.DataFrame(places), "M")
    if all(None in pair for pair in values):
        assert text == f"M: {MISSING}"
    else:
        assert all(text.count(one["set"]) == 1 for one in places)


def test_every_utility_of_the_papers_tables_is_compared_once():
    found = made()["agreement"]
    people = found[found["set"].isin(SETS.values())]
    assert len(people) == 30 + 24 + 30
    assert not people.duplicated(["table", "set", "model", "method", "when"]).any()


def test_utilities_are_counted_as_close_better_and_missed():
    # The paper after forgetting: Retrain 85.21, SISA 85.29, EUPG k=30 85.58; before: 85.35, 85.16, 85.64.
    found = made(
        quality("Retrain", [84.72], before=[84.84]),
        quality("SISA", [86.0], before=[85.2]),
        quality("EUPG k=30", [85.5], before=[85.6]),
    )
    counts = cells(markdown(found["agreement_counts"]), "quality_mlp")
    assert counts == ["30", "4", "1", "1", "24", "3"]
    assert reached(found["agreement"]) == "5 of 6 (83 %)"
    assert missed(found["misses"]) == "Adult MLP Retrain (−0.51 before)"
    assert list(found["misses"]["why"]) == ["not explained yet"]
    assert findings.gains(found["agreement"]) == "Adult MLP: 1 cells, +0.7"


def test_audits_whose_interval_covers_fifty_are_counted():
    groups = [quality("SISA", [85.0] * 4, auc=[50.9, 51.1, 49.0, 48.9])]
    assert str(coverage(measurements(*groups), of_experiment("quality_mlp", "adult", "mlp", "SISA"))) == "2 of 4"
    table = markdown(findings.audit_table(made(*groups)))
    assert cells(table, "SISA")[-1] == "2 of 4"
    assert cells(table, "Retrain")[-1] == MISSING


def test_a_goal_is_met_missed_or_open():
    groups = [quality("Retrain", [86.0] * 5, table=table, model="xgboost") for table in ("adult", "heart")]
    found = {goal: (value, met) for goal, value, met in made(*groups)["goals"].itertuples(index=False)}
    assert found["exposure found before unlearning, Adult XGBoost: AUC at least 56"] == ("57.0 ± 0.0", "yes")
    assert found["exposure found before unlearning, Heart XGBoost: AUC at least 62"] == ("57.0 ± 0.0", "no")
    assert found["a forget by EUPG k=30 against Retrain, XGBoost: at least the paper's 2.7×"] == (MISSING, MISSING)


def test_a_speed_up_is_the_quotient_of_the_medians():
    groups = [runtime("Retrain", [10.0, 20.0, 12.0]), runtime("EUPG k=30", [1.0, 1.0, 3.0])]
    found = speed_up(measurements(*groups), of_experiment("runtime", "adult", "mlp", "EUPG k=30", finetune=5))
    assert found is not None
    assert (found.mean, found.count) == (12.0, 3)
    # 10, 20 and 4 times in single repetitions.
    assert found.std == pytest.approx((((10 - 34 / 3) ** 2 + (20 - 34 / 3) ** 2 + (4 - 34 / 3) ** 2) / 3) ** 0.5)
    mine = row(made(*groups)["runtime"], set="Adult", model="MLP", method="EUPG k=30", finetune=5)
    figures = [mine[name] for name in ("speed-up", "speed-up, paper", "speed-up, difference")]
    assert [f"{one:.1f}" for one in figures] == ["12.0", "14.5", "-2.5"]
    # The mean needs all three sets.
    assert cells(markdown(findings.speed_table(made(*groups))), "MLP")[3].startswith(MISSING)


def test_the_papers_own_speed_ups_come_out():
    def mean(method: str) -> float:
        return sum(published_speed_up(t, "xgboost", method).mean for t in SETS) / 3

    assert mean("EUPG k=30") == pytest.approx(2.74, abs=0.005)
    assert mean("SISA") == pytest.approx(0.33, abs=0.005)
    assert published_speed_up("adult", "lightgbm", "EUPG k=30") is None


def test_the_smallest_budget_is_the_first_within_a_tenth():
    by_epochs = {
        0: Spread(84.0, 0.1, 5),
        1: Spread(85.35, 0.1, 5),
        2: Spread(85.4, 0.1, 5),
        3: None,
        5: Spread(85.5, 0, 5),
    }
    assert smallest(by_epochs, Spread(85.5, 0.1, 5)) == 2
    assert smallest(by_epochs, Spread(83.0, 0.1, 5)) == 0
    assert smallest(by_epochs, Spread(86.0, 0.1, 5)) is None
    assert smallest(by_epochs, None) is None


def test_a_budget_comes_with_its_own_speed_up():
    columns = ["epochs within 0.1 of EUPG at 5", "speed-up within 0.1 of EUPG at 5"]
    columns += ["epochs within 0.1 of Retrain", "speed-up within 0.1 of Retrain"]
    table = made(
        quality("Retrain", [85.0]),
        quality("EUPG k=30", [85.5]),
        quality("EUPG k=30", [85.45], changed={"finetune": 2}),
        quality("EUPG k=30", [80.0], changed={"finetune": 0}),
        runtime("Retrain", [10.0]),
        runtime("EUPG k=30", [0.5], finetune=2),
        runtime("EUPG k=30", [1.0]),
    )["budgets"]
    mine = row(table, set="Adult", method="EUPG k=30")
    assert [mine[name] for name in columns] == [2, 20.0, 2, 20.0]
    own = made(
        quality("Retrain", [85.0]), quality("EUPG ε=1", [85.5]), runtime("Retrain", [10.0]), runtime("EUPG k=30", [1.0])
    )["budgets"]
    mine = row(own, set="Adult", method="EUPG ε=1")
    assert [mine[name] if known(mine[name]) else None for name in columns] == [5, None, 5, None]
    assert not any(known(row(table, set="Heart", method="EUPG k=30")[name]) for name in columns)


def test_forget_ratios_stand_beside_the_papers_at_the_same_ratio():
    table = made(quality("Retrain", [82.61], changed={"forget": 0.9}, name="forget_ratio"))["forget_ratio"]
    mine = beside(row(table, forget=0.9, method="Retrain"), "utility after")
    assert mine == ["82.61 ± 0.00 (1 of 5)", "82.61 ± 0.54", "0.00", "yes"]
    assert beside(row(table, forget=0.75, method="Retrain"), "utility after")[:2] == [MISSING, "83.39 ± 0.15"]


def test_the_frontier_marks_who_is_ahead_of_both_spreads():
    table = made(
        exposed("k=30", 0.01, [85.5, 85.5]),
        exposed("From scratch", 0.01, [83.0, 84.0]),
        exposed("k=30", 1.0, [86.0]),
        exposed("From scratch", 1.0, [87.0]),
    )["exposure"]
    shown = cells(markdown(frontier_table(table, "k=30", (*FEW, *MANY))), "Adult, XGBoost")
    assert shown[2:] == [MISSING, "**85.5** / 83.5", MISSING, MISSING, MISSING, "86.0 / **87.0**"]
    few, many = counted(table, "k=30", FEW), counted(table, "k=30", MANY)
    assert (few["ahead"], few["beaten"], many["beaten"]) == ("1 of 1", "0 of 1", "1 of 1")


def test_draws_in_which_fine_tuning_spoilt_the_base_are_counted_and_the_worst_is_named():
    drawn = measurements(
        exposed("k=30", 0.0, [85.5, 85.5]),
        exposed("k=30", 0.01, [85.3, 85.45]),
        exposed("synthesis ε=1", 0.0, [84.0]),
        exposed("synthesis ε=1", 0.02, [84.5, 10.0]),
        exposed("From scratch", 0.01, [70.0]),
    )
    assert worse_draws(drawn)["worse"] == "1 of 3 draws"
    assert worse_draws(drawn)["worst"] == "−0.12 (Adult XGBoost, k=30, 1 % exposed)"
    assert worse_draws(measurements()) == {"worse": MISSING, "worst": MISSING}


def test_an_erasure_costs_what_few_cost_and_what_keeping_books_costs():
    runs = [exposed("k=30", 0.005, [85.5]), exposed("From scratch", 1.0, [85.7])]
    table = made(*runs, exposed("Short retrain", 1.0, [85.6]))["cost_of_an_erasure"]
    # 100 s for everyone, 10 s in short; 1 s for one in 200, which is 5 ms per person, and 20 ms of books.
    names = ("cheaper, training", "cheaper, with bookkeeping", "cheaper than the short retrain")
    mine = row(table, set="Adult", model="XGBoost")
    assert [mine[name] for name in names] == pytest.approx([20_000, 4_000, 400])
    assert findings.cheaper(table)["short_trees"] == "400 to 400"
    assert findings.cheaper(table)["cheap"] == "Adult XGBoost"
    # Without the control nothing is said.
    assert not set(names) & set(made(*runs)["cost_of_an_erasure"])


@pytest.mark.parametrize(
    ("utility", "seconds", "expected"),
    [(86.9, 0.3, "Adult LightGBM (1 of 1)"), (86.65, 0.3, "nowhere (0 of 1)"), (86.9, 1.2, "nowhere (0 of 1)")],
)
def test_a_plain_retrain_that_is_better_and_faster_than_the_tuned_method_is_named(utility, seconds, expected):
    timer, clock = experiment("runtime").grids[3], experiment("runtime_tuned").grids[0]
    found = made(
        quality("Retrain", [utility - 0.1, utility + 0.1], model="lightgbm", name="quality_others"),
        quality("EUPG k=30", [86.6], model="lightgbm", name="tuned"),
        [result({**place(timer, "adult", "lightgbm", "Retrain"), "repetition": 0}, {"x": 1}, {"forget": seconds})],
        [result({**place(clock, "adult", "lightgbm", "EUPG k=30"), "repetition": 0}, {"x": 1}, {"forget": 0.8})],
    )
    assert findings.plain_wins(found) == expected


def test_methods_that_end_apart_are_said_to():
    table = made(*(quality(m, [u]) for m, u in (("Retrain", 85.0), ("Short retrain", 85.5), ("EUPG k=30", 85.25))))
    mine = findings.pick(table["quality_mlp"], set="Adult")["utility after"]
    assert f"{mine.max() - mine.min():.2f}" == "0.50"
    fallen = made(quality("SISA", [84.0], before=[85.0]))
    assert findings.range_of(fallen["quality_mlp"], "utility change", decimals=2, sign=True, method="SISA") == "−1.00"


def test_people_seen_raw_and_never_seen_raw_are_told_apart():
    where = {"kind": "exposure_audit", "set": "heart", "model": "xgboost", "method": "k=30", "exposure": 0.05}
    groups = {
        "seen raw": {"auc": 53.0, "low": 52.0, "high": 54.0},
        "never seen raw": {"auc": 50.2, "low": 49.0, "high": 51.0},
    }
    table = made([result({**where, "references": 8, "repetition": n}, groups) for n in range(5)])["exposure_audit"]
    mine = row(table, method="k=30", exposure=0.05, set="Heart")
    figures = [mine[name] for name in ("seen raw, AUC", "seen raw, AUC ±", "seen raw, covers 50", "seen raw, runs")]
    assert figures == pytest.approx([53.0, 0.0, 0, 5])
    assert [mine["never seen raw, AUC"], mine["never seen raw, covers 50"]] == pytest.approx([50.2, 5])
    assert exposed_groups(table) == "Heart, k=30, 5 % exposed, seen raw (+3.0)"
    assert not known(row(table, method="synthesis ε=1", exposure=0.0, set="Heart")["seen raw, AUC"])


def test_the_papers_figures_are_all_there():
    assert str(published("quality_xgboost", "credit", "xgboost", "EUPG ε=1", "utility")) == "81.14 ± 2.09"
    assert str(published("sensitivity_forget_ratio", "adult", "mlp", "SISA", "mia_auc", forget=0.01)) == "49.00 ± 1.78"
    assert str(published("efficiency_phases", "heart", "mlp", "EUPG ε=1", "protect_s", "")) == "4.35 ± 0.21"
    assert published("quality_mlp", "adult", "mlp", "Short retrain", "utility") is None
