"""Dates: numbers of days between public bounds, read in one way or not at all."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from eupg.data import Categorical, Dataset, Date, Missing, Outside, Role, Schema
from eupg.data.date import ISO, date_formats
from eupg.data.rows import RowReader
from eupg.errors import DataError, SchemaError

ILL = Categorical(name="ill", role=Role.LABEL, categories=("no", "yes"))
BORN = Date(name="born", lower="1970-01-01", upper="1970-12-31")
DAYS = ["1970-01-02", "1970-01-31", "1970-03-01"]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(DAYS),
        pd.Series(pd.to_datetime(DAYS)),
        pd.Series(pd.to_datetime(DAYS).tz_localize("UTC").tz_convert("Asia/Tokyo")),
        pd.Series([datetime.date.fromisoformat(day) for day in DAYS], dtype=object),
        pl.Series(DAYS).str.to_date().to_pandas(),
        pd.Series([f"{day}T00:00:00Z" for day in DAYS]),
    ],
    ids=["text", "datetime64", "with a zone", "objects", "polars", "text with a zone"],
)
def test_every_kind_of_date_becomes_the_same_days(column):
    assert BORN.encode(column).tolist() == [1, 30, 59]


def test_format_reads_text_and_compact_numbers():
    assert BORN.encode(pd.Series(["1970-01-02 12:00"])).tolist() == [1.5]
    for form, value in (("%d.%m.%Y", "31.01.1970"), ("%Y%m%d", 19700131)):
        date = Date(name="born", lower="1970-01-01", upper="1970-12-31", format=form)
        assert date.encode(pd.Series([value])).tolist() == [30]


def test_what_is_no_date_is_counted_and_refused():
    with pytest.raises(DataError, match="column 'born': 2 of 3 rows are not dates like 1990-12-31: clean them"):
        BORN.encode(pd.Series(["1970-01-02", "31.01.1970", "1970-02-30"]))
    with pytest.raises(DataError, match=r"1 of 1 rows lie outside the public bounds 1970-01-01 to 1970-12-31"):
        BORN.encode(pd.Series(["1971-01-01"]))


def test_missing_dates_are_kept_filled_or_refused():
    column = pd.Series(["1970-01-02", None])
    with pytest.raises(DataError, match="1 of 2 rows are missing"):
        BORN.encode(column)
    keep = Date(name="born", lower="1970-01-01", upper="1970-12-31", missing=Missing.KEEP)
    assert np.isnan(keep.encode(column)[1])
    fill = Date(name="born", lower="1970-01-01", upper="1970-12-31", missing=Missing.FILL, fill="1970-01-11")
    assert fill.encode(column).tolist() == [1, 10]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lower": "1 May"}, "lower must be a date like 1990-12-31, got '1 May'"),
        ({"upper": "1960-01-01"}, "lower must not exceed upper"),
        ({"format": "day first"}, 'format must be like "%d/%m/%Y"'),
        ({"fill": "1980-01-01", "missing": "fill"}, "fill must lie within the bounds"),
    ],
)
def test_wrong_declaration_is_refused(options, said):
    with pytest.raises(SchemaError, match=said):
        Date(**{"name": "born", "lower": "1970-01-01", "upper": "1970-12-31"} | options)


def test_bounds_are_dates_in_toml_and_text_in_json():
    noon = datetime.datetime(1990, 1, 1, 12)
    schema = Schema((Date(name="born", lower=noon, upper=datetime.date(2030, 1, 1), format="%d.%m.%Y"), ILL))
    assert "lower = 1990-01-01 12:00:00\nupper = 2030-01-01\n" in schema.to_toml()
    assert schema.to_json()["attributes"][0]["upper"] == "2030-01-01"
    assert Schema.from_toml(schema.to_toml()) == schema == Schema.from_json(schema.to_json())


def test_records_are_shown_as_dates_and_come_back():
    schema = Schema((Date(name="born", lower="1970-01-01", upper="1970-12-31", format="%d/%m/%Y"), ILL))
    data = Dataset.from_table(pd.DataFrame({"born": ["02/01/1970", "31/01/1970"], "ill": ["no", "yes"]}), schema)
    shown = data.to_pandas()
    assert shown["born"].tolist() == [pd.Timestamp("1970-01-02"), pd.Timestamp("1970-01-31")]
    assert Dataset.from_table(shown, schema).X.tolist() == data.X.tolist()


def test_rows_to_predict_are_clipped_or_named():
    inferred = Date(name="born", lower="1970-01-01", upper="1970-12-31", inferred=("lower", "upper"))
    reader = RowReader(Schema((inferred, ILL)))
    rows = reader.read(pd.DataFrame({"born": ["1980-05-05", "1970-01-02"]}))
    assert rows.X.tolist() == [[364.0], [1.0]]
    assert rows.adjusted[0].describe() == "'born' clipped to 1970-01-01 to 1970-12-31"
    with pytest.raises(DataError, match="column 'born', row 1: 'May' is not a date"):
        reader.read(pd.DataFrame({"born": ["1970-01-02", "May"]}))
    clip = Date(name="born", lower="1970-01-01", upper="1970-12-31", outside=Outside.CLIP)
    assert RowReader(Schema((clip, ILL))).read(pd.DataFrame({"born": ["1960-05-05"]})).X.tolist() == [[0.0]]


@pytest.mark.parametrize(
    ("values", "formats"),
    [
        (["2020-01-01", "2020-12-31 10:00"], [ISO]),
        (["2020/01/01"], ["%Y/%m/%d"]),
        (["03/04/2020", "05/06/2020"], ["%d/%m/%Y", "%m/%d/%Y"]),
        (["03/04/2020", "25/06/2020"], ["%d/%m/%Y"]),
        (["03/04/2020", "05/26/2020"], ["%m/%d/%Y"]),
        (["03.04.2020"], ["%d.%m.%Y"]),
        (["03.04.20 10:30"], ["%d.%m.%y %H:%M"]),
        (["2020-01-01", "soon"], []),
        (["99.99.2020"], []),
        (["1.2.3", "10.20.30"], []),
        ([20200101], []),
        ([["2020-01-01"]], []),
        ([None], []),
    ],
)
def test_formats_that_fit_every_value(values, formats):
    assert date_formats(pd.Series(values)) == formats


class TestInferred:
    def table(self, born):
        return pd.DataFrame({"born": born, "ill": ["no", "yes"] * (len(born) // 2)})

    def test_bounds_hide_the_exact_extremes(self):
        born = Schema.infer(self.table(["1934-05-06", "1999-12-31"]), label="ill")["born"]
        assert born == Date(name="born", lower="1930-01-01", upper="2000-01-01", inferred=("lower", "upper"))
        near = Schema.infer(self.table(["1998-05-06", "1999-12-31"]), label="ill")["born"]
        assert near == Date(name="born", lower="1998-01-01", upper="2000-01-01", inferred=("lower", "upper"))

    def test_dates_that_all_differ_are_not_names(self):
        days = pd.date_range("2020-01-01", periods=60).strftime("%Y-%m-%d").tolist()
        assert isinstance(Schema.infer(self.table(days), label="ill")["born"], Date)

    def test_dates_among_other_text_are_refused_until_it_is_a_category(self):
        table = self.table(["2020-01-01", "2020-02-01", "soon", "2020-03-01"])
        with pytest.raises(SchemaError, match="column 'born' holds dates and 1 values that are not: empty these cells"):
            Schema.infer(table, label="ill")
        assert isinstance(Schema.infer(table, label="ill", categories=["born"])["born"], Categorical)

    def test_two_readings_are_refused_until_one_is_chosen(self):
        table = self.table(["03/04/2020", "05/06/2020"])
        said = (
            r"column 'born': its dates can be read as %d/%m/%Y or %m/%d/%Y: say which with dates={'born': '%d/%m/%Y'}"
        )
        with pytest.raises(SchemaError, match=said):
            Schema.infer(table, label="ill")
        schema = Schema.infer(table, label="ill", dates={"born": "%m/%d/%Y"})
        assert Dataset.from_table(table, schema).to_pandas()["born"].iloc[0] == pd.Timestamp("2020-03-04")
