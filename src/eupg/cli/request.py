"""``eupg request``: take erasure requests."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eupg.cli.command import add_command
from eupg.cli.options import Json, Workspace
from eupg.cli.terminal import Terminal
from eupg.cli.workspace import opened
from eupg.errors import DataError, ParameterError

if TYPE_CHECKING:
    from eupg.manage.request_states import Request


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, request, example="eupg request --workspace ws --subject 125024 --channel letter")


def request(
    workspace: Workspace,
    subject: Annotated[
        list[str] | None, typer.Option("--subject", metavar="ID", help="A person. May be repeated.")
    ] = None,
    record: Annotated[
        list[str] | None, typer.Option("--record", metavar="ID", help="A single record. May be repeated.")
    ] = None,
    subjects_file: Annotated[
        Path | None, typer.Option("--subjects-file", metavar="FILE", help="A text file with one person per line.")
    ] = None,
    channel: Annotated[
        str | None,
        typer.Option("--channel", metavar="TEXT", help="How the request came, such as letter; nothing personal."),
    ] = None,
    pending: Annotated[bool, typer.Option("--pending", help="Only take it in; decide later.")] = False,
    as_json: Json = False,
) -> int:
    """Take an erasure request."""
    terminal = Terminal(as_json=as_json)
    people = [*(subject or []), *_lines(subjects_file)]
    if not people and not record:
        raise ParameterError("whose erasure is asked for? pass --subject, --record or --subjects-file")
    with opened(workspace, terminal) as manager:
        taken = manager.request_many(subjects=people, records=record or [], channel=channel, accept=not pending)
    rejected = [r for r in taken if r.state == "rejected"]
    lines = [request_words(r) for r in taken[:20]]
    if len(taken) > len(lines):
        lines.append(f"and {len(taken) - len(lines):,} more; {len(rejected):,} of {len(taken):,} rejected")
    terminal.show("\n".join(lines), [request_values(r) for r in taken])
    return 1 if rejected else 0


def request_words(request: Request) -> str:
    """Say in one line what became of a request."""
    why = f" ({request.reason})" if request.reason else ""
    return f"{request.id} is {request.state}{why}, due {request.due.isoformat()}"


def request_values(request: Request) -> dict[str, Any]:
    """Return a request as JSON has it."""
    return asdict(request) | {"state": str(request.state), "due": request.due.isoformat()}


def _lines(path: Path | None) -> list[str]:
    if path is None:
        return []
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({error}): pass a text file with one person per line") from error
