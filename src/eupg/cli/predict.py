"""``eupg predict``: a file of rows becomes a file of answers, which can be joined with it again."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from eupg.cli.workspace import add_command, counted, opened, show
from eupg.data.dataset import read_table
from eupg.data.picture import require_table
from eupg.errors import DataError, ParameterError, StorageError

if TYPE_CHECKING:
    import pandas as pd

    from eupg.data.rows import Rows
    from eupg.data.schema import Schema
    from eupg.data.score import Probabilities

_NOTE = "adjusted"


def add_to(commands: Any) -> None:
    """Add the command."""
    predict = add_command(commands, "predict", "predict with the served model", _predict)
    predict.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="FILE",
        help="rows to predict for; columns are matched by name, and names of people and records and the label ignored",
    )
    predict.add_argument("--out", type=Path, required=True, metavar="FILE", help="CSV or Parquet to write")
    predict.add_argument(
        "--keep",
        type=_names,
        default=[],
        metavar="COL,…",
        help="columns of the data to write beside the answers; the person's column always is",
    )
    predict.add_argument(
        "--strict",
        action="store_true",
        help="refuse values that the training records did not show; otherwise numbers are clipped, new categories read "
        f"as missing, and such rows marked in the column {_NOTE!r}",
    )


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _predict(options: argparse.Namespace, console: Console) -> int:
    suffix = options.out.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise DataError(f"predictions are written as .csv or .parquet, got {options.out.name!r}")
    with opened(options, console) as manager:
        # Where nothing is trained, this says so.
        manager.space.current()
        schema = manager.space.schema
        table = _read(options.data, schema, options.keep)
        columns = _kept(table, schema, options.keep)
        rows = manager.rows(table, strict=options.strict, carried=columns)
        answers = _answers(table[columns], rows, manager.predict(rows))
    try:
        if suffix == ".csv":
            answers.to_csv(options.out, index_label=_free("row", answers))
        else:
            answers.to_parquet(options.out)
    except OSError as error:
        raise StorageError(f"the predictions could not be written ({error}): name another file") from error
    values = {
        "rows": len(rows),
        "out": str(options.out),
        "adjusted": int(rows.marked.sum()),
        "adjustments": [
            {"column": a.attribute.name, "reason": str(a.reason), "rows": a.count, "declared": a.declared}
            for a in rows.adjusted
        ],
    }
    show(options, console, f"{counted(len(rows), 'prediction')}: {options.out}{_told(rows, answers)}", values)
    return 0


def _read(path: Path, schema: Schema, asked: list[str]) -> pd.DataFrame:
    """Read the rows; a column that is only carried through is text, so that 007 stays 007."""
    require_table(schema, "eupg predict", "Manager.predict in Python")
    features = {a.name for a in schema.features}
    return read_table(path, schema, names=[name for name in asked if name not in features])


def _kept(table: pd.DataFrame, schema: Schema, asked: list[str]) -> list[str]:
    """Return the columns to write beside the answers: the person's, then those that were asked for."""
    absent = [name for name in asked if name not in table.columns]
    if absent:
        raise ParameterError(
            f"--keep names {absent[0]!r}, which is not a column of the data; it has {list(table.columns)}"
        )
    taken = {schema.label.name, *(_chance(schema, name) for name in schema.label.categories)}
    for name in asked:
        if name in taken:
            raise ParameterError(
                f"--keep names {name!r}, and the answers have a column of that name: rename it in the data first"
            )
    person = [schema.subject.name] if schema.subject is not None and schema.subject.name in table.columns else []
    return list(dict.fromkeys((*person, *asked)))


def _answers(kept: pd.DataFrame, rows: Rows, chances: Probabilities) -> pd.DataFrame:
    """Return the columns kept, the chance of each class, the likeliest one, and what was adjusted in each row."""
    label = rows.schema.label
    answers = kept.copy()
    for place, name in enumerate(label.categories):
        answers[_chance(rows.schema, name)] = chances[:, place]
    answers[label.name] = np.asarray(label.categories, dtype=object)[chances.argmax(axis=1)]
    answers[_free(_NOTE, answers)] = rows.notes()
    return answers


def _free(name: str, answers: pd.DataFrame) -> str:
    """Return the name, lengthened until no column has it."""
    while name in answers.columns:
        name += "_"
    return name


def _chance(schema: Schema, category: str) -> str:
    return f"P({schema.label.name}={category})"


def _told(rows: Rows, answers: pd.DataFrame) -> str:
    """Say how many rows were adjusted, and in what."""
    if not rows.adjusted:
        return ""
    changes = "; ".join(f"{a.describe()} ({counted(a.count, 'row')})" for a in rows.adjusted)
    return (
        f"\n{counted(int(rows.marked.sum()), 'row')} adjusted, marked in the column {answers.columns[-1]!r}: {changes}."
    )
