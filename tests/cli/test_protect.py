"""``eupg protect``: a release of a table in files, and what is said when that is not possible."""

import json

import pandas as pd
import pytest

from commands import eupg, words
from eupg.data import Categorical, Numeric, Role
from eupg.data.schema import Schema

SCHEMA = Schema(
    (
        Numeric(name="age", lower=0, upper=120),
        Categorical(name="town", categories=("Bonn", "Ulm")),
        Categorical(name="ill", role=Role.LABEL, categories=("no", "yes")),
    )
)


@pytest.fixture
def folder(tmp_path):
    frame = pd.DataFrame({"age": range(100), "town": ["Bonn", "Ulm"] * 50, "ill": ["no", "no", "yes", "yes"] * 25})
    frame.to_parquet(tmp_path / "people.parquet")
    frame.to_csv(tmp_path / "people.txt", index=False, sep=";")
    SCHEMA.save(tmp_path / "people.toml")
    return tmp_path


def protect(folder, *more, data="people.parquet", out="release", schema="people.toml"):
    return eupg(
        "protect", "--data", data, "--schema", schema, "--out", out, "--k", "5", "--jobs", "1", *more, cwd=folder
    )


def test_says_what_was_made_and_what_is_claimed(folder):
    done = protect(folder)
    assert done.returncode == 0
    assert "Release of 100 rows in 1 file: release" in words(done)
    assert "with probability at most 1/5" in words(done)
    assert "delete it when the model is trained" in words(done)
    assert sorted(pd.read_parquet(folder / "release")["age"]) == list(range(100))


def test_prints_json_and_repeats_a_seed(folder):
    first, second = protect(folder, "--seed", "3", "--json"), protect(folder, "--seed", "3", "--json", out="again")
    values = json.loads(first.stdout)
    assert (values["rows"], values["parts"]) == (100, {"part-00000.parquet": 100})
    assert values["claim"]["seeded"] is True
    assert json.loads(second.stdout)["claim"] == values["claim"]
    parts = [(folder / name / "part-00000.parquet").read_bytes() for name in ("release", "again")]
    assert parts[0] == parts[1]


def test_reads_text_as_it_is_stored(folder):
    done = protect(folder, data="people.txt")
    assert done.returncode == 0
    assert "people.txt is read with semicolons between cells" in words(done)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": "nobody.parquet"}, "no file nobody.parquet: name a CSV or Parquet file"),
        ({"schema": "nothing.toml"}, "cannot read the schema nothing.toml"),
        ({"out": "people.toml"}, "people.toml is a file: name a folder for the release"),
        ({"out": "."}, "holds other files, such as people.parquet: name a new or an empty folder"),
    ],
)
def test_wrong_use_is_told_the_next_step(folder, change, message):
    done = protect(folder, **change)
    assert done.returncode == 2
    assert message in words(done)


def test_options_of_storage_must_fit_the_file(folder):
    done = protect(folder, "--sep", ";")
    assert done.returncode == 2
    assert "sep does not apply to people.parquet" in words(done)
    (folder / "parts").mkdir()
    done = protect(folder, "--sep", ";", data="parts")
    assert done.returncode == 2
    assert "--sep does not apply to a folder of Parquet files" in words(done)
