"""What a table means: its attributes, read from TOML, written to TOML, or inferred from a table.

``Schema.infer`` is a convenience for a first look. The facts it reads from the data are marked as such, attribute by
attribute, and a guarantee built on them says that it does not cover them. A schema outlives a forget, so bounds are
rounded outward: nobody's exact extreme stays in it. To make them public, edit the TOML file: put in bounds that hold
for anyone, and take the word off the ``inferred`` list.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eupg.data.attribute import (
    Attribute,
    Categorical,
    Key,
    Listed,
    Missing,
    Numeric,
    Ordinal,
    Role,
)
from eupg.data.look import look_at
from eupg.data.picture import Picture
from eupg.errors import DataError, SchemaError

if TYPE_CHECKING:
    import pandas as pd

_KINDS: dict[str, type[Attribute]] = {kind.kind: kind for kind in (Numeric, Ordinal, Categorical, Key, Picture)}
_FEATURE_ROLES = (Role.QUASI_IDENTIFIER, Role.CONFIDENTIAL)


@dataclass(frozen=True)
class Schema:
    """The attributes of a table, in order.

    Exactly one attribute is the label; at most one names the person (``subject``). Identifiers and the subject are
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
            raise SchemaError(
                f"a schema needs one categorical or ordinal label, got {[f'{a.name} ({a.kind})' for a in labels]}: "
                "give one such column the role 'label'"
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
        if self.picture is not None and len(self.features) > 1:
            raise SchemaError(
                f"a picture is the only feature of its records, and {self.picture.name!r} stands beside "
                f"{len(self.features) - 1} others: drop these, or describe the table without the picture"
            )

    @cached_property
    def features(self) -> tuple[Attribute, ...]:
        """The attributes a model may see."""
        return tuple(a for a in self.attributes if a.role in _FEATURE_ROLES)

    @cached_property
    def picture(self) -> Picture | None:
        """The picture, where records are pictures."""
        return next((a for a in self.features if isinstance(a, Picture)), None)

    @property
    def columns(self) -> int:
        """Width of the matrix of features: one column an attribute, or one a pixel and channel."""
        return self.picture.columns if self.picture is not None else len(self.features)

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
        """What a guarantee built on this schema does not cover: facts read from the data."""
        names: dict[tuple[str, ...], list[str]] = {}
        for attribute in (*self.features, self.label):
            names.setdefault(attribute.inferred, []).append(repr(attribute.name))
        return tuple(
            f"{', '.join(facts)} of {', '.join(whose)} read from the data: the claim does not cover what they reveal"
            for facts, whose in names.items()
            if facts
        )

    def to_toml(self) -> str:
        """Write the schema as TOML, one table per attribute."""
        import tomli_w

        return tomli_w.dumps(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return plain values, as JSON has them, that :meth:`from_json` reads back."""
        return {"attributes": [_as_table(a) for a in self.attributes]}

    def save(self, path: str | Path) -> None:
        """Write the schema to a TOML file."""
        Path(path).write_text(self.to_toml(), encoding="utf-8")

    @classmethod
    def from_toml(cls, text: str) -> Schema:
        """Read a schema from TOML text."""
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SchemaError(f"not a schema: {error}; expected TOML with one [[attributes]] table a column") from error
        return cls._of_tables(values, "TOML with one [[attributes]] table a column, in double brackets")

    @classmethod
    def from_json(cls, values: Any) -> Schema:
        """Read a schema back from plain values."""
        return cls._of_tables(values, 'an object with one entry a column in a list "attributes"')

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
    ) -> Schema:
        """Describe a pandas, Arrow or polars table by looking at it; every fact read this way is marked ``inferred``.

        Attributes in ``declared`` are taken as they are; the rest of the table is looked at. Bounds of numbers are
        rounded outward to 1, 2 or 5 times a power of ten (0 stays 0), so that the largest of 4242.5 is kept as 5000.
        A constant column gets two different bounds too, unless its one value is itself such a round number.

        Whole numbers have a resolution of 1, unless their range is so wide that the grid would have more points than
        every mechanism can take (1,048,576). Then the resolution is the least of 1, 2 or 5 times a power of ten that
        fits, and ``inferred`` says ``"resolution (coarsened)"``.

        A column of text or whole numbers in which all values differ seems to name records and is refused. ``features``
        lists such columns of whole numbers that are measurements. A label with more than 100 distinct values, or with
        more than 20 and fewer than two rows per value, is refused unless it is declared: only classification is
        supported.
        """
        table = as_frame(table)
        known = {a.name: a for a in declared}
        for name in (label, *identifiers, *confidential, *features, *([subject] if subject else ()), *known):
            if name not in table.columns:
                raise SchemaError(f"no column {name!r} in the table; it has {list(table.columns)}")
        roles = dict.fromkeys(confidential, Role.CONFIDENTIAL) | {label: Role.LABEL}
        keys = dict.fromkeys(identifiers, Role.IDENTIFIER) | ({subject: Role.SUBJECT} if subject else {})
        whose = table[subject] if subject else None

        def looked(name: str) -> Attribute:
            role = roles.get(name, Role.QUASI_IDENTIFIER)
            return look_at(table[name], name, role, whose, is_measurement=name in features)

        # The label first: where it is not one of classes, nothing else matters.
        if label not in known and label not in keys:
            known[label] = looked(label)
        return cls(
            tuple(
                known.get(name) or (Key(name=name, role=keys[name]) if name in keys else None) or looked(name)
                for name in table.columns
            )
        )


def as_frame(table: Any) -> pd.DataFrame:
    """Turn a pandas, Arrow or polars table into a DataFrame whose column names are distinct texts."""
    import pandas as pd

    frame = table.to_pandas() if hasattr(table, "to_pandas") else table
    if not isinstance(frame, pd.DataFrame):
        raise DataError(f"expected a pandas, Arrow or polars table, got {type(table).__name__}: convert it first")
    frame = frame.rename(columns=str)
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise DataError(f"column {twice[0]!r} occurs more than once: rename or drop the others")
    return frame


def _as_table(attribute: Attribute) -> dict[str, Any]:
    table: dict[str, Any] = {"name": attribute.name, "kind": attribute.kind}
    for f in fields(attribute):
        value = getattr(attribute, f.name)
        if f.name == "name" or value is None or (f.name in ("source", "inferred", "hierarchy") and not value):
            continue
        table[f.name] = (
            list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value
        )
    return {k: str(v) if isinstance(v, StrEnum) else v for k, v in table.items()}


def _from_table(table: Mapping[str, Any]) -> Attribute:
    values = dict(table)
    name, kind = values.get("name", "?"), values.pop("kind", None)
    if kind not in sorted(_KINDS):
        raise SchemaError(f"column {name!r}: kind must be one of {sorted(_KINDS)}, got {kind!r}")
    known = {f.name: f.default is MISSING and f.default_factory is MISSING for f in fields(_KINDS[kind])}
    for word in sorted(set(values) - set(known)):
        raise SchemaError(f"column {name!r}: {kind} attributes have no {word!r}; they take {sorted(known)}")
    for word in (word for word, needed in known.items() if needed and word not in values):
        raise SchemaError(f"column {name!r}: {kind} attributes need {word!r}: add it")
    try:
        return _KINDS[kind](**values)
    except TypeError as error:
        raise SchemaError(f"column {name!r}: {error}") from error
