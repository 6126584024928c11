"""A user's own table: the options that say what its columns are, and how the table is read under them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from eupg.cli.names import SOURCES, source, split
from eupg.cli.terminal import Terminal
from eupg.data.attribute import Numeric
from eupg.data.dataset import Dataset, read_table
from eupg.data.look import COARSENED, names_rows
from eupg.data.schema import Schema
from eupg.errors import DataError, ParameterError

if TYPE_CHECKING:
    import pandas as pd

    from eupg.data.sources import Source

_HOLD_OUT = 0.2
_OPTIONS = {
    "schema": "--schema",
    "label": "--label",
    "subject": "--subject",
    "identifier": "--id",
    "no_subject": "--no-subject",
    "drop": "--drop",
    "features": "--feature",
}


@dataclass(frozen=True)
class UserTable:
    """The records of a table, and what the user should know about how its columns were taken."""

    data: Dataset
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What the user says about the columns of a table.

    Parameters
    ----------
    schema
        A file that describes them.
    label, subject, identifier
        The columns to predict, of the person, and of record ids.
    no_subject
        Whether every row is a person of its own.
    drop, features
        Columns to leave out, and measurements that differ in every row.
    """

    schema: Path | None = None
    label: str | None = None
    subject: str | None = None
    identifier: str | None = None
    no_subject: bool = False
    drop: Sequence[str] = ()
    features: Sequence[str] = ()

    @property
    def passed(self) -> list[str]:
        """The options that were passed."""
        return [_OPTIONS[field.name] for field in fields(self) if getattr(self, field.name)]

    @property
    def explained(self) -> set[str]:
        """The columns whose part is known, so that nobody needs to be asked."""
        return {c for c in (self.label, self.subject, self.identifier, *self.features) if c is not None}


def chosen_source(
    name: str | None,
    file: Path | None,
    columns: Columns,
    terminal: Terminal,
    *,
    hold_out: float | None,
    test_share: float | None,
    seed: int,
) -> Source:
    """Return the public data set of that name, or the records of the file, split by person."""
    if (name is None) == (file is None):
        raise ParameterError(f"name one data set ({', '.join(SOURCES)}) or one file with --data")
    if hold_out is not None and test_share is not None:
        raise ParameterError("--test-share is the earlier name of --hold-out: pass --hold-out alone")
    if file is None:
        shares = {"--hold-out": hold_out, "--test-share": test_share}
        extra = [*columns.passed, *(option for option, share in shares.items() if share is not None)]
        if extra:
            raise ParameterError(
                f"{extra[0]} describes a file of your own and would be ignored with the data set {name!r}: "
                "leave it out, or pass the file with --data"
            )
        return source(str(name))
    if test_share is not None:
        terminal.tell(["--test-share is the earlier name of --hold-out and will be removed: pass --hold-out."])
    table = read_records(file, columns)
    terminal.tell(table.notes)
    shares_passed = [share for share in (hold_out, test_share) if share is not None]
    return split(file.stem, table.data, hold_out=shares_passed[0] if shares_passed else _HOLD_OUT, seed=seed)


def read_records(path: Path, columns: Columns) -> UserTable:
    """Read a table under a schema from a file, or under one inferred from the table itself."""
    if columns.subject is not None and columns.no_subject:
        raise ParameterError(
            "--subject names the column of the person, and --no-subject says that there is none: pass one of them"
        )
    if columns.schema is not None:
        return _declared(path, columns, columns.schema)
    if columns.label is None:
        raise ParameterError("which column is to be predicted? pass --label, or a --schema that says so")
    _check_columns(columns)
    text = [name for name in (columns.subject, columns.identifier) if name is not None]
    table = _without(read_table(path, names=text), columns.drop)
    absent = sorted(columns.explained.difference(table.columns))
    if absent:
        raise DataError(f"no column {absent[0]!r} in the table; it has {list(table.columns)}")
    ids = [columns.identifier] if columns.identifier else []
    naming = [c for c in table.columns if c not in columns.explained and names_rows(table[c])]
    notes: list[str] = []
    if naming and not columns.no_subject:
        raise DataError(_who_is_who(naming, columns, len(table)))
    if naming:
        # Once more as text: as numbers, names such as 007 would lose their zeros.
        table = _without(read_table(path, names=[*text, *naming]), columns.drop)
        ids += naming
        notes.append(_taken_as_identifiers(naming, only=len(ids) == 1))
    schema = Schema.infer(
        table, label=columns.label, subject=columns.subject, identifiers=ids, features=columns.features
    )
    notes += _coarsened(schema)
    return UserTable(Dataset.from_table(table, schema, ids=columns.identifier), tuple(notes))


