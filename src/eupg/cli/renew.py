"""``eupg renew``: a new release."""

from __future__ import annotations

from eupg.cli.command import command
from eupg.cli.options import Json, Workspace
from eupg.cli.terminal import Terminal, counted
from eupg.cli.workspace import opened


@command("eupg renew --workspace ws")
def renew(workspace: Workspace, as_json: Json = False) -> int:
    """Make a new release of the records that are left."""
    terminal = Terminal(as_json=as_json)
    with opened(workspace, terminal) as manager:
        manager.renew()
        status = manager.status()
    words = (
        f"Release {status.releases} was made of {counted(status.records, 'record')}. The claim for a record that is in "
        "several releases combines the claims of all of them."
    )
    words = "\n".join([words, *(() if status.quality is None else status.quality.lines)])
    terminal.show(words, status.to_json())
    return 0
