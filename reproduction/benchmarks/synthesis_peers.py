"""Differentially private synthesis beside OpenDP's marginal-based inference (AIM, MST and kin), on the same budget.

Run with ``python -m benchmarks.synthesis_peers run FILE [--method …] [--set …] [--epsilon …] [--draw …]`` and
``… report FILE``; needs the data sets (EUPG_DATA), ``xgboost`` and, for the peers, ``opendp[mbi]``. Every cell runs in
a process of its own and is one line of JSON in FILE; a run goes on where it stopped.

All see 80 % of the training records; utility is that of XGBoost fitted to the synthetic rows, on the other 20 %: test
records are never touched. The unit is one record, added or removed. ``ours`` is pure ε; ``ours-delta`` and the peers
have δ = 1e-6, the peers by the ρ (zero-concentrated privacy) that implies it. Peers see codes of our public cells
(``-16``: 16 a number, not 32), and their codes become values as ours do; their noise cannot be seeded. ``-pure``: pure
ε. ``-shipped``: without our repairs of MST's budget and of the drawing of rows. ``records`` and ``cells`` are not
private: the records, and what coding alone costs.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from eupg import Seeded, sources
from eupg.protect.cells import Cells
from eupg.protect.synthesis.budget import concentrated
from eupg.protect.synthesis.mechanism import DPSynthesis

SETS = ("adult", "heart", "credit")
EPSILONS = (1.0, 0.25, 4.0)
METHODS = ("records", "cells", "ours", "ours-delta", "mst", "fixed-mst", "aim-short", "aim-label", "aim")
DELTA = 1e-6
LIMIT_S = 600
ONE_CORE = {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}


def strategy(name: str, columns: list[str]):
    """Return a peer's algorithm; the last column is the label."""
    import opendp.prelude as dp

    *features, label = columns
    naive = dp.mbi.Fixed(queries=[dp.mbi.Count((feature, label)) for feature in features])
    triples = [dp.mbi.Count((i, j, label)) for i, j in combinations(features, 2)]
    return {
        "mst": dp.mbi.MST(),
        # Each feature with the label first. A tenth for single columns, where OpenDP's default is half.
        "fixed-mst": dp.mbi.Sequential(algorithms=[naive, dp.mbi.MST()], oneway_split=0.1),
        # Every triple of columns, OpenDP's default; every pair of features with the label.
        "aim": dp.mbi.AIM(),
        "aim-label": dp.mbi.AIM(queries=triples),
        # At most as many rounds as columns, where 16 times as many is the default: else few runs end in time.
        "aim-short": dp.mbi.AIM(queries=triples, oneway_split=0.1, rounds=len(columns)),
    }[name]


def whole(table):
    """Return a table whose model draws each column given all it depends on: mbi 1.1.0, required here, forgets some.

    Its default "round" also makes columns depend on each other that share a neighbour. Later versions have both mended.
    """
    from mbi import MarkovRandomField
    from mbi.junction_tree import make_junction_tree

    fitted = table.model
    tree, _ = make_junction_tree(fitted.domain, [set(clique) for clique in fitted.cliques])
    potentials = fitted.potentials.expand(list(tree.nodes))
    mended = MarkovRandomField(potentials=potentials, marginals=fitted.marginals, total=fitted.total)
    return replace(table, model=mended)


def peer_rows(data, method: str, epsilon: float, most: int) -> tuple:
    """Return a peer's synthetic rows, and what it measured with how much noise."""
    import opendp.prelude as dp
    import polars as pl
    from opendp.extras.mbi import _mst

    dp.enable_features("contrib")
    shipped, pure = "-shipped" in method, "-pure" in method
    if not shipped:
        # A billionth less a step: MST's own budget check refuses its own split by a rounding error.
        _mst.prior = lambda budget: budget * (1 - 1e-9)
    cells = [Cells.of(a, most) for a in data.schema.features]
    names = [a.name for a in (*data.schema.features, data.schema.label)]
    codes = [*(c.code(data.X[:, j]) for j, c in enumerate(cells)), data.y.astype(np.int64)]
    # Cut points at every code: one bin a code, and no bin for missing values, which have codes of their own.
    sizes = [*(c.size for c in cells), data.schema.classes]
    cuts = {name: list(range(size - 1)) for name, size in zip(names, sizes, strict=True)}
    budget = {"epsilon": epsilon} if pure else {"rho": concentrated(epsilon, DELTA)}
    context = dp.Context.compositor(
        data=pl.LazyFrame(dict(zip(names, codes, strict=True))),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(**budget),
    )
    algorithm = strategy(method.replace("-shipped", "").replace("-pure", ""), names)
    table = context.query(**budget).select(*names).contingency_table(cuts=cuts, algorithm=algorithm).release()
    drawn = table.synthesize() if shipped else whole(table).synthesize(method="sample")
    numbers = np.random.default_rng()
    X = np.column_stack([c.draw(drawn[n].to_numpy(), numbers) for n, c in zip(names, cells, strict=False)])
    asked = [[list(m.clique), round(float(m.stddev), 2)] for m in table.marginals.flatten()]
    return X, drawn[names[-1]].to_numpy(), {"asked": asked}


