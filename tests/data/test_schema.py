"""Schemas: what contradicts itself is refused, TOML brings everything back, and inferred facts say that they are."""

import sys
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eupg.data.attribute import Categorical, Key, Missing, Numeric, Ordinal, Outside, Role
from eupg.data.schema import Schema
from eupg.errors import DataError, SchemaError
from eupg.protect.channel import LaplaceChannel

AGE = Numeric(name="age", lower=0, upper=120)
ILL = Categorical(name="ill", role=Role.LABEL, categories=("no", "yes"))
PERSON = Key(name="person", role=Role.SUBJECT)
SCHEMA = Schema((PERSON, Key(name="visit"), AGE, ILL))

LABEL_TOML = """
[[attributes]]
name = "ill"
kind = "categorical"
role = "label"
categories = ["no", "yes"]
"""


def toml(lines):
    """Return a schema of one column, given by its lines, and a label."""
    return "[[attributes]]\n" + "\n".join(lines) + "\n" + LABEL_TOML


def visits(**columns):
    """Return a table of three visits; columns can be added or replaced, None drops one."""
    table = {"person": ["a", "a", "b"], "age": [30, 31, 45], "town": ["A", "B", "A"], "ill": ["no", "yes", "no"]}
    return pd.DataFrame({k: v for k, v in (table | columns).items() if v is not None})


def test_features_are_neither_label_nor_names():
    confidential = Numeric(name="income", lower=0, upper=9, role=Role.CONFIDENTIAL)
    schema = Schema((PERSON, Key(name="visit"), AGE, confidential, ILL))
    assert [a.name for a in schema.features] == ["age", "income"]
    assert schema.label is ILL
    assert schema.classes == 2
    assert schema.subject is PERSON
    assert [a.name for a in schema.identifiers] == ["visit"]


def test_schema_without_a_person_has_no_subject():
    assert Schema((AGE, ILL)).subject is None


def test_ordinal_label_is_allowed():
    assert Schema((AGE, Ordinal(name="grade", role=Role.LABEL, categories=("1", "2", "3")))).classes == 3


def test_column_declared_twice_is_refused():
    with pytest.raises(SchemaError, match="column 'age' is declared more than once: keep one"):
        Schema((AGE, AGE, ILL))


def test_schema_without_label_is_refused():
    with pytest.raises(SchemaError, match=r"needs one categorical or ordinal label, got \[\]: give one .*role 'label'"):
        Schema((AGE,))


def test_two_labels_are_refused_by_name():
    with pytest.raises(
        SchemaError, match=r"one categorical or ordinal label, got \['ill \(categorical\)', 'dead .*give"
    ):
        Schema((AGE, ILL, replace(ILL, name="dead")))


def test_numeric_label_is_refused_by_name():
    with pytest.raises(SchemaError, match=r"one categorical or ordinal label, got \['age \(numeric\)'\]: give one"):
        Schema((replace(AGE, role=Role.LABEL), Numeric(name="v", lower=0, upper=1)))


def test_label_with_one_class_is_refused():
    with pytest.raises(SchemaError, match=r"the label 'ill' has one class, 'no': .*declare every class that can occur"):
        Schema((AGE, replace(ILL, categories=("no",))))


def test_label_that_keeps_missing_values_is_refused():
    with pytest.raises(SchemaError, match="the label 'ill' cannot keep missing values: drop those rows or fill them"):
        Schema((AGE, replace(ILL, missing=Missing.KEEP)))


def test_two_subjects_are_refused_by_name():
    with pytest.raises(SchemaError, match=r"columns \['person', 'family'\] all name the person: give one"):
        Schema((PERSON, replace(PERSON, name="family"), AGE, ILL))


def test_schema_without_features_is_refused():
    with pytest.raises(SchemaError, match="no column is left as a feature: give at least one the role 'quasi-identif"):
        Schema((PERSON, ILL))


def test_attribute_is_found_by_name():
    assert SCHEMA["age"] is AGE


