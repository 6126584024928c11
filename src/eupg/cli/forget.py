"""``eupg forget``: honour every accepted request."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from eupg.cli.command import command
from eupg.cli.options import Json, References, Workspace, option
from eupg.cli.status import batch_words
from eupg.cli.terminal import Terminal, counted
from eupg.cli.workspace import opened


@command("eupg forget --workspace ws --audit")
def forget(
    workspace: Workspace,
    due: Annotated[
        bool,
        option("--due", "Erase whom the served model was not fitted on, and the others only if a batch is due."),
    ] = False,
    audit: Annotated[bool, option("--audit", "Then attack the new model, also with the forgotten records.")] = False,
    references: References = 8,
    as_json: Json = False,
) -> int:
    """Honour every accepted request."""
    terminal = Terminal(as_json=as_json)
    with opened(workspace, terminal) as manager:
        done = manager.forget(due_only=due)
        how, quality = manager.method.repair, manager.status().quality if done.trained else None
        report = manager.audit(references=references) if audit and done.requests else None
        state = manager.status() if due else None
    values = asdict(done) | {"failed": {name: str(reason) for name, reason in done.failed.items()}}
    batches = []
    if state is not None:
        values, batches = values | {"next_batch": state.to_json()["next_batch"]}, batch_words(state)
    if not done.requests and not done.failed:
        nothing = "No accepted request is waiting. eupg status lists the open requests."
        terminal.show("\n".join(["Nothing is due." if state and state.next_batch else nothing, *batches]), values)
        return 0
    training = f"{how[0].upper()}{how[1:]}" if done.trained else "The served model had not seen these records"
    requests = f"{counted(len(done.requests), 'request')}, {counted(done.records, 'record')} erased"
    lines = [f"{requests} in {done.seconds:.2f} s. {training}.", *done.requests[:20]]
    for name, reason in list(done.failed.items())[:20]:
        lines.append(f"{name} could not be honoured and is still open: {reason}")
    lines += [] if quality is None else quality.lines
    if done.copies:
        lines.append(
            f"Exported copies of the earlier model exist: {done.copies}. Replace them: eupg does not delete them."
        )
    if report is not None:
        lines.append(f"\n{report}")
    lines += batches
    lines.append(f"Next: eupg certify --workspace {workspace} --out certificate.json")
    terminal.show("\n".join(lines), values | ({"audit": report.to_json()} if report is not None else {}))
    return 1 if done.failed else 0
