"""One column of a table: its kind, its role, and the public facts every guarantee is built on.

Bounds, resolutions and category lists are *public*: they are declared before any record is seen. Where they were read
from the data instead (``inferred``), every claim built on them says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eupg.errors import DataError, SchemaError

if TYPE_CHECKING:
    import pandas as pd

Column = NDArray[np.float64]
Mask = NDArray[np.bool_]
# The most points of a public grid that every mechanism can add noise to.
MOST_POINTS = 2**20


class Role(StrEnum):
    """What an attribute may reveal about a person."""

    IDENTIFIER = "identifier"
    QUASI_IDENTIFIER = "quasi-identifier"
    CONFIDENTIAL = "confidential"
    LABEL = "label"
    SUBJECT = "subject"


class Missing(StrEnum):
    """What happens to an empty cell."""

    REFUSE = "refuse"
    KEEP = "keep"
    FILL = "fill"


class Outside(StrEnum):
    """What happens to a number outside the public bounds."""

    REFUSE = "refuse"
    CLIP = "clip"


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """A column, described without looking at any record.

    Parameters
    ----------
    name, role
        The column's name in the table, and what it may reveal about a person.
    missing
        Whether an empty cell is refused, kept as a value of its own, or filled with ``fill``.
    inferred
        The declared facts that were read from the data and so are not public.
    source
        Where the public facts come from.
    """

    kind: ClassVar[str]
    name: str
    role: Role = Role.QUASI_IDENTIFIER
    missing: Missing = Missing.REFUSE
    inferred: tuple[str, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        # Plain text stands for the member it names: "refuse" compared by identity would not be Outside.REFUSE.
        for word, choices in (("role", Role), ("missing", Missing), ("outside", Outside)):
            if not hasattr(self, word):
                continue
            value = getattr(self, word)
            if value not in list(choices):
                raise self._wrong(f"{word} must be one of {[str(c) for c in choices]}, got {value!r}")
            object.__setattr__(self, word, choices(value))
        object.__setattr__(self, "inferred", tuple(self.inferred))
        if (self.missing is Missing.FILL) != (getattr(self, "fill", None) is not None):
            raise self._wrong('missing = "fill" and a fill value belong together: declare both or neither')

    def encode(self, column: pd.Series) -> Column:
        """Turn a table's column into numbers, or say why it does not fit."""
        raise self._wrong(f"a {self.kind} cannot be turned into numbers")

    def decode(self, values: Column) -> list[Any]:
        """Turn numbers back into what a person reads."""
        raise self._wrong(f"a {self.kind} cannot be read from numbers")

    def fits(self, values: Column) -> Mask:
        """Return which numbers stand for a value of this attribute, or for a missing value that the schema keeps."""
        return np.isnan(values) & (self.missing is Missing.KEEP)

    def _wrong(self, message: str) -> SchemaError:
        return SchemaError(f"column {self.name!r}: {message}")

    def _misfit(self, rows: Mask, message: str) -> DataError:
        return DataError(f"column {self.name!r}: {rows.sum()} of {len(rows)} rows {message}")

    def _without_missing(self, values: Column, fill: float | None) -> Column:
        empty = np.isnan(values)
        if not empty.any() or self.missing is Missing.KEEP:
            return values
        if self.missing is Missing.FILL and fill is not None:
            return np.where(empty, fill, values)
        raise self._misfit(empty, 'are missing: drop them, or declare missing = "keep", or "fill" with a fill value')


