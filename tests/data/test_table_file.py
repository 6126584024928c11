"""Tables as they come: what is guessed about a file, what each format gives, and what is said about the rest."""

import gzip
import html
import json
import os
import sqlite3
import sys
import uuid
import zipfile
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as pf
import pytest
from sqlalchemy import create_engine
from sqlalchemy import text as sql

from eupg.cli import main
from eupg.data import Categorical, Dataset, Date, Numeric, Role, Schema, TableFile
from eupg.errors import DataError, MissingFramework, ParameterError
from people import people

POSTGRES = os.environ.get("EUPG_TEST_POSTGRES", "")
TABLE = pd.DataFrame({"code": ["007", "012", "100"], "age": [30, 41, 58], "dose": [1.5, 2.25, None]})
ILL = Categorical(name="ill", role=Role.LABEL, categories=("no", "yes"))


def written(tmp_path, content, name="t.csv", encoding="utf-8"):
    (tmp_path / name).write_text(content, encoding=encoding, newline="")
    return tmp_path / name


@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
def test_separator_is_guessed_beside_quoted_text(tmp_path, sep):
    text = f'a{sep}b{sep}c\n1{sep}"x, y; z | \t"{sep}3\n' + f'2{sep}"two\nlines"{sep}4\n' * 3
    table = TableFile(written(tmp_path, text)).read()
    assert list(table.columns) == ["a", "b", "c"]
    assert table["b"].tolist() == ["x, y; z | \t"] + ["two\nlines"] * 3


def test_other_separators_in_unquoted_text_do_not_mislead(tmp_path):
    text = "id,note\n" + "".join(f"{i},one; two | three\n" for i in range(50))
    assert list(TableFile(written(tmp_path, text)).read().columns) == ["id", "note"]


def test_one_column_is_not_divided(tmp_path):
    file = TableFile(written(tmp_path, "note\nyes\nwell; no\n"))
    assert file.read()["note"].tolist() == ["yes", "well; no"]
    assert file.notes == ()


def test_byte_order_mark_is_not_part_of_the_first_name(tmp_path):
    for encoding in ("utf-8-sig", "utf-16"):
        file = TableFile(written(tmp_path, "größe,b\n1,2\n", encoding=encoding))
        assert list(file.read().columns) == ["größe", "b"]


def test_windows_encoding_is_guessed_and_said_wherever_the_first_such_byte_is(tmp_path):
    text = "name,b\n" + "x,1\n" * 300_000 + "Müller,2\n"
    file = TableFile(written(tmp_path, text, encoding="cp1252"))
    assert file.read()["name"].iloc[-1] == "Müller"
    assert file.notes == ("t.csv is read with the encoding cp1252.",)
    assert TableFile(file.source, encoding="cp1252").notes == ()


def test_decimal_commas_and_points_between_thousands_are_guessed_with_semicolons(tmp_path):
    text = "a;b;c;d\n1,5;1.234,50;31.12.2020;x\n;-2,00;01.02.2021;y\n2;10;01.03.2021;1,5\n"
    file = TableFile(written(tmp_path, text))
    table = file.read()
    assert table["a"].tolist()[::2] == [1.5, 2.0]
    assert table["b"].tolist() == [1234.5, -2.0, 10.0]
    assert table["c"].tolist() == ["31.12.2020", "01.02.2021", "01.03.2021"]
    assert table["d"].tolist() == ["x", "y", "1,5"]
    assert file.notes == ("t.csv is read with semicolons between cells and decimal commas.",)


@pytest.mark.parametrize("text", ["a;b\n1.5;2\n2.5;3\n", 'a,b\n"1,5",2\n"2,5",3\n', "a;b\n1,5;x\ntwo;y\n"])
def test_decimal_points_stay_where_nothing_says_otherwise(tmp_path, text):
    file = TableFile(written(tmp_path, text))
    assert not any("decimal" in note for note in file.notes)
    assert file.read()["a"].iloc[0] in (1.5, "1,5")


