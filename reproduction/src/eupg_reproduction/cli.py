"""``eupg-reproduction``: the paper's experiments and additional ones, in small cells that can be resumed."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from eupg.cli.terminal import Terminal
from eupg.errors import EupgError, ParameterError

if TYPE_CHECKING:
    from eupg_reproduction.run import Plan

RESULTS, DOCS = Path("reproduction/results/bench.jsonl"), Path("docs")
RIVALS_RESULTS = Path("reproduction/results/rivals.jsonl")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    options = _parser().parse_args(arguments)
    # With --json the messages go to standard error.
    console = Console(stderr=options.json, highlight=False)
    try:
        status: int = options.run(options, console)
        return status
    except EupgError as error:
        console.print(f"[bold red]eupg-reproduction:[/] {escape(str(error))}")
        return 2
    except KeyboardInterrupt:
        console.print("[bold red]eupg-reproduction:[/] interrupted; the next run computes what is missing")
        return 130


def _parser() -> argparse.ArgumentParser:
    text = "The experiments of the paper and additional ones. Default paths are relative to the root of a checkout."
    parser = argparse.ArgumentParser(prog="eupg-reproduction", description=text)
    parts = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    listed = _add_command(parts, "list", "list the experiments and how long they take", _list)
    listed.add_argument("--repeats", type=int, default=5)
    _add_results(listed)
    ran = _add_command(parts, "run", "run the cells that are missing from the results file", _run)
    ran.add_argument(
        "names", nargs="+", metavar="NAME", help="experiments, all or images; eupg-reproduction list names them"
    )
    ran.add_argument("--repeats", type=int, default=5, help="repetitions of each cell (default 5)")
    ran.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="parallel processes (default: cores)")
    ran.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="FILTER",
        help="only cells with this setting (set=adult, model=mlp, repetition=0) or these words in their name; may be "
        "repeated, and all must hold",
    )
    ran.add_argument("--fresh", action="store_true", help="compute everything again, whatever the file contains")
    ran.add_argument("--dry-run", action="store_true", help="show what would be computed and reused, and stop")
    _add_results(ran)
    told = _add_command(parts, "report", "write the page of results, its tables and figures", _report)
    told.add_argument("--out", type=Path, default=DOCS, metavar="DIR", help=f"where to write (default {DOCS})")
    _add_results(told)
    _add_rivals(parts)
    return parser


def _add_rivals(parts: Any) -> None:
    text = "compare every method on tables of people: run what is missing, or report"
    rivals = parts.add_parser("rivals", help=text, description=text[0].upper() + text[1:] + ".")
    commands = rivals.add_subparsers(required=True, metavar="COMMAND")
    ran = _add_command(commands, "run", "compute the cells that are missing from a file, one process each", _run_rivals)
    ran.add_argument("results", type=Path, metavar="RESULTS", help="a file with one line of JSON per cell")
    ran.add_argument("--table", nargs="+", default=[], metavar="NAME", help="only these tables")
    ran.add_argument("--method", nargs="+", default=[], metavar="NAME", help="only these methods")
    ran.add_argument("--runs", type=int, default=3, metavar="N", help="repetitions (default 3)")
    told = _add_command(commands, "report", "write the page of the comparison, its table and figure", _report_rivals)
    told.add_argument("results", type=Path, nargs="?", default=RIVALS_RESULTS, metavar="RESULTS")
    told.add_argument("--out", type=Path, default=DOCS, metavar="DIR", help=f"where to write (default {DOCS})")


def _report_rivals(options: argparse.Namespace, _: Console) -> int:
    from eupg_reproduction.rivals.page import write

    written = [str(path) for path in write(options.results, options.out)]
    Terminal(as_json=options.json).show(f"Wrote {', '.join(written)}.", {"written": written}, wrap=False)
    return 0


def _run_rivals(options: argparse.Namespace, console: Console) -> int:
    from eupg_reproduction.people.tables import TITLES
    from eupg_reproduction.rivals.methods import RIVALS
    from eupg_reproduction.rivals.suite import run
    from eupg_reproduction.run import check_counts

    check_counts(repeats=options.runs)
    tables, methods = options.table or list(TITLES), options.method or list(RIVALS)
    for names, known in ((tables, tuple(TITLES)), (methods, tuple(RIVALS))):
        if unknown := [name for name in names if name not in known]:
            raise ParameterError(f"no such name {unknown[0]!r}: choose among {', '.join(known)}")
    # Cells are children of this process: what it has imported, they need not.
    for name in ("eupg.forget.eupg", "eupg.learn.xgboost", "eupg.learn.torch.learner", "eupg.forget.sisa.method"):
        importlib.import_module(name)
    written = run(
        options.results,
        tables,
        methods,
        range(options.runs),
        lambda line: console.print(line, markup=False, soft_wrap=True),
    )
    if options.json:
        sys.stdout.write(json.dumps({"written": written}) + "\n")
    return 0


def _add_command(commands: Any, name: str, text: str, run: Any) -> argparse.ArgumentParser:
    """Add a command with the options that all of them have."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=run)
    return parser


