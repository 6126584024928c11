"""Where records come from: a public data set, or the user's own table with what the options say about its columns."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from eupg.cli.names import SOURCES
from eupg.cli.options import Columns
from eupg.cli.terminal import Terminal, counted
from eupg.data import sources
from eupg.data.attribute import Numeric
from eupg.data.dataset import Dataset
from eupg.data.date import ISO, Date, date_formats, fits_format, stray_texts
from eupg.data.inference import COARSENED, all_digits, holds_lists, looks_like_code, names_rows
from eupg.data.schema import Schema
from eupg.data.score import accuracy, auc
from eupg.data.sources import Source
from eupg.data.table_file import TableFile, return_memory
from eupg.errors import DataError, ParameterError

if TYPE_CHECKING:
    import pandas as pd

_HOLD_OUT = 0.2


def chosen_source(
    name: str | None,
    file: str | Path | None,
    columns: Columns,
    terminal: Terminal,
    *,
    hold_out: float | None,
    seed: int,
) -> Source:
    """Return the public data set of that name, or the records of the file, split by person."""
    if (name is None) == (file is None):
        got = "both" if name else "neither"
        raise ParameterError(f"name one data set ({', '.join(SOURCES)}) or pass one file with --data, got {got}")
    if file is not None:
        return split_source(columns.of(file).stem, read_records(file, columns, terminal), hold_out=hold_out, seed=seed)
    extra = [*columns.passed, *(["--hold-out"] if hold_out is not None else [])]
    if extra:
        raise ParameterError(
            f"{extra[0]} describes a file of your own and would be ignored with the data set {name!r}: "
            "leave it out, or pass the file with --data"
        )
    if name not in SOURCES:
        raise ParameterError(f"no data set {name!r}: choose one of {', '.join(SOURCES)}, or pass a file with --data")
    chosen: Source = getattr(sources, name)()
    return chosen


def split_source(name: str, data: Dataset, *, hold_out: float | None, seed: int) -> Source:
    """Split a user's records by person into training and test."""
    share = _HOLD_OUT if hold_out is None else hold_out
    if not 0 < share < 1:
        raise ParameterError(f"--hold-out must be a share between 0 and 1, got {share!r}: pass 0.2, for example")
    people = np.random.default_rng(seed).permutation(np.unique(data.subjects))
    count = round(share * len(people))
    if not 0 < count < len(people):
        units = "people" if data.names_people else "records"
        raise DataError(
            f"{len(people)} {units} cannot be split into training and test with --hold-out {share:g}: bring more "
            "records, or pass another share"
        )
    test = data.where_subjects(people[:count].tolist())
    return Source(name, data.select(~test), data.select(test), auc if data.schema.classes == 2 else accuracy)


def read_records(source: str | Path, columns: Columns, terminal: Terminal) -> Dataset:
    """Read a table under a schema from a file, or under one inferred from the table; tell how columns were taken."""
    if columns.schema is not None:
        _check_person(columns)
        schema, file = _declared(columns, columns.schema), columns.of(source)
        table = file.read(schema, names=[columns.id] if columns.id else [])
        terminal.tell(file.notes)
    else:
        if columns.label is None:
            raise ParameterError("the column to predict is not named: pass --label, or a --schema that names it")
        table, ids = read_columns(source, columns, terminal)
        schema = Schema.infer(
            table,
            label=columns.label,
            subject=columns.subject,
            identifiers=ids,
            features=columns.feature or (),
            categories=columns.category or (),
            dates=columns.dates,
        )
        terminal.tell(_taken(schema, columns))
    records = Dataset.from_table(table, schema, ids=columns.id, drop_unlabelled=columns.drop_unlabelled)
    tell_unlabelled(len(table) - len(records), terminal)
    del table
    return_memory()
    return records


def tell_unlabelled(rows: int, terminal: Terminal) -> None:
    """Say how many rows were left out because their label is missing."""
    if rows:
        terminal.tell([f"{counted(rows, 'row')} without a label left out."])


def read_columns(
    source: str | Path, columns: Columns, terminal: Terminal, *, ask: bool = True
) -> tuple[pd.DataFrame, list[str]]:
    """Read the table without the columns to drop, and return the columns of identifiers with it.

    Ask about columns whose purpose is unclear; without ``ask``, only about those that cannot be read.
    """
    _check_person(columns)
    _check_purposes(columns)
    file = columns.of(source)
    keys = [name for name in (columns.subject, columns.id, *(columns.category or ())) if name is not None]
    table = _read(file, keys, columns)
    terminal.tell(file.notes)
    ids = [columns.id] if columns.id else []
    unexplained = [name for name in table.columns if name not in columns.explained]
    naming = [name for name in unexplained if ask and names_rows(table[name])]
    questions = [_question(naming, columns, len(table))] if naming and not columns.no_subject else []
    others = [name for name in unexplained if name not in naming]
    questions += [q for name in others if (q := _question_about(name, table[name], columns, ask=ask))]
    if questions:
        raise DataError("\n".join(questions))
    if naming:
        # Once more as text: as numbers, names such as 1e5 would be spelled in another way.
        table = _read(file, [*keys, *naming], columns)
        ids += naming
        terminal.tell([_taken_as_identifiers(naming, only=len(ids) == 1)])
    return table, ids


