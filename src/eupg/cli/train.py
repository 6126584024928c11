"""``eupg train``: the model of a workspace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eupg.cli.command import command
from eupg.cli.methods import chosen_method, planned_method
from eupg.cli.options import (
    Choices,
    Columns,
    Data,
    Encoder,
    HoldOut,
    Json,
    ProtectionSeed,
    TextColumn,
    Workspace,
    option,
)
from eupg.cli.terminal import Terminal, counted
from eupg.cli.workspace import opened
from eupg.data.kind import DataKind
from eupg.errors import WrongState

if TYPE_CHECKING:
    from eupg.data.dataset import Dataset
    from eupg.forget.durable import Durable
    from eupg.manage.status import WorkspaceStatus

_TOO_FEW_EXPOSED = "is the base model: too few people were drawn to fine-tune it, and new records may add some"
_EXAMPLE = """eupg train --data people.csv --label income --subject person \\
    --guarantee kanonymity --k 30 --learner xgboost --workspace ws"""


@command(_EXAMPLE)
def train(
    workspace: Workspace,
    data: Data,
    columns: Columns,
    choices: Choices,
    encoder: Encoder = None,
    text: TextColumn = None,
    plan: Annotated[
        Path | None, option("--plan FILE", "Follow the advice that eupg plan --out wrote to this file.")
    ] = None,
    hold_out: HoldOut = 0.1,
    ledger: Annotated[
        str | None, option("--ledger URL", "A database for the ledger, such as postgresql://host/name.")
    ] = None,
    seed: ProtectionSeed = None,
    as_json: Json = False,
) -> int:
    """Train and deploy a model of your records that can forget."""
    terminal = Terminal(as_json=as_json)
    method, not_covered = (chosen_method(choices), []) if plan is None else planned_method(plan, choices)
    if (workspace / "current.json").is_file():
        raise WrongState(
            f"{workspace} holds a trained model already: add records with eupg add, or train in another folder"
        )

    from eupg.cli.encoded import check_encoder, read_encoded
    from eupg.cli.rows import records_used
    from eupg.cli.tables import read_records
    from eupg.rng import Seeded

    check_encoder(method, encoder, text)
    if encoder is None:
        records = read_records(data, columns, terminal)
    else:
        records = read_encoded(data, columns, encoder, text, terminal)
    terminal.tell(records_used([method], records))
    rng = None if seed is None else Seeded(seed)
    with opened(workspace, terminal, method, rng=rng, ledger=ledger) as manager:
        manager.train(records, hold_out=hold_out, not_covered=not_covered)
        status = manager.status()
    words = _words(status, records, method, declared=columns.schema is not None)
    whom = "--subject PERSON" if status.names_people else "--record RECORD"
    terminal.show(f"{words}\nNext: eupg request --workspace {workspace} {whom}", status.to_json())
    return 0


def _words(status: WorkspaceStatus, records: Dataset, method: Durable, *, declared: bool) -> str:
    people = f" of {counted(status.people, 'person', 'people')}" if status.names_people else ""
    lines = [f"Trained on {counted(status.records, 'record')}{people}; {counted(status.held_out, 'record')} held out."]
    if not status.names_people:
        lines.append("No column names the person: each record counts by itself.")
        if records.ids.tolist() == [str(row) for row in range(len(records))]:
            lines.append("Record ids are row numbers, from 0.")
    if 0 < getattr(method, "exposure", 1) < 1 and getattr(method, "finetune", 0):
        exposed = counted(status.exposed, "exposed person", "exposed people")
        served = f"was fine-tuned on the records of {exposed}" if status.exposed else _TOO_FEW_EXPOSED
        lines.append(f"The served model {served}.")
    lines += status.quality.lines if status.quality is not None else []
    lines += ["Claim for a forgotten record:", status.claim]
    if not declared and records.schema.kind is DataKind.TABLE:
        lines.append("Bounds and categories were read from the data. Declare them for a stronger claim: eupg schema.")
    return "\n".join(lines)
