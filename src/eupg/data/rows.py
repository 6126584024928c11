"""Rows to predict: the one place where a table becomes the matrix that a model reads.

Columns of a table are matched by name and coded by the schema. Columns that name a person or a record, and the label,
are ignored. A matrix must already have the width and the codes of the schema.

Bounds and categories that were *declared* are rules: a value that breaks them is refused, unless the schema says what
happens to it (``outside``, ``other``, ``missing``). Those that were *inferred* only describe the training records. A
value beyond them is adjusted and its row is marked: a number is clipped to the bounds, an unseen category is read as
missing, and a missing value stays missing. ``strict`` refuses such rows instead.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Attribute, Column, Listed, Mask, Missing, Numeric, Outside
from eupg.data.dataset import Matrix
from eupg.data.date import Date
from eupg.data.kind import DataKind
from eupg.data.pictures.attribute import check_bytes
from eupg.data.schema import Schema, as_frame
from eupg.data.vector import check_on_grid
from eupg.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

# Names shown in a message; the others are counted.
_NAMED = 5


class AdjustedRows(UserWarning):
    """Some rows hold values that did not occur in the training records, and the model read them as something else."""


class Reason(StrEnum):
    """Why the model reads another value than the table holds."""

    CLIPPED = "clipped"
    UNSEEN = "unseen category"
    MISSING = "missing value"


@dataclass(frozen=True, eq=False)
class Adjusted:
    """The rows (a mask) in which one column was adjusted, why, and whether the schema declares this adjustment."""

    attribute: Attribute
    reason: Reason
    rows: Mask
    declared: bool

    @property
    def count(self) -> int:
        """Number of adjusted rows."""
        return int(self.rows.sum())

    def describe(self) -> str:
        """Return the adjustment in words."""
        attribute = self.attribute
        if self.reason is Reason.CLIPPED and isinstance(attribute, Numeric):
            return f"{attribute.name!r} clipped to {attribute.bounds}"
        if self.reason is Reason.UNSEEN and isinstance(attribute, Listed):
            return f"{attribute.name!r} with an unseen category, read as {attribute.other or 'missing'}"
        return f"{attribute.name!r} missing, as in no training record"


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in the coding of a schema, as a model reads them, and the adjustments made per column and reason."""

    schema: Schema
    X: Matrix
    adjusted: tuple[Adjusted, ...] = ()

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.X)

    @property
    def marked(self) -> Mask:
        """Whether at least one value of a row was adjusted, for each row."""
        return np.logical_or.reduce([a.rows for a in self.adjusted]) if self.adjusted else np.zeros(len(self), bool)

    def notes(self) -> list[str]:
        """Return one text per row: its adjustments, or nothing."""
        notes: list[list[str]] = [[] for _ in range(len(self))]
        for adjusted in self.adjusted:
            for row in np.flatnonzero(adjusted.rows):
                notes[row].append(f"{adjusted.attribute.name}: {adjusted.reason}")
        return ["; ".join(note) for note in notes]

    def warn(self, *, stacklevel: int) -> None:
        """Warn of adjustments that the schema does not declare."""
        changes = [adjusted.describe() for adjusted in self.adjusted if not adjusted.declared]
        if changes:
            # Without counts or values: Python keeps every distinct text of a warning for as long as it runs.
            warnings.warn(
                f"some rows hold values that the training records did not show: {_listed(changes)}; declare bounds and "
                "categories in a schema to decide what happens to such values",
                AdjustedRows,
                stacklevel=stacklevel + 1,
            )