def _declared(path: Path, columns: Columns, file: Path) -> UserTable:
    """Read a table under the schema of a file; options that contradict it are refused."""
    if not file.is_file():
        raise DataError(f"no file {file}: pass the schema as TOML, as Schema.infer(…).to_toml() writes it")
    schema = Schema.from_toml(file.read_text(encoding="utf-8"))
    subject = None if schema.subject is None else schema.subject.name
    wrong = [
        *(["--label"] if columns.label not in (None, schema.label.name) else []),
        *(["--subject"] if columns.subject not in (None, subject) else []),
        *(["--no-subject"] if columns.no_subject and subject is not None else []),
        *(["--drop"] if columns.drop else []),
        *(["--feature"] if columns.features else []),
    ]
    if wrong:
        raise ParameterError(
            f"the schema {file.name} says what the columns are, and {', '.join(wrong)} would be ignored or "
            "contradict it: change the schema, or leave the option out"
        )
    return UserTable(Dataset.read(path, schema, ids=columns.identifier), ())


def _check_columns(columns: Columns) -> None:
    """Refuse a column that is named for two purposes; only the person's column may name the record too."""
    named = [("--label", columns.label), ("--subject", columns.subject), ("--id", columns.identifier)]
    named += [("--drop", name) for name in columns.drop] + [("--feature", name) for name in columns.features]
    purposes: dict[str, str] = {}
    for option, name in named:
        before = purposes.setdefault(name, option) if name is not None else option
        if before != option and (before, option) != ("--subject", "--id"):
            raise ParameterError(f"column {name!r} is named by {before} and by {option}: choose one of them")


def _without(table: pd.DataFrame, dropped: Sequence[str]) -> pd.DataFrame:
    absent = [name for name in dropped if name not in table.columns]
    if absent:
        raise DataError(f"the table has no column {absent[0]!r} to drop; it has {list(table.columns)}")
    return table.drop(columns=list(dropped))


def _who_is_who(naming: Sequence[str], columns: Columns, rows: int) -> str:
    """Say which columns seem to name the rows, and how the user can tell what they are."""
    plural, one = len(naming) > 1, shlex.quote(naming[0])
    which = f"columns {', '.join(map(repr, naming))} have" if plural else f"column {naming[0]!r} has"
    choices = {
        f"--subject {one} if it names the person": columns.subject is None,
        f"--id {one} if it names the record": columns.identifier is None,
        "--no-subject if every row is a person of its own (the column is then an identifier)": columns.subject is None,
        f"--drop {one} to leave it out": True,
        f"or --feature {one} if it is a measurement": True,
    }
    ask = "what is each of them? For the first pass" if plural else "what is it? Pass"
    passed = ", ".join(choice for choice, applies in choices.items() if applies)
    return f"{which} no value twice in {rows:,} rows, as ids have: {ask} {passed}"


def _taken_as_identifiers(naming: Sequence[str], *, only: bool) -> str:
    names = ", ".join(map(repr, naming))
    if only:
        return (
            f"Column {names} has no value twice. It is taken as the record id, not as a feature: ask for an erasure by "
            "--record with its values."
        )
    return f"No value occurs twice in {names}. Such columns are taken as identifiers, not as features."


def _coarsened(schema: Schema) -> Iterator[str]:
    for attribute in schema.features:
        if isinstance(attribute, Numeric) and COARSENED in attribute.inferred:
            yield (
                f"Column {attribute.name!r} ranges too widely for a grid in steps of 1: its resolution is "
                f"{attribute.resolution:g}. Declare another in a schema if that is too coarse."
            )
