"""k-anonymity of a hundred million rows on one machine: time, processor time, memory and SSE of every stage.

It runs the stages of ``eupg.protect.protect_files`` one by one and keeps their state, so that a run that is interrupted
continues with the stage it was in. That is for synthetic tables only: ``protect_files`` itself erases what an
interrupted run leaves. ``python -m benchmarks.large_table --rows 100000000 --out big/table.parquet`` makes the table,
and ``python -m benchmarks.large_run big/table.parquet --folder big/run --out result.json`` protects it.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from eupg.data.schema import Schema
from eupg.executor import LocalProcesses
from eupg.executor.executor import in_order
from eupg.protect.kanonymity import ProbabilisticKAnonymity
from eupg.protect.microaggregation.groups import within_group_sse
from eupg.protect.microaggregation.mdav import mdav
from eupg.protect.streaming import run, stages
from eupg.protect.streaming.chunks import chunks_of
from eupg.protect.streaming.cut_tree import CutTree
from eupg.protect.streaming.geometry import ColumnStatistics, Geometry
from eupg.protect.streaming.release_files import ReleaseFiles
from eupg.rng import Secret

_EVERY_S = 0.2


class Memory:
    """Samples the resident memory of this process and those it started, together; shared pages count twice."""

    def __init__(self) -> None:
        self.peak = 0
        threading.Thread(target=self._watch, daemon=True).start()

    def processor_s(self) -> float:
        """Return the processor time of this process, of those it started that have ended, and of those that run."""
        return sum(os.times()[:4]) + _processor_s_below(os.getpid())

    def _watch(self) -> None:
        while True:
            self.peak = max(self.peak, _resident(os.getpid()))
            time.sleep(_EVERY_S)


def _processor_s_below(process: int) -> float:
    total = 0.0
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, path.read_text(encoding="utf-8").split()):
            fields = Path(f"/proc/{child}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
            total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") + _processor_s_below(child)
    return total


def _resident(process: int) -> int:
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text(encoding="utf-8").split()[1])
        children = Path(f"/proc/{process}/task").glob("*/children")
        below = [int(child) for path in children for child in path.read_text(encoding="utf-8").split()]
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(map(_resident, below))


def measured(folder: Path, memory: Memory, name: str, stage: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Run a stage, or read what it gave before, with its wall time, processor time and peak memory."""
    path = folder / f"state-{name}"
    if path.exists():
        result, figures = pickle.loads(path.read_bytes())  # noqa: S301 (written by this script)
        return result, figures
    memory.peak = 0
    started, before = time.perf_counter(), sum(os.times()[:4])
    result = stage()
    figures = {
        "wall_s": round(time.perf_counter() - started, 1),
        "processor_s": round(sum(os.times()[:4]) - before, 2),
        "peak_memory_gb": round(memory.peak / 1e9, 2),
        "load": round(os.getloadavg()[0], 1),
    }
    aside = path.with_suffix(".aside")
    aside.write_bytes(pickle.dumps((result, figures)))
    aside.rename(path)
    print(name, figures, flush=True)
    return result, figures


