"""Dates as numbers: days since 1 January 1970, between public bounds that are written as dates."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from eupg.data.attribute import Column, Mask, Numeric, category_text

if TYPE_CHECKING:
    import pandas as pd

ISO = "ISO8601"
_ORIGIN = datetime.datetime(1970, 1, 1)
_ISO_TEXT = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?")
_OTHER_TEXT = re.compile(r"(\d{1,4})([./-])\d{1,2}\2(\d{1,4})( \d{1,2}:\d{2}(:\d{2})?)?")


@dataclass(frozen=True, kw_only=True)
class Date(Numeric):
    """A date between public bounds, as a number of days since 1 January 1970; the resolution is in days.

    Parameters
    ----------
    lower, upper, fill
        Dates, as Python or TOML has them or as ISO text; numbers count as days since 1 January 1970.
    format
        How the table writes dates as text, in the directives of ``strptime``; by default ISO 8601 (1990-12-31). Times
        with a zone are read in UTC.

    Examples
    --------
    >>> born = Date(name="born", lower="1900-01-01", upper=datetime.date(2030, 1, 1), format="%d.%m.%Y")
    >>> import pandas as pd
    >>> born.encode(pd.Series(["02.01.1970"]))
    array([1.])
    """

    kind: ClassVar[str] = "date"
    lower: Any
    upper: Any
    fill: Any = None
    format: str = ISO

    def __post_init__(self) -> None:
        if not isinstance(self.format, str) or (self.format != ISO and "%" not in self.format):
            raise self._wrong(f'format must be like "%d/%m/%Y", or "{ISO}", got {self.format!r}')
        for word in ("lower", "upper", "fill"):
            value = getattr(self, word)
            if isinstance(value, str):
                try:
                    value = datetime.datetime.fromisoformat(value)
                except ValueError:
                    raise self._wrong(f"{word} must be a date like 1990-12-31, got {value!r}") from None
            if isinstance(value, datetime.date):
                object.__setattr__(self, word, _days(value))
        super().__post_init__()

    def parse(self, column: pd.Series) -> Column:
        """Return the days since 1 January 1970, whatever the bounds, and NaN for an empty cell."""
        days = self._read(column)
        unreadable = np.isnan(days) & column.notna().to_numpy()
        if unreadable.any():
            how = "1990-12-31" if self.format == ISO else self.format
            raise self._misfit(unreadable, f"are not dates like {how}: clean them, or declare another format")
        return days

    def unreadable(self, column: pd.Series) -> Mask:
        """Return the rows that hold something other than a date or nothing."""
        return np.asarray(np.isnan(self._read(column)) & column.notna().to_numpy())

    def shown(self, value: float) -> str:
        """Write a number of days as a date."""
        return str(self.moment(value))

    def moment(self, days: float) -> datetime.date:
        """Return the date of a number of days, with its time if it is not midnight."""
        moment = _ORIGIN + datetime.timedelta(days=days)
        return moment if days % 1 else moment.date()

    def decode(self, values: Column) -> list[Any]:
        """Return dates and times, with None for a missing one."""
        return [None if np.isnan(v) else _ORIGIN + datetime.timedelta(days=v) for v in values]

    def _read(self, column: pd.Series) -> Column:
        """Return days, and NaN for an empty cell and for one that is not a date."""
        import pandas as pd

        if _holds_moments(column):
            moments = pd.to_datetime(column, utc=True, errors="coerce")
        else:
            text = pd.Series(category_text(column, self.name), dtype=object)
            try:
                moments = pd.to_datetime(text, format=self.format, utc=True, errors="coerce")
            except ValueError as error:
                raise self._wrong(f"format {self.format!r} cannot be used ({error}): correct it") from error
        days = (moments.dt.tz_localize(None) - pd.Timestamp(_ORIGIN)) / pd.Timedelta(days=1)
        return np.asarray(days.to_numpy(na_value=np.nan), dtype=np.float64)


def date_formats(column: pd.Series) -> list[str]:
    """Return the formats that every value of a column fits; none if these are not dates, several if it is unclear."""
    if _holds_moments(column):
        return [ISO]
    if not _may_hold_text(column):
        return []
    texts = column.dropna()
    if not len(texts) or not all(isinstance(text, str) for text in texts):
        return []
    texts = texts.drop_duplicates()
    for pattern in (_ISO_TEXT, _OTHER_TEXT):
        if all(map(pattern.fullmatch, texts)):
            formats = [ISO] if pattern is _ISO_TEXT else _formats(texts.iloc[0])
            return [form for form in formats if fits_format(texts, form)]
    return []


def stray_texts(column: pd.Series) -> int:
    """Return how many values are not like dates, in a column of text in which most are; otherwise 0."""
    if not _may_hold_text(column):
        return 0
    texts = column.dropna()
    dates = sum(isinstance(t, str) and bool(_ISO_TEXT.fullmatch(t) or _OTHER_TEXT.fullmatch(t)) for t in texts)
    return len(texts) - dates if 2 * dates > len(texts) else 0


def _formats(text: str) -> list[str]:
    """Return the formats that a date could have, by its separator and where its year stands; with dots, days first."""
    match = _OTHER_TEXT.fullmatch(text)
    assert match is not None
    first, separator, last, time, seconds = match.groups()
    clock = "" if time is None else " %H:%M:%S" if seconds else " %H:%M"
    if len(first) == 4:
        orders = ["%Y-%m-%d"]
    else:
        year = "%Y" if len(last) == 4 else "%y"
        orders = [f"%d-%m-{year}"] + ([f"%m-%d-{year}"] if separator != "." else [])
    return [order.replace("-", separator) + clock for order in orders]


def fits_format(values: pd.Series, form: str) -> bool:
    """Tell whether every value, as text, is a date in a format."""
    import pandas as pd

    return bool(pd.to_datetime(values.astype(str), format=form, utc=True, errors="coerce").notna().all())


def rounded_bounds(days: Column) -> tuple[float, float]:
    """Return bounds on the first day of a year; of a decade, where the dates span ten years or more."""
    first, last = (_ORIGIN + datetime.timedelta(days=float(day)) for day in (days.min(), days.max()))
    step = 10 if last.year - first.year >= 10 else 1
    lower, upper = max(first.year // step * step, 1), (last.year // step + 1) * step
    return _days(datetime.date(lower, 1, 1)), _days(datetime.date(min(upper, 9999), 1, 1))


def _days(moment: datetime.date) -> float:
    if not isinstance(moment, datetime.datetime):
        moment = datetime.datetime(moment.year, moment.month, moment.day)
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    return (moment - _ORIGIN) / datetime.timedelta(days=1)


def _may_hold_text(column: pd.Series) -> bool:
    import pandas as pd

    return pd.api.types.is_string_dtype(column) or pd.api.types.is_object_dtype(column)


def _holds_moments(column: pd.Series) -> bool:
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column):
        return True
    return column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) in ("date", "datetime")
