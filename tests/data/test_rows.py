"""Rows to predict: matched by name, coded by the schema, and adjusted only where the schema does not decide."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from eupg.data.attribute import Categorical, Key, Missing, Numeric, Outside, Role
from eupg.data.dataset import Dataset
from eupg.data.rows import AdjustedRows, RowReader, as_matrix
from eupg.data.schema import Schema
from eupg.errors import DataError
from people import SCHEMA, people
from pictures import pictures

DATA = people(30)
TABLE = DATA.to_pandas().drop(columns="ill")
INFERRED = Schema(
    tuple(
        replace(a, inferred=("lower", "upper"))
        if isinstance(a, Numeric)
        else replace(a, inferred=("categories",))
        if a.role is Role.QUASI_IDENTIFIER
        else a
        for a in SCHEMA.attributes
    )
)


def changed(**values):
    """Return the table with values of its row r2 replaced."""
    table = TABLE.astype(object)
    for name, value in values.items():
        table.loc["r2", name] = value
    return table


@pytest.mark.parametrize(
    "table",
    [
        TABLE[TABLE.columns[::-1]],
        TABLE.assign(person="p1", ill="yes"),
        pl.from_pandas(TABLE),
        pa.Table.from_pandas(TABLE, preserve_index=False),
        TABLE.astype(object),
    ],
    ids=["reversed", "person and label", "polars", "arrow", "objects"],
)
def test_a_table_is_matched_by_name(table):
    rows = RowReader(SCHEMA).read(table)
    np.testing.assert_array_equal(rows.X, DATA.X)
    assert rows.adjusted == ()
    assert not rows.marked.any()


def test_a_table_is_read_as_training_reads_it():
    same = Dataset.from_table(TABLE.assign(person="p", ill="no"), SCHEMA)
    np.testing.assert_array_equal(RowReader(SCHEMA).read(TABLE).X, same.X)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (TABLE.drop(columns=["age", "town"]), "lacks 'age', 'town', which the model needs: add what is missing"),
        (TABLE.assign(Unnamed=1), "has 'Unnamed', which the model does not know: drop what is unknown"),
        (TABLE.rename(columns={"age": "AGE"}), "lacks 'age', which the model needs and has 'AGE'.*by exact name"),
        (pd.concat([TABLE, TABLE[["age"]]], axis=1), "'age' occurs more than once"),
        (TABLE["age"], "expected a matrix with 6 columns"),
        (changed(age="forty"), "column 'age', row r2: 'forty' is not a finite number .1 of 30 rows"),
        (changed(age=np.inf), "column 'age', row r2: inf is not a finite number"),
        (TABLE.assign(age=pd.Timestamp("2020-01-01")), "column 'age', row r0: .* is not a finite number"),
        ({"age": 3}, "expected a table with named columns.*got dict: make it a table"),
        ([[1, 2], [3]], "expected a table with named columns.*got list"),
        (None, "expected a table.*got NoneType"),
    ],
)
def test_what_does_not_fit_is_named(table, message):
    with pytest.raises(DataError, match=message):
        RowReader(SCHEMA).read(table)


def test_a_table_with_an_identifier_in_place_of_a_feature_is_refused():
    schema = Schema((Key(name="ID"), *SCHEMA.attributes))
    with pytest.raises(DataError, match="lacks 'age', which the model needs: add"):
        RowReader(schema).read(TABLE.drop(columns="age").assign(ID=range(30)))


def test_carried_columns_are_allowed():
    np.testing.assert_array_equal(RowReader(SCHEMA).read(TABLE.assign(note="x"), carried=["note"]).X, DATA.X)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("age", -5, "column 'age', row r2: -5 lies outside the declared bounds 0 to 100 .1 of 30 rows"),
        ("income", 5000.5, "column 'income', row r2: 5000.5 lies outside the declared bounds 0 to 5000"),
        ("town", "Z", "column 'town', row r2: 'Z' is not one of the declared categories"),
        ("health", None, "column 'health', row r2: the value is missing .1 of 30 rows"),
        ("age", None, "column 'age', row r2: the value is missing"),
    ],
)
def test_a_value_beyond_what_was_declared_is_refused_by_column_and_row(column, value, message, strict):
    with pytest.raises(DataError, match=message) as caught:
        RowReader(SCHEMA).read(changed(**{column: value}), strict=strict)
    assert "strict" not in str(caught.value)


def test_a_value_beyond_what_was_inferred_is_adjusted_and_the_row_marked():
    rows = RowReader(INFERRED).read(changed(age=-5, income=None, town="Z", health=None))
    expected = DATA.X.copy()
    expected[2, :4] = (0, np.nan, np.nan, np.nan)
    np.testing.assert_array_equal(rows.X, expected)
    note = "age: clipped; income: missing value; health: missing value; town: unseen category"
    assert rows.notes() == ["", "", note, *[""] * 27]
    assert np.flatnonzero(rows.marked).tolist() == [2]
    assert not any(a.declared for a in rows.adjusted)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("age", 101, "row r2: 101 lies outside the inferred bounds 0 to 100 .*or predict without strict"),
        ("town", "Z", "row r2: 'Z' is not one of the inferred categories .*or predict without strict"),
        ("age", None, "row r2: the value is missing .*or predict without strict"),
    ],
)
def test_strict_refuses_what_would_be_adjusted(column, value, message):
    with pytest.raises(DataError, match=message):
        RowReader(INFERRED).read(changed(**{column: value}), strict=True)


def with_attribute(attribute):
    return Schema(tuple(attribute if a.name == attribute.name else a for a in SCHEMA.attributes))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("attribute", "value", "code", "note"),
    [
        (replace(SCHEMA["age"], outside=Outside.CLIP), 130, 100, "age: clipped"),
        (replace(SCHEMA["town"], other="D"), "Z", 3, "town: unseen category"),
        (replace(SCHEMA["town"], other="D", inferred=("categories",)), "Z", 3, "town: unseen category"),
        (replace(SCHEMA["town"], missing=Missing.FILL, fill="B"), None, 1, ""),
        (replace(SCHEMA["age"], missing=Missing.FILL, fill=40), None, 40, ""),
        (replace(SCHEMA["age"], missing=Missing.KEEP), None, np.nan, ""),
    ],
)
def test_what_the_schema_says_about_such_values_is_done(attribute, value, code, note, strict):
    schema = with_attribute(attribute)
    rows = RowReader(schema).read(changed(**{attribute.name: value}), strict=strict)
    place = [a.name for a in schema.features].index(attribute.name)
    np.testing.assert_equal(rows.X[2, place], code)
    assert rows.notes()[2] == note
    assert all(a.declared for a in rows.adjusted)
    rows.warn(stacklevel=1)  # a warning would be an error here


def test_one_inferred_bound_leaves_the_other_a_rule():
    schema = with_attribute(replace(SCHEMA["age"], inferred=("upper",)))
    assert RowReader(schema).read(changed(age=130)).notes()[2] == "age: clipped"
    with pytest.raises(DataError, match="row r2: -5 lies outside the declared bounds"):
        RowReader(schema).read(changed(age=-5))


@pytest.mark.parametrize("schema", [SCHEMA, INFERRED])
def test_empty_tables_give_no_rows(schema):
    for empty in (TABLE[:0], DATA.X[:0], pd.DataFrame(columns=TABLE.columns)):
        rows = RowReader(schema).read(empty)
        assert rows.X.shape == (0, 6)
        assert (rows.notes(), rows.marked.tolist()) == ([], [])


def test_a_matrix_in_the_schemas_coding_is_taken_as_it_is():
    assert RowReader(SCHEMA).read(DATA.X).X is DATA.X
    np.testing.assert_array_equal(
        RowReader(SCHEMA).read(np.nan_to_num(DATA.X).astype(np.float32)).X[:, 0], DATA.X[:, 0]
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (DATA.X[:, :5], r"6 columns, one per feature.*got one of shape \(30, 5\)"),
        (DATA.X[0], r"got one of shape \(6,\)"),
        (TABLE.to_numpy(), "got ndarray: make it a table"),
    ],
)
def test_a_matrix_of_another_shape_or_kind_is_refused(rows, message):
    with pytest.raises(DataError, match=message):
        RowReader(SCHEMA).read(rows)
    with pytest.raises(DataError, match=message):
        as_matrix(SCHEMA, rows)


@pytest.mark.parametrize("schema", [SCHEMA, INFERRED])
@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (0, np.inf, "'age', row 4: inf is infinite"),
        (3, 4, "'town', row 4: 4 is not a code from 0 to 3 of its 4 categories"),
        (3, -1, "'town', row 4: -1 is not a code"),
        (4, 0.5, "'job', row 4: 0.5 is not a code from 0 to 1"),
    ],
)
def test_a_number_that_codes_nothing_is_refused(schema, column, value, message):
    X = DATA.X.copy()
    X[4, column] = value
    with pytest.raises(DataError, match=message):
        RowReader(schema).read(X)


def test_numbers_of_a_matrix_follow_the_same_rules_as_those_of_a_table():
    X = DATA.X.copy()
    X[4, :2] = (130, np.nan)
    with pytest.raises(DataError, match="'age', row 4: 130 lies outside the declared bounds 0 to 100"):
        RowReader(SCHEMA).read(X)
    rows = RowReader(INFERRED).read(X)
    assert rows.notes()[4] == "age: clipped; income: missing value"
    assert (rows.X[4, 0], X[4, 0]) == (100, 130), "the matrix that was passed stays as it is"


def test_pictures_come_as_bytes_of_the_right_width():
    data = pictures(6)
    reader = RowReader(data.schema)
    assert reader.read(data.X).X is data.X
    for rows, message in (
        (data.X[:, 1:], "one per pixel and channel"),
        (data.X / 255, "uint8"),
        (pd.DataFrame(data.X), "describes pictures, and a table holds none: pass a matrix of bytes"),
    ):
        with pytest.raises(DataError, match=message):
            reader.read(rows)


def test_the_warning_names_the_columns_and_neither_counts_nor_values():
    rows = RowReader(INFERRED).read(changed(age=-5, town="Z"))
    with pytest.warns(AdjustedRows) as caught:
        rows.warn(stacklevel=1)
    said = str(caught[0].message)
    assert "'age' clipped to 0 to 100, 'town' with an unseen category, read as missing; declare bounds" in said
    assert "-5" not in said
    assert "'Z'" not in said


def test_a_label_of_the_same_name_as_nothing_else_is_ignored_whatever_it_holds():
    np.testing.assert_array_equal(RowReader(SCHEMA).read(TABLE.assign(ill=3.5)).X, DATA.X)


def test_other_names_the_category_in_words():
    schema = with_attribute(Categorical(name="town", categories=("A", "B", "C", "D"), other="D"))
    assert RowReader(schema).read(changed(town="Z")).adjusted[0].describe() == (
        "'town' with an unseen category, read as D"
    )
