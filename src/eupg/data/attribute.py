"""One column of a table: its kind, its role, and the public facts every guarantee is built on.

Bounds, resolutions and category lists are *public*: they are declared before any record is seen. Where they were read
from the data instead (``inferred``), every claim built on them says so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eupg.errors import DataError, SchemaError

if TYPE_CHECKING:
    import pandas as pd

Column = NDArray[np.float64]
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
class Attribute(ABC):
    """A column, described without looking at any record.

    Parameters
    ----------
    name
        The column's name in the table.
    role
        What it may reveal about a person.
    missing
        Whether an empty cell is refused, kept as a value of its own, or filled with ``fill``.
    inferred
        Which of the facts below were read from the data, and so are not public.
    source
        A word on where the public facts come from.
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
            value = getattr(self, word, None)
            if value is not None and value not in list(choices):
                raise self._wrong(f"{word} must be one of {[str(c) for c in choices]}, got {value!r}")
            if value is not None:
                object.__setattr__(self, word, choices(value))
        object.__setattr__(self, "inferred", tuple(self.inferred))
        if (self.missing is Missing.FILL) != (getattr(self, "fill", None) is not None):
            raise self._wrong('missing = "fill" and a fill value belong together: declare both or neither')

    @abstractmethod
    def encode(self, column: pd.Series) -> Column:
        """Turn a table's column into numbers, or say why it does not fit."""

    @abstractmethod
    def decode(self, values: Column) -> list[Any]:
        """Turn numbers back into what a person reads."""

    def _wrong(self, message: str) -> SchemaError:
        return SchemaError(f"column {self.name!r}: {message}")

    def _misfit(self, rows: NDArray[np.bool_], message: str) -> DataError:
        return DataError(f"column {self.name!r}: {rows.sum()} of {len(rows)} rows {message}")

    def _missing(self, values: Column, fill: float | None) -> Column:
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
            found = f"{self.lower}, {self.upper} and {self.resolution}"
            raise self._wrong(f"lower must not exceed upper and resolution must be positive, got {found}")
        if self.fill is not None and not self.lower <= self.fill <= self.upper:
            raise self._wrong(f"fill must lie within the bounds {self.lower} to {self.upper}, got {self.fill}")

    @property
    def points(self) -> int:
        """Number of values on the public grid, from ``lower`` to ``upper``."""
        steps = (self.upper - self.lower) / self.resolution
        if np.isinf(steps):
            # The range itself may be beyond the largest number where the number of steps is not.
            steps = self.upper / self.resolution - self.lower / self.resolution
        return int(np.ceil(steps - 1e-9)) + 1

    def encode(self, column: pd.Series) -> Column:
        """Return the numbers, clipped to the bounds where the schema says so."""
        import pandas as pd

        _value_type(column, self.name)
        read = pd.to_numeric(column, errors="coerce")
        unreadable = (read.isna() & column.notna()).to_numpy(dtype=bool)
        if unreadable.any():
            raise self._misfit(unreadable, "are not numbers: clean them, or declare the column as categorical")
        values = read.to_numpy(dtype=np.float64, na_value=np.nan)
        if np.isinf(values).any():
            raise self._misfit(np.isinf(values), "are infinite: clean or drop them")
        values = self._missing(values, self.fill)
        beyond = (values < self.lower) | (values > self.upper)
        if beyond.any() and self.outside is Outside.REFUSE:
            advice = 'widen the bounds, clean the rows, or declare outside = "clip"'
            raise self._misfit(beyond, f"lie outside the public bounds {self.lower} to {self.upper}: {advice}")
        return np.clip(values, self.lower, self.upper)

    def decode(self, values: Column) -> list[Any]:
        """Return plain numbers, with None for a missing one."""
        return [None if np.isnan(v) else float(v) for v in values]


@dataclass(frozen=True, kw_only=True)
class Listed(Attribute):
    """One of a public list of categories; numbers in the table are compared as text, so ``3`` matches ``"3"``.

    Parameters
    ----------
    categories
        The public list.
    other
        The category that takes values which are not on the list; without it they are refused.
    """

    categories: tuple[str, ...]
    other: str | None = None
    fill: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.categories
        listed = () if isinstance(given, str) else tuple(map(_text, given))
        if not listed or len(set(listed)) != len(listed):
            raise self._wrong(f"categories must be a list of distinct values, at least one, got {given!r}")
        object.__setattr__(self, "categories", listed)
        for word, value in (("other", self.other), ("fill", self.fill)):
            if value is not None and value not in listed:
                raise self._wrong(f"{word} = {value!r} is not one of its categories: add it to them")

    def encode(self, column: pd.Series) -> Column:
        """Return each row's position in the list of categories."""
        import pandas as pd

        text = category_text(column, self.name)
        codes = pd.Index(self.categories, dtype=object).get_indexer(pd.Index(text, dtype=object)).astype(np.float64)
        empty = pd.isna(text)
        unseen = (codes < 0) & ~empty
        if unseen.any() and self.other is None:
            examples = ", ".join(repr(v) for v in sorted(set(text[unseen]))[:3])
            advice = "add them to its categories, or name the category that takes them as other"
            raise self._misfit(unseen, f"hold categories the schema does not list ({examples}): {advice}")
        if self.other is not None:
            codes[unseen] = self.categories.index(self.other)
        codes[empty] = np.nan
        return self._missing(codes, None if self.fill is None else self.categories.index(self.fill))

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
        Optional: each category's parent, and each parent's parent. Categories under one parent are then alike.
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
        """Return the category and what lies above it in the hierarchy, the top last."""
        path = [category]
        while path[-1] in self.hierarchy:
            if self.hierarchy[path[-1]] in path:
                raise self._wrong(f"the hierarchy runs in a circle at {path[-1]!r}: remove one of the links")
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

    def encode(self, column: pd.Series) -> Column:
        """Refuse: a name is not a number."""
        raise self._wrong("a key cannot be turned into numbers")

    def decode(self, values: Column) -> list[Any]:
        """Refuse: a name is not a number."""
        raise self._wrong("a key cannot be turned into numbers")


def category_text(column: pd.Series, name: str) -> NDArray[np.object_]:
    """Write every value of a column as text, whole numbers without a decimal point, missing ones as None."""
    found = _value_type(column, name)
    if found.startswith("mixed") and found != "mixed-integer-float":
        raise DataError(f"column {name!r}: its {len(column)} rows mix types: write all values as text first")
    codes, distinct = column.factorize()
    text = np.array([*(_text(value) for value in distinct.tolist()), None], dtype=object)
    return np.asarray(text[codes])


def _value_type(column: pd.Series, name: str) -> str:
    import pandas as pd

    found: str = pd.api.types.infer_dtype(column, skipna=True)
    if found.startswith(("date", "timedelta", "period", "time", "interval", "bytes", "complex")):
        raise DataError(f"column {name!r}: its {len(column)} rows hold {found} values: make them numbers or text first")
    return found


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
