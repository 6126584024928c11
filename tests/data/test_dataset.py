"""Records: the same from every kind of table, checked where they enter, and out of everybody's reach after that."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eupg.data.attribute import Categorical, Key, Missing, Numeric, Ordinal, Role
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.data.table_file import TableFile
from eupg.errors import DataError, ParameterError, UnknownRecord

ILL = Categorical(name="ill", role=Role.LABEL, categories=("no", "yes"))
SCHEMA = Schema(
    (
        Key(name="visit"),
        Key(name="person", role=Role.SUBJECT),
        Numeric(name="age", lower=0, upper=120),
        Numeric(name="score", lower=-1, upper=1, resolution=0.01, missing=Missing.KEEP),
        Ordinal(name="grade", categories=("1", "2", "3")),
        Categorical(name="town", categories=("A", "B", "NA"), missing=Missing.KEEP),
        ILL,
    )
)
SMALL = Schema((Numeric(name="age", lower=0, upper=120), ILL))


def visits(**columns):
    """Return a table of four visits by three people; columns can be added or replaced, None drops one."""
    table = {
        "visit": ["v1", "v2", "v3", "v4"],
        "person": [17, 17, 4, 250],
        "age": [30, 31, 45, 0],
        "score": [0.25, None, -1.0, 0.1],
        "grade": [1, 3, 2, 2],
        "town": ["A", "NA", None, "B"],
        "ill": ["no", "yes", "no", "yes"],
    }
    return pd.DataFrame({k: v for k, v in (table | columns).items() if v is not None})


def small(rows=6, people=3):
    """Return records r0, r1, … of people p0, p1, … in turn."""
    ids = np.array([f"r{i}" for i in range(rows)], dtype=np.str_)
    subjects = np.array([f"p{i % people}" for i in range(rows)], dtype=np.str_)
    return Dataset(SMALL, np.arange(float(rows))[:, None], np.arange(rows) % 2, ids, subjects)


def assert_same(found, expected):
    assert found.schema == expected.schema
    for name in ("X", "y", "ids", "subjects"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_table_becomes_numbers_classes_and_names():
    data = Dataset.from_table(visits(), SCHEMA)
    expected = [[30, 0.25, 0, 0], [31, np.nan, 2, 2], [45, -1, 1, np.nan], [0, 0.1, 1, 1]]
    np.testing.assert_array_equal(data.X, expected)
    assert data.y.tolist() == [0, 1, 0, 1]
    assert data.ids.tolist() == ["v1", "v2", "v3", "v4"]
    assert data.subjects.tolist() == ["17", "17", "4", "250"]
    assert len(data) == 4


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "csv.zip", "txt", "CSV", "parquet", "pq"])
def test_files_give_the_same_records_as_the_table(tmp_path, suffix):
    path = tmp_path / f"visits.{suffix}"
    if suffix in ("parquet", "pq"):
        visits().to_parquet(path, index=False)
    else:
        visits().to_csv(path, index=False)
    assert_same(Dataset.read(path, SCHEMA), Dataset.from_table(visits(), SCHEMA))


@pytest.mark.parametrize("other", [pa.Table.from_pandas, pl.from_pandas], ids=["arrow", "polars"])
def test_arrow_and_polars_tables_give_the_same_records(other):
    assert_same(Dataset.from_table(other(visits()), SCHEMA), Dataset.from_table(visits(), SCHEMA))


def test_other_columns_and_their_order_do_not_matter():
    table = visits(cost=[1, 2, 3, 4])[["cost", "ill", "town", "grade", "score", "age", "person", "visit"]]
    assert_same(Dataset.from_table(table, SCHEMA), Dataset.from_table(visits(), SCHEMA))


def test_index_of_the_table_does_not_matter():
    table = visits().set_index(pd.Index([9, 9, 9, 9]))
    assert_same(Dataset.from_table(table, SCHEMA), Dataset.from_table(visits(), SCHEMA))


def test_numbered_columns_are_found_by_text():
    schema = Schema((Numeric(name="0", lower=0, upper=9), Categorical(name="1", role="label", categories=("a", "b"))))
    assert Dataset.from_table(pd.DataFrame([[1, "a"], [2, "b"]]), schema).X.tolist() == [[1], [2]]


def test_no_rows_are_a_dataset():
    data = Dataset.from_table(visits().iloc[:0], SCHEMA)
    assert data.X.shape == (0, 4)
    assert len(data) == 0


def test_constant_columns_are_allowed():
    data = Dataset.from_table(visits(age=[7] * 4, town=["A"] * 4), SCHEMA)
    assert (data.X[:, 0] == 7).all()
    assert (data.X[:, 3] == 0).all()


def test_records_without_a_person_are_people_of_their_own():
    data = Dataset.from_table(visits(), Schema(tuple(a for a in SCHEMA.attributes if a.name != "person")))
    np.testing.assert_array_equal(data.subjects, data.ids)


def test_record_ids_are_positions_where_no_column_names_them():
    assert Dataset.from_table(visits(), SMALL).ids.tolist() == ["0", "1", "2", "3"]
    assert Dataset.from_table(visits(visit=None), SCHEMA).ids.tolist() == ["0", "1", "2", "3"]


def test_record_ids_come_from_the_column_asked_for():
    assert Dataset.from_table(visits(code=[7.0, 8.0, 9.0, 1.5]), SCHEMA, ids="code").ids.tolist() == [
        "7",
        "8",
        "9",
        "1.5",
    ]


def test_zeros_before_an_id_or_category_survive_a_csv_file(tmp_path):
    schema = Schema((Categorical(name="zip", categories=("01", "1")), ILL))
    pd.DataFrame({"code": ["007", "7"], "zip": ["01", "1"], "ill": ["no", "yes"]}).to_csv(
        tmp_path / "z.csv", index=False
    )
    data = Dataset.read(tmp_path / "z.csv", schema, ids="code")
    assert data.ids.tolist() == ["007", "7"]
    assert data.X[:, 0].tolist() == [0, 1]


def test_word_for_an_empty_cell_is_a_category_only_where_the_schema_lists_it(tmp_path):
    (tmp_path / "d.csv").write_text("drink,age,ill\nNone,NA,no\nNA,3,yes\n")
    drink = Categorical(name="drink", categories=("None", "beer"), missing=Missing.KEEP)
    age = Numeric(name="age", lower=0, upper=9, missing=Missing.KEEP)
    data = Dataset.read(tmp_path / "d.csv", Schema((drink, age, ILL)))
    np.testing.assert_array_equal(data.X, [[0, np.nan], [np.nan, 3]])


def test_to_pandas_gives_back_what_a_person_reads():
    frame = Dataset.from_table(visits(), SCHEMA).to_pandas()
    assert frame.index.tolist() == ["v1", "v2", "v3", "v4"]
    assert frame["grade"].tolist() == ["1", "3", "2", "2"]
    assert frame["ill"].tolist() == ["no", "yes", "no", "yes"]
    assert frame["town"].isna().tolist() == [False, False, True, False]


def test_records_survive_the_way_to_pandas_and_back():
    data = Dataset.from_table(visits(), SCHEMA)
    table = data.to_pandas().reset_index(names="visit").assign(person=data.subjects)
    assert_same(Dataset.from_table(table, SCHEMA), data)


def test_missing_column_is_named_with_those_that_are_there():
    with pytest.raises(DataError, match=r"the table has no column 'age'; it has \['visit', 'person', 'score'"):
        Dataset.from_table(visits(age=None), SCHEMA)


def test_column_that_occurs_twice_is_refused():
    table = visits(extra=[0] * 4).rename(columns={"extra": "age"})
    with pytest.raises(DataError, match="column 'age' occurs more than once: rename or drop the others"):
        Dataset.from_table(table, SCHEMA)


@pytest.mark.parametrize("thing", [[1, 2], {"age": [1]}, np.eye(2), pl.LazyFrame({"age": [1]}), pd.Series([1])])
def test_what_is_no_table_is_refused(thing):
    with pytest.raises(
        DataError, match=f"expected a pandas, Arrow or polars table, got {type(thing).__name__}: convert"
    ):
        Dataset.from_table(thing, SMALL)


def test_missing_value_is_refused_and_names_the_column():
    with pytest.raises(DataError, match=r"column 'age': 1 of 4 rows are missing: drop them, or declare missing = "):
        Dataset.from_table(visits(age=[1, None, 3, 4]), SCHEMA)


def test_missing_label_is_refused_and_names_the_column():
    with pytest.raises(DataError, match=r"label 'ill' is missing in 2 of 4 rows.*--drop-unlabelled"):
        Dataset.from_table(visits(ill=["no", None, None, "yes"]), SCHEMA)


def test_label_that_is_not_on_the_list_is_refused():
    with pytest.raises(DataError, match=r"column 'ill': 1 of 4 rows hold categories .*\('maybe'\): add them"):
        Dataset.from_table(visits(ill=["no", "maybe", "yes", "yes"]), SCHEMA)


def test_records_of_one_class_are_allowed_where_the_schema_declares_two():
    assert set(Dataset.from_table(visits(ill=["no"] * 4), SCHEMA).y) == {0}


def test_duplicate_record_ids_are_refused_with_count_and_way_out():
    said = "column 'visit': 2 of 4 rows repeat a record id: every record needs its own; .* give it the role 'subject'"
    with pytest.raises(DataError, match=said):
        Dataset.from_table(visits(visit=["v", "v", "v", "w"]), SCHEMA)


@pytest.mark.parametrize("column", ["visit", "person"])
def test_row_that_names_nobody_is_refused(column):
    with pytest.raises(DataError, match=f"column '{column}': 1 of 4 names are empty: fill them in or drop the rows"):
        Dataset.from_table(visits(**{column: ["a", None, "b", "c"]}), SCHEMA)


def test_empty_person_in_a_csv_file_is_refused(tmp_path):
    visits(person=["a", None, "b", None]).to_csv(tmp_path / "v.csv", index=False)
    with pytest.raises(DataError, match="column 'person': 2 of 4 names are empty"):
        Dataset.read(tmp_path / "v.csv", SCHEMA)


def test_unknown_id_column_is_named():
    with pytest.raises(DataError, match=r"the table has no column 'code' to take names from; it has \['visit'"):
        Dataset.from_table(visits(), SCHEMA, ids="code")


def test_names_of_mixed_types_are_refused():
    with pytest.raises(DataError, match="column 'person': its 4 rows mix types: write all values as text first"):
        Dataset.from_table(visits(person=[1, "1", 2, 3]), SCHEMA)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"no file .*none\.csv: name a CSV or Parquet file"):
        Dataset.read(tmp_path / "none.csv", SCHEMA)


@pytest.mark.parametrize(("name", "found"), [("table.docx", r"\.docx"), ("table", "no suffix")])
def test_file_with_another_suffix_is_refused(tmp_path, name, found):
    (tmp_path / name).touch()
    with pytest.raises(DataError, match=rf"{name}: expected \.csv or \.parquet, got {found}: convert the file"):
        Dataset.read(tmp_path / name, SCHEMA)


@pytest.mark.parametrize(("name", "content"), [("t.csv", b""), ("t.csv", b'a\n"x'), ("t.parquet", b"PAR1 no")])
def test_file_that_is_no_table_is_named(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"{name} cannot be read as a table \(.*\): check or replace the file"):
        Dataset.read(tmp_path / name, SCHEMA)


def test_table_is_read_without_a_schema_for_a_first_look(tmp_path):
    visits().to_csv(tmp_path / "v.csv", index=False)
    assert TableFile(tmp_path / "v.csv").read()["age"].tolist() == [30, 31, 45, 0]


@pytest.mark.parametrize("name", ["X", "y", "ids", "subjects"])
def test_arrays_are_read_only(name):
    with pytest.raises(ValueError, match="read-only"):
        getattr(small(), name)[0] = getattr(small(), name)[1]


def _writable(array):
    return array


def _read_only_view(array):
    view = array.view()
    view.flags.writeable = False
    return view


@pytest.mark.parametrize("handed", [_writable, _read_only_view])
def test_arrays_are_detached_from_the_callers(handed):
    X, y = np.array([[1.0], [2.0]]), np.array([0, 1])
    ids, subjects = np.array(["a", "b"]), np.array(["p", "q"])
    data = Dataset(SMALL, handed(X), handed(y), handed(ids), handed(subjects))
    X[0], y[0], ids[0], subjects[0] = 9, 1, "z", "z"
    assert data.X[0] == 1
    assert data.y[0] == 0
    assert data.ids[0] == "a"
    assert data.subjects[0] == "p"


def test_callers_arrays_stay_writable():
    X = np.zeros((1, 1))
    Dataset(SMALL, X, np.array([0]), np.array(["a"]), np.array(["a"]))
    X[0] = 5


def test_records_are_detached_from_the_table():
    table = pd.DataFrame({"age": [1.0, 2.0], "ill": ["no", "yes"]})
    data = Dataset.from_table(table, SMALL)
    table.loc[:, "age"] = 99.0
    assert data.X[:, 0].tolist() == [1, 2]


def test_matrix_of_another_width_is_refused():
    with pytest.raises(DataError, match=r"one column for each of 1 features, got a matrix of \(2, 3\): encode"):
        Dataset(SMALL, np.zeros((2, 3)), np.zeros(2), np.array(["a", "b"]), np.array(["a", "b"]))


def test_arrays_of_other_lengths_are_refused():
    with pytest.raises(
        DataError, match="2 rows need as many labels, ids and subjects, got 3, 2 and 1: pass one of each"
    ):
        Dataset(SMALL, np.zeros((2, 1)), np.zeros(3), np.array(["a", "b"]), np.array(["a"]))


def test_all_records_of_a_person_are_found():
    assert small().of_subjects(["p1"]).ids.tolist() == ["r1", "r4"]


def test_names_may_be_given_as_numbers():
    data = Dataset.from_table(visits(), SCHEMA)
    assert data.of_subjects([17, 4]).ids.tolist() == ["v1", "v2", "v3"]


@pytest.mark.parametrize("ask", [Dataset.where, Dataset.without], ids=["where", "without"])
def test_unknown_record_is_an_error(ask):
    said = "2 of 3 are not here, first record id 'x1': never among the records, or already forgotten"
    with pytest.raises(UnknownRecord, match=said):
        ask(small(), ["x2", "r0", "x1"])


@pytest.mark.parametrize("ask", [Dataset.where_subjects, Dataset.of_subjects], ids=["where", "of"])
def test_unknown_person_is_an_error(ask):
    with pytest.raises(UnknownRecord, match="1 of 1 are not here, first person 'r0': never among the records"):
        ask(small(), ["r0"])


def test_record_cannot_be_forgotten_twice():
    with pytest.raises(UnknownRecord, match=r"1 of 1 are not here, first record id 'r2': .*already forgotten"):
        small().without(["r2"]).without(["r2"])


@pytest.mark.parametrize("ask", [Dataset.where, Dataset.without, Dataset.where_subjects, Dataset.of_subjects])
def test_single_name_is_not_taken_for_a_list_of_letters(ask):
    data = Dataset.from_table(pd.DataFrame({"age": range(13), "ill": "no"}), SMALL)
    with pytest.raises(ParameterError, match=r"expected a list, got the single .* '12': write \['12'\]"):
        ask(data, "12")


def test_nobody_is_a_fine_request():
    assert len(small().of_subjects([])) == 0
    assert_same(small().without([]), small())


@given(st.lists(st.sets(st.integers(0, 11)), min_size=2, max_size=2))
@settings(max_examples=60, deadline=None)
def test_forgetting_one_set_after_the_other_is_forgetting_both(sets):
    first, second = ({f"r{i}" for i in s} for s in sets)
    data = small(12)
    assert_same(data.without(first).without(second - first), data.without(first | second))
    assert data.without(first).ids.tolist() == [i for i in data.ids if i not in first]


@given(st.sets(st.integers(0, 4)))
@settings(max_examples=30, deadline=None)
def test_people_and_everybody_else_are_all_records(chosen):
    data, people = small(12, people=5), {f"p{i}" for i in chosen}
    theirs = data.of_subjects(people)
    others = data.without(theirs.ids)
    assert set(theirs.subjects) == people
    assert set(others.subjects).isdisjoint(people)
    assert sorted([*theirs.ids, *others.ids]) == sorted(data.ids)


@given(st.sets(st.integers(0, 9)))
@settings(max_examples=30, deadline=None)
def test_plus_undoes_without_up_to_order(chosen):
    data, ids = small(10), [f"r{i}" for i in chosen]
    again = data.without(ids).plus(data.select(data.where(ids)))
    order = np.argsort([int(i[1:]) for i in again.ids])
    np.testing.assert_array_equal(again.ids[order], data.ids)
    np.testing.assert_array_equal(again.X[order], data.X)
    np.testing.assert_array_equal(again.subjects[order], data.subjects)


def test_new_records_come_last_and_long_names_stay_whole():
    new = Dataset(SMALL, np.array([[9.0]]), np.array([1]), np.array(["a longer name"]), np.array(["p1"]))
    both = small().plus(new)
    assert both.ids.tolist() == [*small().ids, "a longer name"]
    assert len(both.of_subjects(["p1"])) == 3


def test_plus_refuses_another_schema():
    other = Dataset(Schema((Numeric(name="age", lower=0, upper=99), ILL)), [[1.0]], [0], ["n"], ["n"])
    with pytest.raises(DataError, match="new records must come under the same schema: load them with this data set's"):
        small().plus(other)


def test_plus_refuses_an_id_that_is_taken():
    said = "2 ids of 3 new records are taken, first 'r0': every record needs its own, so load them with ids="
    new = Dataset(SMALL, np.zeros((3, 1)), np.zeros(3), np.array(["r9", "r0", "r1"]), np.array(["a", "b", "c"]))
    with pytest.raises(DataError, match=said):
        small().plus(new)


def test_plus_refuses_new_records_that_share_an_id():
    with pytest.raises(DataError, match=r"ids of .* new records are taken"):
        small().plus(small())
    with pytest.raises(DataError, match="1 of 2 rows repeat a record id"):
        Dataset(SMALL, np.zeros((2, 1)), np.zeros(2), np.array(["n", "n"]), np.array(["a", "b"]))
