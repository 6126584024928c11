"""Attributes inferred from the values of a column: a convenience for a first look, marked as such."""

from __future__ import annotations

import re
import sys
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import MOST_POINTS, Attribute, Categorical, Missing, Numeric, Role, category_text
from eupg.data.date import Date, date_formats, rounded_bounds, stray_texts
from eupg.errors import SchemaError

if TYPE_CHECKING:
    import pandas as pd

# The name of a coarsened resolution among the inferred facts.
COARSENED = "resolution (coarsened)"
# An inferred label has at most this many classes; a declared one has as many as it lists.
_MOST_CLASSES = 100
# In a table of this few rows, values that all differ mean little.
_FEW = 20
# Words in the name of a column whose numbers are codes: nobody adds them up.
_CODES = frozenset(
    (
        "zip",
        "zipcode",
        "postal",
        "postcode",
        "postalcode",
        "plz",
        "code",
        "codes",
        "phone",
        "telephone",
        "tel",
        "mobile",
    )
) | {"fax", "ssn", "iban", "isbn", "fips", "naics", "icd", "account", "id", "ids"}
# Numbers of one width are codes if they have this many digits, and more than this many different values.
_CODE_DIGITS, _CODE_VALUES = 4, 100
_YEARS = (1900, 2100)


def infer_attribute(
    column: pd.Series,
    name: str,
    role: Role,
    people: pd.Series | None,
    *,
    is_measurement: bool = False,
    is_category: bool = False,
    date_format: str | None = None,
) -> Attribute:
    """Describe a column by its values; facts that were read from them are marked as inferred.

    A column of whole numbers that names its rows or seems to hold codes is refused, unless the caller knows that it is
    a measurement or a category.
    """
    if holds_lists(column):
        raise SchemaError(
            f"column {name!r} holds lists or objects, not one value per row: drop it (--drop {name}), or write one "
            "value per cell"
        )
    missing = Missing.KEEP if column.isna().any() and role is not Role.LABEL else Missing.REFUSE
    inferred = ("missing",) if missing is Missing.KEEP else ()
    if role is not Role.LABEL and not is_category:
        formats = date_formats(column) if date_format is None else [date_format]
        if len(formats) > 1:
            raise SchemaError(
                f"column {name!r}: its dates can be read as {' or '.join(formats)}: say which with "
                f"dates={{{name!r}: {formats[0]!r}}}, or drop the column"
            )
        if stray := 0 if formats else stray_texts(column):
            raise SchemaError(
                f"column {name!r} holds dates and {stray:,} values that are not: empty these cells, drop the column, "
                "or list it under categories"
            )
        if formats:
            return _date(column, name, role, missing, formats[0])
        if not is_measurement and not names_rows(column) and looks_like_code(column, name):
            raise SchemaError(
                f"column {name!r} holds whole numbers that look like codes, such as zip codes: list it under "
                "categories, under features if it is a measurement, name it as subject, or drop it"
            )
    if _is_number(column) and role is not Role.LABEL and not is_category:
        if not is_measurement and names_rows(column):
            raise SchemaError(
                f"column {name!r}: all {column.count()} values differ, as in a column of ids: list it under "
                "identifiers, name it as subject, drop it, or list it under features if it is a measurement"
            )
        return _numeric(column, name, role, missing, inferred)
    text = category_text(column, name)
    categories = sorted({v for v in text if v is not None}, key=_natural)
    if role is Role.LABEL:
        check_classes(len(categories), int(column.count()), f"the label {name!r}")
    elif not is_category and names_rows(column):
        raise SchemaError(
            f"column {name!r}: all {len(categories)} values differ, so it names records: list it under identifiers, "
            "name it as subject, or drop it"
        )
    if people is not None and role is not Role.LABEL and _names_people(column, people):
        raise SchemaError(
            f"column {name!r}: most people have a value of their own, so it names people, and a list of its values "
            "would outlive them: list it under identifiers, declare it, or drop it"
        )
    if not categories:
        raise SchemaError(f"column {name!r}: all {len(text)} values are missing: drop the column, or declare it")
    inferred = ("categories", *inferred)
    return Categorical(name=name, role=role, missing=missing, categories=tuple(categories), inferred=inferred)


def names_rows(column: pd.Series) -> bool:
    """Tell whether a column seems to name its rows: text or whole numbers that all differ, in more than 20 rows.

    Up to half of the cells may be empty. Whole numbers count whether they are stored as 7 or as 7.0. Numbers with
    decimals do not count, nor do dates: measurements often differ in every row.
    """
    values = column.dropna()
    if len(values) <= _FEW or 2 * len(values) < len(column) or holds_lists(column):
        return False
    if _is_number(column) and not _are_whole(values.to_numpy(dtype=np.float64)):
        return False
    return bool(values.is_unique) and not date_formats(column)


