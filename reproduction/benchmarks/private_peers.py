"""Private base models of this library and of others: same ε, same split, same metric, on the test records.

Run with ``python -m benchmarks.private_peers run FILE [--method …] [--set …] [--epsilon …] [--draw …]``, then
``… report FILE``, ``… sizes FILE`` (cells of ``run --records 300 1000 …``) and ``… figure FILE PICTURE``;
``… search FILE`` chooses the settings of the peers. It needs the data sets (EUPG_DATA), and each peer its package:
DP-EBM ``interpret-core``, logistic regression ``diffprivlib`` (0.6.6 needs scikit-learn below 1.6), AIM and MST
``opendp[mbi]``, DP-SGD ``opacus``. Methods whose package is absent are skipped, so that several environments can write
to one file. Every cell runs in a process of its own, on one core, and is one line of JSON; a run continues where it
stopped.

The unit is one record, added or removed; δ = 1e-5 where a method has a δ. Settings of the peers were chosen as ours
were, on a held-out fifth of the training records (``search``): test records decide nothing. Bounds and categories come
from the public schema. ``retrain``, ``short-retrain``, ``exact-trees`` and ``leaf-ridge`` see everyone raw.
"""

import argparse
import importlib.util
import json
import os
import resource
import signal
import subprocess
import sys
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.synthesis_peers import peer_rows
from eupg import EUPG, ExactTrees, PrivateTrees, Seeded, sources
from eupg.data.attribute import Numeric
from eupg.learn.recipes import careful_recipe, paper_recipe
from eupg_reproduction.report.base_files import EPSILONS, LABELS, RAW, bases_table, read_bases, utilities
from eupg_reproduction.report.words import SETS as NAMES
from eupg_reproduction.report.words import markdown

SETS = tuple(NAMES)
DELTA = 1e-5
LIMIT_S = 1200
# Which package a method needs beyond those of the library.
PACKAGES = {"dp-ebm": "interpret", "logistic": "diffprivlib", "mst": "mbi", "aim": "mbi", "dp-sgd": "opacus"}
METHODS = tuple(LABELS)
SIZES = (300, 1000, 3000, 10000)
SIZE_METHODS = ("retrain", "short-retrain", "private-trees")
# How the lines of methods that are not private are drawn.
LINES = {"retrain": "-", "short-retrain": "--", "exact-trees": ":", "leaf-ridge": "-."}
# Chosen by ``search``: learning rate, rounds and bins of DP-EBM; inverse regularisation of logistic regression.
EBM = {"learning_rate": 0.1, "max_rounds": 1000, "max_bins": 64}
LOGISTIC_C = 0.1
# As in the record of DP-SGD's settings: chosen on held-out training records too.
DP_SGD_EPOCHS = 5


def ebm(data, epsilon: float, settings=EBM):
    """Fit DP-EBM; return a function from rows to probabilities."""
    from interpret.privacy import DPExplainableBoostingClassifier

    features = data.schema.features
    kinds = ["continuous" if isinstance(a, Numeric) else "nominal" for a in features]
    bounds = {i: (a.lower, a.upper) for i, a in enumerate(features) if isinstance(a, Numeric)}
    model = DPExplainableBoostingClassifier(
        feature_types=kinds,
        epsilon=epsilon,
        delta=DELTA,
        privacy_bounds=bounds,
        n_jobs=1,
        **settings,
    )
    columns = _columns(data.schema)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(columns(data.X), data.y)
    return lambda X: model.predict_proba(columns(X))


def _columns(schema):
    """Return a function from rows to a table in which categories are text, as DP-EBM reads them."""
    import pandas as pd

    def table(X):
        named = {}
        for i, a in enumerate(schema.features):
            named[a.name] = X[:, i] if isinstance(a, Numeric) else X[:, i].astype(int).astype(str)
        return pd.DataFrame(named)

    return table


def logistic(data, epsilon: float, C: float = LOGISTIC_C):
    """Fit diffprivlib's logistic regression on one-hot categories and numbers scaled to 0…1; pure ε."""
    from diffprivlib.models import LogisticRegression

    rows = _unit_rows(data.schema)
    # A number contributes at most 1 to the squared norm of a row, and so does a category.
    norm = float(np.sqrt(len(data.schema.features)))
    model = LogisticRegression(epsilon=epsilon, data_norm=norm, C=C, max_iter=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rows(data.X), data.y)
    return lambda X: model.predict_proba(rows(X))


def _unit_rows(schema):
    def rows(X):
        parts = []
        for i, a in enumerate(schema.features):
            if isinstance(a, Numeric):
                parts.append(np.nan_to_num((X[:, i : i + 1] - a.lower) / (a.upper - a.lower)))
            else:
                parts.append((X[:, i : i + 1] == np.arange(len(a.categories))).astype(float))
        return np.hstack(parts)

    return rows