def test_what_is_said_is_not_guessed(tmp_path):
    file = TableFile(written(tmp_path, "a:b\n1,5:2;3\n"), sep=":", decimal=",")
    assert file.read().to_dict("list") == {"a": [1.5], "b": ["2;3"]}
    assert file.notes == ()


def test_zeros_before_whole_numbers_survive_without_a_schema(tmp_path):
    table = TableFile(written(tmp_path, "zip,age,n\n99999,30,\n" + "99998,31,0\n" * 300 + "01067,32,7\n")).read()
    assert table["zip"].iloc[-1] == "01067"
    assert table["age"].tolist()[-1] == 32
    assert table["n"].tolist()[-1] == 7.0


def test_packed_files_are_read(tmp_path):
    text = "a;b\n1;2\n"
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("t.csv", text)
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress(b'{"a": 1, "b": 2}\n'))
    for name in ("t.csv.gz", "t.zip", "t.jsonl.gz"):
        assert TableFile(tmp_path / name).read().to_dict("list") == {"a": [1], "b": [2]}


def _jsonl(path):
    records = TABLE.replace({np.nan: None}).to_dict("records")
    path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")


def _sqlite(path):
    with sqlite3.connect(path) as connection:
        TABLE.to_sql("people", connection, index=False)
    connection.close()


def _duckdb(path):
    with duckdb.connect(path) as connection:
        connection.register("table_", TABLE)
        connection.execute("CREATE TABLE people AS SELECT * FROM table_")


def _stream(path):
    table = pa.Table.from_pandas(TABLE)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def _ods(path, frame=TABLE):
    """Write a workbook of LibreOffice: one sheet, each cell of the type that it has there."""
    rows = [frame.columns.tolist(), *frame.itertuples(index=False)]
    lines = ["".join(_ods_cell(value) for value in row) for row in rows]
    names = {n: f"urn:oasis:names:tc:opendocument:xmlns:{n}:1.0" for n in ("office", "table", "text", "manifest")}
    spaces = " ".join(f'xmlns:{name}="{address}"' for name, address in names.items())
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    table = "".join(f"<table:table-row>{line}</table:table-row>" for line in lines)
    content = f'<table:table table:name="people">{table}</table:table>'
    entry = f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{kind}"/>'
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", kind)
        archive.writestr("META-INF/manifest.xml", f"<manifest:manifest {spaces}>{entry}</manifest:manifest>")
        body = f"<office:body><office:spreadsheet>{content}</office:spreadsheet></office:body>"
        archive.writestr("content.xml", f"<office:document-content {spaces}>{body}</office:document-content>")


def _ods_cell(value):
    if pd.isna(value):
        return "<table:table-cell/>"
    if isinstance(value, pd.Timestamp):
        day = f"{value:%Y-%m-%d}"
        return (
            f'<table:table-cell office:value-type="date" office:date-value="{day}"><text:p>{day}</text:p>'
            "</table:table-cell>"
        )
    number = f' office:value="{value}"' if not isinstance(value, str) else ""
    kind = "float" if number else "string"
    return (
        f'<table:table-cell office:value-type="{kind}"{number}><text:p>{html.escape(str(value))}</text:p>'
        "</table:table-cell>"
    )


