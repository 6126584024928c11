"""Rows to predict: the one place where a table becomes the matrix that a model reads.

Columns of a table are matched by name and coded by the schema. Columns that name a person or a record, and the label,
are ignored. A matrix is taken only where its width and its codes are those of the schema.

Bounds and categories that were *declared* are rules: a value that breaks them is refused, unless the schema itself says
what happens to it (``outside``, ``other``, ``missing``). Those that were *inferred* only tell what the training records
showed. A value beyond them is adjusted, and the row is marked: a number is clipped to the bounds, a category that was
not seen is read as missing, and a missing value stays missing. ``strict`` refuses such rows instead.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Attribute, Column, Listed, Missing, Numeric, Outside, category_text
from eupg.data.dataset import Matrix
from eupg.data.picture import check_bytes
from eupg.data.schema import Schema, as_frame
from eupg.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

Mask = NDArray[np.bool_]
_NAMED = 5


class AdjustedRows(UserWarning):
    """Some rows hold values that the training records did not show, and the model read them as something else."""


class Reason(StrEnum):
    """Why the model reads another value than the table holds."""

    CLIPPED = "clipped"
    UNSEEN = "unseen category"
    MISSING = "missing value"


@dataclass(frozen=True, eq=False)
class Adjusted:
    """The rows in which one column was adjusted, and why.

    Parameters
    ----------
    attribute
        The column.
    reason
        Why it was adjusted.
    rows
        True where it was.
    declared
        Whether the schema itself says what happens to such values.
    """

    attribute: Attribute
    reason: Reason
    rows: Mask
    declared: bool

    @property
    def count(self) -> int:
        """How many rows were adjusted."""
        return int(self.rows.sum())

    def describe(self) -> str:
        """Return what was done, in words."""
        attribute = self.attribute
        if self.reason is Reason.CLIPPED and isinstance(attribute, Numeric):
            return f"{attribute.name!r} clipped to {_bounds(attribute)}"
        if self.reason is Reason.UNSEEN and isinstance(attribute, Listed):
            return f"{attribute.name!r} with an unseen category, read as {attribute.other or 'missing'}"
        return f"{attribute.name!r} missing, as in no training record"


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in the coding of a schema, and what was adjusted to bring them there.

    Parameters
    ----------
    schema
        What the columns mean.
    X
        The matrix that a model of this schema reads.
    adjusted
        One entry per column and reason; empty where the model reads what the table holds.
    """

    schema: Schema
    X: Matrix
    adjusted: tuple[Adjusted, ...] = ()

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.X)

    @property
    def marked(self) -> Mask:
        """True for each row of which at least one value was adjusted."""
        return np.logical_or.reduce([a.rows for a in self.adjusted]) if self.adjusted else np.zeros(len(self), bool)

    def notes(self) -> list[str]:
        """Return one text per row: what was adjusted in it, or nothing."""
        notes: list[list[str]] = [[] for _ in range(len(self))]
        for adjusted in self.adjusted:
            for row in np.flatnonzero(adjusted.rows):
                notes[row].append(f"{adjusted.attribute.name}: {adjusted.reason}")
        return ["; ".join(note) for note in notes]

    def warn(self, *, stacklevel: int) -> None:
        """Warn of values that were adjusted though no schema says so."""
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
    """Reads rows to predict under one schema; build it once and use it for many calls.

    Examples
    --------
    >>> import pandas as pd
    >>> from eupg import Categorical, Numeric, Role
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
            Whether to refuse values beyond inferred bounds and categories, instead of adjusting them.
        carried
            Further columns that the table may hold. Others that the schema does not know are an error.

        Raises
        ------
        DataError
            If columns are missing, unknown or repeated, or a value does not fit.
        """
        if hasattr(rows, "columns") or hasattr(rows, "to_pandas"):
            return self._of_table(rows, strict=strict, carried=carried)
        return self._of_matrix(rows, strict=strict)

    def _of_table(self, table: Any, *, strict: bool, carried: Collection[str]) -> Rows:
        if self.schema.picture is not None:
            raise DataError(
                f"{self.schema.picture.name!r} is a picture, and a table holds none: pass a matrix of bytes with one "
                "row per picture, such as the X that read_images or image_dataset gives"
            )
        frame = as_frame(table)
        self._check_columns(list(frame.columns), carried)
        columns, adjusted = [], []
        for attribute, coding in zip(self.schema.features, self._codings, strict=True):
            column = frame[attribute.name]
            cells = _Cells(attribute, column.array, frame.index)
            values, unseen = coding(column, cells)
            fitted, changes = _fit(attribute, values, unseen, cells, strict=strict)
            columns.append(fitted)
            adjusted += changes
        return Rows(self.schema, np.column_stack(columns), tuple(adjusted))

    def _check_columns(self, names: list[str], carried: Collection[str]) -> None:
        """Refuse a table without all features, or with columns of which nothing is known."""
        features = [a.name for a in self.schema.features]
        known = {a.name for a in self.schema.attributes}.union(carried)
        absent = [name for name in features if name not in names]
        unknown = [name for name in names if name not in known]
        if absent or unknown:
            parts = [f"lacks {_listed(map(repr, absent))}, which the model needs"] if absent else []
            parts += [f"has {_listed(map(repr, unknown))}, which the model does not know"] if unknown else []
            steps = ["add what is missing"] if absent else []
            steps += ["drop what is unknown, or name it in --keep or carried=…"] if unknown else []
            raise DataError(
                f"the table to predict {' and '.join(parts)}: {', and '.join(steps)}; columns are matched by exact name"
            )

    def _of_matrix(self, rows: Any, *, strict: bool) -> Rows:
        X = _numbers(self.schema, rows)
        if self.schema.picture is not None or self._fits(X):
            return Rows(self.schema, X)
        columns, adjusted = [], []
        for attribute, values in zip(self.schema.features, X.T, strict=True):
            cells = _Cells(attribute, values, range(len(X)))
            _check_codes(attribute, values, cells)
            fitted, changes = _fit(attribute, values, np.zeros(len(X), bool), cells, strict=strict)
            columns.append(fitted)
            adjusted += changes
        return Rows(self.schema, np.column_stack(columns), tuple(adjusted))

    def _fits(self, X: Matrix) -> bool:
        """Tell at once whether every value of a matrix is one that the schema codes."""
        low, high, whole, keeps = self._limits
        fits = ~((low > X) | (high < X) | np.isnan(X))
        if keeps.any():
            fits |= keeps & np.isnan(X)
        codes = X[:, whole]
        # A missing code is unequal to itself rounded, and was looked at above.
        return bool(fits.all() and ((codes == np.rint(codes)) | np.isnan(codes)).all())

    @cached_property
    def _limits(self) -> tuple[Column, Column, NDArray[np.intp], Mask]:
        features = self.schema.features
        ends = [(a.lower, a.upper) if isinstance(a, Numeric) else (0.0, len(_categories(a)) - 1.0) for a in features]
        low, high = np.array(ends, dtype=np.float64).T
        whole = np.flatnonzero([isinstance(a, Listed) for a in features])
        return low, high, whole, np.array([a.missing is Missing.KEEP for a in features])

    @cached_property
    def _codings(self) -> tuple[_Coding, ...]:
        """How the columns of a table are read, in the order of the features."""
        return tuple(_Places(a) if isinstance(a, Listed) else _Numbers.of(a) for a in self.schema.features)


