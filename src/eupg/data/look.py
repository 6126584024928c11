"""What a column seems to be, read from its values: a convenience for a first look, marked as such."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from eupg.data.attribute import Attribute, Categorical, Missing, Numeric, Role, category_text
from eupg.errors import SchemaError

if TYPE_CHECKING:
    import pandas as pd


def look_at(column: pd.Series, name: str, role: Role, whose: pd.Series | None) -> Attribute:
    """Describe a column by its values; what was read from them is marked as inferred."""
    import pandas as pd

    missing = Missing.KEEP if column.isna().any() and role is not Role.LABEL else Missing.REFUSE
    seen = ("missing",) if missing is Missing.KEEP else ()
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    if numeric and role is not Role.LABEL:
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        values = values[np.isfinite(values)]
        # Resolution and bounds come from the rounded extremes, since the exact range would give away the exact ones.
        low, high = (0.0 - _outward(-values.min()), _outward(values.max())) if len(values) else (0.0, 0.0)
        whole = bool((values == np.round(values)).all())
        return Numeric(
            name=name,
            role=role,
            missing=missing,
            lower=low,
            upper=high,
            resolution=1.0 if whole or high == low else (high - low) / 1000,
            inferred=("lower", "upper", "resolution", *seen),
        )
    text = category_text(column, name)
    categories = sorted({v for v in text if v is not None}, key=_natural)
    if role is not Role.LABEL and len(text) > 20 and len(categories) == len(text):
        raise SchemaError(
            f"column {name!r}: all {len(text)} values differ, so it names records: list it under identifiers, "
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