def on_rows(X, y, schema, seed: int):
    """Fit the library's XGBoost recipe to synthetic rows."""
    from eupg.protect import Release
    from eupg.protect.mechanism import Unprotected

    claim = Unprotected().guarantee(schema)
    release = Release(schema, np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.int64), claim)
    recipe = careful_recipe("xgboost")
    return recipe.learner.fit(release, effort=recipe.pretrain, rng=np.random.default_rng(seed)).predict_proba


def fitted(method: str, data, epsilon: float, draw: int):
    """Train by a method; return a function from rows to probabilities."""
    recipe = careful_recipe("xgboost")
    if method == "retrain":
        return recipe.learner.fit(data, effort=recipe.pretrain, rng=np.random.default_rng(draw)).predict_proba
    if method == "short-retrain":
        return recipe.short.fit(data, effort=recipe.short_effort, rng=np.random.default_rng(draw)).predict_proba
    if method == "exact-trees":
        return ExactTrees().train(data, Seeded(draw)).model.predict_proba
    if method == "leaf-ridge":
        # As `eupg train --k 30 --subtract --pretrain 50` does.
        from eupg.learn import LeafRidge
        from eupg.protect import ProbabilisticKAnonymity

        trees = paper_recipe("xgboost").learner
        ours = EUPG(ProbabilisticKAnonymity(30), trees, 50, 1, finetuner=LeafRidge(trees))
        return ours.train(data, Seeded(draw)).model.predict_proba
    if method == "private-trees":
        from eupg.learn import LeafLearner

        ours = EUPG(PrivateTrees(epsilon, DELTA), LeafLearner(), pretrain=1, finetune=0, exposure=0)
        return ours.base(data, Seeded(draw)).model.predict_proba
    if method == "synthesis":
        from eupg.protect import DPSynthesis

        release = DPSynthesis(epsilon, DELTA).protect(data, Seeded(draw))
        rng = np.random.default_rng(draw)
        return recipe.learner.fit(release, effort=recipe.pretrain, rng=rng).predict_proba
    if method == "dp-sgd":
        from eupg.forget import DPSGDBase

        mlp = paper_recipe("mlp")
        ours = EUPG(DPSGDBase(epsilon, DELTA), mlp.learner, DP_SGD_EPOCHS, 0, exposure=0)
        return ours.base(data, Seeded(draw)).model.predict_proba
    if method in ("dp-ebm", "logistic"):
        return {"dp-ebm": ebm, "logistic": logistic}[method](data, epsilon)
    X, y, _ = peer_rows(data, "aim-short" if method == "aim" else method, epsilon, 32)
    return on_rows(X, y, data.schema, draw)


def cell(method: str, name: str, epsilon: float, draw: int, records: int) -> dict:
    """Train once on the training records, or so many of them; return utility on the test records and the cost."""
    source = getattr(sources, name)()
    train = source.train
    if records:
        train = train.select(np.random.default_rng([draw, records]).permutation(len(train)) < records)
    started, started_cpu = time.perf_counter(), time.process_time()
    predict = fitted(method, train, epsilon, draw)
    spent = {"seconds": time.perf_counter() - started, "cpu_s": time.process_time() - started_cpu}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {"utility": float(source.utility(predict(source.test.X), source.test.y)), "peak_mb": peak, **spent}


def search(path: Path) -> None:
    """Try settings of the peers on a held-out fifth of the training records, at ε = 1."""
    tries = []
    if importlib.util.find_spec("interpret"):
        rates, rounds, bins = (0.01, 0.03, 0.1, 0.3), (100, 300, 1000, 3000), (32, 64, 128, 256)
        tries += [
            ("dp-ebm", {"learning_rate": a, "max_rounds": b, "max_bins": c}) for a, b, c in product(rates, rounds, bins)
        ]
    if importlib.util.find_spec("diffprivlib"):
        tries += [("logistic", {"C": c}) for c in (0.001, 0.01, 0.1, 1.0, 10.0)]
    for name in SETS:
        source = getattr(sources, name)()
        seen = np.random.default_rng(0).random(len(source.train)) < 0.8
        data, held_out = source.train.select(seen), source.train.select(~seen)
        for method, settings in tries:
            predict = ebm(data, 1.0, settings) if method == "dp-ebm" else logistic(data, 1.0, **settings)
            utility = float(source.utility(predict(held_out.X), held_out.y))
            line = {"search": f"{name}/{method}", **settings, "utility": utility}
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(line, flush=True)


