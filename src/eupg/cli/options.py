"""The options that several commands share, each defined once."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eupg.cli.names import (
    PARAMETERS,
    SOURCES,
    EncoderName,
    GuaranteeName,
    LearnerName,
    MethodName,
    MicroaggregationName,
    option_name,
)
from eupg.errors import ParameterError

if TYPE_CHECKING:
    from eupg.data.table_file import TableFile


def option(declaration: str, description: str, *, check: Callable[[int], int] | None = None) -> Any:
    """Return an option, declared as the help shows it: its name and, unless it is a flag, a word for its value."""
    name, _, metavar = declaration.partition(" ")
    return typer.Option(name, metavar=metavar or None, help=description, callback=check)


def _data_sets(incomplete: str) -> list[str]:
    return [name for name in SOURCES if name.startswith(incomplete)]


def _files(incomplete: str) -> list[str]:
    return [f"{path}/" if os.path.isdir(path) else path for path in glob.glob(glob.escape(incomplete) + "*")]


def _data(description: str) -> Any:
    """Return the option of a table: text, because as a path the address of a database would lose a slash."""
    return typer.Option("--data", metavar="FILE", help=description, autocompletion=_files)


def check_references(number: int) -> int:
    """Refuse a number of reference models that no audit can use."""
    if number < 4 or number % 2:
        raise typer.BadParameter(f"an audit needs an even number of reference models, 4 or more, got {number}")
    return number


# Of every command.
Json = Annotated[bool, option("--json", "Print the result as JSON.")]

# Of the commands that work on a workspace.
Workspace = Annotated[Path, option("--workspace DIR", "The folder of the workspace.")]
References = Annotated[
    int, option("--references N", "Number of reference models of the audit: even, 4 or more.", check=check_references)
]

# Where records come from.
SourceName = Annotated[
    str | None,
    typer.Argument(metavar="SOURCE", autocompletion=_data_sets, help=f"A public data set: {', '.join(SOURCES)}."),
]
_TABLE = "CSV, Excel, JSON lines, Parquet, Arrow, SQLite, DuckDB, or the address of a database"
Data = Annotated[str, _data(f"The records: {_TABLE}.")]
DataInstead = Annotated[str | None, _data(f"A table instead of a public data set: {_TABLE}.")]
DataToPredict = Annotated[
    str,
    _data(
        "The rows to predict for. Columns are matched by name. The label, and names of people and records, are ignored."
    ),
]
Encoder = Annotated[
    EncoderName | None,
    option(
        "--encoder",
        "Read texts or pictures as public features (exact-head, private-head). --data is a table with a --text column, "
        "or a folder with one folder per class.",
    ),
]
TextColumn = Annotated[str | None, option("--text COL", "The column of the texts (--encoder wordllama or minilm).")]
IdColumn = Annotated[str | None, option("--id COL", "The column of record ids.")]
Drop = Annotated[list[str] | None, option("--drop COL", "Leave this column out. May be repeated.")]
DropUnlabelled = Annotated[bool, option("--drop-unlabelled", "Leave out rows whose label is missing.")]
_HELD_OUT = "Share of people to hold out. No model is trained on them; tests and audits use them."
HoldOut = Annotated[float, option("--hold-out SHARE", _HELD_OUT)]
HoldOutOfFile = Annotated[float | None, typer.Option("--hold-out", metavar="SHARE", help=_HELD_OUT, show_default="0.2")]

# What is trained, and how.
Learner = Annotated[LearnerName, option("--learner", "The kind of model.")]
MaxRecords = Annotated[
    int | None, option("--max-records N", "Records used per person, where the budget is per person (default 1).")
]
Jobs = Annotated[int | None, option("--jobs N", "Number of processes; by default one per core.")]
Seed = Annotated[int, option("--seed N", "Seed of the random numbers.")]
ProtectionSeed = Annotated[
    int | None, option("--seed N", "Repeat a run exactly. What it protects is then not private.")
]


@dataclass(frozen=True, kw_only=True)
class OptionGroup:
    """Options that several commands share, or that belong together: one per field."""

    @property
    def passed(self) -> list[str]:
        """The options that were passed."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return [option_name(name) for name, value in values.items() if value is not None and value is not False]

    @property
    def arguments(self) -> list[str]:
        """The options that were passed, with their values, as a user would type them again."""
        words = []
        for field in fields(self):
            value, name = getattr(self, field.name), option_name(field.name)
            if isinstance(value, list):
                words += [word for each in value for word in (name, str(each))]
            elif value is not None and value is not False:
                words += [name] if value is True else [name, str(value)]
        return words


@dataclass(frozen=True, kw_only=True)
class StorageOptions(OptionGroup):
    """The options that say how a table is stored; what is not passed is guessed."""

    sep: Annotated[str | None, option("--sep CHAR", "The separator of a CSV file, such as ';'. Otherwise guessed.")] = (
        None
    )
    encoding: Annotated[
        str | None, option("--encoding NAME", "The encoding of a CSV or JSON file. Otherwise utf-8, or cp1252.")
    ] = None
    decimal: Annotated[str | None, option("--decimal CHAR", "The decimal mark of a CSV file. Otherwise guessed.")] = (
        None
    )
    query: Annotated[str | None, option("--query SQL", "The rows to read from a database, as a SELECT.")] = None
    table: Annotated[str | None, option("--table NAME", "The table of a database, or the sheet of a workbook.")] = None

    def of(self, source: str | Path) -> TableFile:
        """Return the table at this place, stored as the options say."""
        from eupg.data.table_file import TableFile

        return TableFile(source, **self.stored)

    def of_files(self, source: str) -> Path | TableFile:
        """Return the table at this place, which may be a folder of Parquet files."""
        if not Path(source).is_dir():
            return self.of(source)
        if self.passed:
            raise ParameterError(f"{self.passed[0]} does not apply to a folder of Parquet files: leave it out")
        return Path(source)

    @property
    def stored(self) -> dict[str, str | None]:
        """What the options say, by their name."""
        return {field.name: getattr(self, field.name) or None for field in fields(StorageOptions)}


