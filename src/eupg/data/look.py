"""What a column seems to be, read from its values: a convenience for a first look, marked as such."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from eupg.data.attribute import MOST_POINTS, Attribute, Categorical, Missing, Numeric, Role, category_text
from eupg.errors import SchemaError

if TYPE_CHECKING:
    import pandas as pd


# What a coarsened resolution is called among the inferred facts.
COARSENED = "resolution (coarsened)"
# A label that is read from a table has at most this many classes; a declared one has as many as it lists.
MOST_CLASSES = 100
# In a table of so few rows, values that all differ say little.
_FEW = 20


def look_at(
    column: pd.Series, name: str, role: Role, whose: pd.Series | None, *, is_measurement: bool = False
) -> Attribute:
    """Describe a column by its values; what was read from them is marked as inferred.

    A column of whole numbers that names its rows is refused, unless the caller knows that it is a measurement.
    """
    missing = Missing.KEEP if column.isna().any() and role is not Role.LABEL else Missing.REFUSE
    seen = ("missing",) if missing is Missing.KEEP else ()
    if _is_number(column) and role is not Role.LABEL:
        if not is_measurement and names_rows(column):
            raise SchemaError(
                f"column {name!r}: all {column.count()} values differ, as in a column of ids: list it under "
                "identifiers, name it as subject, drop it, or list it under features if it is a measurement"
            )
        return _number(column, name, role, missing, seen)
    text = category_text(column, name)
    categories = sorted({v for v in text if v is not None}, key=_natural)
    if role is Role.LABEL:
        check_classes(len(categories), int(column.count()), f"the label {name!r}")
    elif names_rows(column):
        raise SchemaError(
            f"column {name!r}: all {len(categories)} values differ, so it names records: list it under identifiers, "
            "name it as subject, or drop it"
        )
    if whose is not None and role is not Role.LABEL and _names_people(column, whose):
        raise SchemaError(
            f"column {name!r}: most people have a value of their own, so it names people, and a list of its values "
            "would outlive them: list it under identifiers, declare it, or drop it"
        )
    if not categories:
        raise SchemaError(f"column {name!r}: all {len(text)} values are missing: drop the column, or declare it")
    read = ("categories", *seen)
    return Categorical(name=name, role=role, missing=missing, categories=tuple(categories), inferred=read)


def names_rows(column: pd.Series) -> bool:
    """Tell whether a column seems to name its rows: text or whole numbers that all differ, in more than 20 rows.

    Up to half of the cells may be empty. Whole numbers count however they are stored, as 7 or as 7.0. Numbers with
    decimals do not: measurements often differ in every row.
    """
    import pandas as pd

    values = column.dropna()
    if len(values) <= _FEW or 2 * len(values) < len(column) or pd.api.types.is_datetime64_any_dtype(column):
        return False
    if _is_number(column):
        numbers = values.to_numpy(dtype=np.float64)
        if not (numbers == np.round(numbers)).all():
            return False
    return bool(values.is_unique)


def check_classes(classes: int, rows: int, label: str) -> None:
    """Refuse a label that was not declared and has too many distinct values to be one of classes."""
    if classes > MOST_CLASSES or (classes > _FEW and 2 * classes > rows):
        raise SchemaError(
            f"{label} has {classes:,} distinct values in {rows:,} rows, and only classification is supported: where "
            f"classes are not declared, at most {MOST_CLASSES} are expected, with two rows or more per class. Choose a "
            "column of classes, group the values into ranges, or declare every class in a schema"
        )


def _is_number(column: pd.Series) -> bool:
    import pandas as pd

    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _number(column: pd.Series, name: str, role: Role, missing: Missing, seen: tuple[str, ...]) -> Numeric:
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    values = values[np.isfinite(values)]
    # Resolution and bounds come from the rounded extremes, since the exact range would give away the exact ones.
    low, high = (0.0 - _outward(-values.min()), _outward(values.max())) if len(values) else (0.0, 0.0)
    whole = bool((values == np.round(values)).all())
    resolution = 1.0 if whole or high == low else high / 1000 - low / 1000
    finest = _finest(low, high)
    coarsened = finest > resolution
    return Numeric(
        name=name,
        role=role,
        missing=missing,
        lower=low,
        upper=high,
        resolution=finest if coarsened else resolution,
        inferred=("lower", "upper", COARSENED if coarsened else "resolution", *seen),
    )


def _finest(low: float, high: float) -> float:
    """Return the finest step, 1, 2 or 5 times a power of ten, whose grid every mechanism can take."""
    span = Decimal(repr(high)) - Decimal(repr(low))
    return _outward(float(span / (MOST_POINTS - 1))) if span else 0.0


def _names_people(column: pd.Series, whose: pd.Series) -> bool:
    """Tell whether more than half of the people, of more than 20, have a value that is theirs alone."""
    pairs = whose.to_frame("who").assign(value=column.to_numpy()).dropna().drop_duplicates()
    alone = pairs[~pairs["value"].duplicated(keep=False)]
    return bool(20 < whose.nunique() < 2 * alone["who"].nunique())


def _outward(extreme: float) -> float:
    """Return the least number that is not below ``extreme`` among ±1, 2 and 5 times a power of ten, and 0."""
    # In decimals, as written: 0.2 in binary lies above 2/10 and would become 0.5.
    exact = Decimal(repr(float(extreme)))
    if not exact:
        return 0.0
    power = Decimal(1).scaleb(exact.adjusted())
    steps = (1, 2, 5, 10) if exact > 0 else (-10, -5, -2, -1)
    rounded = min(step * power for step in steps if step * power >= exact)
    return min(float(rounded), sys.float_info.max)


def _natural(text: str) -> tuple[bool, float, str]:
    try:
        number = float(text)
    except ValueError:
        return (True, 0.0, text)
    # "nan" is a word here: as a number it would leave the order of all categories to chance.
    return (False, number, text) if np.isfinite(number) else (True, 0.0, text)
