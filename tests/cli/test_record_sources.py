"""Where the records of a command come from: a public set or a file, and how much of it is held out."""

import pandas as pd
import pytest

from eupg.cli.options import Columns
from eupg.cli.tables import chosen_source
from eupg.cli.terminal import Terminal
from eupg.errors import DataError, ParameterError

PEOPLE = Columns(label="ill", subject="who")


@pytest.fixture
def file(tmp_path):
    rows = range(120)
    table = {
        "who": [f"p{i // 2}" for i in rows],
        "age": [20 + i % 50 for i in rows],
        "ill": [i % 50 > 25 for i in rows],
    }
    pd.DataFrame(table).to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def load(file, columns=PEOPLE, name=None, hold_out=None):
    return chosen_source(name, file, columns, Terminal(as_json=True), hold_out=hold_out, seed=0)


@pytest.mark.parametrize(("hold_out", "people"), [(None, 12), (0.4, 24)])
def test_share_of_people_is_held_out_with_all_their_records(file, hold_out, people):
    source = load(file, hold_out=hold_out)
    assert source.name == "people"
    assert len(set(source.test.subjects)) == people
    assert len(source.test) == 2 * people
    assert len(source.train) == 120 - 2 * people
    assert set(source.train.subjects).isdisjoint(source.test.subjects)


@pytest.mark.parametrize(("hold_out", "error"), [(0.0, ParameterError), (1.0, ParameterError), (0.001, DataError)])
def test_share_that_leaves_nobody_on_one_side_is_refused(file, hold_out, error):
    with pytest.raises(error, match="--hold-out"):
        load(file, hold_out=hold_out)


def test_the_share_of_a_public_set_is_fixed(file):
    with pytest.raises(ParameterError, match="--hold-out describes a file of your own"):
        load(None, Columns(), name="rand_hie", hold_out=0.3)
    with pytest.raises(ParameterError, match=r"name one data set .* got both"):
        load(file, name="rand_hie")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (Columns(label="ill", subject="whom"), "people.csv has no column 'whom': did you mean 'who'?"),
        (Columns(label="ill", drop=["weight"]), "no column 'weight': its columns are 'who', 'age', 'ill'"),
    ],
)
def test_column_that_does_not_exist_is_named_with_the_next_step(file, columns, message):
    with pytest.raises(DataError, match=message.replace("?", r"\?")):
        load(file, columns)
