"""A first schema of a table, as a file to edit: each column with the reason for each guess and what to change."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eupg.data.attribute import Attribute, Key, Listed, Numeric, Role
from eupg.data.date import ISO, Date, date_formats
from eupg.data.inference import COARSENED, holds_lists, looks_like_code, name_words, names_rows
from eupg.data.schema import Schema, as_frame
from eupg.errors import SchemaError

if TYPE_CHECKING:
    import pandas as pd

_LABELS = ("label", "target", "class", "outcome", "y")
_PEOPLE = frozenset(("person", "subject", "patient", "customer", "client", "user", "member", "employee"))
# A guessed label has at most this many classes.
_FEW_CLASSES = 10
# Text that occurs in fewer rows than this, on average, seems to name people.
_RARE = 5
_HEAD = """\
# What the columns of the table mean. Edit this file, then train with --schema.
#
# `inferred` lists the facts that were read from the data. Each of them is a fact about the people in the table, and
# every claim says that it does not cover what they reveal. To make a claim without that caveat:
#   1. replace the values by ones that hold for anyone, whoever is in the table (an age lies between 0 and 120);
#   2. delete the line `inferred`, or the names in it that you have made public;
#   3. say in `source` why they are public, if you like.
# Values outside the bounds are refused; with outside = "clip" they are moved to the nearest bound.
#
# role:    "quasi-identifier"  a feature, protected (the default)
#          "confidential"      a feature that k-anonymity releases as it is: weakens claims of k-anonymity
#          "label"             the column to predict: exactly one
#          "subject"           names the person: at most one; then a person is erased with all records
#          "identifier"        names the record; never a feature
# missing: "refuse" empty cells, "keep" them as a value of their own, or "fill" them with a value, fill = …
# A column whose table is deleted from this file is not used.
"""


@dataclass(frozen=True)
class SchemaDraft:
    """A schema that was guessed from a table, and the reason for each role that was guessed.

    Nothing is asked: a column that seems to name rows becomes an identifier, whole numbers that look like codes become
    categories, empty columns are left out, and the text says how to change that.

    Examples
    --------
    >>> import pandas as pd
    >>> draft = SchemaDraft.of(pd.DataFrame({"age": [31, 47, 58], "ill": ["no", "yes", "no"]}))
    >>> draft.schema.label.name, draft.reasons["ill"]
    ('ill', 'the last column, with few different values: is it the one to predict?')
    >>> Schema.from_toml(draft.to_toml()) == draft.schema
    True
    """

    schema: Schema
    reasons: Mapping[str, str]

    @classmethod
    def of(
        cls,
        table: Any,
        *,
        label: str | None = None,
        subject: str | None = None,
        names_people: bool = True,
        identifiers: Sequence[str] = (),
        features: Sequence[str] = (),
        categories: Sequence[str] = (),
        dates: Mapping[str, str] | None = None,
    ) -> SchemaDraft:
        """Guess a schema; what is named is taken as :meth:`Schema.infer` takes it.

        With ``names_people=False``, no column is guessed to name the person.
        """
        frame = as_frame(table)
        empty = [name for name in frame.columns if frame[name].isna().all()]
        frame = frame.drop(columns=empty)
        named = {label, subject, *identifiers, *features, *categories, *(dates or {})} - {None}
        reasons = dict.fromkeys(empty, "every cell is empty, so it is left out")
        free = [name for name in frame.columns if name not in named and not holds_lists(frame[name])]
        if label is None:
            label, why = _guess_label(frame[free])
            reasons[label] = why
        rest = [name for name in free if name != label]
        if subject is None and names_people:
            subject = next((n for n in rest if _names_people(frame[n], n)), None)
            if subject is not None:
                reasons[subject] = 'it seems to name the person; if not, delete its table, or make it an "identifier"'
        rows = [n for n in rest if n != subject and names_rows(frame[n])]
        codes = [n for n in rest if n not in (subject, *rows) and looks_like_code(frame[n], n)]
        reasons |= dict.fromkeys(rows, 'the values all differ; "subject", if it names the person')
        reasons |= dict.fromkeys(codes, "its numbers look like codes; pass --feature (features=…), if it is measured")
        schema = Schema.infer(
            frame,
            label=label,
            subject=subject,
            identifiers=[*identifiers, *rows],
            features=features,
            categories=[*categories, *codes],
            dates=dates,
        )
        return cls(schema, reasons)

    def to_toml(self) -> str:
        """Write the schema as TOML with comments; :meth:`Schema.load` reads it."""
        caveats = "".join(f"#   {caveat}\n" for caveat in self.schema.caveats)
        head = _HEAD + (f"#\n# What every claim built on this file says now:\n{caveats}" if caveats else "")
        tables = zip(self.schema.attributes, self.schema.tables(), strict=True)
        return head + "".join(self._column(attribute, table) for attribute, table in tables)

    def save(self, path: str | Path) -> None:
        """Write the schema with comments to a TOML file."""
        Path(path).write_text(self.to_toml(), encoding="utf-8")

    def _column(self, attribute: Attribute, table: Mapping[str, Any]) -> str:
        comments = _comments(attribute)
        if attribute.name in self.reasons:
            comments["role"] = self.reasons[attribute.name]
        inferred = {"inferred": table["inferred"]} if attribute.inferred else {}
        lines = ["", "[[attributes]]"]
        for word, value in ({k: v for k, v in table.items() if k != "inferred"} | inferred).items():
            if word in comments:
                lines += textwrap.wrap(f"{word}: {comments[word]}", 120, initial_indent="# ", subsequent_indent="# ")
            lines += _toml(word, value)
        return "\n".join(lines) + "\n"


def _toml(word: str, value: Any) -> list[str]:
    """Return lines of TOML; a list that is short is on one line, which can be deleted as one."""
    import tomli_w

    if isinstance(value, dict):
        return [f"{word}.{line}" for line in tomli_w.dumps(value).splitlines()]
    lines = tomli_w.dumps({word: value}).splitlines()
    short = f"{lines[0]}{' '.join(line.strip() for line in lines[1:-1]).rstrip(',')}]"
    return [short] if isinstance(value, list) and len(short) <= 120 else lines


def _comments(attribute: Attribute) -> dict[str, str]:
    """Return why each fact of a column is as it is."""
    comments = {"inferred": "delete this line once the values above are public"}
    if "missing" in attribute.inferred:
        comments["missing"] = "some cells are empty"
    if isinstance(attribute, Numeric) and "lower" in attribute.inferred:
        comments["lower"] = "the bounds were read from the data and rounded outward: write ones that hold for anyone"
    if isinstance(attribute, Date):
        comments["kind"] = "dates count as days since 1970-01-01; bounds are written as dates"
        comments["format"] = "how the table writes dates" + ("" if attribute.format == ISO else ", guessed")
    elif isinstance(attribute, Numeric):
        coarse = COARSENED in attribute.inferred
        why = "coarse, because a grid in steps of 1 would be too fine" if coarse else "the step of the public grid"
        comments["resolution"] = why
    elif isinstance(attribute, Listed):
        what = "every class that can occur" if attribute.role is Role.LABEL else "every value that can occur"
        comments["categories"] = f"the values in the data: list {what}, in the data or not"
        if attribute.role is not Role.LABEL:
            comments["categories"] += '; kind = "ordinal", if they are in order; other = …, for values not listed'
    elif isinstance(attribute, Key):
        comments["kind"] = "names: suppressed before anything is learnt"
    return comments


def _guess_label(frame: pd.DataFrame) -> tuple[str, str]:
    """Return the column to predict, and why."""
    for name in frame.columns:
        if name.lower() in _LABELS:
            return name, "by its name, it is the one to predict"
    if len(frame.columns) and 2 <= frame.iloc[:, -1].nunique() <= _FEW_CLASSES:
        return frame.columns[-1], "the last column, with few different values: is it the one to predict?"
    few = [repr(name) for name in frame.columns if 2 <= frame[name].nunique() <= _FEW_CLASSES]
    likely = f", such as {', '.join(few)}" if few else ""
    raise SchemaError(f"no column is clearly the one to predict: name one of classes with --label (label=…){likely}")


def _names_people(column: pd.Series, name: str) -> bool:
    """Tell whether a column names people: values repeat without being few, and its name or their number says so."""
    import pandas as pd

    values = column.dropna()
    distinct = values.nunique()
    if distinct <= _FEW_CLASSES or distinct == len(values) or date_formats(column):
        return False
    rare = pd.api.types.is_string_dtype(column) and _RARE * distinct > len(values) and not looks_like_code(column, name)
    return bool(name_words(name) & {*_PEOPLE, "id"}) or rare
