"""The records on disk: Parquet files named by their SHA-256; forgetting rewrites only those that hold the person.

A *manifest*, the tuple of digests of the live files, stands for a table. All rows that one
:meth:`RecordFiles.write_sketched` writes for a person are in one file, unless they exceed it, so an erasure usually
rewrites one file. A column of positions restores the order of the table.

Files contain no statistics, dictionaries or pandas metadata, which could outlive a row. Each file contains random salt:
its digest stays in the ledger, and without salt somebody who knows the other rows of a deleted file could guess the
missing one until the digest fits.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
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

from eupg.data.dataset import Dataset, Names
from eupg.data.kind import DataKind
from eupg.data.schema import Schema
from eupg.errors import DataError, EupgError, WorkspaceDamaged
from eupg.manage.storage.sketches import Sketch
from eupg.manage.storage.store import Digest, Store
from eupg.validation import check_whole

Manifest = tuple[Digest, ...]
# The number of a record file, which its successors inherit, and the digest of its sketch.
Sidecar = tuple[int, Digest]
Rows = NDArray[np.int64]
_SCHEMA, _SALT, _VERSION = b"eupg.schema", b"eupg.salt", b"eupg.format"
# Files without a number are format 1.
_FORMAT = 1


@dataclass(frozen=True, eq=False)
class Erased:
    """What an erasure by row numbers changed on disk.

    ``manifest`` and ``sidecars`` describe the files that hold the records that are left, ``written`` those that are
    new. ``forgotten`` holds the records that left, and ``rows`` their numbers in the subject index, in the same order.
    """

    manifest: Manifest
    sidecars: Mapping[Digest, Sidecar]
    written: Manifest
    forgotten: Dataset
    rows: Rows


@dataclass(frozen=True, eq=False)
class Written:
    """New files: their manifest, what is kept beside each, and the rows of the subject index by the files' numbers."""

    manifest: Manifest
    sidecars: Mapping[Digest, Sidecar]
    rows: Mapping[int, Rows]


