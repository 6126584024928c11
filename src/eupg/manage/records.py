"""The records on disk: Parquet files named by their SHA-256; forgetting rewrites only those that hold the person.

A *manifest*, the tuple of digests of the files that are live, stands for a table; whoever owns the workspace keeps it.
All of a person's rows of one :meth:`RecordFiles.write` lie in one file unless they alone exceed it, so that an erasure
rewrites one file as a rule, and a column of positions gives the table back in its order.

What a file could remember of others is left out: no statistics, no dictionaries, no pandas metadata. Each file carries
random salt. Its digest outlives it in the ledger, and without salt whoever knows the other rows of a deleted file could
try out values of the missing one until the digest fits.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from eupg.data.dataset import Dataset, Names, RecordId
from eupg.data.schema import Schema
from eupg.errors import DataError, EupgError, ParameterError, UnknownRecord
from eupg.manage.store import Digest, Store
from eupg.validation import check_whole

Manifest = tuple[Digest, ...]
Rows = NDArray[np.int64]
_SCHEMA, _SALT, _VERSION = b"eupg.schema", b"eupg.salt", b"eupg.format"
# Files without a number are format 1.
_FORMAT = 1


@dataclass(frozen=True)
class Rewrite:
    """What forgetting changed on disk.

    Parameters
    ----------
    manifest
        The files that hold the records that are left.
    written
        Those of them that are new.
    replaced
        The files that still hold the forgotten records: delete them once nothing points at them.
    """

    manifest: Manifest
    written: Manifest
    replaced: Manifest


@dataclass(frozen=True)
class RecordFiles:
    """Records in Parquet files, each named by the SHA-256 of its bytes.

    Nothing here deletes a file that was live: that is for the caller, with ``files.delete`` or ``files.collect``, once
    the new manifest is what the workspace points at.

    Parameters
    ----------
    folder
        Where the files lie; made if it is not there.
    schema
        What the columns mean. Files written under another schema are refused.
    """

    folder: Path
    schema: Schema

    def __post_init__(self) -> None:
        _ = self.files

    @cached_property
    def files(self) -> Store:
        """The files themselves, to delete and verify."""
        return Store(self.folder)

    def write(self, data: Dataset, *, rows_per_part: int = 8192) -> Manifest:
        """Write all records to new files and return their manifest; an empty table has none."""
        return self._write(data, 0, rows_per_part)

    def append(self, manifest: Manifest, data: Dataset, *, rows_per_part: int = 8192) -> Manifest:
        """Write new records to files of their own and return the manifest of old and new; taken ids are refused."""
        new = _texts(data.ids)
        taken, following = [], 0
        for digest in manifest:
            part = self._table(digest, [self._record, self._position])
            taken += _among(part.column(self._record), new)[1]
            following = max(following, 1 + pc.max(part.column(self._position)).as_py())
        if taken:
            raise DataError(
                f"{len(taken)} ids of {len(data)} new records are taken, first {min(taken)!r}: "
                "every record needs its own"
            )
        return (*manifest, *self._write(data, following, rows_per_part))

    def read(self, manifest: Manifest) -> Dataset:
        """Return the records in the order they were written, after checking every file against its digest."""
        tables = [self._table(digest) for digest in manifest]
        table = pa.concat_tables(tables) if tables else self._arrow.empty_table()
        order = np.argsort(table.column(self._position).to_numpy(), kind="stable")
        X = self._features(table)[order]
        y = table.column(self.schema.label.name).to_numpy()[order]
        return Dataset(self.schema, X, y, _names(table, self._record)[order], _names(table, self._subject)[order])

    def without(self, manifest: Manifest, *, subjects: Iterable[str] = (), ids: Iterable[RecordId] = ()) -> Rewrite:
        """Write anew, without these people and records, the files that hold any of them; the others stay as they are.

        A file of which nothing is left has no successor. Someone who is not here is an error, and nothing is written.
        """
        wanted = {self._subject: _wanted(subjects, "person"), self._record: _wanted(ids, "record id")}
        kept = self._kept(manifest, wanted)
        successor: dict[Digest, Digest] = {}
        with self._all_or_nothing() as put:
            for digest, rows in kept.items():
                left = self._table(digest).filter(rows)
                if len(left):
                    successor[digest] = put(left)
        return Rewrite(
            manifest=tuple(successor.get(d, d) for d in manifest if d not in kept or d in successor),
            written=tuple(successor.values()),
            replaced=tuple(kept),
        )

    def _kept(self, manifest: Manifest, wanted: dict[str, Any]) -> dict[Digest, Any]:
        """Return, for each file that holds one of the wanted names, which of its rows stay."""
        kept, found = {}, {column: set[str]() for column in wanted}
        for digest in manifest:
            part = self._table(digest, list(wanted))
            goes = pa.array(np.zeros(len(part), dtype=bool))
            for column, names in wanted.items():
                rows, present = _among(part.column(column), names)
                found[column].update(present)
                goes = pc.or_(goes, rows)
            if goes.true_count:
                kept[digest] = pc.invert(goes)
        for column, names in wanted.items():
            unknown = sorted(set(names.to_pylist()) - found[column])
            if unknown:
                what = "person" if column == self._subject else "record id"
                raise UnknownRecord(
                    f"{len(unknown)} of {len(names)} are not here, first {what} {unknown[0]!r}: "
                    "never among the records, or already forgotten"
                )
        return kept

    def _write(self, data: Dataset, first: int, rows_per_part: int) -> Manifest:
        rows_per_part = check_whole("rows_per_part", rows_per_part, at_least=1)
        if data.schema != self.schema:
            raise DataError("records must come under the schema of these files: load them with that schema")
        with self._all_or_nothing() as put:
            return tuple([put(self._rows(data, rows, first)) for rows in _parts(data.subjects, rows_per_part)])

    def _rows(self, data: Dataset, rows: Rows, first: int) -> pa.Table:
        names = [_texts(data.ids[rows]), _texts(data.subjects[rows])]
        if self.schema.picture is None:
            features = [pa.array(c) for c in data.X[rows].T]
        else:
            pixels = pa.py_buffer(np.ascontiguousarray(data.X[rows]))
            features = [pa.FixedSizeBinaryArray.from_buffers(self._arrow[0].type, len(rows), [None, pixels])]
        others = [pa.array(c) for c in (data.y[rows], *names, rows + first)]
        return pa.Table.from_arrays([*features, *others], schema=self._arrow)

    def _features(self, table: pa.Table) -> NDArray[Any]:
        """Return the features of a table as one matrix: numbers, or the bytes of pictures."""
        if self.schema.picture is None:
            return np.column_stack([table.column(j).to_numpy() for j in range(len(self.schema.features))])
        columns = self.schema.columns
        # A chunk may be a part of a longer buffer: it starts at its offset.
        parts = [
            np.frombuffer(c.buffers()[1], dtype=np.uint8, count=len(c) * columns, offset=c.offset * columns)
            for c in table.column(0).chunks
            if len(c)
        ]
        return np.concatenate([np.empty(0, np.uint8), *parts]).reshape(-1, columns)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[Callable[[pa.Table], Digest]]:
        """Hand out a way to write files; if an error ends the block, those it wrote are taken away again."""
        written: list[Digest] = []

        def put(table: pa.Table) -> Digest:
            written.append(self.files.put(self._parquet(table)))
            return written[-1]

        try:
            yield put
        except BaseException:
            for digest in written:
                with suppress(EupgError):
                    self.files.delete(digest)
            raise

    def _parquet(self, table: pa.Table) -> bytes:
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(
            sink, self._arrow, compression="zstd", use_dictionary=False, write_statistics=False, store_schema=False
        ) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata(
                {_SCHEMA: self._schema_digest, _SALT: os.urandom(32).hex(), _VERSION: str(_FORMAT)}
            )
        return bytes(sink.getvalue())

    def _table(self, digest: Digest, columns: list[str] | None = None) -> pa.Table:
        """Read a file, or some of its columns; no parser sees it before its digest was checked."""
        content = self.files.read(digest)
        try:
            part = pq.ParquetFile(pa.BufferReader(content))
            about = part.metadata.metadata or {}
            written_under = about.get(_SCHEMA, b"")
            if about.get(_VERSION, b"1") != str(_FORMAT).encode():
                found = about[_VERSION].decode(errors="replace")
                raise DataError(f"{self.folder / digest} has the format {found}, expected {_FORMAT}: update eupg")
            if written_under != self._schema_digest or not part.schema_arrow.equals(self._arrow):
                raise DataError(
                    f"{self.folder / digest} was written under another schema: open the workspace with the one it has"
                )
            return part.read(columns=columns, use_threads=False)
        except pa.ArrowException as error:
            raise DataError(f"{self.folder / digest} is not a record file ({error}): check the manifest") from error

    @cached_property
    def _schema_digest(self) -> bytes:
        return hashlib.sha256(self.schema.to_toml().encode()).hexdigest().encode()

    @cached_property
    def _arrow(self) -> pa.Schema:
        """The columns of a file: features (a picture is one, of bytes), label, and the rows' names and places."""
        kind = pa.float64() if self.schema.picture is None else pa.binary(self.schema.columns)
        fields = [(a.name, kind) for a in self.schema.features]
        fields += [(self.schema.label.name, pa.int64()), (self._record, pa.string()), (self._subject, pa.string())]
        fields += [(self._position, pa.int64())]
        return pa.schema([pa.field(name, kind, nullable=False) for name, kind in fields])

    @cached_property
    def _record(self) -> str:
        return self._free("record")

    @cached_property
    def _subject(self) -> str:
        return self._free("subject")

    @cached_property
    def _position(self) -> str:
        return self._free("position")

    def _free(self, name: str) -> str:
        """Return a column name that no attribute has."""
        taken = {a.name for a in (*self.schema.features, self.schema.label)}
        while name in taken:
            name = f"_{name}"
        return name


