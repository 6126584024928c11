"""``eupg request``, ``decide``, ``forget``, ``status`` and ``recover``: erasure requests and what becomes of them."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from eupg.cli.workspace import add_command, counted, opened, show
from eupg.errors import DataError, ParameterError

if TYPE_CHECKING:
    from eupg.manage.manager import Manager
    from eupg.manage.request_states import Request


def add_to(commands: Any) -> None:
    """Add the commands."""
    request = add_command(commands, "request", "take an erasure request", _request)
    request.add_argument("--subject", action="append", default=[], metavar="ID", help="a person; may be repeated")
    request.add_argument("--record", action="append", default=[], metavar="ID", help="a single record; may be repeated")
    request.add_argument("--subjects-file", type=Path, metavar="FILE", help="people, one a line")
    request.add_argument("--channel", help="how the request came, such as letter; nothing personal")
    request.add_argument("--pending", action="store_true", help="only take it in; decide later")
    decide = add_command(commands, "decide", "verify, accept, reject, cancel or extend a request", _decide)
    decide.add_argument("--request", required=True, metavar="ID")
    step = decide.add_mutually_exclusive_group(required=True)
    step.add_argument("--verified", action="store_true", help="the identity of whoever asks was checked")
    step.add_argument("--accept", action="store_true")
    step.add_argument("--reject", metavar="REASON", help="why; nothing personal")
    step.add_argument("--cancel", metavar="REASON", help="why; nothing personal")
    step.add_argument("--extend", metavar="REASON", help="why the deadline is extended; nothing personal")
    decide.add_argument("--months", type=int, default=2, help="by how many months (1 or 2) to extend")
    forget = add_command(commands, "forget", "honour every accepted request", _forget)
    forget.add_argument("--audit", action="store_true", help="attack the new model with the forgotten records, too")
    forget.add_argument("--references", type=int, default=8, help="reference models of the audit")
    add_command(commands, "status", "say what is served and what waits", _status)
    add_command(commands, "recover", "bring a workspace back to a whole state after a crash", _recover)


def _request(options: argparse.Namespace, console: Console) -> int:
    people = [*options.subject, *_lines(options.subjects_file)]
    if not people and not options.record:
        raise ParameterError("whose erasure is asked for? pass --subject, --record or --subjects-file")
    with opened(options, console) as manager:
        found = manager.request_many(
            subjects=people, records=options.record, channel=options.channel, accept=not options.pending
        )
    rejected = [r for r in found if r.state == "rejected"]
    lines = [_words(r) for r in found[:20]]
    if len(found) > len(lines):
        lines.append(f"and {len(found) - len(lines):,} more; {len(rejected):,} of {len(found):,} rejected")
    show(options, console, "\n".join(lines), [_values(r) for r in found])
    return 1 if rejected else 0


def _decide(options: argparse.Namespace, console: Console) -> int:
    with opened(options, console) as manager:
        found = _step(manager, options)
    show(options, console, _words(found), _values(found))
    return 1 if options.accept and found.state == "rejected" else 0


def _step(manager: Manager, options: argparse.Namespace) -> Request:
    from eupg.manage.request_states import State

    if options.accept:
        return manager.accept(options.request)
    if options.extend is not None:
        return manager.extend(options.request, months=options.months, reason=options.extend)
    if options.verified:
        return manager.advance(options.request, State.VERIFIED)
    if options.reject is not None:
        return manager.advance(options.request, State.REJECTED, reason=options.reject)
    return manager.advance(options.request, State.CANCELLED, reason=options.cancel)


def _forget(options: argparse.Namespace, console: Console) -> int:
    with opened(options, console) as manager:
        done = manager.forget()
        report = manager.audit(references=options.references) if options.audit and done.requests else None
    values = asdict(done) | {"failed": {name: str(why) for name, why in done.failed.items()}}
    if not done.requests:
        show(options, console, "Nobody is waiting.", values)
        return 0
    how = "The base model was fine-tuned again" if done.trained else "The served model had not seen them"
    erased = f"{counted(len(done.requests), 'request')}, {counted(done.records, 'record')} erased"
    words = f"{erased} in {done.seconds:.2f} s. {how}."
    words += "\n" + "\n".join(done.requests[:20])
    for name, why in list(done.failed.items())[:20]:
        words += f"\n{name} could not be honoured and is still open: {why}"
    if report is not None:
        words += "\n" + report.sentence()
    show(options, console, words, values | ({"audit": report.to_json()} if report is not None else {}))
    return 1 if done.failed else 0


def _status(options: argparse.Namespace, console: Console) -> int:
    with opened(options, console) as manager:
        found = manager.status()
    requests = found.requests
    whose = f" of {counted(found.people, 'person', 'people')}" if found.names_people else ""
    lines = [
        f"Serves model {found.served[:12]}… since {found.since[:16].replace('T', ' ')} UTC; release {found.releases}.",
        f"{counted(found.records, 'record')}{whose} in training, {counted(found.held_out, 'record')} held out.",
        f"Running now: {found.running or 'nothing'}.",
        "Requests: "
        + (", ".join(f"{n:,} {state}" for state, n in requests.counts.items() if n) or "none")
        + f". Open: {requests.open:,}, overdue: {requests.overdue:,}, next due: {requests.next_due or '–'}.",
    ]
    lines += [f"  {w['request']} is {w['state']}, due {w['due']}" for w in found.waiting]
    if requests.open > len(found.waiting):
        lines.append(f"  and {requests.open - len(found.waiting):,} more")
    show(options, console, "\n".join(lines), found.to_json())
    return 0


def _recover(options: argparse.Namespace, console: Console) -> int:
    with opened(options, console) as manager:
        done = manager.recover()
    lines = ["An interrupted change was completed." if done.settled else "No change was interrupted."]
    deleted = counted(len(done.deleted), "stray file")
    lines.append(f"{deleted} deleted; {counted(len(done.waiting), 'interrupted request')} back in the queue.")
    show(options, console, " ".join(lines), asdict(done))
    return 0


def _lines(path: Path | None) -> list[str]:
    if path is None:
        return []
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({error}): pass a text file with one person a line") from error


def _words(request: Request) -> str:
    why = f" ({request.reason})" if request.reason else ""
    return f"{request.id} is {request.state}{why}, due {request.due.isoformat()}"


def _values(request: Request) -> dict[str, Any]:
    return asdict(request) | {"state": str(request.state), "due": request.due.isoformat()}
