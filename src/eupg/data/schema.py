"""What a table means: its attributes, read from TOML, written to TOML, or inferred from a table.

``Schema.infer`` is a convenience for a first look. Facts that it reads from the data are marked as ``inferred``, and a
guarantee built on them says that it does not cover them. A schema outlives a forget, so inferred bounds are rounded
outward: nobody's exact extreme stays in it. To make them public, edit the TOML file: declare bounds that hold for
anyone, and remove their names from the ``inferred`` list.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eupg.data.attribute import Attribute, Categorical, Key, Listed, Missing, Numeric, Ordinal, Role
from eupg.data.date import Date
from eupg.data.inference import infer_attribute
from eupg.data.kind import DataKind
from eupg.data.pictures.attribute import Picture
from eupg.data.vector import Vector
from eupg.errors import DataError, SchemaError
from eupg.pages import card

if TYPE_CHECKING:
    import pandas as pd

_KINDS: dict[str, type[Attribute]] = {
    kind.kind: kind for kind in (Numeric, Date, Ordinal, Categorical, Key, Picture, Vector)
}
_TOML = "TOML with one [[attributes]] table per column, in double brackets"
_SHOWN_CATEGORIES = 6
_FEATURE_ROLES = (Role.QUASI_IDENTIFIER, Role.CONFIDENTIAL)


@dataclass(frozen=True)
class Schema:
    """The attributes of the records, in order.

    Exactly one attribute is the label, and at most one names the person (``subject``). Identifiers and the subject are
    never features.

    Examples
    --------
    >>> schema = Schema((Numeric(name="age", lower=0, upper=120),
    ...                  Categorical(name="ill", role=Role.LABEL, categories=("no", "yes"))))
    >>> Schema.from_toml(schema.to_toml()) == schema
    True
    """

    attributes: tuple[Attribute, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", tuple(self.attributes))
        names = [a.name for a in self.attributes]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise SchemaError(f"column {twice[0]!r} is declared more than once: keep one declaration")
        labels = [a for a in self.attributes if a.role is Role.LABEL]
        if len(labels) != 1 or not isinstance(labels[0], Listed):
            declared = [f"{a.name} ({a.kind})" for a in labels]
            raise SchemaError(
                f"a schema needs one categorical or ordinal label, got {declared}: give one column the role 'label'"
            )
        if len(labels[0].categories) < 2:
            raise SchemaError(
                f"the label {labels[0].name!r} has one class, {labels[0].categories[0]!r}: "
                "a classifier needs two, so declare every class that can occur"
            )
        if labels[0].missing is Missing.KEEP:
            raise SchemaError(f"the label {labels[0].name!r} cannot keep missing values: drop those rows or fill them")
        people = [a.name for a in self.attributes if a.role is Role.SUBJECT]
        if len(people) > 1:
            raise SchemaError(f"columns {people} all name the person: give one the role 'subject', drop the others")
        if not self.features:
            raise SchemaError("no column is left as a feature: give at least one the role 'quasi-identifier'")
        whole = self.picture or self.vector
        if whole is not None and len(self.features) > 1:
            raise SchemaError(
                f"a {whole.kind} must be the only feature, and {whole.name!r} is declared with "
                f"{len(self.features) - 1} others: drop these, or describe the table without the {whole.kind}"
            )

    def __repr__(self) -> str:
        person = "" if self.subject is None else f", person {self.subject.name!r}"
        return f"<Schema: {len(self.features)} features, label {self.label.name!r}{person}>"

    def _repr_html_(self) -> str:
        rows = [(a.name, str(a.role), _values(a), ", ".join(a.inferred)) for a in self.attributes]
        return card(repr(self)[1:-1], rows, header=("column", "role", "values", "read from the data"))

    @cached_property
    def features(self) -> tuple[Attribute, ...]:
        """The attributes a model may see."""
        return tuple(a for a in self.attributes if a.role in _FEATURE_ROLES)

    @cached_property
    def picture(self) -> Picture | None:
        """The picture attribute, where records are pictures."""
        return next((a for a in self.features if isinstance(a, Picture)), None)

    @cached_property
    def vector(self) -> Vector | None:
        """The attribute of public features, where records are vectors of these."""
        return next((a for a in self.features if isinstance(a, Vector)), None)

    @property
    def kind(self) -> DataKind:
        """Whether records are rows of a table, pictures, or vectors of public features."""
        if self.picture is not None:
            return DataKind.PICTURES
        return DataKind.TABLE if self.vector is None else DataKind.VECTORS

    @property
    def columns(self) -> int:
        """Width of the matrix of features: one column per attribute, per pixel and channel, or per public feature."""
        if self.picture is not None:
            return self.picture.columns
        return len(self.features) if self.vector is None else self.vector.dimension

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the matrix of features: double precision for tables, bytes for pictures, else short integers."""
        types = {DataKind.TABLE: np.float64, DataKind.PICTURES: np.uint8, DataKind.VECTORS: np.int16}
        return np.dtype(types[self.kind])

    @cached_property
    def label(self) -> Listed:
        """The attribute to predict."""
        return next(a for a in self.attributes if a.role is Role.LABEL and isinstance(a, Listed))

    @property
    def classes(self) -> int:
        """Number of classes of the label."""
        return len(self.label.categories)

    @cached_property
    def subject(self) -> Attribute | None:
        """The attribute that names the person, if there is one."""
        return next((a for a in self.attributes if a.role is Role.SUBJECT), None)

    @cached_property
    def identifiers(self) -> tuple[Attribute, ...]:
        """Attributes that name a record: suppressed before anything is learnt."""
        return tuple(a for a in self.attributes if a.role is Role.IDENTIFIER)

    def __getitem__(self, name: str) -> Attribute:
        """Return the attribute of that name."""
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        raise SchemaError(f"no column {name!r} in the schema; it declares {[a.name for a in self.attributes]}")

    @property
    def caveats(self) -> tuple[str, ...]:
        """What a guarantee built on this schema assumes or does not cover: an encoder, and facts read from the data."""
        names: dict[tuple[str, ...], list[str]] = {}
        for attribute in (*self.features, self.label):
            names.setdefault(attribute.inferred, []).append(repr(attribute.name))
        encoded = () if self.vector is None else (self.vector.caveat,)
        return encoded + tuple(
            f"{', '.join(facts)} of {', '.join(columns)} read from the data: the claim does not cover what they reveal"
            for facts, columns in names.items()
            if facts
        )

    def to_toml(self) -> str:
        """Write the schema as TOML, one table per attribute."""
        import tomli_w

        return tomli_w.dumps({"attributes": self.tables()})

    def to_json(self) -> dict[str, Any]:
        """Return plain values, as JSON has them, that :meth:`from_json` reads back."""
        return {"attributes": [{word: _plain(value) for word, value in table.items()} for table in self.tables()]}

    def tables(self) -> list[dict[str, Any]]:
        """Return one table per attribute, with values as TOML has them."""
        return [_as_table(a) for a in self.attributes]

    def save(self, path: str | Path) -> None:
        """Write the schema to a TOML file."""
        Path(path).write_text(self.to_toml(), encoding="utf-8")

    @classmethod
    def from_toml(cls, text: str) -> Schema:
        """Read a schema from TOML text."""
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SchemaError(f"not a schema: {error}; expected {_TOML}") from error
        return cls._of_tables(values, _TOML)

    @classmethod
    def from_json(cls, values: Any) -> Schema:
        """Read a schema back from plain values."""
        return cls._of_tables(values, 'an object with a list "attributes" of one entry per column')

    @classmethod
    def _of_tables(cls, values: Any, expected: str) -> Schema:
        tables = values.get("attributes") if isinstance(values, dict) else None
        if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
            raise SchemaError(f"not a schema: expected {expected}")
        return cls(tuple(_from_table(t) for t in tables))

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema from a TOML file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SchemaError(f"cannot read the schema {path} ({error}): name a TOML file") from error
        return cls.from_toml(text)

    @classmethod
    def infer(
        cls,
        table: Any,
        *,
        label: str,
        subject: str | None = None,
        identifiers: Sequence[str] = (),
        confidential: Sequence[str] = (),
        declared: Iterable[Attribute] = (),
        features: Sequence[str] = (),
        categories: Sequence[str] = (),
        dates: Mapping[str, str] | None = None,
    ) -> Schema:
        """Describe a table by its values; every fact read this way is marked ``inferred``.

        Attributes in ``declared`` are used as they are. Bounds of numbers are rounded outward to 1, 2 or 5 times a
        power of ten (0 stays 0): a largest value of 4242.5 becomes 5000. A constant column gets two different bounds,
        too, unless its value is such a round number. Whole numbers have a resolution of 1, unless the grid would have
        more points than every mechanism can take (1,048,576). Then the resolution is the least of 1, 2 or 5 times a
        power of ten that fits, and ``inferred`` says ``"resolution (coarsened)"``.

        A column of text or whole numbers whose values all differ seems to name records and is refused; ``features``
        lists columns of whole numbers that are measurements all the same. A label that is not declared is refused if it
        has more than 100 distinct values, or more than 20 and fewer than two rows per value: only classification is
        supported.

        Whole numbers that look like codes, such as zip codes, are refused, too, unless ``features`` or ``categories``
        lists them. Dates, also as ISO text, become a :class:`~eupg.data.Date`; bounds are rounded outward to a year, or
        to a decade where they span ten years. Text in another format becomes one if a single format fits all of it;
        ``dates`` gives the format of a column where several do.
        """
        table = as_frame(table)
        known = {a.name: a for a in declared}
        dates, person = dates or {}, [subject] if subject else []
        for name in (label, *identifiers, *confidential, *features, *categories, *dates, *person, *known):
            if name not in table.columns:
                raise SchemaError(f"no column {name!r} in the table; it has {list(table.columns)}")
        roles = dict.fromkeys(confidential, Role.CONFIDENTIAL) | {label: Role.LABEL}
        keys = dict.fromkeys(identifiers, Role.IDENTIFIER) | ({subject: Role.SUBJECT} if subject else {})
        people = table[subject] if subject else None

        # The label first: where it is not one of classes, nothing else matters.
        for name in (label, *table.columns):
            if name in known:
                continue
            if name in keys:
                known[name] = Key(name=name, role=keys[name])
            else:
                role = roles.get(name, Role.QUASI_IDENTIFIER)
                known[name] = infer_attribute(
                    table[name],
                    name,
                    role,
                    people,
                    is_measurement=name in features,
                    is_category=name in categories,
                    date_format=dates.get(name),
                )
        return cls(tuple(known[name] for name in table.columns))


