"""A schema to edit: it loads as it is, says why, and edits make facts public."""

import re

import numpy as np
import pandas as pd
import pytest

from eupg.data import Categorical, Date, Key, Numeric, Role, Schema, SchemaDraft
from eupg.errors import SchemaError

ROWS = 120


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "row": [f"r{i}" for i in range(ROWS)],
            "customer": [f"c{i // 2}" for i in range(ROWS)],
            "zip": rng.choice(rng.integers(10_000, 99_999, 40), ROWS),
            "joined": pd.date_range("2001-05-06", periods=ROWS, freq="30D"),
            "age": rng.integers(18, 90, ROWS),
            "note": None,
            "ill": rng.choice(["no", "yes"], ROWS),
        }
    )


def test_roles_are_guessed_with_reasons(table):
    draft = SchemaDraft.of(table)
    kinds = {a.name: (type(a), a.role) for a in draft.schema.attributes}
    assert kinds == {
        "row": (Key, Role.IDENTIFIER),
        "customer": (Key, Role.SUBJECT),
        "zip": (Categorical, Role.QUASI_IDENTIFIER),
        "joined": (Date, Role.QUASI_IDENTIFIER),
        "age": (Numeric, Role.QUASI_IDENTIFIER),
        "ill": (Categorical, Role.LABEL),
    }
    assert set(draft.reasons) == {"row", "customer", "zip", "note", "ill"}
    assert draft.reasons["note"] == "every cell is empty, so it is left out"


def test_what_is_said_is_not_guessed(table):
    draft = SchemaDraft.of(table, label="age", subject="row", features=["zip"], identifiers=["customer"])
    assert draft.schema.label.name == "age"
    assert isinstance(draft.schema["zip"], Numeric)
    assert set(draft.reasons) == {"note"}


def test_nobody_is_guessed_where_every_row_is_a_person(table):
    schema = SchemaDraft.of(table.drop(columns="customer").assign(id=[i // 2 for i in range(ROWS)]), label="ill").schema
    assert schema.subject == Key(name="id", role=Role.SUBJECT)
    assert SchemaDraft.of(table.drop(columns="customer"), label="ill", names_people=False).schema.subject is None


def test_text_loads_unchanged_and_every_line_can_be_read(table, tmp_path):
    draft = SchemaDraft.of(table)
    (tmp_path / "s.toml").write_text(draft.to_toml(), encoding="utf-8")
    assert Schema.load(tmp_path / "s.toml") == draft.schema
    assert max(map(len, draft.to_toml().splitlines())) <= 140
    for reason in draft.reasons.values():
        assert f"# role: {reason}" in draft.to_toml() or "left out" in reason
    for caveat in draft.schema.caveats:
        assert f"#   {caveat}\n" in draft.to_toml()


def test_line_that_is_deleted_makes_its_facts_public(table):
    text = SchemaDraft.of(table).to_toml()
    before, age = text.split('name = "age"')
    marker = 'inferred = ["lower", "upper", "resolution"]\n'
    assert marker in age
    edited = Schema.from_toml(before + 'name = "age"' + age.replace(marker, "").replace("lower = 10.0", "lower = 0"))
    assert edited["age"] == Numeric(name="age", lower=0, upper=100)
    assert not any("'age'" in caveat for caveat in edited.caveats)
    assert Schema.from_toml(re.sub(r"^inferred = .*$", "", text, flags=re.M)).caveats == ()


def test_bounds_of_dates_are_edited_as_dates(table):
    text = SchemaDraft.of(table).to_toml()
    assert "lower = 2000-01-01\nupper = 2020-01-01\n" in text
    edited = Schema.from_toml(text.replace("lower = 2000-01-01", "lower = 1990-01-01"))["joined"]
    assert isinstance(edited, Date)
    assert edited.bounds == "1990-01-01 to 2020-01-01"


def test_names_hierarchies_and_long_lists_survive():
    odd = 'a "b"\nc # d'
    places = tuple(f"town {i:03d}" for i in range(90))
    town = Categorical(name=odd, categories=places, hierarchy=dict.fromkeys(places[:2], "all towns"))
    schema = Schema(
        (town, Categorical(name="ill", role=Role.LABEL, categories=("no", "yes"), inferred=("categories",)))
    )
    assert Schema.from_toml(SchemaDraft(schema, {}).to_toml()) == schema


def test_unclear_label_is_asked_for_with_candidates(table):
    with pytest.raises(SchemaError, match=r"name one of classes with --label \(label=…\), such as 'ill'$"):
        SchemaDraft.of(table[["ill", "age", "zip"]])
    assert SchemaDraft.of(table.rename(columns={"ill": "Target"})[["Target", "age"]]).schema.label.name == "Target"