@dataclass(frozen=True, kw_only=True)
class Numeric(Attribute):
    """A number between public bounds, known to a public resolution.

    Examples
    --------
    >>> Numeric(name="age", lower=0, upper=120).points
    121
    """

    kind: ClassVar[str] = "numeric"
    lower: float
    upper: float
    resolution: float = 1.0
    outside: Outside = Outside.REFUSE
    fill: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for word in ("lower", "upper", "resolution", *(("fill",) if self.fill is not None else ())):
            value = getattr(self, word)
            if not isinstance(value, (int, float, np.integer, np.floating)) or not np.isfinite(value):
                raise self._wrong(f"{word} must be a finite number, got {value!r}")
            object.__setattr__(self, word, float(value))
        if self.lower > self.upper or self.resolution <= 0:
            values = f"{self.lower}, {self.upper} and {self.resolution}"
            raise self._wrong(f"lower must not exceed upper and resolution must be positive, got {values}")
        if self.fill is not None and not self.lower <= self.fill <= self.upper:
            raise self._wrong(f"fill must lie within the bounds {self.lower} to {self.upper}, got {self.fill}")

    @property
    def points(self) -> int:
        """Number of values on the public grid, from ``lower`` to ``upper``."""
        steps = (self.upper - self.lower) / self.resolution
        if np.isinf(steps):
            # The range itself may exceed the largest number although the number of steps does not.
            steps = self.upper / self.resolution - self.lower / self.resolution
        return int(np.ceil(steps - 1e-9)) + 1

    def steps(self, values: Column) -> Column:
        """Return the position of each value on the public grid, counted from ``lower`` and not rounded."""
        steps, last = (values - self.lower) / self.resolution, self.points - 1
        # The last point is the upper bound itself, which may be less than a full step from the one before.
        width = (self.upper - self.lower) / self.resolution
        return np.where(steps > (last - 1 + width) / 2, last, steps)

    def at(self, steps: Column) -> Column:
        """Return the values at these positions of the public grid."""
        return np.minimum(self.lower + steps * self.resolution, self.upper)

    def fits(self, values: Column) -> Mask:
        """Return which numbers lie within the bounds, or stand for a missing value that the schema keeps."""
        return ((values >= self.lower) & (values <= self.upper)) | super().fits(values)

    @property
    def bounds(self) -> str:
        """The bounds in words."""
        return f"{self.shown(self.lower)} to {self.shown(self.upper)}"

    def shown(self, value: float) -> str:
        """Write a value without a needless decimal point."""
        return f"{value:.12g}"

    def unreadable(self, column: pd.Series) -> Mask:
        """Return the rows that hold something other than a finite number or nothing."""
        import pandas as pd

        numbers = pd.to_numeric(column.astype(object), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
        return np.asarray((np.isnan(numbers) & column.notna().to_numpy()) | np.isinf(numbers), dtype=bool)

    def parse(self, column: pd.Series) -> Column:
        """Return the numbers of a column, whatever the bounds, and NaN for an empty cell."""
        import pandas as pd

        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iuf":
            # Nothing to parse. A service that predicts one row at a time would wait for pandas more than for the model.
            values = column.to_numpy(dtype=np.float64)
        else:
            _value_type(column, self.name)
            numbers = pd.to_numeric(column, errors="coerce")
            unreadable = (numbers.isna() & column.notna()).to_numpy(dtype=bool)
            if unreadable.any():
                raise self._misfit(unreadable, "are not numbers: clean them, or declare the column as categorical")
            values = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
        if np.isinf(values).any():
            raise self._misfit(np.isinf(values), "are infinite: clean or drop them")
        return values

    def encode(self, column: pd.Series) -> Column:
        """Return the numbers, clipped to the bounds where the schema says so."""
        values = self._without_missing(self.parse(column), self.fill)
        beyond = (values < self.lower) | (values > self.upper)
        if beyond.any() and self.outside is Outside.REFUSE:
            advice = 'widen the bounds, clean the rows, or declare outside = "clip"'
            raise self._misfit(beyond, f"lie outside the public bounds {self.bounds}: {advice}")
        return np.clip(values, self.lower, self.upper)

    def decode(self, values: Column) -> list[Any]:
        """Return plain numbers, with None for a missing one."""
        return [None if np.isnan(v) else float(v) for v in values]


@dataclass(frozen=True, kw_only=True)
class Listed(Attribute):
    """One of a public list of categories; numbers in the table are compared as text, so ``3`` matches ``"3"``.

    Values that are not on the list count as the category ``other``; without it they are refused.
    """

    categories: tuple[str, ...]
    other: str | None = None
    fill: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        categories: Any = self.categories
        listed = () if isinstance(categories, str) else tuple(map(_text, categories))
        if not listed or len(set(listed)) != len(listed):
            raise self._wrong(f"categories must be a list of distinct values, at least one, got {categories!r}")
        object.__setattr__(self, "categories", listed)
        for word, value in (("other", self.other), ("fill", self.fill)):
            if value is not None and value not in listed:
                raise self._wrong(f"{word} = {value!r} is not one of its categories: add it to them")

    @property
    def points(self) -> int:
        """Number of categories."""
        return len(self.categories)

    def fits(self, values: Column) -> Mask:
        """Return which numbers are positions in the list, or stand for a missing value that the schema keeps."""
        listed = (values >= 0) & (values < self.points) & (values == np.floor(values))
        return np.asarray(listed | super().fits(values))

    @cached_property
    def codes(self) -> dict[str | None, float]:
        """The position of each category in the list, and NaN for None."""
        return {category: float(position) for position, category in enumerate(self.categories)} | {None: np.nan}

    def parse(self, column: pd.Series) -> tuple[Column, NDArray[np.object_]]:
        """Return each row's position in the list, −1 if it is not listed and NaN if it is empty; and its text."""
        text = category_text(column, self.name)
        # For one row a dictionary is much faster than an index of pandas, and for many rows as fast.
        return np.array([self.codes.get(category, -1.0) for category in text], dtype=np.float64), text

    def encode(self, column: pd.Series) -> Column:
        """Return each row's position in the list of categories."""
        codes, text = self.parse(column)
        unlisted = codes < 0
        if unlisted.any() and self.other is None:
            examples = ", ".join(repr(v) for v in sorted(set(text[unlisted]))[:3])
            advice = "add them to its categories, or name the category that takes them as other"
            raise self._misfit(unlisted, f"hold categories the schema does not list ({examples}): {advice}")
        return self._without_missing(np.where(unlisted, self.codes[self.other], codes), self.codes[self.fill])

    def decode(self, values: Column) -> list[Any]:
        """Return the categories' names, with None for a missing one."""
        return [None if np.isnan(v) else self.categories[int(v)] for v in values]


@dataclass(frozen=True, kw_only=True)
class Ordinal(Listed):
    """One of a public list of categories, from the lowest to the highest."""

    kind: ClassVar[str] = "ordinal"


@dataclass(frozen=True, kw_only=True)
class Categorical(Listed):
    """One of a public list of categories, in no order.

    Parameters
    ----------
    hierarchy
        Optional: the parent of each category, and of each parent. Categories under one parent are similar.
    """

    kind: ClassVar[str] = "categorical"
    hierarchy: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.hierarchy, Mapping):
            raise self._wrong(f"hierarchy must give each category's parent, got {self.hierarchy!r}")
        object.__setattr__(self, "hierarchy", {str(child): str(above) for child, above in self.hierarchy.items()})
        for child in self.hierarchy:
            if child not in self.categories and child not in self.hierarchy.values():
                raise self._wrong(f"the hierarchy places {child!r}, which is not one of its categories: correct it")
            self.ancestors(child)

    def ancestors(self, category: str) -> list[str]:
        """Return the category and its ancestors in the hierarchy, the top last."""
        path = [category]
        while path[-1] in self.hierarchy:
            if self.hierarchy[path[-1]] in path:
                raise self._wrong(f"the hierarchy has a cycle at {path[-1]!r}: remove one of the links")
            path.append(self.hierarchy[path[-1]])
        return path


