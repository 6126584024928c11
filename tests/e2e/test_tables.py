"""Tables as strangers bring them: a column of ids, numbers of wide range, a target that is no class, no record ids."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from commands import eupg, words

ROWS = 300
TRAIN = ("train", "--data", "t.csv", "--label", "ill", "--learner", "logistic", "--pretrain", "2", "--finetune", "1")
K = ("--guarantee", "kanonymity", "--k", "10", "--workspace", "ws")


def table(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, rows)
    return pd.DataFrame(
        {
            "ID": [f"{i:05d}" for i in range(1000, 1000 + rows)],
            "age": age,
            "balance": rng.integers(0, 150, rows) * 8000 + 1,
            "dose": rng.normal(5, 1, rows),
            "ill": np.where(age + rng.normal(0, 9, rows) > 50, "yes", "no"),
        }
    )


@pytest.fixture
def folder(tmp_path):
    table().to_csv(tmp_path / "t.csv", index=False)
    return tmp_path


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A workspace of people with several records each, and no record ids."""
    place = tmp_path_factory.mktemp("people")
    table().assign(ID=[f"p{i // 3}" for i in range(ROWS)]).to_csv(place / "t.csv", index=False)
    table(30, 5).assign(ID=[f"q{i // 3}" for i in range(30)]).to_csv(place / "new.csv", index=False)
    done = eupg(*TRAIN, *K, "--subject", "ID", "--hold-out", "0", cwd=place)
    assert "Trained on 300 records of 100 people" in words(done), words(done)
    return place


class TestColumnOfIds:
    def test_is_asked_about_with_every_choice(self, folder):
        done = eupg(*TRAIN, *K, cwd=folder)
        assert done.returncode == 2
        assert "'ID' has a different value in each of the 300 rows" in words(done)
        for choice in ("--subject ID", "--id ID", "--no-subject", "--drop ID", "--feature ID"):
            assert choice in words(done)
        assert not (folder / "ws").exists()

    @pytest.mark.parametrize("command", [("plan",), ("compare",)])
    def test_is_asked_about_by_the_other_commands_too(self, folder, command):
        done = eupg(*command, "--data", "t.csv", "--label", "ill", cwd=folder)
        assert done.returncode == 2
        assert "--no-subject" in words(done)

    def test_becomes_an_identifier_where_every_row_is_a_person_and_that_is_said(self, folder):
        done = eupg(*TRAIN, *K, "--no-subject", cwd=folder)
        assert done.returncode == 0, words(done)
        assert "'ID' has a different value in each row. It is used as the record id, not as a feature" in words(done)
        assert "Trained on 270 records; 30 records held out. No column names the person" in words(done)
        assert "people" not in words(done).split("Claim for a")[0]
        status = eupg("status", "--workspace", "ws", cwd=folder)
        assert "270 records in training, 30 records held out" in words(status)
        values = json.loads(eupg("status", "--workspace", "ws", "--json", cwd=folder).stdout)
        assert values["names_people"] is False
        assert "by 3 attributes" in values["claim"]
        # Names are text: leading zeros are part of them.
        asked = eupg("request", "--workspace", "ws", "--record", "01007", cwd=folder)
        assert asked.returncode == 0, words(asked)

    def test_is_what_the_user_says_it_is(self, folder):
        for options, attributes in ((("--drop", "ID"), 3), (("--id", "ID"), 3), (("--feature", "ID"), 4)):
            done = eupg(*TRAIN, *K, *options, "--json", cwd=folder)
            assert done.returncode == 0, words(done)
            assert f"by {attributes} attributes" in json.loads(done.stdout)["claim"]
            shutil.rmtree(folder / "ws")

    def test_unwanted_index_of_a_file_is_asked_about(self, folder):
        table().drop(columns="ID").to_csv(folder / "t.csv")
        done = eupg(*TRAIN, *K, cwd=folder)
        assert done.returncode == 2
        assert "--drop 'Unnamed: 0'" in words(done)

    def test_two_of_them_with_a_person_are_asked_about_too(self, folder):
        table().assign(who=[f"p{i // 3}" for i in range(ROWS)], visit=range(ROWS)).to_csv(folder / "t.csv", index=False)
        done = eupg(*TRAIN, *K, "--subject", "who", cwd=folder)
        assert done.returncode == 2
        assert "columns 'ID', 'visit' have a different value in each" in words(done)
        assert "--no-subject" not in words(done)
        assert eupg(*TRAIN, *K, "--subject", "who", "--id", "ID", "--drop", "visit", cwd=folder).returncode == 0


@pytest.mark.parametrize("command", ["train", "plan", "compare"])
def test_numeric_target_is_refused_before_anything_is_trained(folder, command):
    table().assign(price=range(ROWS)).to_csv(folder / "t.csv", index=False)
    more = (*K, "--learner", "logistic") if command == "train" else ()
    done = eupg(command, "--data", "t.csv", "--label", "price", "--id", "ID", *more, cwd=folder)
    assert done.returncode == 2
    assert "the label 'price' has 300 distinct values in 300 rows, and only classification is supported" in words(done)
    assert not (folder / "ws").exists()


def test_numbers_of_wide_range_are_trained_on_under_differential_privacy(folder):
    done = eupg(*TRAIN, "--guarantee", "dp", "--workspace", "ws", "--id", "ID", cwd=folder)
    assert done.returncode == 0, words(done)
    assert "'balance' ranges too widely for a grid in steps of 1: its resolution is 2." in words(done)
    assert "resolution (coarsened) of 'balance'" in words(done)


