"""``eupg add``: new records for a workspace."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eupg.cli.command import add_command
from eupg.cli.options import Data, IdColumn, Json, Workspace
from eupg.cli.terminal import Terminal, counted
from eupg.cli.workspace import opened
from eupg.errors import ParameterError

if TYPE_CHECKING:
    from eupg.manage.additions import Added


class Repeated(StrEnum):
    """What to do with records that equal some held already."""

    SKIP = "skip"
    ADD = "add"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, add, example="eupg add --workspace ws --data new-people.csv --id record")


def add(
    workspace: Workspace,
    data: Data,
    identifier: IdColumn = None,
    repeated: Annotated[
        Repeated | None,
        typer.Option(
            "--repeated",
            help="Without record ids: skip records that equal records held already, or add them as further records. By "
            "default a table that seems to have been added before is refused.",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Take in new records; without a column of ids, ids are generated."""
    from eupg.data.dataset import Dataset, read_table

    terminal = Terminal(as_json=as_json)
    with opened(workspace, terminal) as manager:
        schema = manager.space.schema
        table = read_table(data, schema, names=[identifier] if identifier else [])
        has_ids = identifier is not None or [a.name in table for a in schema.identifiers] == [True]
        if has_ids and repeated is not None:
            raise ParameterError("--repeated is for tables without record ids, and this one has them: leave it out")
        records = Dataset.from_table(table, schema, ids=identifier)
        added = manager.add(records, fresh_ids=not has_ids, repeated="refuse" if repeated is None else repeated.value)
        status = manager.status()
    words = _words(added, data, rows=len(records), repeated=repeated)
    terminal.show(words, status.to_json() | {"added": asdict(added)})
    return 0


def _words(added: Added, file: Path, *, rows: int, repeated: Repeated | None) -> str:
    exact = "; forgetting them will be exact" if not added.returned else ""
    lines = [f"{counted(added.records, 'record')} added{exact}."]
    if added.prefix is not None:
        first, last = (f"{added.prefix}-{row}" for row in (0, rows - 1))
        lines.append(
            f"Record ids were generated: {first} to {last}, a random prefix and the row number in {file.name}."
        )
    if added.repeated:
        done = "left out" if repeated is Repeated.SKIP else "added as further records"
        lines.append(f"{added.repeated:,} of {rows:,} equal records that are held already: they were {done}.")
    if added.returned:
        lines.append(
            f"Of these, {counted(added.returned, 'record')} of people who were forgotten before: they are in the "
            "training records again, and earlier releases that held them still count."
        )
    return "\n".join(lines)
