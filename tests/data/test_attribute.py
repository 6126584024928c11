"""One column: what it declares, what it accepts, and what it says about values that do not fit."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eupg.data.attribute import Categorical, Key, Missing, Numeric, Ordinal, Outside, Role, category_text
from eupg.errors import DataError, SchemaError

AGE = Numeric(name="age", lower=0, upper=120)
TOWN = Categorical(name="town", categories=("A", "B", "C"))


@pytest.mark.parametrize(
    ("word", "value"), [("lower", np.nan), ("lower", -np.inf), ("upper", np.inf), ("lower", "x"), ("upper", None)]
)
def test_bound_that_is_no_finite_number_is_refused(word, value):
    with pytest.raises(SchemaError, match=rf"column 'age': {word} must be a finite number, got "):
        Numeric(**{"name": "age", "lower": 0, "upper": 1, word: value})


def test_bounds_in_the_wrong_order_are_refused():
    with pytest.raises(SchemaError, match=r"column 'age': lower must not exceed upper .* got 2.0, 1.0"):
        Numeric(name="age", lower=2, upper=1)


@pytest.mark.parametrize("resolution", [0, -1.0, np.nan, np.inf, "fine"])
def test_resolution_must_be_a_positive_number(resolution):
    with pytest.raises(SchemaError, match=r"column 'age': .*resolution must be"):
        Numeric(name="age", lower=0, upper=1, resolution=resolution)


@pytest.mark.parametrize(
    ("lower", "upper", "resolution", "points"),
    [(0, 120, 1, 121), (0, 1, 0.1, 11), (0, 1, 0.3, 5), (5, 5, 1, 1), (0, 1, 10, 2)],
)
def test_points_count_the_grid_and_always_reach_the_upper_bound(lower, upper, resolution, points):
    assert Numeric(name="v", lower=lower, upper=upper, resolution=resolution).points == points


@pytest.mark.parametrize(("missing", "fill"), [("fill", None), ("refuse", 3), ("keep", 3)])
def test_fill_value_and_missing_fill_belong_together_for_numbers(missing, fill):
    with pytest.raises(
        SchemaError, match=r"column 'age': missing = \"fill\" and a fill value .*declare both or neither"
    ):
        Numeric(name="age", lower=0, upper=9, missing=missing, fill=fill)


@pytest.mark.parametrize(("missing", "fill"), [("fill", None), ("refuse", "A"), ("keep", "A")])
def test_fill_value_and_missing_fill_belong_together_for_categories(missing, fill):
    with pytest.raises(
        SchemaError, match=r"column 'town': missing = \"fill\" and a fill value .*declare both or neither"
    ):
        Categorical(name="town", categories=("A",), missing=missing, fill=fill)


def test_fill_outside_the_bounds_is_refused():
    with pytest.raises(SchemaError, match=r"column 'age': fill must lie within the bounds 0.0 to 9.0, got 10.0"):
        Numeric(name="age", lower=0, upper=9, missing=Missing.FILL, fill=10)


@pytest.mark.parametrize("word", ["other", "fill"])
def test_other_and_fill_must_be_categories(word):
    missing = Missing.FILL if word == "fill" else Missing.REFUSE
    with pytest.raises(SchemaError, match=rf"column 'town': {word} = 'Z' is not one of its categories: add it"):
        Categorical(name="town", categories=("A", "B"), missing=missing, **{word: "Z"})


@pytest.mark.parametrize("categories", [(), ("A", "A"), (1, "1"), "yes"])
def test_categories_must_be_a_list_of_distinct_values(categories):
    with pytest.raises(SchemaError, match="column 'town': categories must be a list of distinct values, at least one"):
        Categorical(name="town", categories=categories)


def test_numbers_as_categories_become_the_text_that_table_values_become():
    assert Categorical(name="n", categories=[1, 2.0, 2.5, "x"]).categories == ("1", "2", "2.5", "x")


@pytest.mark.parametrize("hierarchy", [{"A": "A"}, {"A": "x", "x": "y", "y": "x"}])
def test_hierarchy_with_a_cycle_is_refused(hierarchy):
    with pytest.raises(SchemaError, match=r"column 'town': the hierarchy has a cycle at .*: remove one of the links"):
        Categorical(name="town", categories=("A", "B"), hierarchy=hierarchy)


def test_hierarchy_of_an_unknown_category_is_refused():
    with pytest.raises(
        SchemaError, match="column 'town': the hierarchy places 'a', which is not one of its categories"
    ):
        Categorical(name="town", categories=("A", "B"), hierarchy={"a": "north"})


def test_hierarchy_that_is_no_mapping_is_refused():
    with pytest.raises(SchemaError, match="column 'town': hierarchy must give each category's parent, got 'north'"):
        Categorical(name="town", categories=("A", "B"), hierarchy="north")


def test_ancestors_lead_from_the_category_to_the_top():
    town = Categorical(name="town", categories=("A", "B"), hierarchy={"A": "north", "north": "land"})
    assert town.ancestors("A") == ["A", "north", "land"]
    assert town.ancestors("B") == ["B"]


def test_hierarchy_is_detached_from_the_callers():
    parents = {"A": "north"}
    town = Categorical(name="town", categories=("A", "B"), hierarchy=parents)
    parents["B"] = "B"
    assert town.hierarchy == {"A": "north"}


@pytest.mark.parametrize("role", [Role.LABEL, Role.QUASI_IDENTIFIER, Role.CONFIDENTIAL])
def test_key_names_somebody_and_is_no_feature(role):
    with pytest.raises(SchemaError, match=f"column 'id': a key names a record or a person, so it cannot be a {role}"):
        Key(name="id", role=role)


def test_key_is_never_a_number():
    with pytest.raises(SchemaError, match="column 'id': a key cannot be turned into numbers"):
        Key(name="id").encode(pd.Series([1, 2]))
    with pytest.raises(SchemaError, match="column 'id': a key cannot be read from numbers"):
        Key(name="id").decode(np.array([1.0]))


def test_plain_text_stands_for_the_member_it_names():
    age = Numeric(name="age", lower=0, upper=9, role="confidential", missing="fill", fill=1, outside="refuse")
    assert (age.role, age.missing, age.outside) == (Role.CONFIDENTIAL, Missing.FILL, Outside.REFUSE)
    with pytest.raises(DataError, match="1 of 1 rows lie outside"):
        age.encode(pd.Series([10]))


@pytest.mark.parametrize(("word", "value"), [("role", "lable"), ("missing", "drop"), ("outside", "cut")])
def test_unknown_role_missing_or_outside_lists_the_choices(word, value):
    with pytest.raises(SchemaError, match=rf"column 'age': {word} must be one of \[.*\], got '{value}'"):
        Numeric(**{"name": "age", "lower": 0, "upper": 9, word: value})


def test_equal_declarations_are_equal_and_can_be_keys():
    assert {TOWN: 1, AGE: 2}[Categorical(name="town", categories=["A", "B", "C"])] == 1
    assert Numeric(name="age", lower=0, upper=121) != AGE


@pytest.mark.parametrize("column", [[1, 2], [1.0, 2.0], ["1", " 2"], [True, 2], [Decimal("1"), Decimal("2")]])
def test_whatever_reads_as_a_number_is_one(column):
    np.testing.assert_array_equal(AGE.encode(pd.Series(column, dtype=object)), [1, 2])


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float32", "Int64", "Float64", "category", "double[pyarrow]"])
def test_column_types_of_pandas_give_the_same_numbers(dtype):
    encoded = AGE.encode(pd.Series([1, 2]).astype(dtype))
    assert encoded.dtype == np.float64
    np.testing.assert_array_equal(encoded, [1, 2])


def test_text_in_a_numeric_column_is_refused_with_its_count():
    with pytest.raises(DataError, match=r"column 'age': 2 of 4 rows are not numbers: clean them, or declare .*categor"):
        AGE.encode(pd.Series(["12", "twelve", "?", "3"]))


def test_mixed_types_in_a_numeric_column_are_refused_with_their_count():
    with pytest.raises(DataError, match="column 'age': 2 of 3 rows are not numbers"):
        AGE.encode(pd.Series([1, "x", [2]], dtype=object))


STRANGE = {
    "datetime64": pd.Series(pd.to_datetime(["2020-01-01", "2021-01-01"])),
    "datetime64 with a zone": pd.Series(pd.to_datetime(["2020-01-01", "2021-01-01"], utc=True)),
    "date": pd.Series([datetime.date(2020, 1, 1), None]),
    "timedelta": pd.Series(pd.to_timedelta([1, 2], unit="D")),
    "period": pd.Series(pd.period_range("2020", periods=2, freq="Y")),
    "interval": pd.Series(pd.arrays.IntervalArray.from_breaks([0, 1, 2])),
    "complex": pd.Series([1 + 2j, 3j]),
    "bytes": pd.Series([b"1", b"2"]),
}


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("attribute", [AGE, TOWN], ids=["numeric", "categorical"])
def test_dates_and_the_like_are_refused_by_every_kind(attribute, kind):
    said = rf"column '{attribute.name}': its 2 rows hold {kind.split()[0]}.* values: make them numbers or text first"
    with pytest.raises(DataError, match=said):
        attribute.encode(STRANGE[kind])


@pytest.mark.parametrize("infinity", [np.inf, -np.inf, "inf"])
def test_infinite_number_is_refused_even_where_numbers_are_clipped(infinity):
    age = Numeric(name="age", lower=0, upper=9, outside=Outside.CLIP)
    with pytest.raises(DataError, match="column 'age': 1 of 3 rows are infinite: clean or drop them"):
        age.encode(pd.Series([1, infinity, 2], dtype=object))


@pytest.mark.parametrize("empty", [None, np.nan, pd.NA, pd.NaT])
def test_missing_number_is_refused_with_its_count_and_the_choices(empty):
    said = r"column 'age': 1 of 2 rows are missing: drop them, or declare missing = \"keep\", or \"fill\" with a fill"
    with pytest.raises(DataError, match=said):
        AGE.encode(pd.Series([1, empty], dtype=object))


def test_missing_number_is_kept_as_nan():
    age = Numeric(name="age", lower=0, upper=9, missing=Missing.KEEP)
    encoded = age.encode(pd.Series([1, None]))
    np.testing.assert_array_equal(encoded, [1, np.nan])
    assert age.decode(encoded) == [1.0, None]


def test_missing_number_is_filled():
    age = Numeric(name="age", lower=0, upper=9, missing=Missing.FILL, fill=0)
    np.testing.assert_array_equal(age.encode(pd.Series([1, None])), [1, 0])


def test_number_outside_the_bounds_is_refused_with_count_bounds_and_choices():
    said = r"column 'age': 2 of 3 rows lie outside the public bounds 0 to 120: widen .*clean .*outside = \"clip\""
    with pytest.raises(DataError, match=said):
        AGE.encode(pd.Series([-1, 5, 121]))


def test_bounds_themselves_are_inside():
    np.testing.assert_array_equal(AGE.encode(pd.Series([0, 120])), [0, 120])


def test_number_outside_the_bounds_is_clipped_where_declared():
    age = Numeric(name="age", lower=0, upper=9, outside=Outside.CLIP, missing=Missing.KEEP)
    np.testing.assert_array_equal(age.encode(pd.Series([-1, 5, 121, None])), [0, 5, 9, np.nan])


def test_constant_number_is_allowed_and_has_one_point():
    constant = Numeric(name="year", lower=2020, upper=2020)
    np.testing.assert_array_equal(constant.encode(pd.Series([2020, 2020])), [2020, 2020])
    assert constant.points == 1


def test_encoding_leaves_the_table_untouched():
    column = pd.Series([-1.0, np.nan, 500.0])
    Numeric(name="v", lower=0, upper=9, outside="clip", missing="fill", fill=1).encode(column)
    np.testing.assert_array_equal(column, [-1.0, np.nan, 500.0])


@given(st.lists(st.none() | st.floats(-1e9, 1e9), max_size=20))
@settings(max_examples=60, deadline=None)
def test_numbers_survive_encode_and_decode(values):
    attribute = Numeric(name="v", lower=-1e9, upper=1e9, missing=Missing.KEEP)
    assert attribute.decode(attribute.encode(pd.Series(values, dtype=object))) == values


def test_categories_become_positions_in_the_list():
    np.testing.assert_array_equal(TOWN.encode(pd.Series(["C", "A", "B"])), [2, 0, 1])


@pytest.mark.parametrize("column", [[1, 2], [1.0, 2.0], ["1", "2"], [Decimal(1), Decimal(2)]])
def test_numbers_are_compared_as_text_without_decimal_point(column):
    np.testing.assert_array_equal(Ordinal(name="n", categories=("1", "2")).encode(pd.Series(column)), [0, 1])


@pytest.mark.parametrize("dtype", ["Int64", "category", "int64[pyarrow]", "Float64"])
def test_column_types_of_pandas_give_the_same_categories(dtype):
    column = pd.Series([2, 1]).astype(dtype)
    np.testing.assert_array_equal(Categorical(name="n", categories=("1", "2")).encode(column), [1, 0])


def test_truth_values_are_compared_as_words():
    attribute = Categorical(name="b", categories=("False", "True"))
    np.testing.assert_array_equal(attribute.encode(pd.Series([True, False])), [1, 0])


def test_category_case_and_spaces_matter():
    with pytest.raises(DataError, match="column 'town': 2 of 3 rows"):
        TOWN.encode(pd.Series(["a", " A", "A"]))


def test_unseen_categories_are_refused_with_count_examples_and_choices():
    said = (
        r"column 'town': 3 of 4 rows hold categories .* \('D', 'E'\): add them to its categories, or name .* as other"
    )
    with pytest.raises(DataError, match=said):
        TOWN.encode(pd.Series(["A", "E", "D", "E"]))


def test_unseen_categories_go_to_other_and_missing_ones_do_not():
    town = Categorical(name="town", categories=("A", "rest"), other="rest", missing=Missing.KEEP)
    np.testing.assert_array_equal(town.encode(pd.Series(["A", "Z", None])), [0, 1, np.nan])


@pytest.mark.parametrize("empty", [None, np.nan, pd.NA])
def test_missing_category_is_refused_with_its_count_and_the_choices(empty):
    said = r"column 'town': 1 of 2 rows are missing: drop them, or declare missing = \"keep\", or \"fill\" with a fill"
    with pytest.raises(DataError, match=said):
        TOWN.encode(pd.Series(["A", empty], dtype=object))


def test_missing_category_is_filled():
    town = Categorical(name="town", categories=("A", "B"), missing=Missing.FILL, fill="B")
    np.testing.assert_array_equal(town.encode(pd.Series(["A", None])), [0, 1])


@pytest.mark.parametrize("column", [["A", 1], ["A", 1.5], ["A", True], ["A", ["A"]], ["A", {}]])
def test_mixed_types_in_a_categorical_column_are_refused(column):
    with pytest.raises(DataError, match="column 'town': its 2 rows mix types: write all values as text first"):
        TOWN.encode(pd.Series(column, dtype=object))


def test_constant_category_is_allowed():
    constant = Categorical(name="land", categories=("X",))
    np.testing.assert_array_equal(constant.encode(pd.Series(["X", "X"])), [0, 0])


@given(st.lists(st.none() | st.sampled_from(["A", "B", "", "1", "None", "é"]), max_size=20))
@settings(max_examples=60, deadline=None)
def test_categories_survive_encode_and_decode(values):
    attribute = Categorical(name="v", categories=("", "1", "A", "B", "None", "é"), missing=Missing.KEEP)
    assert attribute.decode(attribute.encode(pd.Series(values, dtype=object))) == values


def test_category_text_writes_whole_numbers_without_decimal_point_and_missing_as_none():
    assert category_text(pd.Series([1.0, 2.5, None, -0.0]), "v").tolist() == ["1", "2.5", None, "0"]


@pytest.mark.parametrize("attribute", [AGE, TOWN])
def test_no_rows_give_no_numbers(attribute):
    assert attribute.encode(pd.Series([], dtype=object)).shape == (0,)
