"""New records that have no ids of their own: they get fresh ids, and are compared with the records held already.

A table without a column of ids cannot say whether its rows were added before. So values, label and person are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Dataset
from eupg.errors import DataError
from eupg.manage.storage.subjects import SubjectIndex
from eupg.rng import Randomness


class Repeated(StrEnum):
    """What happens to new records that equal records held already."""

    REFUSE = "refuse"
    SKIP = "skip"
    ADD = "add"


@dataclass(frozen=True)
class Added:
    """The result of an addition.

    Parameters
    ----------
    records, returned
        How many records were added, and how many of them belong to people who were forgotten before.
    prefix
        What generated ids begin with: the id of row 7 of the table is ``f"{prefix}-7"``. None for ids of their own.
    repeated
        How many of the new records equal records held already; counted only where ids are generated.
    """

    records: int
    prefix: str | None = None
    repeated: int = 0
    returned: int = 0


def fresh_prefix(index: SubjectIndex, key: bytes, rows: int, rng: Randomness) -> str:
    """Return a random prefix; no id of these rows under it was ever used, not even by a forgotten record."""
    attempt = 0
    while True:
        prefix = f"{int(rng.stage(f'record ids {attempt}').words(1)[0]):016x}"
        if not index.knows_records(key, (f"{prefix}-{row}" for row in range(rows))):
            return prefix
        attempt += 1


def with_ids(records: Dataset, prefix: str) -> Dataset:
    """Return the records under generated ids: the prefix and the row's position."""
    ids = np.array([f"{prefix}-{row}" for row in range(len(records))], dtype=np.str_)
    # Where the table does not name people, each record is a person of the same name.
    nameless = records.schema.subject is None and np.array_equal(records.ids, records.subjects)
    return replace(records, ids=ids, subjects=ids if nameless else records.subjects)


def held_already(records: Dataset, held: Dataset) -> NDArray[np.bool_]:
    """Return for each new record whether it equals a held one; each held record accounts for one new record."""
    names_people = records.names_people
    left = Counter(_contents(held, names_people=names_people))
    repeats = np.zeros(len(records), dtype=bool)
    for row, content in enumerate(_contents(records, names_people=names_people)):
        if left[content] > 0:
            left[content] -= 1
            repeats[row] = True
    return repeats


def check_repeats(repeats: int, records: Dataset) -> None:
    """Refuse a table that was probably added before.

    Where people are known, one record that a person has already is enough. Otherwise records of different people may
    be equal, so only a table of which half is held already is refused.
    """
    if repeats and (records.names_people or 2 * repeats >= len(records)):
        same = "the same person, values and label" if records.names_people else "the same values and label"
        raise DataError(
            f"{repeats:,} of {len(records):,} new records equal records held already ({same}), and without "
            "record ids they cannot be told apart. Was this table added before? Leave the equal ones out (repeated = "
            '"skip", eupg add --repeated skip), add them as further records ("add"), or name the column of record ids'
        )


def _contents(data: Dataset, *, names_people: bool) -> Iterator[tuple[bytes, int, str]]:
    values = data.X
    if values.dtype.kind == "f":
        # One representation of zero and of a missing value, so that equal rows have equal bytes.
        values = np.where(np.isnan(values), np.nan, values + 0.0)
    people = data.subjects.tolist() if names_people else [""] * len(data)
    for row, label, person in zip(np.ascontiguousarray(values), data.y.tolist(), people, strict=True):
        yield row.tobytes(), label, person