def rows(data, method: str, epsilon: float, draw: int) -> tuple:
    """Return the rows that a method makes of the records, and what else is known of it."""
    most, method = (16 if method.endswith("-16") else 32), method.removesuffix("-16")
    if method == "records":
        return data.X, data.y, {}
    if method == "cells":
        numbers, cells = np.random.default_rng(draw), [Cells.of(a, most) for a in data.schema.features]
        return np.column_stack([c.draw(c.code(data.X[:, j]), numbers) for j, c in enumerate(cells)]), data.y, {}
    if method in ("ours", "ours-delta"):
        release = DPSynthesis(epsilon, DELTA if method == "ours-delta" else 0.0).protect(data, Seeded(draw))
        return release.X, release.y, {}
    return peer_rows(data, method, epsilon, most)


def cell(method: str, name: str, epsilon: float, draw: int) -> dict:
    """Synthesise once; return utility, seconds and memory."""
    import xgboost

    source = getattr(sources, name)()
    seen = np.random.default_rng(0).random(len(source.train)) < 0.8
    data, held_out = source.train.select(seen), source.train.select(~seen)
    started, started_cpu = time.perf_counter(), time.process_time()
    X, y, more = rows(data, method, epsilon, draw)
    spent = {"seconds": time.perf_counter() - started, "cpu_s": time.process_time() - started_cpu}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    settings = {"max_depth": 4, "eta": 0.1, "objective": "binary:logistic", "nthread": 1}
    chance = xgboost.train(settings, xgboost.DMatrix(X, y), 100).predict(xgboost.DMatrix(held_out.X))
    utility = float(source.utility(np.column_stack([1 - chance, chance]), held_out.y))
    return {"utility": utility, "rows": len(y), "peak_mb": peak, **spent, **more}


def run(path: Path, methods, sets, epsilons, draws) -> None:
    """Compute the cells that are not in the file yet, each in a process of its own."""
    done = {line["cell"] for line in read(path)}
    for name, epsilon, draw, method in ((s, e, d, m) for d in draws for e in epsilons for s in sets for m in methods):
        key = f"{name}/{epsilon:g}/{method}/{draw}"
        if key in done:
            continue
        options = ["--method", method, "--set", name, "--epsilon", str(epsilon), "--draw", str(draw)]
        command = [sys.executable, "-m", "benchmarks.synthesis_peers", "cell", str(path), *options]
        ended = subprocess.run(command, capture_output=True, text=True, env=os.environ | ONE_CORE, check=False)
        errors = [line.strip() for line in ended.stderr.splitlines() if "Fail" in line or "Error" in line]
        if ended.returncode == -signal.SIGXCPU:
            errors = [f"cut off after {LIMIT_S} s of processor time"]
        found = json.loads(ended.stdout) if ended.returncode == 0 else {"failed": " ".join(errors[-1:])}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"cell": key, **found}) + "\n")
        print(key, {k: v for k, v in found.items() if k != "asked"}, flush=True)


def read(path: Path) -> list[dict]:
    """Return the lines of a results file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def report(path: Path) -> None:
    """Print one Markdown row a method: mean utility (draws), processor seconds, peak memory; then what failed."""
    lines = {line["cell"]: line for line in read(path)}
    columns = [f"{name}/{epsilon:g}" for name in SETS for epsilon in sorted(EPSILONS)]
    print("| method | " + " | ".join(columns) + " | CPU s | peak MB |\n" + "|---" * (len(columns) + 3) + "|")
    for method in dict.fromkeys(key.split("/")[2] for key in lines):
        texts, ended = [], [v for k, v in lines.items() if k.split("/")[2] == method and "utility" in v]
        for column in columns:
            found = [v["utility"] for v in ended if v["cell"].startswith(f"{column}/")]
            texts.append(f"{np.mean(found):.2f} ({len(found)})" if found else "")
        seconds, peaks = [v["cpu_s"] for v in ended], [v["peak_mb"] for v in ended]
        spent = f"{min(seconds):.1f}–{max(seconds):.1f} | {max(peaks)}" if ended else " | "
        print(f"| {method} | " + " | ".join(texts) + f" | {spent} |")
    for key, line in lines.items():
        if "failed" in line:
            print(f"{key}: {line['failed']}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("run", "report", "cell"))
    parser.add_argument("file", type=Path)
    for name, default in (("method", METHODS), ("set", SETS), ("epsilon", EPSILONS), ("draw", range(3))):
        parser.add_argument(f"--{name}", nargs="+", type=type(default[0]), default=default)
    given = parser.parse_args()
    if given.command == "run":
        run(given.file, given.method, given.set, given.epsilon, given.draw)
    elif given.command == "report":
        report(given.file)
    else:
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S + 60))
        print(json.dumps(cell(given.method[0], given.set[0], given.epsilon[0], given.draw[0])))


if __name__ == "__main__":
    main()
