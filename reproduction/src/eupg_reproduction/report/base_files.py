"""The file about base models beside the results: private ones of this library and of others, and exact methods.

``private_peers.jsonl`` (``python -m benchmarks.private_peers``) has one line per run. ``cell`` names the table, ε (0
where everyone is seen raw), the method and the run; a line has the utility on test records, processor time and memory,
or says why the run failed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from eupg.errors import DataError
from eupg_reproduction.report.words import MISSING, NONE, SETS, listed
from eupg_reproduction.spread import Spread

BASES = "private_peers.jsonl"
EPSILONS = (0.25, 1.0, 4.0)
# Methods whose models see everyone raw.
RAW = {
    "retrain": "full retraining, not private",
    "short-retrain": "short retrain, not private",
    "exact-trees": "ExactTrees (ours), exact",
    "leaf-ridge": "EUPG k=30, LeafRidge (ours)",
}
LABELS = {
    **RAW,
    "private-trees": "PrivateTrees (ours)",
    "synthesis": "DPSynthesis + XGBoost (ours)",
    "dp-sgd": "DPSGDBase, MLP (ours)",
    "dp-ebm": "DP-EBM (interpret)",
    "logistic": "logistic regression (diffprivlib, pure ε)",
    "mst": "MST + XGBoost (OpenDP, mbi)",
    "aim": "AIM + XGBoost (OpenDP, mbi)",
}
# What was aimed at before anything was measured: Adult, Heart, Credit.
AIMS = {
    ("exact-trees", 0.0): (86.0, 73.0, 84.8),
    ("leaf-ridge", 0.0): (86.1, 73.3, 84.9),
    ("private-trees", 0.25): (85.4, 72.8, 84.0),
    ("private-trees", 1.0): (86.4, 73.1, 85.0),
}


class Run(NamedTuple):
    """One training: where, by which method, and what came out; ``failed`` says why nothing did."""

    table: str
    epsilon: float
    method: str
    run: int
    records: int
    utility: float | None
    cpu_s: float
    peak_mb: float
    failed: str

    @classmethod
    def of(cls, line: dict[str, Any]) -> Run:
        """Read a line of the file."""
        table, epsilon, method, run, *records = line["cell"].split("/")
        spent = float(line.get("cpu_s", 0)), float(line.get("peak_mb", 0))
        size = int(records[0]) if records else 0
        return cls(table, float(epsilon), method, int(run), size, line.get("utility"), *spent, line.get("failed", ""))


def read_bases(path: Path) -> list[Run]:
    """Read the runs; empty without the file."""
    if not path.is_file():
        return []
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return [Run.of(line) for line in lines if "cell" in line]
    except (ValueError, KeyError) as error:
        raise DataError(
            f"{path} cannot be read ({error}): write it again (python -m benchmarks.private_peers)"
        ) from error


def utilities(runs: list[Run], records: int = 0) -> dict[tuple[str, str, float], Spread]:
    """Return utility by method, table and ε, for a number of training records; 0 stands for all."""
    values: dict[tuple[str, str, float], list[float]] = {}
    for run in runs:
        if run.utility is not None and run.records == records:
            values.setdefault((run.method, run.table, run.epsilon), []).append(run.utility)
    return {place: Spread.of(some) for place, some in values.items()}


def bases_table(runs: list[Run]) -> pd.DataFrame:
    """Return utility by method and table, at ε = 0.25, 1 and 4 where a method has an ε, with its cost."""
    known, rows = utilities(runs), []
    for method, label in LABELS.items():
        mine = [run for run in runs if run.method == method and run.utility is not None and not run.records]
        if not mine:
            continue
        strengths, seconds = ((0.0,) if method in RAW else EPSILONS), [run.cpu_s for run in mine]
        row = {"method (three figures: ε = 0.25, 1, 4)": label}
        for table, name in SETS.items():
            row[name] = ", ".join(_shown(known.get((method, table, epsilon))) for epsilon in strengths)
        row["processor s"] = f"{min(seconds):.1f}–{max(seconds):.1f}"
        row["peak MB"] = f"{max(run.peak_mb for run in mine):.0f}"
        rows.append(row)
    return pd.DataFrame(rows)


def bases_at_one(runs: list[Run]) -> pd.DataFrame:
    """Return the mean utility by method and table at ε = 1, or without ε."""
    known, rows = utilities(runs), []
    for method, label in LABELS.items():
        means = [known.get((method, table, 0.0 if method in RAW else 1.0)) for table in SETS]
        if any(means):
            rows.append([label, *(f"{one.mean:.1f}" if one else NONE for one in means)])
    return pd.DataFrame(rows, columns=["ε=1", *SETS.values()])


def _shown(spread: Spread | None) -> str:
    if spread is None:
        return NONE
    few = f" ({spread.count} run{'s' if spread.count > 1 else ''})" if spread.count < 5 else ""
    return f"{spread.mean:.2f}" + (f" ± {spread.std:.2f}" if spread.count > 1 else "") + few


def missed_aims(runs: list[Run]) -> str:
    """Name the aims that were missed, with the figure and the aim."""
    known, words = utilities(runs), []
    for (method, epsilon), aims in AIMS.items():
        for (table, name), aim in zip(SETS.items(), aims, strict=True):
            spread = known.get((method, table, epsilon))
            label = LABELS[method].partition(" (ours)")[0] + (f" at ε={epsilon:g}" if epsilon else "")
            if spread is None:
                words.append(f"{label} on {name} ({MISSING})")
            elif spread.mean < aim:
                words.append(f"{label} on {name}, {spread.mean:.3f} for {aim}")
    return listed(words, "none")


def base_utility(runs: list[Run], method: str, epsilon: float = 0.0) -> str:
    """Return a method's utility on the three tables, with one decimal."""
    known = utilities(runs)
    return listed([f"{s.mean:.1f}" if (s := known.get((method, t, epsilon))) else MISSING for t in SETS])
