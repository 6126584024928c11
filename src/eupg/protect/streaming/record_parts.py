"""A large table as parts that one task each can read, with all records of a person in the same part.

Sums that treat a person as one unit then add up over parts. Where the schema names people, each chunk deals its rows to
parts by a keyed digest of the person's name, and each part gathers its rows from all chunks. The key is drawn for the
run, so nobody can construct two names with the same digest of 128 bits. Of a person with many records, a random choice
is kept: those with the smallest random numbers. A chunk drops what cannot be among them, so that a person with any
number of records fits into a part.

The choice is that of :func:`eupg.protect.units.random_rank` on the whole table in memory: the number of a record is the
word at its place in the same stream. Within a part, a person's records are neighbours, in the order of the table.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Column, category_text
from eupg.data.dataset import Labels, Matrix
from eupg.data.schema import Schema
from eupg.data.table_file import TableFile
from eupg.errors import DataError
from eupg.protect.streaming.chunks import ROWS, Chunk, TableColumns, chunks_of
from eupg.protect.streaming.packed import (
    Places,
    Rows,
    Slice,
    Sorted,
    is_single,
    packed,
    read_rows,
    row_layout,
    unpacked,
    unpacked_column,
    write_sorted,
)
from eupg.protect.streaming.steps import Steps
from eupg.protect.units import rank_within
from eupg.rng import Randomness
from eupg.temporary import TemporaryFolder, temporary_files_in

if TYPE_CHECKING:
    import pyarrow as pa

# Rows of a part, about: what a task holds in memory, with some hundred numbers per row.
PART = 1 << 17
_WORDS = [("high", np.uint64), ("low", np.uint64), ("number", np.uint64)]


@dataclass(frozen=True)
class RecordPart:
    """Records in a file of the run; where the schema names people, all used records of some of them."""

    schema: Schema
    slice: Slice
    layout: np.dtype[Any]
    people: str | None

    @property
    def rows(self) -> int:
        """Number of records."""
        return self.slice.rows

    def column(self, number: int) -> Column:
        """Return one feature."""
        return self._unpacked(number)

    def labels(self) -> Labels:
        """Return the classes."""
        return self._unpacked(len(self.schema.features)).astype(np.int64)

    def _unpacked(self, number: int) -> Column:
        rows = read_rows([self.slice], self.layout)
        return unpacked_column(TableColumns(self.schema).attributes[number], rows[f"c{number}"])

    def read(self) -> tuple[Matrix, Labels, Places | None]:
        """Return features and classes, and where each person begins, with the number of records at the end."""
        columns = unpacked(TableColumns(self.schema).attributes, read_rows([self.slice], self.layout))
        people = None if self.people is None else np.fromfile(self.people, dtype=np.int64)
        return np.column_stack(columns[:-1]), columns[-1].astype(np.int64), people


@dataclass(frozen=True)
class Gathering:
    """How the records of a table become parts.

    Parameters
    ----------
    schema, folder
        The columns, and where files of the run lie.
    most
        The most records of a person.
    rng
        Chooses among a person's records.
    parts, rows
        Number of parts that people are dealt to, and rows of a part where each record stands for itself.
    key
        Makes the digests of names.
    """

    schema: Schema
    folder: str
    most: int
    rng: Randomness
    parts: int
    rows: int
    key: bytes = field(default_factory=lambda: os.urandom(32), repr=False)

    @property
    def columns(self) -> TableColumns:
        """The columns that are read."""
        return TableColumns(self.schema, people=self.schema.subject is not None)

    def new_path(self, what: str) -> Path:
        """Return a new name: a task whose first process still runs somewhere does not write to the same file."""
        return Path(self.folder) / f"{what}-{secrets.token_hex(8)}"


@contextmanager
def records_in(folder: str | Path | None) -> Iterator[Path]:
    """Yield a temporary folder for records, in this folder or in the system's place, and erase it at the end."""
    with nullcontext() if folder is None else temporary_files_in(Path(folder)), TemporaryFolder() as records:
        yield records


