"""Tables as they come: text files whose layout is guessed, spreadsheets, JSON, Parquet, Arrow, and databases."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import importlib
import io
import json
import lzma
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from eupg.data.attribute import Listed, Role
from eupg.data.date import Date
from eupg.data.schema import Schema
from eupg.errors import DataError, MissingFramework, ParameterError

if TYPE_CHECKING:
    import pandas as pd

_Answer = TypeVar("_Answer")
# Words that stand for an empty cell, as in pandas.
_EMPTY = frozenset(
    ("", "NA", "N/A", "n/a", "<NA>", "NULL", "null", "None", "NaN", "nan", "-NaN", "-nan", "#NA", "#N/A", "#N/A N/A")
) | {"1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"}
_PACKED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_BROKEN_PACKAGES = (EOFError, lzma.LZMAError, zipfile.BadZipFile)
_TEXT = (".csv", ".tsv", ".txt", ".data", ".gz", ".bz2", ".xz", ".zip")
_PARQUET, _ARROW = (".parquet", ".pq"), (".arrow", ".feather")
_SHEETS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
_LINES, _JSON = (".jsonl", ".ndjson"), (".json",)
_DATABASES = (".duckdb", ".db", ".sqlite", ".sqlite3")
_FORMATS = (*_TEXT, *_PARQUET, *_ARROW, *_SHEETS, *_LINES, *_JSON, *_DATABASES)
_OTHERS = ".tsv, .xlsx, .ods, .jsonl, .arrow, .sqlite, .duckdb"
# The options that say how a table is stored, and the formats that each is for.
_USES = {
    "sep": _TEXT,
    "decimal": _TEXT,
    "encoding": (*_TEXT, *_LINES, *_JSON),
    "query": _DATABASES,
    "table": (*_DATABASES, *_SHEETS),
}
_EXTRAS = {"python_calamine": "excel", "duckdb": "duckdb", "psycopg": "postgres"}
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
# Lines that the guess of a separator looks at, and the share of them that must have as many cells as the first.
_LINES_READ, _SHARE = 200, 0.8
_COMMA_NUMBER = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+),\d+")
_ANY_NUMBER = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?")


@dataclass(frozen=True)
class _Layout:
    """How a text file is written."""

    encoding: str
    sep: str
    decimal: str


@dataclass(frozen=True)
class TableFile:
    r"""A table in a file or a database, and how it is stored; what is not said is guessed.

    Parameters
    ----------
    source
        The file, or the address of a database as SQLAlchemy writes it, such as ``postgresql://host/name``. The suffix
        of a file says its format: CSV (also compressed), Excel, JSON, Parquet, Arrow, SQLite or DuckDB.
    sep, decimal
        The separator of cells and the decimal mark of a CSV file. By default a comma, semicolon, tab or vertical bar,
        whichever divides the lines evenly; and a point, or a comma where semicolons separate numbers like 1,5.
    encoding
        The encoding of a CSV or JSON file; by default UTF-8, or Windows-1252 if the file is not UTF-8.
    query, table
        What to read from a database; ``table`` also names the sheet of a workbook.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = file.write_text("age;dose\n30;1,5\n41;2,25\n")
    >>> table = TableFile(file)
    >>> table.read()["dose"].tolist()
    [1.5, 2.25]
    >>> table.notes
    ('people.csv is read with semicolons between cells and decimal commas.',)
    """

    source: str | Path
    _: KW_ONLY
    sep: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    query: str | None = None
    table: str | None = None

    def __post_init__(self) -> None:
        if self.query is not None and self.table is not None:
            raise ParameterError("a query and a table are both named: pass one of them")
        for word, formats in _USES.items():
            applies = self._suffix in formats or (self._is_address and formats is not _TEXT and ".db" in formats)
            if getattr(self, word) is not None and not applies:
                raise ParameterError(f"{word} does not apply to {self.name}: it is for {', '.join(formats)} files")

    @property
    def name(self) -> str:
        """The name of the file, or the address of the database without its password."""
        if not self._is_address:
            return Path(self.source).name
        from sqlalchemy import make_url
        from sqlalchemy.exc import ArgumentError

        try:
            return make_url(str(self.source)).render_as_string(hide_password=True)
        except ArgumentError:
            return "the database"

    @property
    def stem(self) -> str:
        """A short name for the table."""
        return self.table or ("query" if self._is_address else Path(self.source).stem)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was guessed and differs from the default, in sentences."""
        if self._is_address or self._suffix not in _TEXT:
            return ()
        layout = self._layout
        parts = [f"{_SEPARATORS[layout.sep]} between cells"] if self.sep is None and layout.sep != "," else []
        parts += ["decimal commas"] if self.decimal is None and layout.decimal == "," else []
        known = self.encoding is not None or layout.encoding.startswith("utf-8")
        parts += [] if known else [f"the encoding {layout.encoding}"]
        words = " and ".join([", ".join(parts[:-1]), *parts[-1:]] if len(parts) > 1 else parts)
        return (f"{self.name} is read with {words}.",) if parts else ()

    def read(self, schema: Schema | None = None, *, names: Iterable[str] = ()) -> pd.DataFrame:
        """Return the table; columns that the schema calls categories, dates or names, and ``names``, are read as text.

        Without a schema, whole numbers of which some begin with a zero are text, too.
        """
        if self._is_address:
            return self._refuse_unreadable(lambda: self._from_address(str(self.source)))
        path = self._path
        if not path.is_file():
            raise DataError(f"no file {path}: name a CSV or Parquet file, or another that can be read ({_OTHERS})")
        if self._suffix not in _FORMATS:
            got = path.suffix or "no suffix"
            raise DataError(
                f"{self.name}: expected .csv or .parquet, got {got}: convert the file; others that can be read are "
                f"{_OTHERS}"
            )
        return self._refuse_unreadable(lambda: self._from_file(schema, names))

    def batches(self, schema: Schema, *, rows: int) -> Iterator[pd.DataFrame]:
        """Yield the table in pieces of this many rows. Only CSV files are read piece by piece; others are read at once.

        Columns that the schema does not declare may be absent.
        """
        if self._is_address or self._suffix not in _TEXT or not self._path.is_file():
            yield self.read(schema)
            return
        pieces = self._refuse_unreadable(lambda: self._text_pieces(schema, rows))
        while (piece := self._refuse_unreadable(lambda: next(pieces, None))) is not None:
            yield piece

    def _text_pieces(self, schema: Schema, rows: int) -> Iterator[pd.DataFrame]:
        import pandas as pd

        layout = self._layout
        form: dict[str, Any] = {"sep": layout.sep, "encoding": layout.encoding, "decimal": layout.decimal}
        columns = pd.read_csv(self._path, nrows=0, sep=layout.sep, encoding=layout.encoding).columns
        text = dict.fromkeys(_as_text(schema), str)
        form |= {"na_values": _empty_cells(schema, columns), "keep_default_na": False, "dtype": text}
        for piece in pd.read_csv(self._path, chunksize=rows, low_memory=False, **form):
            yield _without_thousands(piece, text) if layout.decimal == "," else piece

    @property
    def _is_address(self) -> bool:
        return "://" in str(self.source)

    @property
    def _path(self) -> Path:
        return Path(self.source)

    @property
    def _suffix(self) -> str:
        """The suffix that says the format: that of the packed file, where it is one of JSON."""
        path = Path(self.source)
        inner = Path(path.stem).suffix.lower()
        return inner if path.suffix.lower() in _PACKED and inner in (*_LINES, *_JSON) else path.suffix.lower()

    def _refuse_unreadable(self, read: Callable[[], _Answer]) -> _Answer:
        from sqlalchemy.exc import SQLAlchemyError

        try:
            return read()
        except ModuleNotFoundError as error:
            extra = _EXTRAS.get(str(error.name))
            package = f"'eupg[{extra}]'" if extra else error.name
            raise MissingFramework(f"{self.name} needs {error.name}: pip install {package}") from error
        except (ValueError, OSError, LookupError, SQLAlchemyError, *_BROKEN_PACKAGES) as error:
            if isinstance(error, DataError | ParameterError):
                raise
            said = str(getattr(error, "orig", None) or error).strip().split("\n")[0]
            step = "check the address and the query" if self._is_address else "check or replace the file"
            raise DataError(f"{self.name} cannot be read as a table ({said}): {step}") from error

    def _from_file(self, schema: Schema | None, names: Iterable[str]) -> pd.DataFrame:
        import pandas as pd

        if self._suffix in _PARQUET:
            return pd.read_parquet(self._path)
        if self._suffix in _ARROW:
            return _arrow(self._path)
        if self._suffix in _SHEETS:
            return self._sheet(schema)
        if self._suffix in (*_LINES, *_JSON):
            return self._json()
        if self._suffix in _DATABASES:
            return self._database()
        return self._text(schema, names)

    def _text(self, schema: Schema | None, names: Iterable[str]) -> pd.DataFrame:
        """Read a CSV file."""
        import pandas as pd

        layout = self._layout
        form: dict[str, Any] = {"sep": layout.sep, "encoding": layout.encoding}
        columns = pd.read_csv(self._path, nrows=0, **form).columns
        form |= {"na_values": _empty_cells(schema, columns), "keep_default_na": False, "low_memory": False}
        text = dict.fromkeys((*_as_text(schema), *names), str)
        table: pd.DataFrame = pd.read_csv(self._path, dtype=text, decimal=layout.decimal, **form)
        if layout.decimal == ",":
            table = _without_thousands(table, text)
        whole = [n for n in columns if schema is None and n not in text and _are_whole(table[n])]
        if whole:
            # As numbers, codes such as 01067 would lose their zeros.
            written = pd.read_csv(self._path, usecols=whole, dtype=str, **form)
            padded = [n for n in whole if written[n].str.match(r"0\d").any()]
            table[padded] = written[padded]
        return table

    @cached_property
    def _layout(self) -> _Layout:
        encoding = self.encoding or self._guess_encoding()
        with self._open() as file:
            text = io.TextIOWrapper(file, encoding=encoding, newline="")
            lines = [line for _, line in zip(range(_LINES_READ), text, strict=False)]
        sep = self.sep or _guess_separator(lines, default="\t" if self._suffix == ".tsv" else ",")
        if len(sep) != 1:
            raise ParameterError(f"sep must be one character, got {sep!r}")
        return _Layout(encoding, sep, self.decimal or _guess_decimal(lines, sep))

    def _open(self) -> IO[bytes]:
        suffix = self._path.suffix.lower()
        if suffix == ".zip":
            archive = zipfile.ZipFile(self._path)
            return archive.open(archive.namelist()[0])
        file: IO[bytes] = _PACKED.get(suffix, open)(self._path, "rb")
        return file

    def _guess_encoding(self) -> str:
        decoder = codecs.getincrementaldecoder("utf-8")()
        with self._open() as file:
            start = file.read(4)
            if start.startswith(codecs.BOM_UTF8):
                return "utf-8-sig"
            if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                return "utf-16"
            try:
                decoder.decode(start)
                while piece := file.read(1 << 20):
                    decoder.decode(piece)
                decoder.decode(b"", final=True)
            except UnicodeDecodeError:
                return "cp1252"
        return "utf-8"

    def _sheet(self, schema: Schema | None) -> pd.DataFrame:
        import pandas as pd

        # Its absence is said in our words, not in those of pandas.
        calamine = importlib.import_module("python_calamine")
        try:
            book = pd.ExcelFile(self._path, engine="calamine")
        except calamine.CalamineError as error:
            raise ValueError(str(error)) from error
        with book:
            sheets = [str(name) for name in book.sheet_names]
            if self.table is None and len(sheets) > 1:
                raise ParameterError(f"{self.name} has the sheets {', '.join(sheets)}: name one with --table (table=…)")
            if self.table is not None and self.table not in sheets:
                raise ParameterError(f"{self.name} has no sheet {self.table!r}: it has {', '.join(sheets)}")
            # As objects: a text that looks like a number stays text.
            frame = pd.read_excel(book, sheet_name=self.table or sheets[0], dtype=object, keep_default_na=False)
        empty = _empty_cells(schema, frame.columns)
        for name in frame.columns:
            cells = frame[name]
            frame[name] = cells.mask(cells.isin(empty[name])).infer_objects()
        return _text_numbers(frame.dropna(how="all").reset_index(drop=True), _as_text(schema))

    def _json(self) -> pd.DataFrame:
        """Read JSON records, one per line or in one list; what is nested becomes columns with a dot in their name."""
        import pandas as pd

        with self._open() as file:
            text = file.read().decode(self.encoding or "utf-8-sig")
        lines = self._suffix in _LINES
        records = [json.loads(line) for line in text.splitlines() if line.strip()] if lines else json.loads(text)
        if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
            shape = "one JSON object per line" if lines else "a list of JSON objects"
            raise DataError(f"{self.name}: expected records as {shape}: convert the file")
        return pd.DataFrame([_flat(record) for record in records])

    def _database(self) -> pd.DataFrame:
        with self._path.open("rb") as file:
            start = file.read(16)
        if start.startswith(b"SQLite format 3"):
            return self._from_address(f"sqlite:///{self._path.resolve()}")
        import duckdb

        try:
            with duckdb.connect(self._path, read_only=True) as connection:
                tables = [row[0] for row in connection.execute("SHOW TABLES").fetchall()]
                query = self._query(tables, lambda name: '"' + name.replace('"', '""') + '"')
                return connection.execute(query).df()
        except duckdb.Error as error:
            raise ValueError(str(error)) from error

    def _from_address(self, address: str) -> pd.DataFrame:
        import pandas as pd
        from sqlalchemy import create_engine, inspect, make_url, text

        url = make_url(address)
        if url.drivername in ("postgresql", "postgres"):
            url = url.set(drivername="postgresql+psycopg")
        if url.drivername == "sqlite" and url.database:
            # Read-only: a file that does not exist is not made.
            url = url.set(
                database=f"file:{quote(str(Path(url.database).resolve()))}", query={"mode": "ro", "uri": "true"}
            )
        engine = create_engine(url, hide_parameters=True)
        try:
            # Nothing is committed: a query that would change the database has no effect, or is refused.
            with engine.connect() as connection:
                if engine.dialect.name == "postgresql":
                    connection.execution_options(postgresql_readonly=True)
                known = inspect(connection)
                tables = [] if self.query else [*known.get_table_names(), *known.get_view_names()]
                query = self._query(tables, engine.dialect.identifier_preparer.quote)
                # As text of SQL, in which a colon or a percent sign does not stand for a parameter.
                return pd.read_sql(text(query.replace(":", r"\:")), connection)
        finally:
            engine.dispose()

    def _query(self, tables: Sequence[str], quoted: Callable[[str], str]) -> str:
        """Return the query to run: the user's, or one for a whole table."""
        if self.query is not None:
            return self.query
        table = self.table or (tables[0] if len(tables) == 1 else None)
        if table is None or table not in tables:
            known = f"it has {', '.join(tables) or 'none'}"
            problem = f"{known}, and none is chosen" if table is None else f"no table {table!r}: {known}"
            raise ParameterError(f"{self.name}: {problem}: pass --table (table=…), or --query (query=…) with a SELECT")
        return f"SELECT * FROM {quoted(table)}"