def _question_about(name: str, column: pd.Series, columns: Columns, *, ask: bool) -> str | None:
    """Ask what a column is, if it holds lists, dates that can be read in two ways, or numbers that look like codes."""
    quoted, formats = shlex.quote(name), date_formats(column)
    if len(formats) > 1:
        ways = " or ".join(f"--date {shlex.quote(f'{name}={form}')}" for form in formats)
        return f"column {name!r} holds dates that can be read in two ways: pass {ways}, or --drop {quoted}"
    if holds_lists(column):
        return f"column {name!r} holds lists, not one value per row: pass --drop {quoted}, or write one value per cell"
    if stray := 0 if formats else stray_texts(column):
        return (
            f"column {name!r} holds dates and {counted(stray, 'value')} of another kind: empty these cells in the "
            f"file, or pass --drop {quoted}, or --category {quoted} if each value is a category"
        )
    if not ask or not looks_like_code(column, name):
        return None
    choices = {
        f"--category {quoted} if each value is a category": True,
        f"--feature {quoted} if it is a measurement": True,
        f"--subject {quoted} if it names the person": columns.subject is None and not columns.no_subject,
        f"--date {shlex.quote(f'{name}=%Y%m%d')} if it is a date": fits_format(column.dropna(), "%Y%m%d"),
        f"or --drop {quoted} to leave it out": True,
    }
    return (
        f"column {name!r} holds whole numbers that look like codes, such as zip codes: what is it? Pass "
        f"{', '.join(choice for choice, applies in choices.items() if applies)}"
    )


def _declared(columns: Columns, file: Path) -> Schema:
    """Return the schema of a file; options that contradict it are refused."""
    schema = Schema.load(file)
    subject = None if schema.subject is None else schema.subject.name
    conflicts = {
        "--label": columns.label not in (None, schema.label.name),
        "--subject": columns.subject not in (None, subject),
        "--no-subject": columns.no_subject and subject is not None,
        "--drop": bool(columns.drop),
        "--feature": bool(columns.feature),
        "--category": bool(columns.category),
        "--date": bool(columns.date),
    }
    refused = [option for option, conflict in conflicts.items() if conflict]
    if refused:
        raise ParameterError(
            f"the schema {file.name} says what the columns are, and {', '.join(refused)} would be ignored or "
            "contradict it: change the schema, or leave the option out"
        )
    return schema


def _check_person(columns: Columns) -> None:
    if columns.subject is not None and columns.no_subject:
        raise ParameterError(
            "--subject names the column of the person, and --no-subject says that there is none: pass one of them"
        )


def _check_purposes(columns: Columns) -> None:
    """Refuse a column that is named for two purposes; only the person's column may name the record too."""
    named = [("--label", columns.label), ("--subject", columns.subject), ("--id", columns.id)]
    for option, names in (
        ("--drop", columns.drop),
        ("--feature", columns.feature),
        ("--category", columns.category),
        ("--date", columns.dates),
    ):
        named += [(option, name) for name in names or ()]
    purposes: dict[str, str] = {}
    for option, name in named:
        before = purposes.setdefault(name, option) if name is not None else option
        if before != option and (before, option) != ("--subject", "--id"):
            raise ParameterError(f"column {name!r} is named by {before} and by {option}: choose one of them")


def _read(file: TableFile, keys: Sequence[str], columns: Columns) -> pd.DataFrame:
    """Read the table without the columns to drop; those of keys as text."""
    table = file.read(names=[*keys, *columns.dates])
    dropped = columns.drop or []
    for name in [*dropped, *sorted(columns.explained)]:
        if name not in table.columns:
            raise DataError(f"{file.name} has no column {name!r}: {_similar(name, table.columns)}")
    for name in columns.feature or ():
        # Whole numbers that begin with a zero were read as text.
        table[name] = table[name].map(float, na_action="ignore") if all_digits(table[name]) else table[name]
    return table.drop(columns=dropped)


def _similar(name: str, names: Collection[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"its columns are {', '.join(map(repr, names))}"


def _question(naming: Sequence[str], columns: Columns, rows: int) -> str:
    """Say which columns seem to name the rows, and ask what they are."""
    plural, first = len(naming) > 1, shlex.quote(naming[0])
    which = f"columns {', '.join(map(repr, naming))} have" if plural else f"column {naming[0]!r} has"
    choices = {
        f"--subject {first} if it names the person": columns.subject is None,
        f"--id {first} if it names the record": columns.id is None,
        "--no-subject if every row is a different person (the column is then an identifier)": columns.subject is None,
        f"--drop {first} to leave it out": True,
        f"or --feature {first} if it is a measurement": True,
    }
    ask = "what is each of them? For the first pass" if plural else "what is it? Pass"
    options = ", ".join(choice for choice, applies in choices.items() if applies)
    return f"{which} a different value in each of the {rows:,} rows, as ids have: {ask} {options}"


def _taken_as_identifiers(naming: Sequence[str], *, only: bool) -> str:
    names = ", ".join(map(repr, naming))
    if only:
        return (
            f"Column {names} has a different value in each row. It is used as the record id, not as a feature: pass "
            "its values to eupg request --record."
        )
    return f"{names} have a different value in each row. They are used as identifiers, not as features."


def _taken(schema: Schema, columns: Columns) -> Iterator[str]:
    for attribute in schema.features:
        if isinstance(attribute, Numeric) and COARSENED in attribute.inferred:
            yield (
                f"Column {attribute.name!r} ranges too widely for a grid in steps of 1: its resolution is "
                f"{attribute.resolution:g}. Declare another in a schema if that is too coarse."
            )
        if isinstance(attribute, Date) and attribute.format != ISO and attribute.name not in columns.dates:
            yield f"Column {attribute.name!r} holds dates as {attribute.format}."