def gather(
    source: str | Path | TableFile,
    schema: Schema,
    folder: Path,
    *,
    most: int,
    rng: Randomness,
    steps: Steps,
    part: int = PART,
) -> list[RecordPart]:
    """Check every value of a table, and write at most ``most`` records of each person to parts."""
    columns = TableColumns(schema, people=schema.subject is not None)
    chunks = chunks_of(source, columns, folder, rows=max(part, ROWS))
    total = sum(chunk.rows for chunk in chunks)
    plan = Gathering(schema, str(folder), most, rng, -(-total // part), part)
    if schema.subject is None:
        return [piece for pieces in steps.run("gather", partial(pack_chunk, plan), chunks) for piece in pieces]
    dealt = steps.run("deal", partial(deal_chunk, plan), chunks)
    tasks = [(tuple(slices), tuple(d.layout for d in dealt)) for slices in zip(*(d.slices for d in dealt), strict=True)]
    return [piece for pieces in steps.run("gather", partial(gather_part, plan), tasks) for piece in pieces]


def pack_chunk(plan: Gathering, chunk: Chunk) -> list[RecordPart]:
    """Write the rows of a chunk to a file, which holds one part or more."""
    rows = _packed(plan.columns, chunk.read(plan.columns.names))
    path = plan.new_path("records")
    rows.tofile(path)
    firsts = range(0, len(rows), plan.rows)
    slices = [Slice(str(path), first, min(plan.rows, len(rows) - first)) for first in firsts]
    return [RecordPart(plan.schema, piece, rows.dtype, None) for piece in slices]


@dataclass(frozen=True)
class Dealt:
    """The rows of a chunk that each part receives, with digests and numbers, and how a row is stored."""

    slices: list[Slice]
    layout: np.dtype[Any]


def deal_chunk(plan: Gathering, chunk: Chunk) -> Dealt:
    """Write the rows of a chunk in the order of their parts."""
    table = chunk.read(plan.columns.names)
    plain = _packed(plan.columns, table)
    person, digests = _people(plan, table)
    numbers = plan.rng.words_at(chunk.first, chunk.rows)
    # A record that is not among the first of its person here is not among the first anywhere.
    used = rank_within(person, numbers) < plan.most
    layout = np.dtype([*[(name, plain.dtype[name]) for name in plain.dtype.names or ()], *_WORDS])
    rows = np.empty(int(used.sum()), dtype=layout)
    for name in plain.dtype.names or ():
        rows[name] = plain[name][used]
    rows["high"], rows["low"] = digests[person[used]].T
    rows["number"] = numbers[used]
    file: Sorted = write_sorted(
        plan.new_path("dealt"), rows, (rows["high"] % np.uint64(plan.parts)).astype(np.int64), plan.parts
    )
    return Dealt(file.slices(), layout)


def gather_part(plan: Gathering, task: tuple[tuple[Slice, ...], tuple[np.dtype[Any], ...]]) -> list[RecordPart]:
    """Read the rows of one part from all chunks, and write the chosen records of each person."""
    slices, layouts = task
    read = [read_rows([piece], layout) for piece, layout in zip(slices, layouts, strict=True) if piece.rows]
    if not read:
        return []
    attributes = plan.columns.attributes
    # Chunks may differ in the precision of a column.
    layout = row_layout(attributes, [all(r.dtype[f"c{j}"] != np.float64 for r in read) for j in range(len(attributes))])
    rows = np.concatenate([packed(attributes, unpacked(attributes, r), layout) for r in read])
    high, low, number = (np.concatenate([r[name] for r in read]) for name, _ in _WORDS)
    # Stable: a person's records stay in the order of the table.
    order = np.lexsort((low, high))
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = (np.diff(high[order]) != 0) | (np.diff(low[order]) != 0)
    person = np.cumsum(begins)
    used = rank_within(person, number[order]) < plan.most
    rows, person = rows[order][used], person[used]
    path, people = plan.new_path("records"), plan.new_path("people")
    rows.tofile(path)
    starts = np.flatnonzero(np.diff(person, prepend=-1))
    np.append(starts, len(rows)).astype(np.int64).tofile(people)
    return [RecordPart(plan.schema, Slice(str(path), 0, len(rows)), rows.dtype, str(people))]


def _packed(columns: TableColumns, table: pa.Table) -> Rows:
    coded = columns.coded(table)
    return packed(columns.attributes, coded, row_layout(columns.attributes, [is_single(c) for c in coded]))


def _people(plan: Gathering, table: pa.Table) -> tuple[NDArray[np.intp], NDArray[np.uint64]]:
    """Return the number of each row's person within the chunk, and the digest of each person's name."""
    import pandas as pd

    assert plan.schema.subject is not None
    name = plan.schema.subject.name
    text = category_text(table[name].to_pandas(), name)
    person, names = pd.factorize(text)
    if (person < 0).any():
        raise DataError(
            f"column {name!r}: {(person < 0).sum()} of {len(person)} names are empty: fill them in or drop the rows"
        )
    digests = (hashlib.blake2b(one.encode(), key=plan.key, digest_size=16).digest() for one in names)
    return person, np.frombuffer(b"".join(digests), dtype=np.uint64).reshape(-1, 2)