def run(path: Path, methods, sets, epsilons, draws, sizes) -> None:
    """Compute the cells that are not in the file yet, each in a process of its own."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    done = {json.loads(line).get("cell") for line in lines}
    for draw, epsilon, name, records, method in product(draws, epsilons, sets, sizes, methods):
        strength = 0.0 if method in RAW else epsilon
        key = f"{name}/{strength:g}/{method}/{draw}" + (f"/{records}" if records else "")
        needed = PACKAGES.get(method)
        if key in done or (needed and not importlib.util.find_spec(needed)):
            continue
        options = ["--method", method, "--set", name, "--epsilon", str(epsilon), "--draw", str(draw)]
        options += ["--records", str(records)]
        command = [sys.executable, "-m", "benchmarks.private_peers", "cell", str(path), *options]
        one_core = {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
        one_core["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
        ended = subprocess.run(command, capture_output=True, text=True, env=os.environ | one_core, check=False)
        errors = [line.strip() for line in ended.stderr.splitlines() if "Fail" in line or "Error" in line]
        if ended.returncode == -signal.SIGXCPU:
            errors = [f"cut off after {LIMIT_S} s of processor time"]
        result = json.loads(ended.stdout) if ended.returncode == 0 else {"failed": " ".join(errors[-1:])}
        done.add(key)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"cell": key, **result}) + "\n")
        print(key, result, flush=True)


def report(path: Path) -> None:
    """Print one Markdown row per method; then what failed."""
    runs = read_bases(path)
    print(markdown(bases_table(runs)))
    for run in runs:
        if run.failed:
            print(f"{run.table}, ε={run.epsilon:g}, {run.method}, run {run.run}: {run.failed}")


def sizes(path: Path) -> None:
    """Print one Markdown row per number of training records: private trees at ε = 1 and what is not private."""
    print("| training records | " + " | ".join(f"{s}: {LABELS[m]}" for s in SETS for m in SIZE_METHODS) + " |")
    print("| --- " * (1 + len(SETS) * len(SIZE_METHODS)) + "|")
    for records in (*SIZES, 0):
        means = utilities(read_bases(path), records)
        keys = [(m, name, 0.0 if m in RAW else 1.0) for name in SETS for m in SIZE_METHODS]
        texts = [f"{means[key].mean:.1f} ± {means[key].std:.1f}" if key in means else "" for key in keys]
        print(f"| {records or 'all'} | " + " | ".join(texts) + " |")


def figure(path: Path, picture: Path) -> None:
    """Draw utility against ε for every private base, with retraining and the short retrain as lines."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    means = utilities(read_bases(path))
    fig, panels = plt.subplots(1, len(SETS), figsize=(12, 4.6), layout="constrained")
    for panel, name in zip(panels, SETS, strict=True):
        for method, style in LINES.items():
            if (method, name, 0.0) in means:
                panel.axhline(means[method, name, 0.0].mean, color="0.4", linestyle=style, label=LABELS[method])
        for colour, method in enumerate(m for m in METHODS if m not in RAW):
            points = [(e, s.mean, s.std) for e in EPSILONS if (s := means.get((method, name, e)))]
            if points:
                x, y, error = zip(*points, strict=True)
                width = 2.4 if method == "private-trees" else 1.2
                panel.errorbar(x, y, error, marker="o", capsize=2, color=f"C{colour}", lw=width, label=LABELS[method])
        # Logistic regression falls so low that the others could not be told apart.
        shown = [s for (method, table, _), s in means.items() if table == name and method != "logistic"]
        panel.set_ylim(bottom=min(s.mean - s.std for s in shown) - 0.5)
        panel.set_xscale("log", base=2)
        panel.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
        panel.set_xlabel("ε (δ = 1e-5)")
        panel.set_title(NAMES[name])
        panel.set_ylabel("AUC, %" if name == "credit" else "accuracy, %")
    handles, labels = panels[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    fig.savefig(picture, metadata={"Date": None} if picture.suffix == ".svg" else None)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "report", "sizes", "figure", "search", "cell"))
    parser.add_argument("file", type=Path)
    parser.add_argument("picture", type=Path, nargs="?", default=Path("private_peers.svg"))
    for name, default in (
        ("method", METHODS),
        ("set", SETS),
        ("epsilon", EPSILONS),
        ("draw", range(5)),
        ("records", (0,)),
    ):
        parser.add_argument(f"--{name}", nargs="+", type=type(default[0]), default=default)
    options = parser.parse_args()
    if options.command == "run":
        run(options.file, options.method, options.set, options.epsilon, options.draw, options.records)
    elif options.command == "report":
        report(options.file)
    elif options.command == "sizes":
        sizes(options.file)
    elif options.command == "figure":
        figure(options.file, options.picture)
    elif options.command == "search":
        search(options.file)
    else:
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S + 60))
        chosen = (options.method[0], options.set[0], options.epsilon[0], options.draw[0], options.records[0])
        print(json.dumps(cell(*chosen)))


if __name__ == "__main__":
    main()
