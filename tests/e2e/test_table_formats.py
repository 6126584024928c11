"""Messy tables through the command line: schema, train, predict and add, whatever the file looks like."""

import json
import sqlite3

import duckdb
import numpy as np
import pandas as pd
import pytest

from commands import eupg, words
from eupg.data import Date, Role, Schema

ROWS = 200
LEARN = ("--guarantee", "kanonymity", "--k", "10", "--learner", "logistic", "--pretrain", "2", "--finetune", "1")
WS = ("--workspace", "ws")


def people(rows=ROWS):
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, rows)
    return pd.DataFrame(
        {
            "who": [f"p{i // 2}" for i in range(rows)],
            "age": age,
            "dose": rng.normal(5, 1, rows).round(2),
            "joined": pd.to_datetime("2019-03-04") + pd.to_timedelta(rng.integers(0, 700, rows), unit="D"),
            "ill": np.where(age + rng.normal(0, 9, rows) > 50, "yes", "no"),
        }
    )


def german(table):
    """Return a table as German software exports it."""
    dose = [f"{1000 * value:,.2f}".translate(str.maketrans(",.", ".,")) for value in table["dose"]]
    return table.assign(dose=dose, joined=table["joined"].dt.strftime("%d.%m.%Y"))


def _sqlite(table, path):
    with sqlite3.connect(path) as connection:
        table.assign(joined=table["joined"].dt.strftime("%Y-%m-%d")).to_sql("people", connection, index=False)
    connection.close()


def _duckdb(table, path):
    with duckdb.connect(path) as connection:
        connection.register("rows_", table)
        connection.execute("CREATE TABLE people AS SELECT * FROM rows_")


QUERY = ("--query", "SELECT * FROM people WHERE age >= 0")
FORMATS = {
    "t.csv": (lambda t, p: german(t).to_csv(p, sep=";", index=False, encoding="utf-8-sig"), ()),
    "t.xlsx": (lambda t, p: t.to_excel(p, index=False), ()),
    "t.jsonl": (lambda t, p: t.to_json(p, orient="records", lines=True, date_format="iso"), ()),
    "t.parquet": (lambda t, p: t.to_parquet(p), ()),
    "t.duckdb": (_duckdb, QUERY),
    "t.sqlite": (_sqlite, QUERY),
    "sqlite:///t.sqlite": (lambda t, p: _sqlite(t, p.parents[1] / "t.sqlite"), ("--table", "people")),
}


@pytest.mark.parametrize("name", FORMATS)
def test_table_goes_from_schema_to_predictions(tmp_path, name):
    write, how = FORMATS[name]
    write(people(), tmp_path / name)
    data = ("--data", name, *how)
    drafted = eupg("schema", *data, "--out", "s.toml", cwd=tmp_path)
    assert drafted.returncode == 0, words(drafted)
    assert "Next: edit s.toml, then eupg train --data" in words(drafted)
    guessed = "t.csv is read with semicolons between cells and decimal commas." in words(drafted)
    assert guessed == (name == "t.csv")

    schema = Schema.load(tmp_path / "s.toml")
    assert (schema.label.name, schema["who"].role) == ("ill", Role.SUBJECT)
    assert isinstance(schema["joined"], Date)
    assert schema["joined"].bounds == "2019-01-01 to 2022-01-01"

    trained = eupg("train", *data, "--schema", "s.toml", *LEARN, *WS, "--json", cwd=tmp_path)
    assert trained.returncode == 0, words(trained)
    assert "upper of 'joined' read from the data" in json.loads(trained.stdout)["claim"]
    predicted = eupg("predict", *data, *WS, "--out", "a.csv", cwd=tmp_path)
    assert predicted.returncode == 0, words(predicted)
    answers = pd.read_csv(tmp_path / "a.csv")
    assert len(answers) == ROWS
    assert answers["adjusted"].isna().all()
    again = eupg("add", *data, *WS, "--repeated", "skip", cwd=tmp_path)
    assert "equal records held already" in words(again)


class TestSchemaCommand:
    @pytest.fixture
    def folder(self, tmp_path):
        people().to_csv(tmp_path / "t.csv", index=False)
        return tmp_path

    def test_edited_bounds_lose_their_caveat_in_the_claim(self, folder):
        eupg("schema", "--data", "t.csv", "--out", "s.toml", cwd=folder)
        text = (folder / "s.toml").read_text(encoding="utf-8")
        lines = [line for line in text.splitlines() if not line.startswith("inferred")]
        edited = (
            "\n".join(lines).replace("lower = 10.0", "lower = 0").replace("lower = 2019-01-01", "lower = 2000-01-01")
        )
        (folder / "s.toml").write_text(edited, encoding="utf-8")
        done = eupg("train", "--data", "t.csv", "--schema", "s.toml", *LEARN, *WS, "--json", cwd=folder)
        assert "read from the data" not in json.loads(done.stdout)["claim"]

    def test_file_is_not_replaced_unless_told(self, folder):
        (folder / "s.toml").write_text("mine", encoding="utf-8")
        done = eupg("schema", "--data", "t.csv", "--out", "s.toml", cwd=folder)
        assert (done.returncode, (folder / "s.toml").read_text(encoding="utf-8")) == (2, "mine")
        assert "your edits in it would be lost: name another file, or pass --force" in words(done)
        assert eupg("schema", "--data", "t.csv", "--out", "s.toml", "--force", cwd=folder).returncode == 0

    def test_answers_as_json(self, folder):
        arguments = ("--drop", "dose", "--out", "s.toml", "--json")
        values = json.loads(eupg("schema", "--data", "t.csv", *arguments, cwd=folder).stdout)
        assert set(values) == {"out", "schema", "reasons", "caveats"}
        assert Schema.from_json(values["schema"]) == Schema.load(folder / "s.toml")
        assert "dose" not in str(values["schema"])

    def test_schema_that_exists_is_not_an_option(self, folder):
        done = eupg("schema", "--data", "t.csv", "--schema", "s.toml", "--out", "u.toml", cwd=folder)
        assert (done.returncode, "this command writes one" in words(done)) == (2, True)


