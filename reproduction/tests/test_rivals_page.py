"""The page of the comparison says what its file says, and its sentences turn when the figures do."""

from pathlib import Path

import pandas as pd
import pytest

from eupg_reproduction.cli import main
from eupg_reproduction.people.tables import TITLES
from eupg_reproduction.report.page import csv
from eupg_reproduction.rivals.findings import Findings
from eupg_reproduction.rivals.methods import RIVALS
from eupg_reproduction.rivals.page import Page, page
from eupg_reproduction.rivals.published import HEADLINES
from eupg_reproduction.rivals.summary import interval, runs, summary

ROOT = Path(__file__).parents[2]
RESULTS, DOCS = ROOT / "reproduction" / "results" / "rivals.jsonl", ROOT / "docs"
TABLES = ("nafld", "movielens", "adult")


def made_up(**changed: float) -> pd.DataFrame:
    """Return a summary in which every figure is plain; ``changed`` gives utilities by method."""
    rows = []
    for table in TABLES:
        for method, rival in RIVALS.items():
            utility = changed.get(method.replace("-", "_"), 70.0)
            row = {"table": table, "method": method, "ours": rival.ours, "runs": 1, "notion": "exact"}
            row |= {
                "utility": utility,
                "one, s": 0.01,
                "storage, bytes": 1e6,
                "people": 900.0 if table == "movielens" else 9e3,
            }
            row |= {"versions, one": 50.0 if rival.unchanged else 90.0, "month of 1,000, s": 60.0}
            rows.append(row | {"ε": 1.0, "ε after 5 %": 40.0})
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def committed() -> Page:
    return Page(RESULTS)


def test_the_committed_page_and_table_are_what_the_committed_results_give(committed):
    assert (DOCS / "rivals.md").read_text(encoding="utf-8") == page(RESULTS), "run eupg-reproduction rivals report"
    assert (DOCS / "rivals.csv").read_text(encoding="utf-8") == csv(committed.rows), (
        "run eupg-reproduction rivals report"
    )


def test_the_committed_results_give_ten_sentences_and_say_what_is_missing(committed):
    assert set(committed.found.tables) <= set(TITLES)
    assert len(committed.sentences) == 10
    text = (DOCS / "rivals.md").read_text(encoding="utf-8")
    assert all(sentence in text for sentence in committed.sentences)
    assert f"Runs per figure: {committed.counts()}. {committed.missing()}" in text
    absent = len(RIVALS) * len(TITLES) - len(committed.rows)
    assert committed.missing().startswith(f"{absent} of" if absent else "All")


def test_the_first_sentence_counts_who_is_best_from_the_runs_themselves(committed):
    means = runs(RESULTS).groupby(["table", "method"])["utility"].mean().unstack()
    ours = [method for method in means.columns if RIVALS[str(method)].ours]
    best = means[means[ours].notna().any(axis=1)].idxmax(axis=1)
    theirs = sum(not RIVALS[str(method)].ours for method in best)
    assert committed.sentences[0].startswith(f"On {theirs} of {len(best)} tables")


def test_the_sentences_turn_with_the_figures():
    losing = Findings(made_up(retrain=80.0, exact_trees=75.0)).sentences()
    winning = Findings(made_up(retrain=80.0, exact_trees=85.0)).sentences()
    assert losing[0].startswith("On 3 of 3 tables a method that is not ours has the best utility (Retrain, XGBoost 3)")
    assert "5.00 points behind on average" in losing[0]
    assert winning[0].startswith("On 0 of 3 tables")
    assert "Exact trees 3" in winning[0]
    short = Findings(made_up(short_retrain=72.0)).sentences()[1]
    assert "on 3 of 3 tables (+2.00 points on average)" in short
    beaten = Findings(made_up(eupg_k30=72.0)).sentences()[1]
    assert "on 0 of 3 tables (-2.00 points on average)" in beaten
    assert "the one to beat" in short
    assert "the one to beat" not in beaten


def test_sentences_tell_apart_tables_with_few_people():
    sentence = Findings(made_up(private_trees=66.0)).sentences()[3]
    assert "fewer than 3,000 training people they are 4.0 points behind Retrain on average" in sentence
    assert "with more 4.0 points behind it" in sentence


def test_what_was_not_measured_is_said():
    rows = made_up()
    sentences = Findings(rows[~rows["method"].isin(["dp-ebm", "rewind"])]).sentences()
    assert [s for s in sentences if "not measured yet" in s] == sentences[-2:]


def test_a_mean_of_one_run_has_no_interval():
    assert all(pd.isna(end) for end in interval([80.0]))
    low, high = interval([80.0, 82.0])
    assert low < 80 < 82 < high


def test_every_headline_belongs_to_a_method_that_is_not_ours():
    assert set(HEADLINES) <= set(RIVALS)
    assert not any(RIVALS[method].ours for method in HEADLINES)


def test_the_command_writes_page_table_and_figure(tmp_path, capsys):
    assert main(["rivals", "report", str(RESULTS), "--out", str(tmp_path)]) == 0
    assert (tmp_path / "rivals.md").read_text(encoding="utf-8") == page(RESULTS)
    assert (tmp_path / "figures" / "rivals.svg").stat().st_size > 10_000
    assert "rivals.csv" in capsys.readouterr().out
    assert main(["rivals", "report", str(tmp_path / "nothing.jsonl"), "--out", str(tmp_path)]) == 2


def test_runs_are_averaged(tmp_path):
    first = summary(runs(RESULTS))
    assert (first["runs"] >= 1).all()
    assert not first.duplicated(["table", "method"]).any()