@dataclass(frozen=True, kw_only=True)
class Key(Attribute):
    """A name for a record or a person: never a feature, never a number."""

    kind: ClassVar[str] = "key"
    role: Role = Role.IDENTIFIER

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.role not in (Role.IDENTIFIER, Role.SUBJECT):
            raise self._wrong(f"a key names a record or a person, so it cannot be a {self.role}")


def category_text(column: pd.Series, name: str) -> NDArray[np.object_]:
    """Write every value of a column as text, whole numbers without a decimal point, missing ones as None."""
    value_type = _value_type(column, name)
    if value_type.startswith("mixed") and value_type != "mixed-integer-float":
        raise DataError(f"column {name!r}: its {len(column)} rows mix types: write all values as text first")
    codes, distinct = column.factorize()
    text = np.array([*(_text(value) for value in distinct.tolist()), None], dtype=object)
    return np.asarray(text[codes])


def _value_type(column: pd.Series, name: str) -> str:
    import pandas as pd

    value_type: str = pd.api.types.infer_dtype(column, skipna=True)
    if value_type.startswith(("date", "timedelta", "period", "time", "interval", "bytes", "complex")):
        raise DataError(
            f"column {name!r}: its {len(column)} rows hold {value_type} values: make them numbers or text first"
        )
    return value_type


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