def looks_like_code(column: pd.Series, name: str) -> bool:
    """Tell whether whole numbers seem to be codes, such as zip codes, which must not be added up or averaged.

    They are where the name says so, where some begin with a zero, or where more than 100 different ones have the same
    number of digits, four or more, and no common divisor. Years are not codes, and few rows say little.
    """
    values = column.dropna()
    if len(values) <= _FEW:
        return False
    if not _is_number(column):
        return all_digits(column) and bool(values.astype(str).str.match(r"0\d").any())
    numbers = values.to_numpy(dtype=np.float64)
    if not _are_whole(numbers) or numbers.min() < 0 or numbers.max() > 2**53:
        return False
    whole = np.unique(numbers.astype(np.int64))
    if _CODES & name_words(name):
        return len(whole) > 2
    digits = {len(str(number)) for number in (whole[0], whole[-1])}
    years = _YEARS[0] <= whole[0] and whole[-1] <= _YEARS[1]
    same_width = len(digits) == 1 and min(digits) >= _CODE_DIGITS
    return bool(same_width and not years and len(whole) > _CODE_VALUES and np.gcd.reduce(whole) == 1)


def holds_lists(column: pd.Series) -> bool:
    """Tell whether cells hold lists or objects, as in nested JSON, instead of one value each."""
    return column.dtype == object and any(isinstance(value, (list, dict, np.ndarray)) for value in column)


def name_words(name: str) -> set[str]:
    """Return the words of a name such as zip_code or homeZip, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def all_digits(column: pd.Series) -> bool:
    """Tell whether every value is a text of digits."""
    return all(isinstance(value, str) and value.isdecimal() for value in column.dropna())


def check_classes(classes: int, rows: int, label: str) -> None:
    """Refuse a label that was not declared and has too many distinct values to be one of classes."""
    if classes > _MOST_CLASSES or (classes > _FEW and 2 * classes > rows):
        raise SchemaError(
            f"{label} has {classes:,} distinct values in {rows:,} rows, and only classification is supported: where "
            f"classes are not declared, at most {_MOST_CLASSES} are expected, with two rows or more per class. Choose "
            "a column of classes, group the values into ranges, or declare every class in a schema"
        )


def _is_number(column: pd.Series) -> bool:
    import pandas as pd

    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _are_whole(numbers: NDArray[np.float64]) -> bool:
    return bool((numbers == np.round(numbers)).all())


def _numeric(column: pd.Series, name: str, role: Role, missing: Missing, inferred: tuple[str, ...]) -> Numeric:
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    values = values[np.isfinite(values)]
    # The resolution, too, comes from the rounded extremes: the exact range would give away the exact ones.
    low, high = (0.0 - _outward(-values.min()), _outward(values.max())) if len(values) else (0.0, 0.0)
    # A thousandth of the smallest ranges would be rounded to 0.
    thousandth = max(high / 1000 - low / 1000, sys.float_info.min)
    resolution = 1.0 if _are_whole(values) or high == low else thousandth
    finest = _finest(low, high)
    coarsened = finest > resolution
    return Numeric(
        name=name,
        role=role,
        missing=missing,
        lower=low,
        upper=high,
        resolution=finest if coarsened else resolution,
        inferred=("lower", "upper", COARSENED if coarsened else "resolution", *inferred),
    )


def _date(column: pd.Series, name: str, role: Role, missing: Missing, form: str) -> Date:
    free = Date(name=name, lower="0001-01-01", upper="9999-12-31", missing=Missing.KEEP, format=form)
    days = free.parse(column)
    days = days[~np.isnan(days)]
    if not len(days):
        raise SchemaError(f"column {name!r}: all {len(column)} values are missing: drop the column, or declare it")
    lower, upper = rounded_bounds(days)
    inferred = ("lower", "upper", *(("missing",) if missing is Missing.KEEP else ()))
    return Date(name=name, role=role, missing=missing, lower=lower, upper=upper, format=form, inferred=inferred)


def _finest(low: float, high: float) -> float:
    """Return the finest step, 1, 2 or 5 times a power of ten, whose grid every mechanism can take."""
    span = Decimal(repr(high)) - Decimal(repr(low))
    return _outward(float(span / (MOST_POINTS - 1))) if span else 0.0


def _names_people(column: pd.Series, people: pd.Series) -> bool:
    """Tell whether more than half of the people, of more than 20, have a value that is theirs alone."""
    pairs = people.to_frame("person").assign(value=column.to_numpy()).dropna().drop_duplicates()
    unique = pairs[~pairs["value"].duplicated(keep=False)]
    return bool(_FEW < people.nunique() < 2 * unique["person"].nunique())


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
