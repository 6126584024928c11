"""The options that several commands share, each defined once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eupg.cli.names import SOURCES, LearnerName


def _data_sets(incomplete: str) -> list[str]:
    return [name for name in SOURCES if name.startswith(incomplete)]


# Of every command.
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

# Of the commands that work on a workspace.
Workspace = Annotated[Path, typer.Option("--workspace", metavar="DIR", help="The folder of the workspace.")]
References = Annotated[
    int, typer.Option("--references", metavar="N", help="Number of reference models of the audit, an even number.")
]

# A table, and what its columns are.
SourceName = Annotated[
    str | None,
    typer.Argument(metavar="SOURCE", autocompletion=_data_sets, help=f"A public data set: {', '.join(SOURCES)}."),
]
Data = Annotated[Path, typer.Option("--data", metavar="FILE", help="The records, as CSV or Parquet.")]
DataInstead = Annotated[
    Path | None, typer.Option("--data", metavar="FILE", help="A CSV or Parquet file instead of a public data set.")
]
SchemaFile = Annotated[
    Path | None,
    typer.Option("--schema", metavar="FILE", help="Public bounds and categories of the columns, as TOML."),
]
LabelColumn = Annotated[
    str | None, typer.Option("--label", metavar="COL", help="The column to predict, where there is no schema.")
]
SubjectColumn = Annotated[
    str | None,
    typer.Option("--subject", metavar="COL", help="The column that names the person, where there is no schema."),
]
NoSubject = Annotated[
    bool,
    typer.Option(
        "--no-subject",
        help="Every row is a different person. Columns that name the rows become identifiers, not features.",
    ),
]
IdColumn = Annotated[str | None, typer.Option("--id", metavar="COL", help="The column of record ids.")]
Drop = Annotated[
    list[str] | None, typer.Option("--drop", metavar="COL", help="Leave this column out. May be repeated.")
]
Feature = Annotated[
    list[str] | None,
    typer.Option(
        "--feature",
        metavar="COL",
        help="This column is a measurement, although every row has a different whole number. May be repeated.",
    ),
]
HoldOut = Annotated[
    float | None,
    typer.Option("--hold-out", metavar="SHARE", help="Share of the people in a file to test on (default 0.2)."),
]
# The earlier name of --hold-out; still understood.
TestShare = Annotated[float | None, typer.Option("--test-share", hidden=True)]

# What is trained, and how.
Learner = Annotated[LearnerName, typer.Option("--learner", help="The kind of model.")]
MaxRecords = Annotated[
    int | None,
    typer.Option(
        "--max-records", metavar="N", help="Records used per person, where the budget is per person (default 1)."
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the random numbers.")]
ProtectionSeed = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", help="Repeat a run exactly. What it protects is then not private."),
]