@dataclass(frozen=True)
class RowReader:
    """Reads rows to predict under one schema.

    Examples
    --------
    >>> import pandas as pd
    >>> from eupg.data import Categorical, Numeric, Role
    >>> ill = Categorical(name="ill", role=Role.LABEL, categories=("no", "yes"))
    >>> age = Numeric(name="age", lower=0, upper=100, inferred=("lower", "upper"))
    >>> town = Categorical(name="town", categories=("Bonn", "Ulm"))
    >>> rows = RowReader(Schema((age, town, ill))).read(pd.DataFrame({"town": ["Ulm", "Bonn"], "age": [130, 40]}))
    >>> rows.X
    array([[100.,   1.],
           [ 40.,   0.]])
    >>> rows.notes()
    ['age: clipped', '']
    """

    schema: Schema

    def read(self, rows: Any, *, strict: bool = False, carried: Collection[str] = ()) -> Rows:
        """Return rows in the coding of the schema.

        Parameters
        ----------
        rows
            A pandas, Arrow or polars table with every feature in a column of its name, in any order; or a matrix in the
            schema's coding, with one column per feature in the schema's order (pictures: one byte per pixel).
        strict
            Whether to refuse values beyond inferred bounds and categories instead of adjusting them.
        carried
            Further columns that the table may hold. Other columns that the schema does not declare are an error.

        Raises
        ------
        DataError
            If columns are missing, unknown or repeated, or a value does not fit.
        """
        if not (hasattr(rows, "columns") or hasattr(rows, "to_pandas")):
            return self._of_matrix(rows, strict=strict)
        if self.schema.kind is not DataKind.TABLE:
            if self.schema.vector is not None:
                raise DataError(
                    "the schema describes public features of pictures or texts, and a table holds none: encode them "
                    "with encode_records, and pass the X that it gives"
                )
            raise DataError(
                "the schema describes pictures, and a table holds none: pass a matrix of bytes with one row per "
                "picture, such as the X that read_images or image_dataset gives"
            )
        frame = as_frame(rows)
        self._check_columns(list(frame.columns), carried)
        cells = [_Cells(a, frame[a.name].array, frame.index) for a in self.schema.features]
        return self._fit((column.read(frame[column.attribute.name]) for column in cells), cells, strict=strict)

    def _of_matrix(self, rows: Any, *, strict: bool) -> Rows:
        X = _numbers(self.schema, rows)
        features = self.schema.features
        if self.schema.kind is not DataKind.TABLE or all(a.fits(X[:, j]).all() for j, a in enumerate(features)):
            return Rows(self.schema, X)
        cells = [_Cells(a, X[:, j], range(len(X))) for j, a in enumerate(features)]
        return self._fit((column.check_codes() for column in cells), cells, strict=strict)

    def _fit(self, columns: Iterable[Column], cells: list[_Cells], *, strict: bool) -> Rows:
        """Fit each column as soon as it is read, so that an error names the first column that does not fit."""
        fitted = [column.fit(values, strict=strict) for values, column in zip(columns, cells, strict=True)]
        adjusted = tuple(change for _, changes in fitted for change in changes)
        return Rows(self.schema, np.column_stack([values for values, _ in fitted]), adjusted)

    def _check_columns(self, names: list[str], carried: Collection[str]) -> None:
        """Refuse a table that lacks features or has unknown columns."""
        known = {a.name for a in self.schema.attributes}.union(carried)
        absent = [a.name for a in self.schema.features if a.name not in names]
        unknown = [name for name in names if name not in known]
        if absent or unknown:
            parts = [f"lacks {_listed(map(repr, absent))}, which the model needs"] if absent else []
            parts += [f"has {_listed(map(repr, unknown))}, which the model does not know"] if unknown else []
            steps = ["add what is missing"] if absent else []
            leave = "drop what is unknown, or name it in --drop to leave it out, or in --keep or carried=…"
            steps += [leave] if unknown else []
            raise DataError(
                f"the table to predict {' and '.join(parts)}: {', and '.join(steps)}; columns are matched by exact name"
            )


def as_matrix(schema: Schema, rows: Any) -> Matrix:
    """Return what a model of this schema reads: a matrix of the right width as it is, a table matched by name."""
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "biuf":
        _check_width(schema, rows)
        return rows
    read = RowReader(schema).read(rows)
    read.warn(stacklevel=3)
    return read.X


def _numbers(schema: Schema, rows: Any) -> Matrix:
    """Return a matrix of the schema's width and type."""
    try:
        X = np.asarray(rows)
    except ValueError:
        X = np.array(None)
    if X.dtype.kind not in "biuf":
        raise DataError(
            "expected a table with named columns, or a matrix of numbers in the schema's coding, got "
            f"{type(rows).__name__}: make it a table, for instance pandas.DataFrame(rows, columns=[…])"
        )
    _check_width(schema, X)
    if schema.picture is not None:
        check_bytes(schema.picture, X)
    if schema.vector is not None:
        check_on_grid(schema.vector, X)
    return np.asarray(X, dtype=schema.dtype)


def _check_width(schema: Schema, X: NDArray[Any]) -> None:
    if X.ndim != 2 or X.shape[1] != schema.columns:
        units = {DataKind.TABLE: "feature, in the schema's order", DataKind.PICTURES: "pixel and channel"}
        unit = units.get(schema.kind, "public feature")
        raise DataError(
            f"expected a matrix with {schema.columns} columns, one per {unit}, got one of shape {X.shape}: pass a "
            "table, whose columns are matched by name, or bring the matrix into this shape, which for one row is "
            f"(1, {schema.columns})"
        )