class TestQuestions:
    def train(self, folder, table, *options, data="t.csv"):
        table.to_csv(folder / "t.csv", index=False)
        return eupg("train", "--data", data, "--label", "ill", "--subject", "who", *LEARN, *WS, *options, cwd=folder)

    def test_zip_codes_are_asked_about_and_keep_their_zeros(self, tmp_path):
        table = people().assign(zip=[f"{1067 + 40 * (i % 30):05d}" for i in range(ROWS)])
        asked = self.train(tmp_path, table)
        assert asked.returncode == 2
        assert "column 'zip' holds whole numbers that look like codes" in words(asked)
        for choice in ("--category zip", "--feature zip", "--drop zip"):
            assert choice in words(asked)
        assert "--date" not in words(asked)
        done = self.train(tmp_path, table, "--category", "zip")
        assert done.returncode == 0, words(done)
        table.assign(zip=table["zip"].str.lstrip("0")).to_csv(tmp_path / "short.csv", index=False)
        for name, adjusted in (("t.csv", False), ("short.csv", True)):
            out = eupg("predict", *WS, "--data", name, "--out", "a.csv", cwd=tmp_path)
            assert ("'zip' with an unseen category" in words(out)) == adjusted

    def test_number_that_begins_with_a_zero_can_be_a_measurement(self, tmp_path):
        table = people().assign(zip=[f"{1067 + 40 * (i % 30):05d}" for i in range(ROWS)])
        done = self.train(tmp_path, table, "--feature", "zip", "--json")
        assert "upper, resolution of 'age', 'dose', 'zip' read from the data" in json.loads(done.stdout)["claim"]

    def test_dates_that_can_be_read_in_two_ways_are_asked_about(self, tmp_path):
        table = people().assign(joined=[f"0{1 + i % 9}/0{1 + i % 7}/2020" for i in range(ROWS)])
        asked = self.train(tmp_path, table)
        assert asked.returncode == 2
        assert "pass --date joined=%d/%m/%Y or --date joined=%m/%d/%Y, or --drop joined" in words(asked)
        done = self.train(tmp_path, table, "--date", "joined=%d/%m/%Y")
        assert done.returncode == 0, words(done)
        predicted = eupg("predict", *WS, "--data", "t.csv", "--out", "a.csv", cwd=tmp_path)
        assert predicted.returncode == 0, words(predicted)

    def test_dates_among_other_text_are_asked_about(self, tmp_path):
        asked = self.train(tmp_path, people().assign(joined=["2020-01-01"] * (ROWS - 1) + ["unknown"]))
        assert "column 'joined' holds dates and 1 value of another kind: empty these cells" in words(asked)
        assert "--drop joined" in words(asked)

    def test_format_without_a_column_is_refused(self, tmp_path):
        done = self.train(tmp_path, people(), "--date", "%d/%m/%Y")
        assert "--date expects COL=FORMAT" in words(done)

    def test_several_columns_are_asked_about_together(self, tmp_path):
        table = people().assign(
            row=range(1000, 1000 + ROWS), phone=[5550000 + i // 3 for i in range(ROWS)], both=["01/02/2020"] * ROWS
        )
        said = words(self.train(tmp_path, table))
        for name in ("'row'", "'phone'", "'both'"):
            assert f"column {name} h" in said

    def test_rows_without_a_label_have_their_own_message(self, tmp_path):
        table = people()
        table.loc[:4, "ill"] = None
        refused = self.train(tmp_path, table)
        assert refused.returncode == 2
        assert "the label 'ill' is missing in 5 of 200 rows" in words(refused)
        assert "--drop-unlabelled" in words(refused)
        done = self.train(tmp_path, table, "--drop-unlabelled", "--hold-out", "0")
        assert "5 rows without a label left out. " in words(done)
        assert "Trained on 195 records" in words(done)
        table.assign(who="new", age=77).to_csv(tmp_path / "new.csv", index=False)
        added = eupg("add", *WS, "--data", "new.csv", "--drop-unlabelled", cwd=tmp_path)
        assert "195 records added" in words(added), words(added)

    def test_column_that_the_model_does_not_know_can_be_left_out_of_a_prediction(self, tmp_path):
        self.train(tmp_path, people().assign(note="x"), "--drop", "note")
        predict = ("predict", *WS, "--data", "t.csv", "--out", "a.csv")
        assert "name it in --drop to leave it out" in words(eupg(*predict, cwd=tmp_path))
        assert eupg(*predict, "--drop", "note", cwd=tmp_path).returncode == 0
        assert "'age', which the model needs" in words(eupg(*predict, "--drop", "age", cwd=tmp_path))


def test_how_a_file_is_stored_describes_a_file_and_not_a_public_data_set(tmp_path):
    done = eupg("plan", "rand_hie", "--sep", ";", cwd=tmp_path)
    assert (done.returncode, "--sep describes a file of your own" in words(done)) == (2, True)