def return_memory() -> None:
    """Return to the system what Arrow keeps for the next table, once a table has become records."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


def _as_text(schema: Schema | None) -> list[str]:
    """Return the columns that hold text whatever they look like."""
    keys = (Role.SUBJECT, Role.IDENTIFIER)
    attributes = schema.attributes if schema else ()
    return [a.name for a in attributes if isinstance(a, Listed | Date) or a.role in keys]


def _empty_cells(schema: Schema | None, columns: Iterable[str]) -> dict[str, list[str]]:
    """Return the words that stand for an empty cell; "None" or "NA" is a category where the schema lists it."""
    listed = {a.name: a.categories for a in (schema.attributes if schema else ()) if isinstance(a, Listed)}
    return {name: sorted(_EMPTY.difference(listed.get(name, ()))) for name in columns}


def _are_whole(column: pd.Series) -> bool:
    return column.dtype.kind in "iu" or (column.dtype.kind == "f" and bool((column.dropna() % 1 == 0).all()))


def _without_thousands(table: pd.DataFrame, text: Iterable[str]) -> pd.DataFrame:
    """Turn text like 1.234,50 into numbers, in columns where every cell is such a number."""
    for name in table.columns.difference(list(text)):
        cells = table[name].dropna()
        if len(cells) and all(isinstance(c, str) and _ANY_NUMBER.fullmatch(c) for c in cells.unique()):
            plain = table[name].str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
            table[name] = plain.astype(float)
    return table


def _text_numbers(table: pd.DataFrame, text: Iterable[str]) -> pd.DataFrame:
    """Turn numbers that a workbook stores as text into numbers, unless one begins with a zero that would be lost."""
    import pandas as pd

    for name in table.columns.difference(list(text)):
        cells = table[name].dropna()
        if len(cells) and all(isinstance(c, str) and not re.match(r"0\d", c) for c in cells):
            numbers = pd.to_numeric(table[name], errors="coerce")
            table[name] = numbers if numbers.notna().sum() == len(cells) else table[name]
    return table


def _arrow(path: Path) -> pd.DataFrame:
    """Read an Arrow file, or what was written as a stream."""
    import pyarrow as pa
    import pyarrow.feather as pf

    with path.open("rb") as file:
        stream = not file.read(6).startswith((b"ARROW1", b"FEA1"))
    table = pa.ipc.open_stream(path.read_bytes()).read_all() if stream else pf.read_table(path)
    frame: pd.DataFrame = table.to_pandas()
    return frame


def _flat(record: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a record whose nested objects have become entries with a dot in their name, in the same order."""
    flat: dict[str, Any] = {}
    for name, value in record.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat


def _guess_separator(lines: list[str], *, default: str) -> str:
    """Return the separator that divides the first line into the most cells, and most other lines into as many."""
    best = (1, default)
    for separator in sorted(_SEPARATORS, key=lambda s: s != default):
        rows = [row for row in csv.reader(lines, delimiter=separator) if row]
        # The last line may have been cut off within quotes.
        rows = rows[:-1] if len(lines) == _LINES_READ else rows
        cells = len(rows[0]) if rows else 0
        if cells > best[0] and sum(len(row) == cells for row in rows) >= _SHARE * len(rows):
            best = (cells, separator)
    return best[1]


def _guess_decimal(lines: list[str], sep: str) -> str:
    """Return a comma if semicolons separate cells and some column holds numbers like 1,5 and no other text."""
    rows = [row for row in csv.reader(lines, delimiter=sep) if row][1:] if sep == ";" else []
    for column in zip(*rows, strict=False):
        cells = [cell.strip() for cell in column if cell.strip() not in _EMPTY]
        if any(map(_COMMA_NUMBER.fullmatch, cells)) and all(map(_ANY_NUMBER.fullmatch, cells)):
            return ","
    return "."