WRITERS: dict[str, Callable[[Path], object]] = {
    "t.csv": lambda path: TABLE.to_csv(path, index=False),
    "t.tsv": lambda path: TABLE.to_csv(path, index=False, sep="\t"),
    "t.xlsx": lambda path: TABLE.to_excel(path, index=False),
    "t.ods": _ods,
    "t.jsonl": _jsonl,
    "t.json": lambda path: path.write_text(TABLE.to_json(orient="records"), encoding="utf-8"),
    "t.parquet": TABLE.to_parquet,
    "t.feather": lambda path: pf.write_feather(pa.Table.from_pandas(TABLE), path),
    "t.arrow": _stream,
    "t.sqlite": _sqlite,
    "t.db": _duckdb,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_table(tmp_path, name):
    WRITERS[name](tmp_path / name)
    table = TableFile(tmp_path / name).read()
    assert table["code"].tolist() == ["007", "012", "100"]
    assert table["age"].tolist() == [30, 41, 58]
    assert table["dose"].tolist()[:2] == [1.5, 2.25]
    assert table["dose"].isna().tolist() == [False, False, True]
    schema = Schema((Categorical(name="code", role=Role.LABEL, categories=("007", "012", "100")), AGE))
    assert Dataset.read(tmp_path / name, schema).X[:, 0].tolist() == [30, 41, 58]


AGE = Numeric(name="age", lower=0, upper=120)


class TestWorkbook:
    def test_numbers_stored_as_text_and_empty_rows_are_read_as_meant(self, tmp_path):
        frame = pd.DataFrame({"n": ["1", "2", None], "zip": ["01067", "10115", None], "w": ["NA", "x", None]})
        frame.to_excel(tmp_path / "t.xlsx", index=False)
        table = TableFile(tmp_path / "t.xlsx").read()
        assert table["n"].tolist() == [1, 2]
        assert table["zip"].tolist() == ["01067", "10115"]
        assert table["w"].isna().tolist() == [True, False]

    def test_dates_become_days(self, tmp_path):
        pd.DataFrame({"born": [pd.Timestamp("1990-01-01"), None], "ill": ["no", "yes"]}).to_excel(
            tmp_path / "t.xlsx", index=False
        )
        table = TableFile(tmp_path / "t.xlsx").read()
        schema = Schema.infer(table, label="ill")
        assert isinstance(schema["born"], Date)
        assert Dataset.from_table(table, schema).X[0, 0] == 7305

    def test_dates_of_another_office_become_days_too(self, tmp_path):
        _ods(tmp_path / "t.ods", pd.DataFrame({"born": [pd.Timestamp("1990-01-01"), None], "ill": ["no", "<yes>"]}))
        table = TableFile(tmp_path / "t.ods").read()
        assert table["ill"].tolist() == ["no", "<yes>"]
        assert Dataset.from_table(table, Schema.infer(table, label="ill")).X[0, 0] == 7305

    def test_one_of_several_sheets_must_be_named(self, tmp_path):
        with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
            TABLE.to_excel(book, sheet_name="people", index=False)
            TABLE.head(1).to_excel(book, sheet_name="notes", index=False)
        with pytest.raises(ParameterError, match=r"t\.xlsx has the sheets people, notes: name one with --table"):
            TableFile(tmp_path / "t.xlsx").read()
        assert len(TableFile(tmp_path / "t.xlsx", table="people").read()) == 3
        with pytest.raises(ParameterError, match="no sheet 'peple': it has people, notes"):
            TableFile(tmp_path / "t.xlsx", table="peple").read()

    def test_file_that_is_no_workbook_is_named(self, tmp_path):
        with pytest.raises(DataError, match=r"t\.xlsx cannot be read as a table \(.*\): check or replace the file"):
            TableFile(written(tmp_path, "no workbook", "t.xlsx")).read()


class TestDatabase:
    @pytest.mark.parametrize("name", ["t.sqlite", "t.db"])
    def test_query_is_answered_and_cannot_change_the_file(self, tmp_path, name):
        WRITERS[name](tmp_path / name)
        query = "SELECT age + 1 AS next FROM people WHERE code <> '007' ORDER BY age"
        assert TableFile(tmp_path / name, query=query).read()["next"].tolist() == [42, 59]
        before = (tmp_path / name).read_bytes()
        with pytest.raises(DataError, match=rf"{name} cannot be read as a table \("):
            TableFile(tmp_path / name, query="DELETE FROM people").read()
        assert (tmp_path / name).read_bytes() == before

    @pytest.mark.parametrize("name", ["t.sqlite", "t.db"])
    def test_unknown_table_lists_the_known_ones(self, tmp_path, name):
        WRITERS[name](tmp_path / name)
        assert len(TableFile(tmp_path / name, table="people").read()) == 3
        with pytest.raises(ParameterError, match=r"no table 'dogs': it has people: pass --table \(table=…\), or"):
            TableFile(tmp_path / name, table="dogs").read()

    def test_address_is_not_a_path_and_its_password_is_not_shown(self, tmp_path):
        _sqlite(tmp_path / "t.sqlite")
        file = TableFile(f"sqlite:///{tmp_path}/t.sqlite", query="SELECT age FROM people")
        assert file.read()["age"].tolist() == [30, 41, 58]
        with pytest.raises(DataError, match="unable to open database file"):
            TableFile(f"sqlite:///{tmp_path}/none.sqlite", query="SELECT 1").read()
        assert not (tmp_path / "none.sqlite").exists()
        secret = TableFile("postgresql://me:secret@localhost:1/none", query="SELECT 1")
        with pytest.raises(DataError, match="cannot be read as a table") as told:
            secret.read()
        assert "secret" not in str(told.value)

    def test_duckdb_relation_is_a_table(self):
        rows = duckdb.sql("SELECT 30 + i AS age, ['no', 'yes'][1 + i % 2] AS ill FROM range(4) t(i)")
        data = Dataset.from_table(rows, Schema((AGE, ILL)))
        assert (data.X[:, 0].tolist(), data.y.tolist()) == ([30, 31, 32, 33], [0, 1, 0, 1])


def test_nested_records_become_columns_in_their_order(tmp_path):
    path = written(tmp_path, '{"a": {"x": 1, "y": {"z": "007"}}, "b": 2}\n\n{"b": 3, "c": [1]}\n', "t.jsonl")
    table = TableFile(path).read()
    assert list(table.columns) == ["a.x", "a.y.z", "b", "c"]
    assert table["a.y.z"].iloc[0] == "007"


@pytest.mark.parametrize(("name", "text"), [("t.jsonl", "[1]\n"), ("t.json", '{"a": [1]}')])
def test_json_that_is_not_records_is_refused(tmp_path, name, text):
    with pytest.raises(DataError, match="expected records as"):
        TableFile(written(tmp_path, text, name)).read()


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("t.parquet", {"sep": ";"}, r"sep does not apply to t\.parquet: it is for \.csv, .* files"),
        ("t.csv", {"query": "SELECT 1"}, r"query does not apply to t\.csv: it is for \.duckdb"),
        ("t.csv", {"table": "people"}, r"table does not apply to t\.csv: it is for .*\.xlsx"),
        ("t.sqlite", {"query": "SELECT 1", "table": "people"}, "both named: pass one"),
        ("sqlite:///t.sqlite", {"encoding": "utf-8"}, "encoding does not apply to sqlite:///t.sqlite"),
    ],
)
def test_option_that_would_be_ignored_is_refused(name, options, said):
    with pytest.raises(ParameterError, match=said):
        TableFile(name, **options)