class TestAdd:
    def test_new_people_come_in_without_record_ids(self, people, tmp_path):
        shutil.copytree(people, tmp_path / "p")
        place = tmp_path / "p"
        added = eupg("add", "--workspace", "ws", "--data", "new.csv", cwd=place)
        assert added.returncode == 0, words(added)
        assert "30 records added" in words(added)
        prefix = words(added).split("generated: ")[1].split("-0 to ")[0]
        assert f"{prefix}-29, a random prefix and the row number in new.csv" in words(added)
        again = eupg("add", "--workspace", "ws", "--data", "new.csv", cwd=place)
        assert again.returncode == 2
        assert "Was this table added before?" in words(again)
        twice = eupg("add", "--workspace", "ws", "--data", "new.csv", "--repeated", "add", cwd=place)
        assert "30 of 30 records equal records of the workspace. They were added as further records" in words(twice)
        for name in (("--record", f"{prefix}-7"), ("--subject", "q9")):
            assert eupg("request", "--workspace", "ws", *name, cwd=place).returncode == 0
        forgot = json.loads(eupg("forget", "--workspace", "ws", "--json", cwd=place).stdout)
        assert forgot["records"] == 1 + 6
        back = eupg("add", "--workspace", "ws", "--data", "new.csv", "--repeated", "skip", cwd=place)
        assert "3 added records came from people who were forgotten before" in words(back)
        assert "exact" not in words(back)
        assert eupg("verify", "--workspace", "ws", cwd=place).returncode == 0

    def test_ids_that_users_bring_are_theirs(self, folder):
        assert eupg(*TRAIN, *K, "--id", "ID", cwd=folder).returncode == 0
        table(30, 5).assign(ID=[f"9{i:04d}" for i in range(30)]).to_csv(folder / "new.csv", index=False)
        added = eupg("add", "--workspace", "ws", "--data", "new.csv", cwd=folder)
        assert added.returncode == 0, words(added)
        assert "generated" not in words(added)
        assert eupg("request", "--workspace", "ws", "--record", "90007", cwd=folder).returncode == 0
        assert "taken" in words(eupg("add", "--workspace", "ws", "--data", "new.csv", cwd=folder))
        refused = eupg("add", "--workspace", "ws", "--data", "new.csv", "--repeated", "add", cwd=folder)
        assert refused.returncode == 2
        assert "--repeated is for tables without record ids" in words(refused)


PERSON = ("--subject", "ID", "--workspace", "other")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--guarantee", "kanonymity", "--epsilon", "3"), "--epsilon belongs to --guarantee dp or synthesis or dpsgd"),
        (("--guarantee", "kanonymity", "--delta", "1e-5"), "--delta belongs to --guarantee synthesis or dpsgd"),
        (("--guarantee", "kanonymity", "--max-records", "2"), "--max-records belongs to"),
        (("--guarantee", "kanonymity", "--label-epsilon", "2"), "--label-epsilon belongs to --guarantee dp and"),
        (("--guarantee", "dp", "--k", "3"), "--k belongs to --guarantee kanonymity and would be ignored with dp"),
        (("--guarantee", "dp", "--microaggregation", "mdav"), "--microaggregation belongs to --guarantee kanonymity"),
        (("--guarantee", "dp", "--delta", "1e-5"), "--delta belongs to"),
        (("--guarantee", "dp", "--max-records", "2"), "--max-records belongs to"),
        (("--guarantee", "synthesis", "--k", "3"), "--k belongs to"),
        (("--guarantee", "synthesis", "--label-epsilon", "3"), "--label-epsilon belongs to"),
        (("--guarantee", "dpsgd", "--k", "3"), "--k belongs to"),
        (("--plan", "p.json", "--delta", "1e-5"), "the plan chooses --delta, --learner"),
        (("--guarantee", "dp", "--top-up"), "pass --exposure between 0 and 1 with it"),
        (("--guarantee", "dp", "--exposure", "1", "--top-up"), "pass --exposure between 0 and 1 with it"),
        (("--guarantee", "dp", "--drop", "age", "--feature", "age"), "named by --drop and by --feature"),
        (("--guarantee", "dp", "--drop", "ill"), "named by --label and by --drop"),
        (("--guarantee", "dp", "--drop", "agee"), "t.csv has no column 'agee': did you mean 'age'?"),
        (("--guarantee", "dp", "--feature", "weight"), "no column 'weight': its columns are 'ID', 'age'"),
        (("--guarantee", "dp", "--schema", "s.toml", "--drop", "age"), "s.toml says what the columns are, and --drop"),
        (("--guarantee", "dp", "--schema", "wrong.toml"), "wrong.toml says what the columns are, and --label"),
    ],
)
def test_option_that_would_be_ignored_is_refused_with_the_next_step(people, arguments, message):
    for name, label in (("s.toml", "ill"), ("wrong.toml", "other")):
        (people / name).write_text(SCHEMA.format(label=label), encoding="utf-8")
    done = eupg(*TRAIN, *PERSON, *arguments, cwd=people)
    assert done.returncode == 2, words(done)
    assert message in words(done)
    assert not (people / "other").exists()


SCHEMA = """
[[attributes]]
name = "ID"
kind = "key"
role = "subject"

[[attributes]]
name = "age"
kind = "numeric"
lower = 0
upper = 120

[[attributes]]
name = "{label}"
kind = "categorical"
role = "label"
categories = ["no", "yes"]
"""


@pytest.mark.parametrize(("option", "users"), [("--k", "kanonymity"), ("--epsilon", "certified-sp and dp")])
def test_option_of_a_method_that_is_not_compared_is_refused(people, option, users):
    arguments = ("--data", "t.csv", "--label", "ill", "--subject", "ID", "--methods", "sisa", option, "3")
    done = eupg("compare", *arguments, cwd=people)
    assert done.returncode == 2
    assert f"{option} is an option of {users}" in words(done)