@dataclass(frozen=True, kw_only=True)
class Columns(StorageOptions):
    """The options that say what the columns of a table are."""

    schema: Annotated[Path | None, option("--schema FILE", "The columns' bounds and categories, as a TOML file.")] = (
        None
    )
    label: Annotated[str | None, option("--label COL", "The column to predict, if there is no schema.")] = None
    subject: Annotated[
        str | None, option("--subject COL", "The column that names the person, if there is no schema.")
    ] = None
    no_subject: Annotated[
        bool,
        option(
            "--no-subject",
            "Every row is a different person. Columns that name the rows become identifiers, not features.",
        ),
    ] = False
    id: IdColumn = None
    drop: Drop = None
    feature: Annotated[
        list[str] | None,
        option(
            "--feature COL",
            "This column is a measurement, although its whole numbers look like ids or codes. May be repeated.",
        ),
    ] = None
    category: Annotated[
        list[str] | None,
        option("--category COL", "This column holds categories, although it looks like numbers. May be repeated."),
    ] = None
    date: Annotated[
        list[str] | None,
        option("--date COL=FORMAT", "How this column writes dates, such as 'joined=%d/%m/%Y'. May be repeated."),
    ] = None
    drop_unlabelled: DropUnlabelled = False

    @property
    def explained(self) -> set[str]:
        """The columns whose purpose is known."""
        named = (self.label, self.subject, self.id, *(self.feature or ()), *(self.category or ()), *self.dates)
        return {name for name in named if name is not None}

    @property
    def dates(self) -> dict[str, str]:
        """The format of each column of dates that has one."""
        pairs = [text.rpartition("=") for text in self.date or ()]
        for name, _, form in pairs:
            if not name or not form:
                raise ParameterError(f"--date expects COL=FORMAT, such as 'joined=%d/%m/%Y', got {name + form!r}")
        return {name: form for name, _, form in pairs}


@dataclass(frozen=True, kw_only=True)
class Choices(OptionGroup):
    """The options that choose a method; None where one was not passed."""

    method: Annotated[
        MethodName | None, option("--method", "How to train and forget; eupg, which needs a --guarantee, by default.")
    ] = None
    guarantee: Annotated[GuaranteeName | None, option("--guarantee", "The guarantee of --method eupg.")] = None
    k: Annotated[int | None, option("--k N", "Size of the smallest group (kanonymity; default 30).")] = None
    microaggregation: Annotated[
        MicroaggregationName | None,
        option(
            "--microaggregation",
            "How groups are formed (kanonymity): exact mdav, refined, or by-size, the default: mdav up to 200,000 "
            "records, refined above.",
        ),
    ] = None
    epsilon: Annotated[
        float | None, option("--epsilon E", "Privacy budget per record (dp) or per person (the others); default 1.")
    ] = None
    delta: Annotated[
        float | None,
        option(
            "--delta D",
            "Chance that the budget is exceeded (synthesis: default 0; others: 1e-5; private-trees can have 0, too).",
        ),
    ] = None
    max_records: MaxRecords = None
    label_epsilon: Annotated[
        float | None, option("--label-epsilon E", "A further budget, which covers the label too (dp).")
    ] = None
    learner: Annotated[
        LearnerName | None,
        option(
            "--learner",
            "The kind of model. Not needed with --plan and exact-trees; with private-trees, what fine-tunes from them "
            "(--exposure).",
        ),
    ] = None
    exposure: Annotated[
        float | None,
        option(
            "--exposure SHARE",
            "Chance that a person's records are used unprotected, drawn once per person. Below 1, models are "
            "chosen on the release and these people alone, and erasing anyone else needs no training.",
        ),
    ] = None

    top_up: Annotated[bool, option("--top-up", "Draw others for exposed people who leave; claims then say so.")] = False
    subtract: Annotated[
        bool,
        option("--subtract", "Fine-tune by sums over the records, so that forgetting is a subtraction (trees)."),
    ] = False
    pretrain: Annotated[int | None, option("--pretrain N", "Epochs or trees on the release.")] = None
    finetune: Annotated[
        int | None, option("--finetune N", "Epochs or trees on the records; 0 serves the base model itself.")
    ] = None
    effort: Annotated[
        int | None, option("--effort N", "Epochs or trees of retrain, sisa and certified-sp; few make it short.")
    ] = None
    shards: Annotated[int | None, option("--shards N", "Shards of sisa (default 5).")] = None
    slices: Annotated[int | None, option("--slices N", "Slices per shard of sisa (default 10).")] = None

    @property
    def parameters(self) -> dict[str, object]:
        """Every parameter of a guarantee; None where it was not passed."""
        return {name: getattr(self, name) for names in PARAMETERS.values() for name in names}