@dataclass(frozen=True, eq=False)
class _Cells:
    """One column as it was passed, with the names of its rows for errors; codes are −1 for an unseen category."""

    attribute: Attribute
    values: Any
    names: Any

    def read(self, column: pd.Series) -> Column:
        """Return the codes of a table's column, whatever its bounds and rules."""
        if isinstance(self.attribute, Listed):
            return self.attribute.parse(column)[0]
        assert isinstance(self.attribute, Numeric)
        try:
            return self.attribute.parse(column)
        except DataError:
            wrong = self.attribute.unreadable(column)
            if not wrong.any():
                raise
            what = "date" if isinstance(self.attribute, Date) else "finite number"
            raise self._misfit(wrong, f"is not a {what}") from None

    def check_codes(self) -> Column:
        """Return the column of a matrix; refuse numbers that are not codes."""
        codes: Column = self.values
        wrong, problem = np.isinf(codes), "is infinite"
        if isinstance(self.attribute, Listed):
            last = self.attribute.points - 1
            wrong = ~(self.attribute.fits(codes) | np.isnan(codes))
            problem = f"is not a code from 0 to {last} of its {last + 1} categories"
        if wrong.any():
            raise self._misfit(wrong, problem)
        return codes

    def fit(self, codes: Column, *, strict: bool) -> tuple[Column, list[Adjusted]]:
        """Bring the column within the schema, or name the row that does not fit; return it and the adjustments."""
        attribute, adjusted = self.attribute, []
        unseen = codes < 0 if isinstance(attribute, Listed) else np.zeros(len(codes), bool)
        empty = np.isnan(codes)
        inferred = not {"lower", "upper", "categories"}.isdisjoint(attribute.inferred)
        if empty.any() and attribute.missing is not Missing.KEEP:
            if attribute.missing is Missing.FILL:
                assert isinstance(attribute, Numeric | Listed)
                fill: Any = attribute.codes[attribute.fill] if isinstance(attribute, Listed) else attribute.fill
                codes = np.where(empty, fill, codes)
            elif inferred and not strict:
                adjusted.append(Adjusted(attribute, Reason.MISSING, empty, declared=False))
            else:
                raise self._misfit(empty, "is missing", value=False, inferred=inferred)
        if unseen.any():
            assert isinstance(attribute, Listed)
            if attribute.other is None and (strict or not inferred):
                source = "inferred" if inferred else "declared"
                raise self._misfit(unseen, f"is not one of the {source} categories", inferred=inferred)
            codes = np.where(unseen, attribute.codes[attribute.other], codes)
            adjusted.append(Adjusted(attribute, Reason.UNSEEN, unseen, declared=attribute.other is not None))
        if isinstance(attribute, Numeric):
            beyond = (codes < attribute.lower) | (codes > attribute.upper)
            if beyond.any():
                codes = self._clip(attribute, codes, strict=strict)
                declared = attribute.outside is Outside.CLIP
                adjusted.append(Adjusted(attribute, Reason.CLIPPED, beyond, declared=declared))
        return codes, adjusted

    def _clip(self, attribute: Numeric, values: Column, *, strict: bool) -> Column:
        """Clip numbers where the schema says so, or where the bound they pass was inferred."""
        for side, name in ((values < attribute.lower, "lower"), (values > attribute.upper, "upper")):
            inferred = name in attribute.inferred
            if side.any() and attribute.outside is not Outside.CLIP and (strict or not inferred):
                source = "inferred" if inferred else "declared"
                raise self._misfit(side, f"lies outside the {source} bounds {attribute.bounds}", inferred=inferred)
        return np.clip(values, attribute.lower, attribute.upper)

    def _misfit(self, rows: Mask, problem: str, *, value: bool = True, inferred: bool = False) -> DataError:
        """Return an error that names the column, the first row that does not fit, and the next step."""
        first = int(rows.argmax())
        shown = _plain(self.values[first]) if value else "the value"
        advice = ", or predict without strict to have such values adjusted" if inferred else ""
        return DataError(
            f"column {self.attribute.name!r}, row {self.names[first]}: {shown} {problem} "
            f"({int(rows.sum())} of {len(rows)} rows do not fit): correct or drop these rows{advice}"
        )


def _plain(value: object) -> str:
    """Write a number without a needless decimal point, and anything else as Python shows it."""
    number = isinstance(value, (float, np.floating))
    return f"{value:.12g}" if number else repr(value.item() if isinstance(value, np.generic) else value)


def _listed(texts: Iterable[str]) -> str:
    """Join texts by commas, and count those beyond the first few."""
    every = list(texts)
    rest = len(every) - _NAMED
    return ", ".join(every[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
