"""``eupg schema``: a commented schema of a table, to edit."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from eupg.cli.command import command
from eupg.cli.options import Columns, Data, Json, option
from eupg.cli.output_files import check_outputs, writing
from eupg.cli.terminal import Terminal, counted
from eupg.errors import ParameterError


@command("eupg schema --data people.csv --label income --out schema.toml")
def schema(
    data: Data,
    columns: Columns,
    out: Annotated[Path, option("--out FILE", "The TOML file to write.")],
    force: Annotated[bool, option("--force", "Replace the file if it exists.")] = False,
    as_json: Json = False,
) -> int:
    """Write what a table's columns seem to be, with reasons, to a file to edit."""
    if columns.schema is not None:
        raise ParameterError("--schema names a schema that exists already, and this command writes one: leave it out")
    check_outputs(out)
    if out.exists() and not force:
        raise ParameterError(f"{out} exists, and your edits in it would be lost: name another file, or pass --force")

    from eupg.cli.tables import read_columns
    from eupg.data.draft import SchemaDraft

    terminal = Terminal(as_json=as_json)
    table, ids = read_columns(data, columns, terminal, ask=False)
    draft = SchemaDraft.of(
        table,
        label=columns.label,
        subject=columns.subject,
        names_people=not columns.no_subject,
        identifiers=ids,
        features=columns.feature or (),
        categories=columns.category or (),
        dates=columns.dates,
    )
    with writing("schema"):
        draft.save(out)
    caveats = list(draft.schema.caveats)
    lines = [f"Schema of {counted(len(draft.schema.attributes), 'column')}: {out}"]
    lines += [f"Check {name!r}: {reason}." for name, reason in draft.reasons.items()]
    if caveats:
        lines.append("Bounds and categories were read from the data: replace them by public ones for a stronger claim.")
    stored = [word for name, value in columns.stored.items() if value for word in (f"--{name}", value)]
    stored += ["--drop-unlabelled"] if columns.drop_unlabelled else []
    again = shlex.join(["--data", data, *stored, "--schema", str(out)])
    lines.append(f"Next: edit {out}, then eupg train {again} --guarantee … --workspace ws")
    values = {"out": str(out), "schema": draft.schema.to_json(), "reasons": dict(draft.reasons), "caveats": caveats}
    terminal.show("\n".join(lines), values)
    return 0