def _parts(subjects: Names, rows_per_part: int) -> Iterator[Rows]:
    """Yield the rows of each file: people in order, nobody across two files unless they alone exceed one."""
    order = np.argsort(subjects, kind="stable")
    ordered = subjects[order]
    ends = np.concatenate([[0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1, [len(order)]])
    start = 0
    while start < len(order):
        limit = start + rows_per_part
        end = int(ends[np.searchsorted(ends, limit, side="right") - 1])
        end = end if end > start else min(limit, len(order))
        yield order[start:end]
        start = end


def _among(column: pa.ChunkedArray, names: pa.Array) -> tuple[pa.Array, list[str]]:
    """Return which rows have one of the names, and the names that occur."""
    rows = pc.is_in(column, value_set=names).combine_chunks()
    return rows, column.filter(rows).unique().to_pylist()


def _texts(names: Names) -> pa.Array:
    """Turn NumPy's texts into Arrow's; not directly, since Arrow would end each at its first NUL character."""
    try:
        return pa.array(names.astype(object), pa.string())
    except UnicodeEncodeError as error:
        raise DataError(f"a record id or person is not valid Unicode ({error.reason}): correct the names") from error


def _names(table: pa.Table, column: str) -> Names:
    return np.asarray(table.column(column).to_numpy(), dtype=object).astype(np.str_)


def _wanted(names: Iterable[str], what: str) -> pa.Array:
    if isinstance(names, str):
        raise ParameterError(f"expected a list, got the single {what} {names!r}: write [{names!r}]")
    # Through NumPy, as in Dataset: it does not know NUL characters at the end of a name.
    return _texts(np.array(sorted({str(n) for n in names}), dtype=np.str_))
