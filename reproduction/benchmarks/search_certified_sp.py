"""Search Certified-SP's settings for the paper's MLPs, on held-out training records.

Run with ``python -m benchmarks.search_certified_sp [seeds]``; needs the data sets (EUPG_DATA). A fifth of the training
records is held out; the others train the model, a twentieth of them is forgotten, and the utility on the held-out fifth
decides. Test records are never touched. Prints the best settings of each table, the best over all of them (the
library's default), and the short retrain beside it.
"""

import itertools
import sys

import numpy as np

from eupg import Retrain, Seeded, sources
from eupg.forget import CertifiedSP
from eupg.learn import GradientClipping, ModelClipping
from eupg.learn.recipes import EFFORTS, paper_learner

DECAYED = (0.01, 0.05, 0.2)  # γλ: the share of the weights that one step gives up
GRID = [
    GradientClipping(start=c0, gradient=c1, decay=share / 0.1, step_size=0.1, steps=steps)
    for share, c0, c1, steps in itertools.product(DECAYED, (0.1, 1.0, 10.0), (0.01, 0.1, 1.0), (20, 50, 100))
]
GRID += [
    ModelClipping(radius=radius, step_size=0.1, steps=steps)
    for radius, steps in itertools.product((0.01, 0.03, 0.1, 0.3), (20, 50, 100))
]


def scores(dataset: str, seed: int) -> tuple[np.ndarray, float]:
    """Return the held-out utility of every setting, and that of the short retrain."""
    source, rng = getattr(sources, dataset)(), Seeded(seed)
    held = rng.stage("validation").generator().random(len(source.train)) < 0.2
    data, validation = source.train.select(~held), source.train.select(held)
    retained = data.select(rng.stage("requests").generator().random(len(data)) >= 0.05)
    learner, (_, brief) = paper_learner("mlp", dataset), EFFORTS["mlp"]
    trained = CertifiedSP(learner).train(data, rng)

    def utility(model) -> float:
        return source.utility(model.predict_proba(validation.X), validation.y)

    found = [utility(CertifiedSP(learner, noise=n).forget(trained, retained, rng).model) for n in GRID]
    return np.array(found), utility(Retrain(learner, brief).train(retained, rng).model)


def main(seeds: int) -> None:
    """Print the best settings."""
    total = np.zeros(len(GRID))
    for dataset in ("adult", "heart", "credit"):
        runs = [scores(dataset, seed) for seed in range(seeds)]
        mean, short = np.mean([r[0] for r in runs], axis=0), np.mean([r[1] for r in runs])
        total += mean
        print(f"{dataset}: short retrain {short:.2f}; worst setting {mean.min():.2f}", flush=True)
        for kind in (GradientClipping, ModelClipping):
            mine = [i for i, noise in enumerate(GRID) if isinstance(noise, kind)]
            for i in sorted(mine, key=lambda i: -mean[i])[:3]:
                print(f"   {mean[i]:.2f} ± {np.std([r[0][i] for r in runs]):.2f}  {GRID[i]}", flush=True)
    for kind in (GradientClipping, ModelClipping):
        best = max((i for i, n in enumerate(GRID) if isinstance(n, kind)), key=lambda i: total[i])
        print(f"best over all: {GRID[best]} (mean {total[best] / 3:.2f})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