def _add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE", help=f"default {RESULTS}")


def _list(options: argparse.Namespace, console: Console) -> int:
    from eupg_reproduction.experiments import EXPERIMENTS, minutes_of_all
    from eupg_reproduction.results import read
    from eupg_reproduction.run import check_counts

    check_counts(repeats=options.repeats)
    known = read(options.results).newest
    rows = []
    table = Table("experiment", "cells", "done", "core min", "what it asks")
    for one in EXPERIMENTS:
        cells = one.cells(options.repeats)
        done = sum(cell.key in known for cell in cells)
        minutes = f"{one.core_minutes:g}{' GPU' if one.gpu else ''}"
        table.add_row(one.name, str(len(cells)), str(done), minutes, one.about)
        row = {"name": one.name, "cells": len(cells), "done": done, "core_minutes": one.core_minutes}
        rows.append({**row, "gpu": one.gpu, "about": one.about})
    console.print(table)
    console.print(
        f"Cells at {options.repeats} repetitions (some experiments have fewer), done in {options.results}. Minutes on "
        "one core for 5 repetitions as a part of all, which shares work between experiments, or on one GPU; estimated "
        "from one repetition. all: every experiment without a GPU except the smoke test, about "
        f"{minutes_of_all(2):.0f} min on 2 cores. images: every experiment on a GPU."
    )
    if options.json:
        sys.stdout.write(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
    return 0


def _run(options: argparse.Namespace, console: Console) -> int:
    from eupg_reproduction.run import check_counts, elapsed, plan, run
    from eupg_reproduction.version import code_version

    check_counts(jobs=options.jobs)
    planned = plan(options.names, options.results, repeats=options.repeats, only=options.only, fresh=options.fresh)
    console.print(f"This code is {code_version()}.", markup=False)
    if planned.torn:
        console.print(_torn(planned.torn, options.results), markup=False)
    for line in _reuse(planned, fresh=options.fresh):
        console.print(line, markup=False)
    console.print(
        f"To compute: {planned.cells} cells in {len(planned.jobs)} jobs, into {options.results}.", markup=False
    )
    values = {
        "computed": 0,
        "reused": len(planned.reused),
        "torn": planned.torn,
        "failed": [],
        "version": code_version(),
    }
    if not options.dry_run and planned.jobs:
        started = time.monotonic()
        done = run(
            planned,
            options.results,
            jobs=options.jobs,
            tell=lambda line: console.print(line, markup=False, soft_wrap=True),
        )
        values |= {"computed": done.written, "failed": list(done.failed)}
        console.print(f"Computed {done.written} cells in {elapsed(started)}; {len(done.failed)} jobs failed.")
        for line in done.failed:
            console.print(f"failed: {line}", markup=False, soft_wrap=True)
    if options.json:
        sys.stdout.write(json.dumps(values, indent=2, ensure_ascii=False) + "\n")
    return int(bool(values["failed"]))


def _report(options: argparse.Namespace, _: Console) -> int:
    from eupg_reproduction.report.page import write
    from eupg_reproduction.report.tidy import Measurements

    measurements = Measurements.read(options.results)
    written = write(measurements, options.out)
    values = {
        "cells": len(measurements.used()),
        "missing": measurements.lacking(),
        "torn": measurements.torn,
        "written": [str(path) for path in written],
    }
    count = {suffix: sum(path.suffix == suffix for path in written) for suffix in (".csv", ".svg")}
    words = f"Wrote {written[0]}, {count['.csv']} tables and {count['.svg']} figures from {values['cells']} cells; "
    words += f"{values['missing']} missing."
    if measurements.torn:
        words += f" {_torn(measurements.torn, options.results)}"
    Terminal(as_json=options.json).show(words, values, wrap=False)
    return 0


def _torn(lines: int, path: Path) -> str:
    return f"{lines} lines of {path} are cut off or not JSON, and not counted."


def _reuse(planned: Plan, *, fresh: bool) -> list[str]:
    """Return what is reused, and which code made it."""
    from eupg_reproduction.results import versions
    from eupg_reproduction.version import code_version

    if fresh:
        return ["Nothing is reused (--fresh)."]
    if not planned.reused:
        return ["Nothing is reused: the file has none of these cells."]
    counts = versions(planned.reused)
    lines = [f"Reused: {count} cells made by {version}" for version, count in sorted(counts.items())]
    if set(counts) != {code_version()}:
        lines.append("Some of these were made by other code; --fresh computes them again.")
    return lines
