"""The file of the comparison as tables: one row per run, then one per method and table."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pandas as pd
from scipy.special import stdtrit

from eupg.errors import DataError
from eupg_reproduction.people.tables import TITLES
from eupg_reproduction.rivals.methods import RIVALS
from eupg_reproduction.rivals.suite import read_lines

# Figures of a run, by name and place in its line.
FIGURES = {
    "utility before": ("before", "utility"),
    "utility": ("after", "utility"),
    "RMIA before": ("before", "rmia", "auc"),
    "RMIA": ("after", "rmia", "auc"),
    "RMIA low": ("after", "rmia", "low"),
    "versions, one": ("versions_one", "auc"),
    "versions, 5 %": ("versions_many", "auc"),
    "train, s": ("train_s",),
    "5 %, s": ("many_s",),
    "peak, MB": ("peak_mb",),
    "storage, bytes": ("storage", "bytes"),
    "models": ("storage", "models"),
    "ε": ("claim", "epsilon"),
    "δ": ("claim", "delta"),
    "ε after 5 %": ("claim_after", "epsilon"),
    "most records": ("claim", "most_records"),
    "records": ("records",),
    "people": ("people",),
}
_LEVEL = 0.95


def runs(path: Path) -> pd.DataFrame:
    """Return one row per run that has figures."""
    rows = []
    for line in read_lines(path):
        if "cell" not in line or "failed" in line:
            continue
        try:
            table, method, number = line["cell"].split("/")
            row: dict[str, Any] = {"table": table, "method": method, "run": int(number)}
            row |= {name: _at(line, place) for name, place in FIGURES.items()}
            row |= {"one, s": fmean(line["one_s"]), "claim": line["claim"]["label"], "notion": line["claim"]["notion"]}
        except (KeyError, ValueError) as error:
            raise DataError(f"{path}: the line of {line['cell']!r} lacks {error}: delete it, and run again") from error
        rows.append(row)
    if not rows:
        raise DataError(f"{path} has no figures: run the comparison first (eupg-reproduction rivals run)")
    return pd.DataFrame(rows)


def failures(path: Path) -> list[str]:
    """Return what gave no figures, and why."""
    return [
        f"{line.get('cell') or line.get('search')}: {line['failed']}" for line in read_lines(path) if "failed" in line
    ]


def summary(measured: pd.DataFrame) -> pd.DataFrame:
    """Return one row per method and table: means over runs, and the interval of the utility where there are several.

    Rows are in the order of the methods and tables of the comparison.
    """
    rows = []
    for table in TITLES:
        for method, rival in RIVALS.items():
            mine = measured[(measured["table"] == table) & (measured["method"] == method)]
            if mine.empty:
                continue
            row: dict[str, Any] = {"table": table, "method": method, "ours": rival.ours, "runs": len(mine)}
            row |= {name: _mean(mine[name].tolist()) for name in (*FIGURES, "one, s")}
            low, high = interval(mine["utility"].tolist())
            row |= {"utility low": low, "utility high": high, "month of 10, s": 10 * row["one, s"]}
            row |= {"month of 1,000, s": 1_000 * row["one, s"]}
            rows.append(row | {"claim": mine["claim"].iloc[0], "notion": mine["notion"].iloc[0]})
    return pd.DataFrame(rows)


def interval(values: list[float]) -> tuple[float, float]:
    """Return Student's 95 % interval of the mean; not a number for one value.

    Examples
    --------
    >>> [round(end, 2) for end in interval([80.0, 81.0, 82.0])]
    [78.52, 83.48]
    """
    if len(values) < 2:
        return math.nan, math.nan
    reach = float(-stdtrit(len(values) - 1, (1 - _LEVEL) / 2)) * stdev(values) / math.sqrt(len(values))
    return fmean(values) - reach, fmean(values) + reach


def _mean(values: list[Any]) -> float:
    known = [value for value in values if value is not None and not math.isnan(value)]
    return fmean(known) if known else math.nan


def _at(line: Any, place: tuple[str, ...]) -> Any:
    for name in place:
        # Some claims have no ε.
        line = line.get(name) if name in ("epsilon", "delta") else line[name]
    return line
