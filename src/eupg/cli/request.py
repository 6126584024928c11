"""``eupg request``: receive erasure requests."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from eupg.cli.command import command
from eupg.cli.options import Json, Workspace, option
from eupg.cli.terminal import Terminal
from eupg.cli.workspace import opened
from eupg.errors import DataError, ParameterError

if TYPE_CHECKING:
    from eupg.manage.requests.states import Request


@command("eupg request --workspace ws --subject 125024 --channel letter")
def request(
    workspace: Workspace,
    subject: Annotated[list[str] | None, option("--subject ID", "A person to forget. May be repeated.")] = None,
    record: Annotated[list[str] | None, option("--record ID", "A single record to forget. May be repeated.")] = None,
    subjects_file: Annotated[
        Path | None, option("--subjects-file FILE", "A text file with one person per line.")
    ] = None,
    channel: Annotated[
        str | None, option("--channel TEXT", "How the request arrived, such as letter; nothing personal.")
    ] = None,
    pending: Annotated[bool, option("--pending", "Only receive it; eupg decide accepts or rejects it later.")] = False,
    as_json: Json = False,
) -> int:
    """Receive an erasure request, and accept it."""
    terminal = Terminal(as_json=as_json)
    people = [*(subject or []), *_lines(subjects_file)]
    if not people and not record:
        raise ParameterError("the request names nobody: pass --subject, --record or --subjects-file")
    with opened(workspace, terminal) as manager:
        requests = manager.request_many(subjects=people, records=record or [], channel=channel, accept=not pending)
    rejected = [r for r in requests if r.state == "rejected"]
    lines = [request_words(r) for r in requests[:20]]
    if len(requests) > len(lines):
        lines.append(f"and {len(requests) - len(lines):,} more; {len(rejected):,} of {len(requests):,} rejected")
    if len(rejected) < len(requests):
        lines.append(f"Next: eupg {'decide' if pending else 'forget'} --workspace {workspace}")
    terminal.show("\n".join(lines), [request_values(r) for r in requests])
    return 1 if rejected else 0


def request_words(request: Request) -> str:
    """Return the state of a request in one line."""
    reason = f" ({request.reason})" if request.reason else ""
    return f"{request.id} is {request.state}{reason}, due {request.due.isoformat()}"


def request_values(request: Request) -> dict[str, Any]:
    """Return a request as plain values."""
    return asdict(request) | {"state": str(request.state), "due": request.due.isoformat()}


def _lines(path: Path | None) -> list[str]:
    if path is None:
        return []
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({error}): pass a text file with one person per line") from error
