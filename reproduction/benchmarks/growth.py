"""How the time to protect a table grows with its rows, beside exact MDAV on the same table.

``python -m benchmarks.growth run results/large_tables.jsonl`` measures, and
``python -m benchmarks.growth figure results/large_tables.jsonl ../docs/figures/growth.svg`` draws.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import large_run, large_table

# Exact MDAV is measured up to this many rows.
_EXACT = 1_000_000


def run(results: Path, rows: list[int], k: int, jobs: int) -> None:
    """Measure tables of these sizes and add one line for each."""
    for count in rows:
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "table.parquet"
            large_table.write(table, count)
            large_table.SCHEMA.save(table.with_suffix(".toml"))
            line = large_run.protect(table, Path(folder) / "run", k, jobs)
            if count <= _EXACT:
                line["sample"] = large_run.beside_exact(table, k, count)
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def figure(results: Path, picture: Path) -> None:
    """Draw processor seconds against rows."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "growth"
    import matplotlib.pyplot as plt

    lines = sorted(map(json.loads, results.read_text(encoding="utf-8").splitlines()), key=lambda line: line["rows"])
    fig, panel = plt.subplots(figsize=(6.4, 4), layout="constrained")
    label = "in files, cell by cell (all stages)"
    panel.plot(*_points(lines, lambda line: line["processor_s"]), marker="o", label=label)
    stages = "in files: the groups alone"
    panel.plot(*_points(lines, lambda line: line["stages"]["group"]["processor_s"]), marker=".", ls=":", label=stages)
    exact = [line for line in lines if "sample" in line and line["sample"]["rows"] == line["rows"]]
    panel.plot(*_points(exact, lambda line: line["sample"]["exact_processor_s"]), marker="s", label="exact MDAV alone")
    panel.set(xscale="log", yscale="log", xlabel="rows (10 columns, k = 10)", ylabel="processor seconds")
    panel.grid(alpha=0.3)
    panel.legend(frameon=False)
    fig.savefig(picture, metadata={"Date": None} if picture.suffix == ".svg" else None)


def _points(lines: list[dict[str, Any]], value: Any) -> tuple[list[int], list[float]]:
    return [line["rows"] for line in lines], [value(line) for line in lines]


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "figure"))
    parser.add_argument("results", type=Path)
    parser.add_argument("picture", type=Path, nargs="?", default=Path("growth.svg"))
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000, 10_000_000])
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    if options.command == "run":
        run(options.results, options.rows, options.k, options.jobs)
    else:
        figure(options.results, options.picture)


if __name__ == "__main__":
    main()