def test_separator_of_several_characters_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="sep must be one character, got '::'"):
        TableFile(written(tmp_path, "a::b\n1::2\n"), sep="::").read()


def test_unknown_encoding_is_named(tmp_path):
    with pytest.raises(DataError, match=r"t\.csv cannot be read as a table \(unknown encoding: latin-42\)"):
        TableFile(written(tmp_path, "a,b\n1,2\n"), encoding="latin-42").read()


@pytest.mark.parametrize(
    ("name", "package", "extra"), [("t.xlsx", "python_calamine", "excel"), ("t.db", "duckdb", "duckdb")]
)
def test_missing_package_is_named_with_the_extra_that_installs_it(tmp_path, monkeypatch, name, package, extra):
    WRITERS[name](tmp_path / name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingFramework, match=rf"{name} needs {package}: pip install 'eupg\[{extra}\]'"):
        TableFile(tmp_path / name).read()


@pytest.mark.skipif(not POSTGRES, reason="EUPG_TEST_POSTGRES is not set: see .ci/postgres")
class TestPostgreSQL:
    @pytest.fixture
    def address(self):
        """Fill a schema of its own with tables as a hospital has them; return the address that finds it."""
        engine, schema = create_engine(POSTGRES), f"tables_{uuid.uuid4().hex}"
        with engine.begin() as connection:
            connection.execute(sql(f"CREATE SCHEMA {schema}"))
            connection.execute(sql(f"SET search_path TO {schema}"))
            connection.execute(
                sql(
                    'CREATE TABLE "People" (code text, age integer, dose numeric(6, 2), born date, seen timestamptz, '
                    "smokes boolean)"
                )
            )
            connection.execute(
                sql(
                    "INSERT INTO \"People\" VALUES ('007', 30, 1.5, '1990-01-01', '2020-01-01 12:00+00', true), "
                    "('012', 41, 2.25, NULL, NULL, NULL), ('100', 58, NULL, '1962-03-04', '2020-02-01 12:00+02', false)"
                )
            )
            connection.execute(sql('CREATE VIEW adults AS SELECT code, age FROM "People" WHERE age > 40'))
        yield f"{POSTGRES.replace('+psycopg', '')}&options=-csearch_path%3D{schema}"
        with engine.begin() as connection:
            connection.execute(sql(f"DROP SCHEMA {schema} CASCADE"))
        engine.dispose()

    def test_a_table_is_read_with_its_types(self, address):
        table = TableFile(address, table="People").read()
        assert table["code"].tolist() == ["007", "012", "100"]
        assert table["age"].tolist() == [30, 41, 58]
        assert table["dose"].tolist()[:2] == [1.5, 2.25]
        schema = Schema.infer(table.assign(ill=["no", "yes", "no"]), label="ill")
        assert isinstance(schema["born"], Date)
        assert isinstance(schema["seen"], Date)
        assert isinstance(schema["smokes"], Categorical)
        data = Dataset.from_table(table.assign(ill=["no", "yes", "no"]), schema)
        assert data.X[0, [a.name for a in schema.features].index("born")] == 7305

    def test_a_view_is_a_table_too_and_the_only_table_needs_no_name(self, address):
        assert TableFile(address, table="adults").read()["age"].tolist() == [41, 58]
        with pytest.raises(ParameterError, match=r"it has People, adults, and none is chosen: pass --table"):
            TableFile(address).read()

    def test_a_query_is_answered_and_changes_nothing(self, address):
        query = "SELECT age FROM \"People\" WHERE code LIKE '0%' ORDER BY age"
        assert TableFile(address, query=query).read()["age"].tolist() == [30, 41]
        gone = TableFile(address, query='DELETE FROM "People" RETURNING age').read
        with pytest.raises(DataError, match="read-only transaction"):
            gone()
        assert len(TableFile(address, table="People").read()) == 3

    def test_what_the_server_refuses_is_said_without_the_password(self, address):
        with pytest.raises(DataError, match=r"relation .dogs. does not exist.*check the address and the query"):
            TableFile(address, query="SELECT * FROM dogs").read()

    def test_on_the_command_line(self, address, tmp_path):
        engine = create_engine(f"{address.replace('postgresql:', 'postgresql+psycopg:')}")
        data = people(200)
        frame = table_with_label(data)
        frame.to_sql("patients", engine, index=False)
        engine.dispose()
        assert (
            main(
                [
                    *("schema", "--data", address, "--table", "patients", "--label", "ill"),
                    *("--subject", "who", "--out", str(tmp_path / "s.toml")),
                ]
            )
            == 0
        )
        done = main(
            [
                *("train", "--data", address, "--table", "patients", "--schema", str(tmp_path / "s.toml")),
                *("--method", "exact-trees", "--workspace", str(tmp_path / "ws"), "--hold-out", "0"),
            ]
        )
        assert done == 0


def table_with_label(data: Dataset) -> pd.DataFrame:
    label = data.schema.label
    return data.to_pandas().drop(columns=label.name).assign(who=data.subjects, ill=label.decode(data.y.astype(float)))
