"""A plan and a comparison measure the same rows: the same names, methods and claims."""

import json

import numpy as np
import pytest

from eupg.cli import main
from eupg.cli.methods import chosen_method
from eupg.cli.names import GuaranteeName, LearnerName, MethodName
from eupg.cli.options import Choices
from eupg.cli.rows import RowChoices, RowName, records_used
from eupg.errors import ParameterError
from eupg.forget import PrivateTrees
from eupg.protect import DPSynthesis, ProbabilisticKAnonymity
from eupg.protect.units import used_records
from people import people

TABLE = ("--data", "people.csv", "--label", "ill", "--subject", "who", "--learner", "logistic")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    data = people(240)
    data.to_pandas().assign(who=data.subjects).to_csv("people.csv", index=False)
    return tmp_path


def test_both_commands_measure_the_same_rows(folder, capsys):
    settings = ("--k", "5", "--epsilon", "4", "--exposure", "0.5", "--max-records", "2", "--json")
    assert main(["plan", *TABLE, *settings]) == 0
    plan = json.loads(capsys.readouterr().out)
    kinds = "exact-trees,sisa,kanonymity,dp,synthesis,private-trees"
    assert main(["compare", *TABLE, *settings, "--references", "0", "--methods", kinds]) == 0
    shown = capsys.readouterr()
    comparison = json.loads(shown.out)
    assert "at most 2 records of each person" in " ".join(shown.err.split())
    planned = {point["name"]: point["claim"] for point in plan["points"]}
    assert {"Exact trees", "SISA", "k=5, 0.5 exposed", "private trees ε=4", "synthetic ε=4, 0.5 exposed"} < set(planned)
    assert {row["method"]: row["claim"] for row in comparison["methods"]} == planned


def test_rows_are_what_train_deploys():
    learner, names = LearnerName.XGBOOST, [RowName.SISA, RowName.SUBTRACTING]
    rows = {row.name: row.method for row in RowChoices(names=names, learner=learner).rows}
    assert rows["SISA"] == chosen_method(Choices(method=MethodName.SISA, learner=learner))
    subtracting = Choices(guarantee=GuaranteeName.KANONYMITY, k=30, learner=learner, subtract=True)
    assert rows["k=30, subtracting"] == chosen_method(subtracting)


@pytest.mark.parametrize(
    ("name", "learner", "needed"),
    [
        (RowName.CERTIFIED_SP, LearnerName.XGBOOST, "certified-sp needs --learner mlp"),
        (RowName.SUBTRACTING, LearnerName.MLP, "subtracting needs --learner xgboost or lightgbm"),
    ],
)
def test_a_row_that_does_not_fit_the_learner_is_refused(name, learner, needed):
    with pytest.raises(ParameterError, match=needed):
        RowChoices(names=[name], learner=learner)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--methods", "sisa", "--k", "5"), "--k is an option of kanonymity and subtracting"),
        (("--methods", "kanonymity", "--max-records", "2"), "--max-records is an option of synthesis and private-tr"),
        (("--methods", "sisa", "--exposure", "0.5"), "--exposure is an option of kanonymity"),
        (("--methods", "kanonymity", "--exposure", "2"), "an exposure is a share from 0 to 1"),
    ],
)
def test_options_of_other_rows_are_refused(folder, options, message, capsys):
    assert main(["compare", *TABLE, *options]) == 2
    assert message in " ".join(capsys.readouterr().out.split())


def test_it_is_said_how_many_records_of_each_person_are_used(folder, capsys):
    data = people(240)
    assert used_records(data, 2) == 160
    (line,) = records_used([PrivateTrees(1.0, max_records=2), DPSynthesis(1.0, max_records=2)], data)
    assert "PrivateTrees and DPSynthesis use at most 2 records of each person" in line
    assert "160 of 240 records" in line
    assert not records_used([ProbabilisticKAnonymity(5), PrivateTrees(1.0, max_records=3)], data)
    alone = data.select(np.arange(len(data)) % 3 == 0)
    assert not records_used([PrivateTrees(1.0)], alone)
    train = ["train", *TABLE[:-2], "--guarantee", "private-trees", "--workspace", "ws", "--hold-out", "0"]
    assert main(train) == 0
    shown = capsys.readouterr()
    assert "PrivateTrees uses at most 1 record of each person, drawn at random: 80 of 240 records" in " ".join(
        (shown.out + shown.err).split()
    )