def test_unknown_attribute_lists_the_known_ones():
    with pytest.raises(SchemaError, match=r"no column 'height' in the schema; it declares \['person', 'visit', 'age'"):
        SCHEMA["height"]


def test_list_of_attributes_is_as_good_as_a_tuple():
    assert Schema([PERSON, Key(name="visit"), AGE, ILL]) == SCHEMA
    assert hash(Schema([PERSON, Key(name="visit"), AGE, ILL])) == hash(SCHEMA)


TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
WORDS = st.lists(TEXT, min_size=2, max_size=5, unique=True)
NUMBERS = st.floats(-1e15, 1e15)


@st.composite
def attributes(draw, name, role=None):
    kind = draw(st.sampled_from([Categorical, Ordinal] if role else [Numeric, Categorical, Ordinal]))
    missing = draw(st.sampled_from([Missing.REFUSE, Missing.FILL] if role else list(Missing)))
    common = {
        "name": name,
        "role": role or draw(st.sampled_from([Role.QUASI_IDENTIFIER, Role.CONFIDENTIAL])),
        "missing": missing,
        "source": draw(TEXT),
        "inferred": tuple(draw(st.lists(st.sampled_from(["lower", "upper", "categories"]), unique=True))),
    }
    if kind is Numeric:
        lower, fill, upper = sorted(draw(st.tuples(NUMBERS, NUMBERS, NUMBERS)))
        return Numeric(
            **common,
            lower=lower,
            upper=upper,
            resolution=draw(st.floats(1e-6, 1e6)),
            outside=draw(st.sampled_from(list(Outside))),
            fill=fill if missing is Missing.FILL else None,
        )
    categories = tuple(draw(WORDS))
    common |= {
        "categories": categories,
        "other": draw(st.none() | st.sampled_from(categories)),
        "fill": draw(st.sampled_from(categories)) if missing is Missing.FILL else None,
    }
    if kind is Ordinal:
        return Ordinal(**common)
    above = draw(st.dictionaries(st.sampled_from(categories), TEXT.map(lambda t: t + " (above)"), max_size=3))
    return Categorical(**common, hierarchy=above)


@st.composite
def schemas(draw):
    names = draw(st.lists(TEXT, min_size=4, max_size=7, unique=True))
    keys = (Key(name=names[0], role=Role.SUBJECT, source=draw(TEXT)), Key(name=names[1]))[: draw(st.integers(0, 2))]
    return Schema((*keys, draw(attributes(names[2], Role.LABEL)), *(draw(attributes(n)) for n in names[3:])))


@given(schemas())
@settings(max_examples=60, deadline=None)
def test_toml_brings_every_schema_back(schema):
    assert Schema.from_toml(schema.to_toml()) == schema


def test_numpy_bounds_are_written_to_toml():
    schema = Schema((Numeric(name="v", lower=np.int64(1), upper=np.float32(2)), ILL))
    assert Schema.from_toml(schema.to_toml())["v"] == Numeric(name="v", lower=1, upper=2)


def test_saved_schema_is_loaded_again(tmp_path):
    schema = Schema((AGE, replace(ILL, categories=("nein", "jä, ∞"))))
    schema.save(tmp_path / "schema.toml")
    assert Schema.load(str(tmp_path / "schema.toml")) == schema


def test_numbers_in_toml_categories_are_text():
    assert Schema.from_toml(toml(['name = "n"', 'kind = "ordinal"', "categories = [1, 2.0]"]))["n"].categories == (
        "1",
        "2",
    )


def test_unreadable_toml_is_refused_with_the_place():
    with pytest.raises(SchemaError, match=r"not a schema: .*line 1.*; expected TOML with one \[\[attributes\]\] table"):
        Schema.from_toml("attributes == 3")


@pytest.mark.parametrize("text", ["", "x = 1", "attributes = 3", 'attributes = ["age"]', '[attributes]\nname = "age"'])
def test_toml_without_a_table_per_column_is_refused(text):
    with pytest.raises(
        SchemaError, match=r"expected TOML with one \[\[attributes\]\] table per column, in double brackets"
    ):
        Schema.from_toml(text)


