"""A large table as chunks of rows, each of which one task reads and codes by itself.

Parquet and Arrow files are read in place, by their row groups and record batches. Anything else is read from front to
back once and copied into chunks in the folder of the run, which is erased with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Attribute, Column, Numeric
from eupg.data.date import Date
from eupg.data.schema import Schema
from eupg.data.table_file import TableFile
from eupg.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather")
# Rows of a chunk, unless the row groups of the file are larger; if they are this many times larger, they are copied.
ROWS, _TOO_LARGE = 1 << 19, 4


@dataclass(frozen=True)
class Chunk:
    """Some row groups of a Parquet file, or record batches of an Arrow file; ``first`` counts rows of the table."""

    path: str
    pieces: tuple[int, ...]
    rows: int
    first: int

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Return these columns of the chunk."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if Path(self.path).suffix.lower() in PARQUET:
            with pq.ParquetFile(self.path) as file:
                return file.read_row_groups(list(self.pieces), columns=list(columns), use_threads=False)
        with pa.memory_map(self.path) as mapped, pa.ipc.open_file(mapped) as reader:
            batches = [reader.get_batch(piece).select(list(columns)) for piece in self.pieces]
            return pa.Table.from_batches(batches)


@dataclass(frozen=True)
class TableColumns:
    """What is read: the features and the label, as a schema codes them, and on request the names of people."""

    schema: Schema
    people: bool = False

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """The features, in order, then the label."""
        return (*self.schema.features, self.schema.label)

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns that are read; no other column is."""
        subject = [self.schema.subject] if self.people and self.schema.subject is not None else []
        return [a.name for a in (*self.attributes, *subject)]

    def read(self, chunk: Chunk) -> list[Column]:
        """Return the columns of a chunk in the coding of the schema; a value that does not fit is an error."""
        return self.coded(chunk.read(self.names))

    def coded(self, table: pa.Table) -> list[Column]:
        """Return the columns of an Arrow table in the coding of the schema."""
        return [_coded(attribute, table[attribute.name]) for attribute in self.attributes]

    def check(self, names: Sequence[str], where: str) -> None:
        """Refuse a table that lacks one of the columns."""
        absent = [name for name in self.names if name not in names]
        if absent:
            raise DataError(
                f"{where} lacks {', '.join(map(repr, absent))}, which the schema declares; it has "
                f"{', '.join(map(repr, names))}: correct the schema or the table; columns are matched by exact name"
            )


def chunks_of(source: str | Path | TableFile, columns: TableColumns, folder: Path, *, rows: int = ROWS) -> list[Chunk]:
    """Return the chunks of a table: of a file, or of all Parquet files in a folder, in the order of their names.

    The chunks depend on the files alone. A file that cannot be read in place is copied to ``folder`` first.
    """
    if not isinstance(source, TableFile) and Path(source).is_dir():
        files = sorted(p for p in Path(source).iterdir() if p.suffix.lower() in PARQUET)
        if not files:
            raise DataError(f"{source} holds no Parquet file: name a table, or a folder of .parquet files")
    else:
        file = source if isinstance(source, TableFile) else TableFile(source)
        files = [Path(file.source)]
        if not _in_place(file):
            files = list(_copied(_batches(file, columns, rows), folder, Path(file.source).stem))
    chunks: list[Chunk] = []
    for path in (part for file in files for part in _small_enough(file, columns, folder, rows)):
        first = chunks[-1].first + chunks[-1].rows if chunks else 0
        names, sizes = _pieces(path)
        columns.check(names, path.name)
        chunks += _packed(str(path), sizes, first, rows)
    return chunks


def _in_place(file: TableFile) -> bool:
    path = Path(file.source)
    if not path.is_file():
        return False
    if path.suffix.lower() in ARROW:
        with path.open("rb") as content:
            return content.read(6) == b"ARROW1"
    return path.suffix.lower() in PARQUET


def _small_enough(path: Path, columns: TableColumns, folder: Path, rows: int) -> Iterator[Path]:
    """Return a file, or copies of a Parquet file whose row groups are too large to be read at once."""
    import pyarrow.parquet as pq

    names, sizes = _pieces(path)
    if path.suffix.lower() not in PARQUET or max(sizes, default=0) <= _TOO_LARGE * rows:
        yield path
        return
    columns.check(names, path.name)
    with pq.ParquetFile(path) as file:
        batches = file.iter_batches(batch_size=rows, columns=columns.names, use_threads=False)
        yield from _copied(batches, folder, path.stem)


def _batches(file: TableFile, columns: TableColumns, rows: int) -> Iterator[pa.RecordBatch]:
    """Read a table from front to back."""
    import pyarrow as pa

    for frame in file.batches(columns.schema, rows=rows):
        columns.check([str(name) for name in frame.columns], file.name)
        yield from pa.Table.from_pandas(frame[columns.names], preserve_index=False).combine_chunks().to_batches()


def _copied(batches: Iterable[pa.RecordBatch], folder: Path, name: str) -> Iterator[Path]:
    """Write each batch of rows to an Arrow file of its own."""
    import pyarrow as pa

    for number, batch in enumerate(batches):
        path = folder / f"copied-{name}-{number:06}.arrow"
        with pa.ipc.new_file(path, batch.schema) as writer:
            writer.write_batch(batch)
        yield path


def _pieces(path: Path) -> tuple[list[str], list[int]]:
    """Return the names of a file's columns and the rows of its row groups or record batches."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if path.suffix.lower() in PARQUET:
            with pq.ParquetFile(path) as file:
                meta = file.metadata
                return file.schema_arrow.names, [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
        with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as reader:
            return reader.schema.names, [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]
    except (OSError, pa.ArrowException) as error:
        said = str(error).strip().split("\n")[0]
        raise DataError(f"{path.name} cannot be read as a table ({said}): check or replace the file") from error


def _packed(path: str, sizes: Sequence[int], first: int, rows: int) -> Iterator[Chunk]:
    """Join consecutive pieces into chunks of about this many rows."""
    pieces: list[int] = []
    held = 0
    for number, size in enumerate(sizes):
        if pieces and held + size > rows:
            yield Chunk(path, tuple(pieces), held, first)
            first, pieces, held = first + held, [], 0
        pieces.append(number)
        held += size
    if held:
        yield Chunk(path, tuple(pieces), held, first)


def _coded(attribute: Attribute, column: pa.ChunkedArray) -> Column:
    """Return one column in the coding of the schema."""
    import pyarrow as pa

    kind = column.type
    plain = pa.types.is_floating(kind) or pa.types.is_integer(kind)
    if isinstance(attribute, Numeric) and not isinstance(attribute, Date) and plain:
        return attribute.encode(column.to_pandas())
    # Most columns of categories or dates repeat few values, so only these are coded.
    dictionary = column if pa.types.is_dictionary(kind) else column.dictionary_encode()
    joined = dictionary.unify_dictionaries().combine_chunks()
    array: Any = joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined
    distinct, codes = array.dictionary.to_pandas(), array.indices
    used = np.zeros(len(distinct) + 1, dtype=bool)
    at: NDArray[np.int64] = codes.fill_null(len(distinct)).to_numpy(zero_copy_only=False).astype(np.int64)
    used[at] = True
    try:
        values = np.full(len(distinct) + 1, np.nan)
        values[:-1][used[:-1]] = attribute.encode(distinct[used[:-1]])
        if used[-1]:
            values[-1] = attribute.encode(distinct.iloc[:0].reindex([0]))[0]
    except DataError:
        # The message counts rows, not distinct values.
        attribute.encode(column.to_pandas())
        raise
    return values[at]
