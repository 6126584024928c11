"""``eupg predict`` on files as people have them: other orders, further columns, values that were never seen."""

import json

import numpy as np
import pandas as pd
import pytest

from commands import TRAIN, eupg, words
from people import people

PREDICT = ("predict", "--workspace", "ws", "--data")
CHANCES = ["P(ill=no)", "P(ill=yes)"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a workspace whose schema was inferred, and rows to predict."""
    place = tmp_path_factory.mktemp("predict")
    data = people(300)
    table = data.to_pandas()
    table.insert(0, "who", [f"00{i // 3}" for i in range(300)])
    table.to_csv(place / "people.csv")
    asked = table.head(20).drop(columns="ill")
    asked.to_csv(place / "ask.csv")
    asked[asked.columns[::-1]].assign(ill="no").to_csv(place / "reversed.csv")
    asked.assign(batch=[f"0{i}" for i in range(20)]).to_csv(place / "more.csv")
    asked.drop(columns="age").to_csv(place / "less.csv")
    asked[:0].to_csv(place / "none.csv")
    odd = asked.astype({"age": float})
    odd.loc["r3", "age"], odd.loc["r5", "town"], odd.loc["r7", "income"] = -5, "Z", np.nan
    odd.to_csv(place / "odd.csv")
    assert eupg(*TRAIN, "--guarantee", "kanonymity", "--k", "10", cwd=place).returncode == 0
    return place


def answers(folder, data, *options, out="out.csv"):
    done = eupg(*PREDICT, data, "--out", out, *options, cwd=folder)
    assert done.returncode == 0, words(done)
    # Without the index of the table, and names as text, as they are written.
    return done, pd.read_csv(folder / out, dtype={"who": str, "batch": str}, keep_default_na=False)


def test_the_person_is_kept_and_nothing_is_marked_where_nothing_was_adjusted(folder):
    done, found = answers(folder, "ask.csv")
    assert list(found.columns) == ["row", "who", *CHANCES, "ill", "adjusted"]
    assert found["who"].tolist() == [f"00{i // 3}" for i in range(20)]
    assert set(found["adjusted"]) == {""}
    assert words(done) == "20 predictions: out.csv"


def test_columns_are_matched_by_name(folder):
    _, found = answers(folder, "ask.csv")
    _, again = answers(folder, "reversed.csv")
    pd.testing.assert_frame_equal(found, again)


def test_one_odd_row_is_marked_and_the_file_is_answered(folder):
    _, plain = answers(folder, "ask.csv")
    done, found = answers(folder, "odd.csv")
    marks = {row: note for row, note in enumerate(found["adjusted"]) if note}
    assert marks == {3: "age: clipped", 5: "town: unseen category", 7: "income: missing value"}
    others = ~found.index.isin(list(marks))
    pd.testing.assert_frame_equal(found[others], plain[others])
    assert "3 rows adjusted, marked in the column 'adjusted': 'age' clipped to 10 to 100 (1 row)" in words(done)
    told = json.loads(eupg(*PREDICT, "odd.csv", "--out", "out.csv", "--json", cwd=folder).stdout)
    assert (told["rows"], told["adjusted"]) == (20, 3)
    assert {"column": "town", "reason": "unseen category", "rows": 1, "declared": False} in told["adjustments"]


def test_strict_refuses_and_names_column_row_and_bounds(folder):
    done = eupg(*PREDICT, "odd.csv", "--out", "strict.csv", "--strict", cwd=folder)
    assert done.returncode == 2
    assert "column 'age', row 3: -5 lies outside the inferred bounds 10 to 100 (1 of 20 rows" in words(done)
    assert not (folder / "strict.csv").exists()
    assert eupg(*PREDICT, "ask.csv", "--out", "strict.csv", "--strict", cwd=folder).returncode == 0


def test_columns_are_carried_through_as_they_were_written(folder):
    _, found = answers(folder, "more.csv", "--keep", "record, batch,age")
    assert list(found.columns) == ["row", "who", "record", "batch", "age", *CHANCES, "ill", "adjusted"]
    assert found["batch"].tolist() == [f"0{i}" for i in range(20)]
    assert found["record"].tolist() == [f"r{i}" for i in range(20)]
    asked = pd.read_csv(folder / "more.csv")
    joined = asked.merge(found, on="record", suffixes=("", "_kept"))
    assert (joined["age"] == joined["age_kept"]).all()


def test_kept_columns_go_to_parquet_too(folder):
    done = eupg(*PREDICT, "more.csv", "--out", "out.parquet", "--keep", "batch", cwd=folder)
    assert done.returncode == 0, words(done)
    assert pd.read_parquet(folder / "out.parquet")["batch"].tolist() == [f"0{i}" for i in range(20)]


def test_an_empty_file_gives_an_empty_answer(folder):
    done, found = answers(folder, "none.csv")
    assert len(found) == 0
    assert words(done).startswith("0 predictions")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("more.csv", "--out", "a.csv"),
            "has 'batch', which the model does not know: drop what is unknown, or name it in",
        ),
        (("less.csv", "--out", "a.csv"), "lacks 'age', which the model needs"),
        (("ask.csv", "--out", "a.csv", "--keep", "batch"), "--keep names 'batch', which is not a column of the data"),
        (("reversed.csv", "--out", "a.csv", "--keep", "ill"), "the answers have a column of that name: rename it"),
    ],
)
def test_wrong_columns_are_named(folder, arguments, message):
    done = eupg(*PREDICT, *arguments, cwd=folder)
    assert done.returncode == 2
    assert message in words(done)
    assert not (folder / "a.csv").exists()


def test_a_column_that_is_called_like_a_mark_gives_way_to_no_one(folder):
    table = pd.read_csv(folder / "ask.csv", dtype=str).assign(adjusted="mine", row="first")
    table.to_csv(folder / "named.csv", index=False)
    _, found = answers(folder, "named.csv", "--keep", "adjusted,row")
    assert list(found.columns) == ["row_", "who", "adjusted", "row", *CHANCES, "ill", "adjusted_"]
    assert set(found["adjusted"]) == {"mine"}


def test_predictions_never_replace_the_rows_they_are_about(folder):
    before = (folder / "ask.csv").read_bytes()
    done = eupg(*PREDICT, "ask.csv", "--out", "./ask.csv", cwd=folder)
    assert done.returncode == 2
    assert "would be replaced: name another file with --out" in words(done)
    assert (folder / "ask.csv").read_bytes() == before