def test_missing_schema_file_is_named(tmp_path):
    with pytest.raises(SchemaError, match=r"cannot read the schema .*none\.toml .*: name a TOML file"):
        Schema.load(tmp_path / "none.toml")


def test_schema_file_that_is_no_text_is_named(tmp_path):
    (tmp_path / "photo.toml").write_bytes(b"\xff\xd8\xff")
    with pytest.raises(SchemaError, match=r"cannot read the schema .*photo\.toml .*: name a TOML file"):
        Schema.load(tmp_path / "photo.toml")


@pytest.mark.parametrize("kind", ['kind = "number"', 'kind = ["numeric"]', ""])
def test_unknown_kind_lists_the_known_ones(kind):
    said = r"column 'age': kind must be one of \['categorical', 'date', 'key', .*, 'picture', 'vector'\], got "
    with pytest.raises(SchemaError, match=said):
        Schema.from_toml(toml(['name = "age"', kind]))


def test_unknown_field_lists_the_known_ones():
    with pytest.raises(SchemaError, match=r"column 'age': numeric attributes have no 'min'; they take \[.*'lower'"):
        Schema.from_toml(toml(['name = "age"', 'kind = "numeric"', "min = 0", "upper = 9"]))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (['name = "age"', 'kind = "numeric"', "upper = 9"], "column 'age': numeric attributes need 'lower': add it"),
        (['name = "t"', 'kind = "ordinal"'], "column 't': ordinal attributes need 'categories': add it"),
        (['kind = "key"'], r"column '\?': key attributes need 'name': add it"),
    ],
)
def test_field_that_is_needed_is_named(lines, said):
    with pytest.raises(SchemaError, match=said):
        Schema.from_toml(toml(lines))


def test_unknown_role_in_toml_lists_the_known_ones():
    with pytest.raises(SchemaError, match=r"^column 'age': role must be one of \['identifier', .*\], got 'feature'"):
        Schema.from_toml(toml(['name = "age"', 'kind = "numeric"', "lower = 0", "upper = 9", 'role = "feature"']))


def test_error_in_toml_names_the_column_once():
    with pytest.raises(SchemaError, match=r"^column 'age': lower must not exceed upper"):
        Schema.from_toml(toml(['name = "age"', 'kind = "numeric"', "lower = 9", "upper = 0"]))


def test_text_for_a_list_is_refused_in_toml():
    with pytest.raises(SchemaError, match="column 't': categories must be a list of distinct values"):
        Schema.from_toml(toml(['name = "t"', 'kind = "categorical"', 'categories = "yes"']))


def test_inferred_bounds_and_categories_say_where_they_come_from():
    schema = Schema.infer(visits(), label="ill", subject="person", confidential=["town"])
    assert schema["age"] == Numeric(name="age", lower=20, upper=50, inferred=("lower", "upper", "resolution"))
    assert schema["town"].role is Role.CONFIDENTIAL
    assert schema["town"].inferred == ("categories",)
    assert schema.label.inferred == ("categories",)
    assert schema.subject == PERSON


def test_caveats_name_every_column_with_inferred_facts():
    caveats = Schema.infer(visits(), label="ill", subject="person").caveats
    assert len(caveats) == 2
    assert (
        caveats[0] == "lower, upper, resolution of 'age' read from the data: the claim does not cover what they reveal"
    )
    assert caveats[1].startswith("categories of 'town', 'ill' read from the data")


def test_caveats_survive_toml():
    schema = Schema.infer(visits(), label="ill", subject="person")
    assert Schema.from_toml(schema.to_toml()).caveats == schema.caveats