def as_frame(table: Any) -> pd.DataFrame:
    """Turn a pandas, Arrow or polars table, or a DuckDB relation, into a DataFrame with distinct texts as names."""
    import pandas as pd

    frame = table
    if not isinstance(table, pd.DataFrame):
        convert = getattr(table, "to_pandas", None) or getattr(table, "to_df", None)
        frame = convert() if callable(convert) else None
    if not isinstance(frame, pd.DataFrame):
        raise DataError(f"expected a pandas, Arrow or polars table, got {type(table).__name__}: convert it first")
    frame = frame.rename(columns=str)
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise DataError(f"column {twice[0]!r} occurs more than once: rename or drop the others")
    return frame


def _as_table(attribute: Attribute) -> dict[str, Any]:
    table: dict[str, Any] = {"name": attribute.name, "kind": attribute.kind}
    for word in (f.name for f in fields(attribute)):
        value = getattr(attribute, word)
        if word == "name" or value is None or (word in ("source", "inferred", "hierarchy") and not value):
            continue
        if isinstance(value, StrEnum):
            value = str(value)
        elif isinstance(attribute, Date) and word in ("lower", "upper", "fill"):
            value = attribute.moment(value)
        elif isinstance(value, tuple | dict):
            value = list(value) if isinstance(value, tuple) else dict(value)
        table[word] = value
    return table


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime.date) else value


