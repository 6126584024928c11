"""``eupg add``: new records for a workspace."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from eupg.cli.command import command
from eupg.cli.options import Data, DropUnlabelled, IdColumn, Json, StorageOptions, Workspace, option
from eupg.cli.terminal import Terminal, counted
from eupg.cli.workspace import opened
from eupg.errors import ParameterError

if TYPE_CHECKING:
    from eupg.manage.additions import Added


class IfRepeated(StrEnum):
    """What to do with records that equal records of the workspace; without the option they are refused."""

    SKIP = "skip"
    ADD = "add"


@command("eupg add --workspace ws --data new-people.csv --id record")
def add(
    workspace: Workspace,
    data: Data,
    storage: StorageOptions,
    identifier: IdColumn = None,
    repeated: Annotated[
        IfRepeated | None,
        option(
            "--repeated",
            "Without record ids: skip records that equal records of the workspace, or add them as further "
            "records. By default a table that seems to have been added before is refused.",
        ),
    ] = None,
    drop_unlabelled: DropUnlabelled = False,
    as_json: Json = False,
) -> int:
    """Add new records; without a column of ids, ids are generated."""
    from eupg.cli.encoded import texts_to_add
    from eupg.cli.tables import tell_unlabelled
    from eupg.data.dataset import Dataset

    terminal, file = Terminal(as_json=as_json), storage.of(data)
    with opened(workspace, terminal) as manager:
        schema = manager.space.schema
        as_text = [identifier] if identifier else []
        if schema.vector is not None:
            # A column of texts is not described by the schema, which knows their features alone.
            as_text += [a.name for a in schema.attributes]
        table = file.read(schema if schema.vector is None else None, names=as_text)
        terminal.tell(file.notes)
        has_ids = identifier is not None or [a.name in table for a in schema.identifiers] == [True]
        if has_ids and repeated is not None:
            raise ParameterError("--repeated is for tables without record ids, and this one has them: leave it out")
        if schema.vector is None:
            records = Dataset.from_table(table, schema, ids=identifier, drop_unlabelled=drop_unlabelled)
        else:
            table = table[table[schema.label.name].notna()] if drop_unlabelled else table
            records = texts_to_add(table, schema, ids=identifier)
        tell_unlabelled(len(table) - len(records), terminal)
        added = manager.add(records, fresh_ids=not has_ids, repeated="refuse" if repeated is None else repeated.value)
        status = manager.status()
        # Newcomers touch no base model; without one, they leave what the method leaves of everyone.
        exact = not status.releases or hasattr(manager.method, "mechanism")
    words = _words(added, file.name, rows=len(records), repeated=repeated, exact=exact)
    words = "\n".join([words, *(() if status.quality is None else status.quality.lines)])
    terminal.show(words, status.to_json() | {"added": asdict(added)})
    return 0


def _words(added: Added, file: str, *, rows: int, repeated: IfRepeated | None, exact: bool) -> str:
    later = "; forgetting them will be exact" if exact and not added.returned else ""
    lines = [f"{counted(added.records, 'record')} added{later}."]
    if added.prefix is not None:
        first, last = (f"{added.prefix}-{row}" for row in (0, rows - 1))
        lines.append(f"Record ids were generated: {first} to {last}, a random prefix and the row number in {file}.")
    if added.repeated:
        action = "left out" if repeated is IfRepeated.SKIP else "added as further records"
        lines.append(f"{added.repeated:,} of {rows:,} records equal records of the workspace. They were {action}.")
    if added.returned:
        lines.append(
            f"{counted(added.returned, 'added record')} came from people who were forgotten before. They are training "
            "records again, and earlier releases that contained them still count."
        )
    return "\n".join(lines)