def as_matrix(schema: Schema, rows: Any) -> Matrix:
    """Return what a model of this schema reads: a matrix of the right width as it is, a table matched by name."""
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "biuf":
        _check_width(schema, rows)
        return rows
    read = RowReader(schema).read(rows)
    read.warn(stacklevel=3)
    return read.X


def _numbers(schema: Schema, rows: Any) -> Matrix:
    """Return a matrix of numbers, or bytes for pictures, once it is found to have the schema's width."""
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
    pixels: Any = X if schema.picture is None else check_bytes(schema.picture, X)
    return np.asarray(pixels, dtype=np.float64) if schema.picture is None else pixels


def _check_width(schema: Schema, X: NDArray[Any]) -> None:
    if X.ndim != 2 or X.shape[1] != schema.columns:
        unit = "pixel and channel" if schema.picture is not None else "feature, in the schema's order"
        raise DataError(
            f"expected a matrix with {schema.columns} columns, one per {unit}, got one of shape {X.shape}: pass a "
            "table, whose columns are matched by name, or bring the matrix into this shape, which for one row is "
            f"(1, {schema.columns})"
        )


@dataclass(frozen=True, eq=False)
class _Cells:
    """One column as it was passed, and the names of its rows, for errors."""

    attribute: Attribute
    values: Any
    names: Any

    def misfit(self, rows: Mask, what: str, *, value: bool = True, inferred: bool = False) -> DataError:
        """Return an error that names the column and the first row that does not fit, and the next step."""
        first = int(rows.argmax())
        shown = _plain(self.values[first]) if value else "the value"
        advice = ", or predict without strict to have such values adjusted" if inferred else ""
        return DataError(
            f"column {self.attribute.name!r}, row {self.names[first]}: {shown} {what} "
            f"({int(rows.sum())} of {len(rows)} rows do not fit): correct or drop these rows{advice}"
        )


