"""``eupg predict``: a file of rows becomes a file of answers, which can be joined with it again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eupg.cli.command import command
from eupg.cli.encoded import encoded_column
from eupg.cli.options import DataToPredict, Drop, Json, StorageOptions, Workspace, option
from eupg.cli.output_files import check_outputs, writing
from eupg.cli.terminal import Terminal, counted
from eupg.cli.workspace import opened
from eupg.errors import DataError, ParameterError

if TYPE_CHECKING:
    import pandas as pd

    from eupg.data.rows import Rows
    from eupg.data.schema import Schema
    from eupg.data.score import Probabilities
    from eupg.data.table_file import TableFile

_NOTE = "adjusted"


@command("eupg predict --workspace ws --data rows.csv --out answers.csv --keep city")
def predict(
    workspace: Workspace,
    data: DataToPredict,
    storage: StorageOptions,
    out: Annotated[Path, option("--out FILE", "The CSV or Parquet file to write.")],
    keep: Annotated[
        str,
        option(
            "--keep COL,…", "Columns of the data to write beside the answers. The person's column is always written."
        ),
    ] = "",
    drop: Drop = None,
    strict: Annotated[
        bool,
        option(
            "--strict",
            "Refuse values that no training record had. Otherwise numbers are clipped, new categories are read as "
            f"missing, and such rows are marked in the column {_NOTE!r}.",
        ),
    ] = False,
    as_json: Json = False,
) -> int:
    """Predict with the served model."""
    terminal = Terminal(as_json=as_json)
    suffix = out.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise DataError(f"predictions are written as .csv or .parquet, got {out.name!r}: name another file")
    check_outputs(out)
    if out.resolve() == Path(data).resolve():
        raise ParameterError(f"{out} holds the rows to predict and would be replaced: name another file with --out")
    names = list(dict.fromkeys(name.strip() for name in keep.split(",") if name.strip()))
    with opened(workspace, terminal) as manager:
        # Raises if nothing is trained.
        manager.space.state()
        schema = manager.space.schema
        table = _read(storage.of(data), schema, names, drop or [])
        terminal.tell(storage.of(data).notes)
        columns = _columns_to_keep(table, schema, names)
        rows = (
            manager.rows(table, strict=strict, carried=columns)
            if schema.vector is None
            else manager.rows(encoded_column(table, schema))
        )
        answers = _answers(table[columns], rows, manager.predict(rows))
    with writing("predictions"):
        if suffix == ".csv":
            answers.to_csv(out, index_label=_unused("row", answers))
        else:
            answers.to_parquet(out)
    adjustments = [
        {"column": a.attribute.name, "reason": str(a.reason), "rows": a.count, "declared": a.declared}
        for a in rows.adjusted
    ]
    adjusted = int(rows.marked.sum())
    words = f"{counted(len(rows), 'prediction')}: {out}"
    if adjusted:
        changes = "; ".join(f"{a.describe()} ({counted(a.count, 'row')})" for a in rows.adjusted)
        words += f"\n{counted(adjusted, 'row')} adjusted, marked in the column {answers.columns[-1]!r}: {changes}."
    terminal.show(words, {"rows": len(rows), "out": str(out), "adjusted": adjusted, "adjustments": adjustments})
    return 0


def _read(file: TableFile, schema: Schema, names: list[str], drop: list[str]) -> pd.DataFrame:
    """Read the rows; a column that is only carried through is text, so that 007 stays 007."""
    from eupg.data.kind import Accepts, DataKind

    if schema.vector is None:
        Accepts(DataKind.TABLE, instead="Manager.predict in Python").check(schema, "eupg predict")
    features = {a.name for a in schema.features}
    needed = features.intersection(drop)
    if needed:
        raise ParameterError(f"--drop names {min(needed)!r}, which the model needs: leave the option out")
    # A column of texts is not described by the schema, which knows their features alone.
    as_text = [name for name in names if name not in features] if schema.vector is None else [*names, *features]
    table = file.read(schema if schema.vector is None else None, names=as_text)
    return table.drop(columns=drop, errors="ignore")


def _columns_to_keep(table: pd.DataFrame, schema: Schema, names: list[str]) -> list[str]:
    """Return the columns to write beside the answers: the person's, then those that ``--keep`` names."""
    answers = {schema.label.name, *(_probability_of(schema, category) for category in schema.label.categories)}
    for name in names:
        if name not in table.columns:
            raise ParameterError(
                f"--keep names {name!r}, which is not a column of the data; its columns are {list(table.columns)}"
            )
        if name in answers:
            raise ParameterError(
                f"--keep names {name!r}, and the answers have a column of that name: rename it in the data first"
            )
    person = [schema.subject.name] if schema.subject is not None and schema.subject.name in table.columns else []
    return list(dict.fromkeys((*person, *names)))


def _answers(columns: pd.DataFrame, rows: Rows, probabilities: Probabilities) -> pd.DataFrame:
    """Return the columns with the probability of each class, the likeliest class, and a note on adjusted values."""
    import numpy as np

    label = rows.schema.label
    answers = columns.copy()
    for place, category in enumerate(label.categories):
        answers[_probability_of(rows.schema, category)] = probabilities[:, place]
    answers[label.name] = np.asarray(label.categories, dtype=object)[probabilities.argmax(axis=1)]
    answers[_unused(_NOTE, answers)] = rows.notes()
    return answers


def _unused(name: str, answers: pd.DataFrame) -> str:
    """Return the name, lengthened until no column has it."""
    while name in answers.columns:
        name += "_"
    return name


def _probability_of(schema: Schema, category: str) -> str:
    return f"P({schema.label.name}={category})"