@dataclass(frozen=True)
class RecordFiles:
    """Records in Parquet files, each named by the SHA-256 of its bytes; files written under another schema are refused.

    Nothing here deletes a file that was live: the caller does, with ``files.delete`` or ``files.collect``, once the
    workspace points at the new manifest.
    """

    folder: Path
    schema: Schema

    def __post_init__(self) -> None:
        _ = self.files

    @cached_property
    def files(self) -> Store:
        """The files themselves, to delete and verify."""
        return Store(self.folder)

    def write_sketched(self, data: Dataset, rows: Rows, *, first_slot: int, rows_per_part: int = 8192) -> Written:
        """Write all records to new files, and a sketch of each; their rows in the subject index are given.

        The files get numbers from ``first_slot`` on.
        """
        return self._sketched(data, rows, 0, first_slot, rows_per_part)

    def append_sketched(
        self, manifest: Manifest, data: Dataset, rows: Rows, *, first_slot: int, rows_per_part: int = 8192
    ) -> Written:
        """Write new records to files of their own, as :meth:`write_sketched` does; ids in use are refused."""
        return self._sketched(data, rows, self._following(manifest, data), first_slot, rows_per_part)

    def _sketched(self, data: Dataset, rows: Rows, first: int, first_slot: int, rows_per_part: int) -> Written:
        manifest, sidecars, placed = [], {}, {}
        with self._all_or_nothing() as put:
            for slot, part in enumerate(self._checked_parts(data, rows_per_part), start=first_slot):
                manifest.append(put(self._rows(data, part, first)))
                placed[slot] = rows[part]
                sketch = Sketch.of(self.schema, data.X[part], data.y[part], placed[slot])
                sidecars[manifest[-1]] = (slot, put(sketch))
        return Written(tuple(manifest), sidecars, placed)

    def _following(self, manifest: Manifest, data: Dataset) -> int:
        """Return the first position behind those that are taken; refuse records whose ids are taken."""
        new = _texts(data.ids)
        taken, following = [], 0
        for digest in manifest:
            part = self._table(digest, [self._record, self._position])
            ids = part.column(self._record)
            taken += ids.filter(pc.is_in(ids, value_set=new)).to_pylist()
            following = max(following, 1 + pc.max(part.column(self._position)).as_py())
        if taken:
            raise DataError(
                f"{len(taken)} ids of {len(data)} new records are taken, first {min(taken)!r}: "
                "every record needs its own"
            )
        return following

    def sketch(self, manifest: Manifest, rows: Rows, *, first_slot: int) -> Written:
        """Sketch files that are there, whose records in their order have these rows in the subject index.

        The files get numbers from ``first_slot`` on.
        """
        tables = {digest: self._table(digest) for digest in manifest}
        positions = [table.column(self._position).to_numpy() for table in tables.values()]
        lengths = [len(part) for part in positions]
        order = np.argsort(np.concatenate([np.empty(0, np.int64), *positions]), kind="stable")
        if len(order) != len(rows):
            raise DataError(f"the files hold {len(order)} records, and {len(rows)} rows are named: name one per record")
        of_files = np.empty(len(order), np.int64)
        of_files[order] = rows
        each = np.split(of_files, np.cumsum(lengths)[:-1]) if lengths else []
        sidecars, placed = {}, {}
        for slot, (digest, mine) in enumerate(zip(tables, each, strict=True), start=first_slot):
            sidecars[digest] = (slot, self.files.put(self._sketch_of(tables[digest], mine).to_bytes()))
            placed[slot] = mine
        return Written(manifest, sidecars, placed)

    def read_sketch(self, digest: Digest) -> Sketch:
        """Return a sketch, checked against its digest."""
        return Sketch.from_bytes(self.files.read(digest))

    def check_sketches(self, manifest: Manifest, sidecars: Mapping[Digest, Sidecar]) -> bool:
        """Compute every sketch again from its file; return whether it is the stored one."""
        for digest in manifest:
            if digest in sidecars:
                stored = self.read_sketch(sidecars[digest][1])
                table = self._table(digest)
                if len(stored.rows) != len(table) or not self._sketch_of(table, stored.rows).same_as(stored):
                    return False
        return True

    def _sketch_of(self, table: pa.Table, rows: NDArray[np.integer]) -> Sketch:
        return Sketch.of(self.schema, self._features(table), table.column(self.schema.label.name).to_numpy(), rows)

    def erase(
        self,
        manifest: Manifest,
        sidecars: Mapping[Digest, Sidecar],
        rows: Mapping[int, Rows],
    ) -> Erased:
        """Rewrite the files of these numbers without these rows of the subject index; no other file is read."""
        files = {sidecars[digest][0]: digest for digest in manifest}
        successor: dict[Digest, Digest | None] = {}
        changed, gone, numbers = dict(sidecars), [], []
        with self._all_or_nothing() as put_table:
            for slot, wanted in rows.items():
                if slot not in files:
                    raise _misplaced()
                digest = files[slot]
                table, sketched = self._table(digest), self.read_sketch(sidecars[digest][1])
                goes = np.isin(sketched.rows, wanted)
                if len(sketched.rows) != len(table) or goes.sum() != len(wanted):
                    raise _misplaced()
                del changed[digest]
                left = table.filter(pa.array(~goes))
                gone.append(table.filter(pa.array(goes)))
                numbers.append(sketched.rows[goes].astype(np.int64))
                successor[digest] = None
                if len(left):
                    successor[digest] = new = put_table(left)
                    changed[new] = (slot, put_table(self._sketch_of(left, sketched.rows[~goes])))
        table = pa.concat_tables(gone) if gone else self._arrow.empty_table()
        order = np.argsort(table.column(self._position).to_numpy(), kind="stable")
        left_files = [(digest, successor.get(digest, digest)) for digest in manifest]
        before = _names_in(sidecars)
        return Erased(
            manifest=tuple(new for _, new in left_files if new is not None),
            sidecars=changed,
            written=tuple(d for d in (*changed, *(s for _, s in changed.values())) if d not in before),
            forgotten=self._dataset(table, order),
            rows=np.concatenate([np.empty(0, np.int64), *numbers])[order],
        )

    def records_in(self, digest: Digest, rows: NDArray[np.intp]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the features and labels of some rows of one file, by their positions in it."""
        table = self._table(digest, [*(a.name for a in self.schema.features), self.schema.label.name])
        table = table.take(pa.array(rows))
        return self._features(table), table.column(self.schema.label.name).to_numpy()

    def read(self, manifest: Manifest) -> Dataset:
        """Return the records in the order they were written, after checking every file against its digest."""
        tables = [self._table(digest) for digest in manifest]
        table = pa.concat_tables(tables) if tables else self._arrow.empty_table()
        return self._dataset(table, np.argsort(table.column(self._position).to_numpy(), kind="stable"))

    def _dataset(self, table: pa.Table, order: NDArray[np.intp]) -> Dataset:
        X = self._features(table)[order]
        y = table.column(self.schema.label.name).to_numpy()[order]
        names = (_names(table, column)[order] for column in (self._record, self._subject))
        # They were checked before they were written, and the digests of the files say that they are the same.
        return Dataset.of_checked(self.schema, X, y, *names)

    def _checked_parts(self, data: Dataset, rows_per_part: int) -> Iterator[Rows]:
        rows_per_part = check_whole("rows_per_part", rows_per_part, at_least=1)
        if data.schema != self.schema:
            raise DataError("the records have another schema than these files: load them with the schema of the files")
        return _parts(data.subjects, rows_per_part)

    def _rows(self, data: Dataset, rows: Rows, first: int) -> pa.Table:
        names = [_texts(data.ids[rows]), _texts(data.subjects[rows])]
        if self.schema.kind is DataKind.TABLE:
            features = [pa.array(c) for c in data.X[rows].T]
        else:
            numbers = pa.py_buffer(np.ascontiguousarray(data.X[rows], dtype=self._stored))
            features = [pa.FixedSizeBinaryArray.from_buffers(self._arrow[0].type, len(rows), [None, numbers])]
        others = [pa.array(c) for c in (data.y[rows], *names, rows + first)]
        return pa.Table.from_arrays([*features, *others], schema=self._arrow)

    def _features(self, table: pa.Table) -> NDArray[Any]:
        """Return the features of a table as one matrix: of numbers, of the bytes of pictures, or of public features."""
        if self.schema.kind is DataKind.TABLE:
            return np.column_stack([table.column(j).to_numpy() for j in range(len(self.schema.features))])
        columns, dtype = self.schema.columns, self._stored
        # A chunk may be a part of a longer buffer.
        parts = [
            np.frombuffer(
                c.buffers()[1], dtype=dtype, count=len(c) * columns, offset=c.offset * columns * dtype.itemsize
            )
            for c in table.column(0).chunks
            if len(c)
        ]
        return np.concatenate([np.empty(0, dtype), *parts]).reshape(-1, columns).astype(self.schema.dtype, copy=False)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[Callable[[pa.Table | Sketch], Digest]]:
        """Yield a function that writes files; if an error ends the block, they are deleted again."""
        written: list[Digest] = []

        def put(content: pa.Table | Sketch) -> Digest:
            file = content.to_bytes() if isinstance(content, Sketch) else self._parquet(content)
            written.append(self.files.put(file))
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
        """Read a file, or some of its columns; it is parsed only after its digest was checked."""
        content = self.files.read(digest)
        try:
            part = pq.ParquetFile(pa.BufferReader(content))
            about = part.metadata.metadata or {}
            written_under = about.get(_SCHEMA, b"")
            if about.get(_VERSION, b"1") != str(_FORMAT).encode():
                version = about[_VERSION].decode(errors="replace")
                raise DataError(f"{self.folder / digest} has the format {version}, expected {_FORMAT}: update eupg")
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
        """The columns of a file: features (a picture or vector is one), label, and the rows' names and positions."""
        width = self.schema.columns * self._stored.itemsize
        kind = pa.float64() if self.schema.kind is DataKind.TABLE else pa.binary(width)
        fields = [(a.name, kind) for a in self.schema.features]
        fields += [(self.schema.label.name, pa.int64()), (self._record, pa.string()), (self._subject, pa.string())]
        fields += [(self._position, pa.int64())]
        return pa.schema([pa.field(name, kind, nullable=False) for name, kind in fields])

    @property
    def _stored(self) -> np.dtype[Any]:
        """The type of features in a file: the lowest byte of a number comes first on any machine."""
        return self.schema.dtype.newbyteorder("<")

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
        """Return a column name that is not an attribute's."""
        taken = {a.name for a in (*self.schema.features, self.schema.label)}
        while name in taken:
            name = f"_{name}"
        return name


def _parts(subjects: Names, rows_per_part: int) -> Iterator[Rows]:
    """Yield the rows of each file: people in order, each in one file unless they exceed it."""
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


def _names_in(sidecars: Mapping[Digest, Sidecar]) -> set[Digest]:
    return {*sidecars, *(sketch for _, sketch in sidecars.values())}


def _misplaced() -> WorkspaceDamaged:
    return WorkspaceDamaged(
        "the index of people names other rows than the record files hold: restore store and records from one backup"
    )


def _texts(names: Names) -> pa.Array:
    """Convert texts to Arrow; not directly, since Arrow would end each at its first NUL character."""
    try:
        return pa.array(names.astype(object), pa.string())
    except UnicodeEncodeError as error:
        raise DataError(f"a record id or person is not valid Unicode ({error.reason}): correct the names") from error


def _names(table: pa.Table, column: str) -> Names:
    return np.asarray(table.column(column).to_numpy(), dtype=object).astype(np.str_)