class _Coding(Protocol):
    """Turns a column into the schema's coding, whatever its bounds and rules."""

    def __call__(self, column: pd.Series, cells: _Cells) -> tuple[Column, Mask]:
        """Return the codes, NaN where a cell is empty or its category unseen, and where the category is unseen."""


@dataclass(frozen=True)
class _Places:
    """Reads categories as their places in the list."""

    attribute: Listed

    @cached_property
    def _known(self) -> dict[str | None, float]:
        return {name: float(place) for place, name in enumerate(self.attribute.categories)} | {None: np.nan}

    def __call__(self, column: pd.Series, cells: _Cells) -> tuple[Column, Mask]:
        text = category_text(column, self.attribute.name)
        # A dictionary asks for one row much faster than an index of pandas, and for many as fast.
        places = np.fromiter((self._known.get(word, -1.0) for word in text), dtype=np.float64, count=len(text))
        unseen = places < 0
        return np.where(unseen, np.nan, places), unseen


@dataclass(frozen=True)
class _Numbers:
    """Reads numbers of any size, by an attribute without bounds that keeps missing values."""

    wide: Attribute

    @classmethod
    def of(cls, attribute: Attribute) -> _Numbers:
        assert isinstance(attribute, Numeric)
        most = sys.float_info.max
        return cls(replace(attribute, lower=-most, upper=most, missing=Missing.KEEP, fill=None))

    def __call__(self, column: pd.Series, cells: _Cells) -> tuple[Column, Mask]:
        none = np.zeros(len(column), bool)
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iuf":
            # Nothing to parse: a service that asks for one row at a time waits for pandas more than for the model.
            values = column.to_numpy(dtype=np.float64)
            if not np.isinf(values).any():
                return values, none
        try:
            return self.wide.encode(column), none
        except DataError:
            wrong = _not_finite(column)
            if not wrong.any():
                raise
            raise cells.misfit(wrong, "is not a finite number") from None


