"""New records that come without ids of their own: fresh ids, and whether the same records are here already.

A table without a column of ids cannot say whether its rows were added before. So its records are compared with those
that are held, value by value, and the label and the person with them.
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
from eupg.manage.roll import Roll
from eupg.rng import Randomness


class Repeated(StrEnum):
    """What happens to new records that equal records held already."""

    REFUSE = "refuse"
    SKIP = "skip"
    ADD = "add"


@dataclass(frozen=True)
class Added:
    """What came in.

    Parameters
    ----------
    records
        How many records were added.
    prefix
        What the generated ids begin with: the id of row 7 of the table is ``f"{prefix}-7"``. None where the records
        had ids of their own.
    repeated
        How many of the new records equalled records that were held already; looked at only where ids were generated.
    returned
        How many of the records added are of people who were forgotten before.
    """

    records: int
    prefix: str | None = None
    repeated: int = 0
    returned: int = 0


def fresh_prefix(roll: Roll, key: bytes, rows: int, rng: Randomness) -> str:
    """Return a random prefix with which no record id of these rows was ever used, by forgotten records included."""
    attempt = 0
    while True:
        prefix = f"{int(rng.stage(f'record ids {attempt}').words(1)[0]):016x}"
        if not roll.knows_records(key, (f"{prefix}-{row}" for row in range(rows))):
            return prefix
        attempt += 1


def with_ids(records: Dataset, prefix: str) -> Dataset:
    """Return the records under generated ids: the prefix and the row's position."""
    ids = np.array([f"{prefix}-{row}" for row in range(len(records))], dtype=np.str_)
    # Where the table does not name people, each record is a person under the record's name.
    nameless = records.schema.subject is None and np.array_equal(records.ids, records.subjects)
    return replace(records, ids=ids, subjects=ids if nameless else records.subjects)


def held_already(records: Dataset, held: Dataset) -> NDArray[np.bool_]:
    """Tell for each new record whether it equals one that is held; each held record answers for one new record."""
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

    Where people are known, one record that a person has already is enough. Without them records of different people
    may be equal, so that only half of the table being here already is taken as a sign.
    """
    if repeats and (records.names_people or 2 * repeats >= len(records)):
        same = "the same person, values and label" if records.names_people else "the same values and label"
        raise DataError(
            f"{repeats:,} of {len(records):,} new records equal records that are held already ({same}), and without "
            "record ids they cannot be told apart: was this table added before? Leave the equal ones out (repeated = "
            '"skip", eupg add --repeated skip), add them as further records ("add"), or name the column of record ids'
        )


def _contents(data: Dataset, *, names_people: bool) -> Iterator[tuple[bytes, int, str]]:
    values = data.X
    if values.dtype.kind == "f":
        # One kind of zero and one kind of missing value, so that equal rows have equal bytes.
        values = np.where(np.isnan(values), np.nan, values + 0.0)
    people = data.subjects.tolist() if names_people else [""] * len(data)
    for row, label, person in zip(np.ascontiguousarray(values), data.y.tolist(), people, strict=True):
        yield row.tobytes(), label, person
