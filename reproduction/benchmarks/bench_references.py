"""Eight reference models side by side against one after another: processes on a CPU, stacked weights on a GPU."""

import numpy as np
import torch

from benchmarks.bench_mlp import table
from benchmarks.timing import Result, median_s
from eupg.audit.membership.references import complementary_halves, train_references
from eupg.forget.retrain import Retrain
from eupg.learn.torch.learner import TorchLearner

MODELS, EPOCHS = 8, 50


def run() -> list[Result]:
    pool = table()
    inside = complementary_halves(np.zeros(len(pool), dtype=np.int64), MODELS, np.random.default_rng(0))
    recipe = Retrain(TorchLearner(), EPOCHS)

    def seconds(jobs: int) -> float:
        return median_s(lambda: train_references(recipe, pool, inside, seed=0, jobs=jobs), repeats=1, warm_up=False)

    first, again, alone = seconds(2), seconds(2), seconds(1)
    ratio = alone / again
    detail = (
        f"{alone:.1f} s against {again:.1f} s for {MODELS} MLPs, {EPOCHS} epochs on halves of 32,561×90; the first "
        f"time in a process, with PyTorch loaded into the workers, {first:.1f} s"
    )
    results = [Result("reference models, one process over two", ratio, "≥ 1.7 on 2 cores", ratio >= 1.7, detail)]
    return results + (_gpu(pool, inside) if torch.cuda.is_available() else [])


def _gpu(pool, inside) -> list[Result]:
    learner = TorchLearner(device="cuda")
    tables = [pool.select(row) for row in inside]

    def rngs() -> list[np.random.Generator]:
        return [np.random.default_rng(i) for i in range(len(tables))]

    together = median_s(lambda: learner.fit_many(tables, effort=EPOCHS, rngs=rngs()))
    apart = median_s(lambda: [learner.fit(t, effort=EPOCHS, rng=r) for t, r in zip(tables, rngs(), strict=True)])
    detail = f"{apart:.1f} s against {together:.1f} s on {torch.cuda.get_device_name()}"
    return [
        Result("reference models on a GPU, one by one over together", apart / together, "> 1", apart > together, detail)
    ]


if __name__ == "__main__":
    for result in run():
        print(f"{result.name}: {result.ratio:.2f}\n     {result.detail}")
