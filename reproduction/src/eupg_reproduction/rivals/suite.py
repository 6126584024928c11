"""The whole comparison in one file: every cell in a process of its own, on one core, one line of JSON; resumable.

Lines with ``search`` hold the choice of settings for a table and a method; lines with ``cell`` hold the figures of one
run. A line that says ``failed`` is not tried again, unless it is deleted.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from eupg.errors import DataError
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
        extra = [json.dumps(chosen[place])] if kind == "cell" else []
        result = _measured([*arguments, *extra])
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


def _measured(arguments: Sequence[str]) -> dict[str, Any]:
    one_core = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "eupg_reproduction.rivals.suite", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, env=os.environ | one_core, check=False)
    if ended.returncode == -signal.SIGXCPU:
        return {"failed": f"cut off after {LIMIT_S} s of processor time"}
    if ended.returncode:
        return {"failed": (ended.stderr.strip().splitlines() or [f"ended with status {ended.returncode}"])[-1]}
    result: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return result


def main(arguments: Sequence[str]) -> None:
    """Measure one cell, or choose settings, and print the figures."""
    from eupg_reproduction.rivals.measure import choose, measure

    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S + 60))
    if len(arguments) == 2:
        figures = choose(*arguments)
    else:
        table, method, number, settings = arguments
        figures = measure(table, method, int(number), json.loads(settings))
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