def protect(table: Path, folder: Path, k: int, jobs: int) -> dict[str, Any]:
    """Protect a table, stage by stage."""
    folder.mkdir(parents=True, exist_ok=True)
    schema, executor, memory, rng = Schema.load(table.with_suffix(".toml")), LocalProcesses(jobs), Memory(), Secret()
    settings = stages.StreamSettings(schema, k, str(folder), run.CELL, run.PART)
    chunks = chunks_of(table, settings.columns, folder)
    figures: dict[str, Any] = {}

    def stage(name: str, work: Callable[[], Any]) -> Any:
        result, figures[name] = measured(folder, memory, name, work)
        return result

    surveys = stage("survey", lambda: in_order(executor, partial(stages.survey_chunk, settings), chunks))
    plan = stage("cuts", lambda: run.plan_of(settings, surveys))
    routed = stage("route", lambda: in_order(executor, partial(stages.route_chunk, plan), chunks))
    tasks = run.cell_tasks(plan, routed, rng)
    grouped = stage("group", lambda: in_order(executor, partial(stages.group_cell, plan), tasks))
    parts = run.part_tasks(grouped, folder, rng)
    counts = stage("shuffle", lambda: in_order(executor, partial(stages.shuffle_part, plan), parts))
    claim = run.released_claim(ProbabilisticKAnonymity(k).guarantee(schema), grouped, plan.rows, seeded=False)
    files = {Path(part.path).name: count for part, count in zip(parts, counts, strict=True)}
    release = ReleaseFiles(folder, schema, claim, files)
    release.save()
    return {
        "rows": plan.rows,
        "columns": len(schema.features),
        "coordinates": plan.geometry.width,
        "k": k,
        "processes": jobs,
        "released_rows": len(release),
        "cells": len(tasks),
        "groups": sum(cell.groups for cell in grouped),
        "smallest_group": min(cell.smallest for cell in grouped),
        "sse_per_row": sum(cell.squares for cell in grouped) / plan.rows,
        "table_gb": round(table.stat().st_size / 1e9, 2),
        "routed_gb": round(sum(Path(file.path).stat().st_size for file in routed) / 1e9, 2),
        "release_gb": round(sum((folder / name).stat().st_size for name in files) / 1e9, 2),
        "stages": figures,
        "wall_s": round(sum(stage["wall_s"] for stage in figures.values()), 1),
        "processor_s": round(sum(stage["processor_s"] for stage in figures.values()), 1),
        "peak_memory_gb": max(stage["peak_memory_gb"] for stage in figures.values()),
    }


def beside_exact(table: Path, k: int, rows: int) -> dict[str, Any]:
    """Group the first rows of the table by exact MDAV and in cells, and return both sums of squares."""
    schema = Schema.load(table.with_suffix(".toml"))
    settings = stages.StreamSettings(schema, k, "", run.CELL, run.PART)
    chunks = chunks_of(table, settings.columns, Path())
    columns: list[list[Any]] = []
    for chunk in chunks:
        columns.append(settings.columns.read(chunk))
        if sum(len(c[0]) for c in columns) >= rows:
            break
    joined = [np.concatenate(pieces)[:rows] for pieces in zip(*columns, strict=True)]
    pairs = zip(settings.columns.attributes, joined, strict=True)
    points = Geometry(schema, tuple(ColumnStatistics.of(a, c) for a, c in pairs)[:-1]).points(joined)
    answer: dict[str, Any] = {"rows": rows, "k": k}
    started = time.process_time()
    exact = mdav(points, k)
    answer["exact_processor_s"] = round(time.process_time() - started, 2)
    answer["exact_sse_per_row"] = within_group_sse(points, exact) / rows
    started = time.process_time()
    every = max(1, run.CELL // 1024)
    tree = CutTree.grow(points[::every], run.CELL / every)
    leaf, labels, formed = tree.leaf_of(points), np.empty(rows, np.int64), 0
    for number in range(tree.leaves):
        inside = np.flatnonzero(leaf == number)
        labels[inside] = stages.group_rows(points[inside], k) + formed
        formed = int(labels[inside].max()) + 1
    answer["cells_processor_s"] = round(time.process_time() - started, 2)
    answer["cells_sse_per_row"] = within_group_sse(points, labels) / rows
    answer["ratio"] = round(answer["cells_sse_per_row"] / answer["exact_sse_per_row"], 4)
    return answer


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--exact", type=int, default=1_000_000, help="rows to group by exact MDAV as well; 0 for none")
    options = parser.parse_args()
    result = protect(options.table, options.folder, options.k, options.jobs)
    if options.exact:
        result["sample"] = beside_exact(options.table, options.k, min(options.exact, result["rows"]))
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
