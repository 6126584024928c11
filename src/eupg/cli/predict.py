"""``eupg predict``: a file of rows becomes a file of answers, which can be joined with it again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eupg.cli.command import add_command
from eupg.cli.options import Json, Workspace
from eupg.cli.terminal import Terminal, counted
from eupg.cli.workspace import opened
from eupg.errors import DataError, ParameterError, StorageError

if TYPE_CHECKING:
    import pandas as pd

    from eupg.data.rows import Rows
    from eupg.data.schema import Schema
    from eupg.data.score import Probabilities

_NOTE = "adjusted"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, predict, example="eupg predict --workspace ws --data rows.csv --out answers.csv --keep city")


def predict(
    workspace: Workspace,
    data: Annotated[
        Path,
        typer.Option(
            "--data",
            metavar="FILE",
            help="The rows to predict for. Columns are matched by name; names of people and records and the label are "
            "ignored.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The CSV or Parquet file to write.")],
    keep: Annotated[
        str,
        typer.Option(
            "--keep",
            metavar="COL,…",
            help="Columns of the data to write beside the answers. The person's column is always written.",
        ),
    ] = "",
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Refuse values that the training records did not show. Otherwise numbers are clipped, new categories "
            f"are read as missing, and such rows are marked in the column {_NOTE!r}.",
        ),
    ] = False,
    as_json: Json = False,
) -> int:
    """Predict with the served model."""
    terminal = Terminal(as_json=as_json)
    suffix = out.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise DataError(f"predictions are written as .csv or .parquet, got {out.name!r}")
    asked = _names(keep)
    with opened(workspace, terminal) as manager:
        # Where nothing is trained, this says so.
        manager.space.current()
        schema = manager.space.schema
        table = _read(data, schema, asked)
        columns = _kept(table, schema, asked)
        rows = manager.rows(table, strict=strict, carried=columns)
        answers = _answers(table[columns], rows, manager.predict(rows))
    try:
        if suffix == ".csv":
            answers.to_csv(out, index_label=_free("row", answers))
        else:
            answers.to_parquet(out)
    except OSError as error:
        raise StorageError(f"the predictions could not be written ({error}): name another file") from error
    values = {
        "rows": len(rows),
        "out": str(out),
        "adjusted": int(rows.marked.sum()),
        "adjustments": [
            {"column": a.attribute.name, "reason": str(a.reason), "rows": a.count, "declared": a.declared}
            for a in rows.adjusted
        ],
    }
    terminal.show(f"{counted(len(rows), 'prediction')}: {out}{_told(rows, answers)}", values)
    return 0


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _read(path: Path, schema: Schema, asked: list[str]) -> pd.DataFrame:
    """Read the rows; a column that is only carried through is text, so that 007 stays 007."""
    from eupg.data.dataset import read_table
    from eupg.data.picture import require_table

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
    import numpy as np

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