def test_schema_edited_by_hand_drops_its_caveats():
    text = Schema.infer(visits(), label="ill", subject="person").to_toml()
    lines, edited, skipping = text.splitlines(), [], False
    for line in lines:
        skipping = skipping or line.startswith("inferred")
        if not skipping:
            edited.append(line.replace("lower = 20.0", "lower = 0").replace("upper = 50.0", "upper = 120"))
        skipping = skipping and not line.endswith("]")
    schema = Schema.from_toml("\n".join(edited))
    assert schema.caveats == ()
    assert schema["age"] == AGE


def test_declared_attributes_are_taken_as_they_are():
    schema = Schema.infer(visits(), label="ill", subject="person", declared=[AGE, ILL])
    assert schema["age"] is AGE
    assert len(schema.caveats) == 1


def test_missing_values_seen_in_the_data_are_kept_and_marked():
    schema = Schema.infer(visits(age=[30, None, 45], town=["A", None, "B"]), label="ill", subject="person")
    assert schema["age"].missing is Missing.KEEP
    assert "missing" in schema["age"].inferred
    assert schema["town"].inferred == ("categories", "missing")


def test_missing_labels_are_refused_by_an_inferred_schema():
    schema = Schema.infer(visits(ill=["no", None, "yes"]), label="ill", subject="person")
    assert schema.label.missing is Missing.REFUSE
    assert schema.label.categories == ("no", "yes")


def test_inferred_resolution_is_one_for_whole_numbers_and_a_thousandth_of_the_range_otherwise():
    schema = Schema.infer(visits(dose=[0.0, 0.5, 2.0]), label="ill", subject="person")
    assert schema["age"].resolution == 1
    assert schema["dose"].resolution == 0.002


