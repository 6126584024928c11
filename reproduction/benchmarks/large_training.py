"""Private trees of a large table, in files and in memory: processor time, peak memory, and whether the models agree.

``python -m benchmarks.large_table --rows 10000000 --out big/table.parquet`` makes the table, and
``python -m benchmarks.large_training big/table.parquet --out results/large_training.jsonl`` trains. With ``--memory``
the same model is trained in memory, by one process. Each adds a line to the results.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.large_run import Memory
from eupg import PrivateTrees, Seeded
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.executor import LocalProcesses
from eupg.learn import LeafLearner
from eupg.learn.leaves.learner import LeafModel


@dataclass
class Steps:
    """Notes wall time, processor time and peak memory of every step, of this process and those it started."""

    memory: Memory = field(default_factory=Memory)
    figures: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str, /) -> Iterator[None]:
        """Run a step."""
        self.memory.peak = 0
        started, before = time.perf_counter(), self.memory.processor_s()
        yield
        self.figures[name] = {
            "wall_s": round(time.perf_counter() - started, 1),
            "processor_s": round(self.memory.processor_s() - before, 1),
            "peak_memory_gb": round(self.memory.peak / 1e9, 2),
            "load": round(os.getloadavg()[0], 1),
        }
        print(name, self.figures[name], flush=True)


def train(table: Path, folder: Path, jobs: int, *, in_memory: bool) -> dict[str, Any]:
    """Train private trees, and return what it took."""
    schema, method, steps = Schema.load(table.with_suffix(".toml")), PrivateTrees(1.0), Steps()
    if in_memory:
        with steps.step("read"):
            data = Dataset.read(table, schema)
        with steps.step("train"):
            model, _ = method.pretrain(data, LeafLearner(), effort=1, rng=Seeded(7))
        rows, jobs = len(data), 1
    else:
        folder.mkdir(parents=True, exist_ok=True)
        model, _ = method.pretrain_files(
            table, schema, rng=Seeded(7), executor=LocalProcesses(jobs), folder=folder, progress=steps
        )
        rows = _rows(table)
    assert isinstance(model, LeafModel)
    return {
        "rows": rows,
        "columns": len(schema.features),
        "training": "in memory" if in_memory else "in files",
        "processes": jobs,
        "cells": model.cells.count,
        "scores": hashlib.sha256(model.scores.tobytes()).hexdigest(),
        "steps": steps.figures,
        "wall_s": round(sum(step["wall_s"] for step in steps.figures.values()), 1),
        "processor_s": round(sum(step["processor_s"] for step in steps.figures.values()), 1),
        "peak_memory_gb": max(step["peak_memory_gb"] for step in steps.figures.values()),
    }


def _rows(table: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(table).num_rows)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--folder", type=Path, default=Path("large-training"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--memory", action="store_true", help="train in memory instead")
    options = parser.parse_args()
    result = train(options.table, options.folder, options.jobs, in_memory=options.memory)
    with options.out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(result) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
