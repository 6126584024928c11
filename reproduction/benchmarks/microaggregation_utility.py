"""Measure whether tighter groups give better base models: ``python -m benchmarks.microaggregation_utility``.

Needs Adult, Heart and Credit (EUPG_DATA). The training records are split at random: four fifths are grouped by exact
MDAV and by refined groups, and protected with the same randomness; the base model that each release gives is scored on
the other fifth. The test records take no part, so the outcome may decide a default. Every split is seeded and is one
line of the results file; a run computes what is missing.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from eupg.learn.recipes import paper_recipe
from eupg.protect import MDAV, ProbabilisticKAnonymity, RefinedMDAV
from eupg.rng import Seeded
from eupg_reproduction.methods import SETS, source

FILE = Path(__file__).resolve().parents[1] / "results" / "microaggregation_utility.jsonl"
SIZES, SPLITS, HELD_OUT = (10, 30, 100), 6, 0.2
WAYS = {"exact": MDAV(), "refined": RefinedMDAV()}


def measured(name: str, model: str, k: int, split: int) -> dict[str, float]:
    """Return the utility of the base model on held-out training records, for each way to form groups."""
    data, rng, recipe = source(name), Seeded(split), paper_recipe(model, name, threads=1)
    held = rng.stage("held out").permutation(len(data.train)) < HELD_OUT * len(data.train)
    fitted, scored = data.train.select(~held), data.train.select(held)
    utility = {}
    for way, microaggregation in WAYS.items():
        release = ProbabilisticKAnonymity(k, microaggregation).protect(fitted, rng.stage("protect"))
        base = recipe.learner.fit(release, effort=recipe.pretrain, rng=rng.stage("pretrain").generator())
        utility[way] = data.utility(np.asarray(base.predict_proba(scored.X)), scored.y)
    return utility


def show(lines: list[dict[str, object]]) -> None:
    """Print the mean gain of refined groups and its standard error, per set, model and k."""
    for name, model, k in sorted({(str(x["set"]), str(x["model"]), int(str(x["k"]))) for x in lines}):
        chosen = [x for x in lines if (x["set"], x["model"], x["k"]) == (name, model, k)]
        exact, refined = (np.array([x[way] for x in chosen], float) for way in WAYS)
        error = (refined - exact).std(ddof=1) / np.sqrt(len(chosen)) if len(chosen) > 1 else float("nan")
        gain = f"{(refined - exact).mean():+.2f} ± {error:.2f}"
        print(f"{name:7} {model:9} k={k:<4} exact {exact.mean():.2f}, refined {gain}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=["xgboost"])
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--results", type=Path, default=FILE)
    options = parser.parse_args()
    lines = [json.loads(x) for x in options.results.read_text().splitlines()] if options.results.exists() else []
    done = {(x["set"], x["model"], x["k"], x["split"]) for x in lines}
    for name in SETS:
        for model in options.models:
            for k in SIZES:
                for split in range(options.splits):
                    if (name, model, k, split) in done:
                        continue
                    line = {"set": name, "model": model, "k": k, "split": split} | measured(name, model, k, split)
                    lines.append(line)
                    with options.results.open("a") as file:
                        file.write(json.dumps(line) + "\n")
    show(lines)


if __name__ == "__main__":
    main()
