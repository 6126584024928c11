"""The whole comparison in one file: every cell in a process of its own, on one core, one line of JSON; resumable.

Lines with ``search`` hold the choice of settings for a table and a method; lines with ``cell`` hold the figures of one
run. A line that says ``failed`` is not tried again, unless it is deleted.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from eupg.errors import DataError
from eupg_reproduction.people.tables import load
from eupg_reproduction.rivals.measure import choose, measure
from eupg_reproduction.rivals.methods import RIVALS

RIVALS_FILE = "rivals.jsonl"
# Processor seconds that a cell may take.
LIMIT_S = 900


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file of results; none if there is no file."""
    if not path.is_file():
        return []
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    except ValueError as error:
        raise DataError(f"{path} cannot be read ({error}): delete the line that is cut off, and run again") from error


def run(
    path: Path,
    tables: Sequence[str],
    methods: Sequence[str],
    repetitions: Sequence[int],
    tell: Callable[[str], None],
) -> int:
    """Compute what is missing from the file; return the number of lines written."""
    lines = read_lines(path)
    done = {line.get("cell") or line.get("search") for line in lines}
    chosen = {line["search"]: line["chosen"] for line in lines if "chosen" in line}
    written = 0
    for name, arguments in _tasks(tables, methods, repetitions):
        kind = "cell" if len(arguments) == 3 else "search"
        if name in done or not RIVALS[arguments[1]].available:
            continue
        place = "/".join(arguments[:2])
        if kind == "cell" and place not in chosen:
            continue
        load(arguments[0])
        result = _measured(arguments, chosen[place] if kind == "cell" else None)
        if "chosen" in result:
            chosen[name] = result["chosen"]
        done.add(name)
        written += 1
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({kind: name, **result}) + "\n")
        tell(f"{kind} {name}: {result.get('failed') or 'done'}")
    return written


def _tasks(
    tables: Sequence[str], methods: Sequence[str], repetitions: Sequence[int]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield names and arguments: all tables and methods once, then once more."""
    for number in repetitions:
        for table in tables:
            for method in methods:
                if number == repetitions[0]:
                    yield f"{table}/{method}", (table, method)
                yield f"{table}/{method}/{number}", (table, method, str(number))


def _measured(arguments: Sequence[str], settings: dict[str, Any] | None) -> dict[str, Any]:
    """Measure in a child process, which has imported everything and read the table already."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _child(writing, arguments, settings)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as answer:
        text = answer.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == -signal.SIGXCPU:
        return {"failed": f"cut off after {LIMIT_S} s of processor time"}
    if not text:
        return {"failed": f"the process ended with status {status}"}
    result: dict[str, Any] = json.loads(text)
    return result


def _child(writing: int, arguments: Sequence[str], settings: dict[str, Any] | None) -> NoReturn:
    """Measure, write the figures or the reason for none, and end."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S + 60))
    try:
        if settings is None:
            figures = choose(*arguments)
        else:
            table, method, number = arguments
            figures = measure(table, method, int(number), settings)
    # Whatever went wrong becomes a line of the file.
    except Exception as error:
        traceback.print_exc()
        figures = {"failed": f"{type(error).__name__}: {error}"}
    with os.fdopen(writing, "w", encoding="utf-8") as answer:
        answer.write(json.dumps(figures))
    os._exit(0)
