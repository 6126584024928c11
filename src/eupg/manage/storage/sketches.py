"""A sketch of each record file: what finds similar records without decoding the table.

Per row it holds the number of the row in the subject index, its label, a hash of its values, and each value rounded to
one byte on the schema's public bounds; for the whole file, the number, mean and spread of each column. All of it is
computed from the records of one file. So it is written with that file, rewritten whenever a record leaves it, and the
earlier sketch is deleted like the earlier file: nothing in a sketch outlives the records it was made from.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Categorical, Numeric
from eupg.data.kind import DataKind
from eupg.data.schema import Schema
from eupg.errors import StoreCorrupt

Values = NDArray[np.float64]
Codes = NDArray[np.uint8]
_FORMAT = "eupg-sketch-2"
# The first format had 64 bits for every label and every hash, though sketches of all files are read to find a twin.
_FIRST_FORMAT = "eupg-sketch-1"
# The largest code of a value; the code above it is that of a missing value.
_TOP, _EMPTY = 254, 255
# More columns would hardly leave out further rows.
_MOST_COLUMNS = 24
_ODD = np.uint64(0x9E3779B97F4A7C15)
_LABELS = {kind: np.dtype(kind) for kind in ("|u1", "<u2", "<u4")}


@dataclass(frozen=True, eq=False)
class ColumnMoments:
    """Number, mean, and sum of squared deviations of the known values of each column."""

    number: Values
    mean: Values
    squares: Values

    @classmethod
    def of(cls, X: Values) -> ColumnMoments:
        """Compute the moments of a table."""
        empty = np.isnan(X)
        number = (~empty).sum(axis=0).astype(np.float64)
        mean = np.where(empty, 0.0, X).sum(axis=0) / np.maximum(number, 1)
        return cls(number, mean, (np.where(empty, 0.0, X - mean) ** 2).sum(axis=0))

    @classmethod
    def together(cls, parts: Iterable[ColumnMoments]) -> ColumnMoments:
        """Return the moments of several tables as one."""
        number, mean, squares = (np.stack(arrays) for arrays in zip(*map(_arrays, parts), strict=True))
        total = number.sum(axis=0)
        centre = (number * mean).sum(axis=0) / np.maximum(total, 1)
        return cls(total, centre, squares.sum(axis=0) + (number * (mean - centre) ** 2).sum(axis=0))

    @property
    def spread(self) -> Values:
        """The standard deviation of each column, 1 where it does not vary."""
        spread = np.sqrt(self.squares / np.maximum(self.number, 1))
        return np.where(spread > 0, spread, 1.0)


def _arrays(moments: ColumnMoments) -> tuple[Values, Values, Values]:
    return moments.number, moments.mean, moments.squares


@dataclass(frozen=True, eq=False)
class Sketch:
    """What is known of the rows of one record file.

    Parameters
    ----------
    rows
        The number of each row in the subject index.
    labels, hashes
        The label of each row, and a hash of its features: equal rows have equal hashes.
    codes
        One line per column of the table: each row's value as one byte, in the order of the values.
    moments
        Of each column of a table; none of pictures or public features.
    """

    rows: NDArray[np.uint32]
    labels: NDArray[np.integer]
    hashes: NDArray[np.uint32]
    codes: Codes
    moments: ColumnMoments

    @classmethod
    def of(cls, schema: Schema, X: NDArray[Any], y: NDArray[np.int64], rows: NDArray[np.integer]) -> Sketch:
        """Sketch some records, whose rows in the subject index are given."""
        plain = schema.kind is DataKind.TABLE
        table: Values = np.asarray(X, dtype=np.float64) if plain else np.empty((len(X), 0))
        return cls(
            np.asarray(rows, dtype=np.uint32),
            np.asarray(y, dtype=np.min_scalar_type(max(1, len(schema.label.categories) - 1))),
            hashes(table),
            codes(schema, table),
            ColumnMoments.of(table),
        )

    def same_as(self, other: Sketch) -> bool:
        """Return whether two sketches are of the same rows."""
        ours, theirs = _content(self), _content(other)
        # Sums may be added up in another order.
        close = all(
            a.shape == b.shape and np.allclose(a, b, rtol=1e-9) for a, b in zip(ours[4:], theirs[4:], strict=True)
        )
        return close and all(np.array_equal(a, b) for a, b in zip(ours[:4], theirs[:4], strict=True))

    def to_bytes(self) -> bytes:
        """Return the content of the file, with random salt: its digest stays in the ledger when the file is gone."""
        labels = self.labels.dtype.newbyteorder("<").str
        about = {"format": _FORMAT, "rows": len(self.rows), "codes": len(self.codes), "labels": labels}
        about |= {"columns": len(self.moments.mean), "salt": os.urandom(32).hex()}
        return b"".join([json.dumps(about).encode(), b"\n", *(array.tobytes() for array in _content(self))])

    @classmethod
    def from_bytes(cls, content: bytes) -> Sketch:
        """Read a sketch back."""
        try:
            line = content[: content.index(b"\n")]
            about = json.loads(line)
            first = about["format"] == _FIRST_FORMAT
            if not first and about["format"] != _FORMAT:
                raise StoreCorrupt(f"a sketch has the format {about['format']!r}, expected {_FORMAT!r}: update eupg")
            n, lines, columns = int(about["rows"]), int(about["codes"]), int(about["columns"])
            labels, hashed = ("<i8", "<u8") if first else (_LABELS[about["labels"]], "<u4")
            shapes: list[tuple[Any, tuple[int, ...]]] = [("<u4", (n,)), (labels, (n,)), (hashed, (n,))]
            shapes += [("u1", (lines, n)), *[("<f8", (columns,))] * 3]
            arrays: list[NDArray[Any]] = []
            # Behind the line, which is not cut off: that would copy the rest.
            at = len(line) + 1
            for kind, shape in shapes:
                size = math.prod(shape)
                arrays.append(np.frombuffer(content, dtype=kind, count=size, offset=at).reshape(shape))
                at += arrays[-1].nbytes
        except (ValueError, KeyError, TypeError) as error:
            raise StoreCorrupt(f"a sketch of records cannot be read ({error}): restore it from a backup") from error
        hashes_now = _upper_half(arrays[2]) if first else arrays[2]
        return cls(arrays[0], arrays[1], hashes_now, arrays[3], ColumnMoments(*arrays[4:]))


def _content(sketch: Sketch) -> list[NDArray[Any]]:
    return [sketch.rows, sketch.labels, sketch.hashes, sketch.codes, *_arrays(sketch.moments)]


def hashes(X: Values) -> NDArray[np.uint32]:
    """Return a hash of each row; equal rows, two missing values being equal, have equal hashes."""
    hashed = np.zeros(len(X), dtype=np.uint64)
    for column in np.where(np.isnan(X), np.nan, X + 0.0).T:
        bits = np.ascontiguousarray(column).view(np.uint64)
        hashed = (hashed ^ (bits ^ (bits >> np.uint64(32))) * _ODD) * _ODD
        hashed ^= hashed >> np.uint64(29)
    return _upper_half(hashed)


def _upper_half(hashed: NDArray[np.uint64]) -> NDArray[np.uint32]:
    return (hashed >> np.uint64(32)).astype(np.uint32)


def codes(schema: Schema, X: Values) -> Codes:
    """Return one byte per value, one line per column."""
    lines = [_code(schema, j, X[:, j]) for j in range(min(X.shape[1], _MOST_COLUMNS))]
    return np.stack(lines) if lines else np.empty((0, len(X)), np.uint8)


def code_ranges(schema: Schema, row: Values, reach: Values) -> list[tuple[int, int]]:
    """Return, for each column, the codes that a value within reach of this row's value can have."""
    ranges = []
    for j in range(min(len(row), _MOST_COLUMNS)):
        far = 0.0 if np.isnan(row[j]) else reach[j] * (1 + 1e-9) + abs(row[j]) * 1e-12
        low, high = _code(schema, j, np.array([row[j] - far, row[j] + far])).tolist()
        ranges.append((low, high))
    return ranges


def _code(schema: Schema, column: int, values: Values) -> Codes:
    attribute: Any = schema.features[column]
    empty = np.isnan(values)
    known = np.where(empty, 0.0, values)
    if isinstance(attribute, Categorical):
        code = known % (_TOP + 1)
    else:
        lower, upper = (attribute.lower, attribute.upper) if isinstance(attribute, Numeric) else (0, attribute.points)
        # In halves, since the range itself may exceed the largest number.
        width = upper / 2 - lower / 2
        code = np.floor((known / 2 - lower / 2) / width * _TOP) if width > 0 else np.zeros(len(known))
    return np.where(empty, _EMPTY, np.clip(code, 0, _TOP)).astype(np.uint8)