def inferred_bounds(*values: float) -> tuple[float, float]:
    attribute = Schema.infer(pd.DataFrame({"v": values, "ill": ["no", "yes"] * (len(values) // 2)}), label="ill")["v"]
    too_fine = all(v == round(v) for v in values) and attribute.upper / 2 - attribute.lower / 2 > (2**20 - 1) / 2
    assert attribute.inferred == ("lower", "upper", "resolution (coarsened)" if too_fine else "resolution")
    return attribute.lower, attribute.upper


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        ((0, 4242.5), (0, 5000)),
        ((18, 90), (10, 100)),
        ((-0.03, 0.21), (-0.05, 0.5)),
        ((-45, -30), (-50, -20)),
        ((0, 1), (0, 1)),
        ((0.2, 0.5), (0.2, 0.5)),
        ((-1.7e308, 1.7e308), (-sys.float_info.max, sys.float_info.max)),
        ((0, 5e-324), (0, 5e-324)),
    ],
)
def test_inferred_bounds_are_rounded_outward_to_one_two_or_five_times_a_power_of_ten(values, bounds):
    assert inferred_bounds(*values) == bounds


@given(st.tuples(NUMBERS, NUMBERS))
@settings(max_examples=200, deadline=None)
def test_inferred_bounds_hold_every_value(values):
    lower, upper = inferred_bounds(*values)
    assert lower <= min(values)
    assert max(values) <= upper
    for bound in (lower, upper):
        assert Decimal(repr(bound)).normalize().as_tuple().digits in ((0,), (1,), (2,), (5,))


def test_inferred_resolution_does_not_betray_the_exact_range():
    assert Schema.infer(visits(dose=[0.0, 0.25, 1.7]), label="ill", subject="person")["dose"].resolution == 0.002


def test_inferred_bounds_of_a_constant_are_equal_only_where_it_is_a_round_number():
    assert inferred_bounds(7.5, 7.5) == (5, 10)
    assert inferred_bounds(5, 5) == (5, 5)
    assert inferred_bounds(0, 0) == (0, 0)


def test_inferred_constant_text_is_kept_as_one_category():
    assert Schema.infer(visits(town=["A"] * 3), label="ill", subject="person")["town"].categories == ("A",)


def test_inferred_label_with_one_class_is_refused():
    with pytest.raises(SchemaError, match="the label 'ill' has one class, 'no'"):
        Schema.infer(visits(ill=["no"] * 3), label="ill", subject="person")


def test_numeric_label_is_inferred_as_categories():
    schema = Schema.infer(visits(ill=[0.0, 1.0, 0.0]), label="ill", subject="person")
    assert schema.label.categories == ("0", "1")


def test_infinite_values_do_not_become_bounds():
    schema = Schema.infer(visits(age=[1, np.inf, 3]), label="ill", subject="person")
    assert (schema["age"].lower, schema["age"].upper) == (1, 5)


def test_truth_values_are_categories():
    assert Schema.infer(visits(town=[True, False, True]), label="ill")["town"].categories == ("False", "True")


def test_inferred_categories_are_in_the_order_of_numbers_then_words():
    towns = ["10", "9", "nan", "b", "1.5", "a", "inf", "-2"]
    table = pd.DataFrame({"town": towns, "ill": ["no", "yes"] * 4})
    expected = ("-2", "1.5", "9", "10", "a", "b", "inf", "nan")
    assert Schema.infer(table, label="ill")["town"].categories == expected


def test_text_column_of_values_that_most_people_have_alone_names_people():
    who = [i // 2 for i in range(44)]
    table = pd.DataFrame({"who": who, "age": 1, "ill": ["no", "yes"] * 22})
    for alone, refused in ((12, True), (11, False)):
        names = table.assign(name=[f"n{i}" if i < alone else "Kim" for i in who])
        if refused:
            with pytest.raises(SchemaError, match=r"'name': most people have a value of their own, so it names people"):
                Schema.infer(names, label="ill", subject="who")
        else:
            assert len(Schema.infer(names, label="ill", subject="who")["name"].categories) == alone + 1


def test_text_column_in_which_all_values_differ_names_records():
    table = pd.DataFrame({"name": [f"n{i}" for i in range(21)], "age": 1, "ill": ["no", "yes", "no"] * 7})
    said = (
        "column 'name': all 21 values differ, so it names records: list it under identifiers, name it as subject, or d"
    )
    with pytest.raises(SchemaError, match=said):
        Schema.infer(table, label="ill")
    assert Schema.infer(table, label="ill", identifiers=["name"]).identifiers == (Key(name="name"),)


def test_empty_text_column_is_refused_with_the_row_count():
    with pytest.raises(SchemaError, match="column 'town': all 3 values are missing: drop the column, or declare it"):
        Schema.infer(visits(town=[None] * 3), label="ill", subject="person")


def test_durations_and_mixed_types_are_refused_by_infer():
    with pytest.raises(DataError, match="column 'town': its 3 rows hold timedelta64 values"):
        Schema.infer(visits(town=pd.to_timedelta([1, 2, 3], unit="D")), label="ill")
    with pytest.raises(DataError, match="column 'town': its 3 rows mix types"):
        Schema.infer(visits(town=["A", 1, 2.5]), label="ill")


@pytest.mark.parametrize(
    "options",
    [
        {"label": "cost"},
        {"label": "ill", "subject": "cost"},
        {"label": "ill", "identifiers": ["cost"]},
        {"label": "ill", "confidential": ["cost"]},
        {"label": "ill", "declared": [Numeric(name="cost", lower=0, upper=1)]},
    ],
)
def test_unknown_column_in_infer_lists_the_known_ones(options):
    with pytest.raises(SchemaError, match=r"no column 'cost' in the table; it has \['person', 'age', 'town', 'ill'\]"):
        Schema.infer(visits(), **options)


@pytest.mark.parametrize("other", [pa.Table.from_pandas, pl.from_pandas], ids=["arrow", "polars"])
def test_arrow_and_polars_tables_give_the_same_schema(other):
    table = visits(age=[30, None, 45])
    assert Schema.infer(other(table), label="ill") == Schema.infer(table, label="ill")


def test_numbered_columns_are_named_by_text():
    table = pd.DataFrame([[1, "no"], [2, "yes"]])
    assert [a.name for a in Schema.infer(table, label="1").attributes] == ["0", "1"]


def test_column_that_occurs_twice_is_refused_by_infer():
    table = pd.DataFrame([[1, 2, "no"], [2, 3, "yes"]], columns=["age", "age", "ill"])
    with pytest.raises(DataError, match="column 'age' occurs more than once: rename or drop the others"):
        Schema.infer(table, label="ill")


def test_infer_refuses_what_is_no_table():
    with pytest.raises(DataError, match="expected a pandas, Arrow or polars table, got dict: convert it"):
        Schema.infer({"age": [1, 2]}, label="age")


def table_of(rows=40, **columns):
    """Return a table with a feature and a label that nobody needs to ask about."""
    return pd.DataFrame({"age": np.arange(rows) // 2, "ill": ["no", "yes"] * (rows // 2)} | columns)


class TestGrids:
    @pytest.mark.parametrize(
        ("largest", "resolution"), [(1_000_000, 1), (1_048_576, 2), (1_200_001, 2), (5_000_000, 5), (10**15, 10**9)]
    )
    def test_resolution_of_whole_numbers_is_coarsened_until_every_mechanism_takes_the_grid(self, largest, resolution):
        found = Schema.infer(table_of(balance=[0, largest] * 20), label="ill")["balance"]
        assert found.resolution == resolution
        assert LaplaceChannel.build(found.points, 1.0).size == found.points
        said = "resolution" if resolution == 1 else "resolution (coarsened)"
        assert found.inferred == ("lower", "upper", said)

    def test_coarsening_is_a_caveat_of_every_claim(self):
        schema = Schema.infer(table_of(balance=[0, 10**7] * 20), label="ill")
        assert any("resolution (coarsened) of 'balance' read from the data" in c for c in schema.caveats)
        assert Schema.from_toml(schema.to_toml()) == schema

    def test_widest_range_there_is_has_a_grid(self):
        found = Schema.infer(table_of(v=[-1.7e308, 1.7e308] * 20), label="ill")["v"]
        assert 2 < found.points <= 2**20

    def test_declared_resolution_is_left_alone(self):
        fine = Numeric(name="balance", lower=0, upper=1e7)
        assert Schema.infer(table_of(balance=[0, 10**7] * 20), label="ill", declared=[fine])["balance"] is fine


class TestLabels:
    @pytest.mark.parametrize(
        ("values", "distinct"),
        [
            (range(3000), "3,000"),
            (np.linspace(0, 1, 3000), "3,000"),
            ([i % 101 for i in range(3000)], "101"),
            ([f"c{i % 200}" for i in range(3000)], "200"),
            (range(22), "22"),
        ],
        ids=["integers", "decimals", "few per class", "text", "small table"],
    )
    def test_label_with_too_many_values_is_refused_with_their_number(self, values, distinct):
        table = table_of(len(values), price=list(values))
        said = f"the label 'price' has {distinct} distinct values in {len(values):,} rows, and only classification"
        with pytest.raises(SchemaError, match=said):
            Schema.infer(table, label="price")

    def test_label_is_looked_at_before_anything_else(self):
        with pytest.raises(SchemaError, match="only classification"):
            Schema.infer(table_of(ID=range(40), price=range(40)), label="price")

    def test_hundred_classes_are_allowed_and_more_where_they_are_declared(self):
        table = table_of(2000, kind=[i % 100 for i in range(2000)], price=range(2000))
        assert Schema.infer(table, label="kind", features=["price"]).classes == 100
        declared = Categorical(name="price", role=Role.LABEL, categories=tuple(map(str, range(2000))))
        assert Schema.infer(table, label="price", declared=[declared]).classes == 2000


class TestColumnsThatNameRows:
    @pytest.mark.parametrize(
        "values",
        [range(40), np.arange(40.0), pd.array(range(40), dtype="Int64"), [None, *range(39)], 2**60 + np.arange(40)],
        ids=["integers", "integral floats", "nullable", "one missing", "large"],
    )
    def test_whole_numbers_that_all_differ_are_refused(self, values):
        with pytest.raises(SchemaError, match=r"column 'ID': all (40|39) values differ, as in a column of ids: list"):
            Schema.infer(table_of(ID=values), label="ill")

    @pytest.mark.parametrize(
        "values",
        [np.arange(40) + 0.5, [*range(39), 0], [*range(19), *[None] * 21], [0.5, *range(1, 40)]],
        ids=["decimals", "one twice", "mostly empty", "one decimal"],
    )
    def test_measurements_are_features(self, values):
        assert Schema.infer(table_of(visits=values), label="ill")["visits"].role is Role.QUASI_IDENTIFIER

    def test_few_rows_say_little(self):
        assert Schema.infer(table_of(20, ID=range(20)), label="ill")["ID"].role is Role.QUASI_IDENTIFIER
        with pytest.raises(SchemaError, match="as in a column of ids"):
            Schema.infer(table_of(22, ID=range(22)), label="ill")

    def test_user_can_say_what_the_column_is(self):
        table = table_of(ID=range(40))
        assert Schema.infer(table, label="ill", identifiers=["ID"])["ID"] == Key(name="ID")
        assert Schema.infer(table, label="ill", subject="ID").subject.name == "ID"
        assert isinstance(Schema.infer(table, label="ill", features=["ID"])["ID"], Numeric)
        declared = Numeric(name="ID", lower=0, upper=40)
        assert Schema.infer(table, label="ill", declared=[declared])["ID"] is declared

    def test_text_that_names_rows_is_no_feature_even_if_it_is_called_one(self):
        with pytest.raises(SchemaError, match="so it names records"):
            Schema.infer(table_of(name=[f"n{i}" for i in range(40)]), label="ill", features=["name"])


class TestNumbersThatLookLikeCodes:
    @pytest.mark.parametrize(
        ("name", "values"),
        [
            ("zip_code", range(5, 45)),
            ("homeZip", [1067, 10115] * 20 + [3]),
            ("PLZ", [10115.0, None, *range(40)]),
            ("customer_id", [i // 2 for i in range(60)]),
            ("area", ["01067", "10115"] * 20),
            ("area", 10_001 + 7 * np.arange(150).repeat(2)),
        ],
        ids=["name", "camel case", "with gaps", "repeated ids", "zeros in front", "one width"],
    )
    def test_are_refused_until_the_user_says_what_they_are(self, name, values):
        table = table_of(2 * len(values), **{name: [*values, *values]})
        with pytest.raises(SchemaError, match=rf"column '{name}' holds whole numbers that look like codes"):
            Schema.infer(table, label="ill")
        assert isinstance(Schema.infer(table, label="ill", categories=[name])[name], Categorical)
        if not isinstance(values[0], str):
            assert isinstance(Schema.infer(table, label="ill", features=[name])[name], Numeric)

    @pytest.mark.parametrize(
        ("name", "values"),
        [
            ("hotel", [1, 2, 3] * 20),
            ("year", range(1900, 2060)),
            ("salary", 10_000 + 50 * np.arange(150)),
            ("salary", np.arange(900, 1100)),
            ("code", [0, 1] * 20),
            ("zip", range(10)),
            ("area", ["1067", "10115"] * 20),
            ("balance", -1000 - np.arange(150)),
        ],
        ids=["part of a word", "years", "round", "two widths", "flag", "few rows", "no zeros", "negative"],
    )
    def test_measurements_and_categories_are_not_asked_about(self, name, values):
        table = table_of(2 * len(values), **{name: [*values, *values]})
        assert Schema.infer(table, label="ill")[name].role is Role.QUASI_IDENTIFIER


def test_column_of_lists_is_refused_with_the_next_step():
    with pytest.raises(SchemaError, match=r"column 'tags' holds lists or objects.*: drop it \(--drop tags\)"):
        Schema.infer(visits(tags=[["a"], [], None]), label="ill")