def _not_finite(column: pd.Series) -> Mask:
    """Return where a column of objects holds something other than a finite number or nothing."""
    import pandas as pd

    numbers = pd.to_numeric(column.astype(object), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.asarray((np.isnan(numbers) & column.notna().to_numpy()) | np.isinf(numbers), dtype=bool)


def _check_codes(attribute: Attribute, values: Column, cells: _Cells) -> None:
    """Refuse numbers of a matrix that code nothing."""
    known = ~np.isnan(values)
    wrong = np.isinf(values)
    what = "is infinite"
    if isinstance(attribute, Listed):
        last = len(attribute.categories) - 1
        wrong = known & ~((values >= 0) & (values <= last) & (values == np.rint(values)))
        what = f"is not a code from 0 to {last} of its {last + 1} categories"
    if wrong.any():
        raise cells.misfit(wrong, what)


def _fit(
    attribute: Attribute, values: Column, unseen: Mask, cells: _Cells, *, strict: bool
) -> tuple[Column, list[Adjusted]]:
    """Bring one column within the schema, or say which row does not fit; return it and what was adjusted."""
    adjusted = []
    inferred = _inferred(attribute)
    empty = np.isnan(values) & ~unseen
    if empty.any() and attribute.missing is not Missing.KEEP:
        if attribute.missing is Missing.FILL:
            values = np.where(empty, _fill(attribute), values)
        elif inferred and not strict:
            adjusted.append(Adjusted(attribute, Reason.MISSING, empty, declared=False))
        else:
            raise cells.misfit(empty, "is missing", value=False, inferred=inferred)
    if unseen.any():
        other = attribute.other if isinstance(attribute, Listed) else None
        if other is None and (strict or not inferred):
            listed = "inferred" if inferred else "declared"
            raise cells.misfit(unseen, f"is not one of the {listed} categories", inferred=inferred)
        if other is not None:
            values = np.where(unseen, _categories(attribute).index(other), values)
        adjusted.append(Adjusted(attribute, Reason.UNSEEN, unseen, declared=other is not None))
    if isinstance(attribute, Numeric):
        return _clipped(attribute, values, cells, adjusted, strict=strict)
    return values, adjusted


def _clipped(
    attribute: Numeric, values: Column, cells: _Cells, adjusted: list[Adjusted], *, strict: bool
) -> tuple[Column, list[Adjusted]]:
    """Clip numbers where the schema says so, or where the bound they pass was inferred."""
    below, above = values < attribute.lower, values > attribute.upper
    beyond = below | above
    if not beyond.any():
        return values, adjusted
    declared = attribute.outside is Outside.CLIP
    for side, name in ((below, "lower"), (above, "upper")):
        inferred = name in attribute.inferred
        if side.any() and not declared and (strict or not inferred):
            what = f"lies outside the {'inferred' if inferred else 'declared'} bounds {_bounds(attribute)}"
            raise cells.misfit(side, what, inferred=inferred)
    clipped = np.clip(values, attribute.lower, attribute.upper)
    return clipped, [*adjusted, Adjusted(attribute, Reason.CLIPPED, beyond, declared=declared)]


def _inferred(attribute: Attribute) -> bool:
    """Tell whether what a column may hold was read from the training records."""
    return not {"lower", "upper", "categories"}.isdisjoint(attribute.inferred)


def _categories(attribute: Attribute) -> tuple[str, ...]:
    return attribute.categories if isinstance(attribute, Listed) else ()


def _fill(attribute: Attribute) -> float:
    """Return the number that stands for the schema's fill value."""
    if isinstance(attribute, Numeric):
        assert attribute.fill is not None
        return attribute.fill
    assert isinstance(attribute, Listed)
    assert attribute.fill is not None
    return float(attribute.categories.index(attribute.fill))


def _bounds(attribute: Numeric) -> str:
    return f"{_plain(attribute.lower)} to {_plain(attribute.upper)}"


def _plain(value: object) -> str:
    """Write a number without a needless decimal point, and anything else as Python shows it."""
    number = isinstance(value, (float, np.floating))
    return f"{value:.12g}" if number else repr(value.item() if isinstance(value, np.generic) else value)


def _listed(texts: Iterable[str]) -> str:
    """Join texts by commas, and count those beyond the first few."""
    every = list(texts)
    rest = len(every) - _NAMED
    return ", ".join(every[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