def _from_table(table: Mapping[str, Any]) -> Attribute:
    values = dict(table)
    name, kind = values.get("name", "?"), values.pop("kind", None)
    if kind not in sorted(_KINDS):
        raise SchemaError(f"column {name!r}: kind must be one of {sorted(_KINDS)}, got {kind!r}")
    known = {f.name: f for f in fields(_KINDS[kind])}
    for word in sorted(values.keys() - known.keys()):
        raise SchemaError(f"column {name!r}: {kind} attributes have no {word!r}; they take {sorted(known)}")
    for word, field in known.items():
        if word not in values and field.default is MISSING and field.default_factory is MISSING:
            raise SchemaError(f"column {name!r}: {kind} attributes need {word!r}: add it")
    try:
        return _KINDS[kind](**values)
    except TypeError as error:
        raise SchemaError(f"column {name!r}: {error}") from error


def _values(attribute: Attribute) -> str:
    """Return the values of an attribute in a few words."""
    if isinstance(attribute, Numeric):
        return f"{attribute.lower:g} to {attribute.upper:g}"
    if isinstance(attribute, Listed):
        more = len(attribute.categories) - _SHOWN_CATEGORIES
        return ", ".join(attribute.categories[:_SHOWN_CATEGORIES]) + (f" and {more:,} more" if more > 0 else "")
    return attribute.kind
