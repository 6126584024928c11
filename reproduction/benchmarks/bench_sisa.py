"""SISA's shards side by side against one after another."""

from benchmarks.bench_mlp import table
from benchmarks.timing import Result, median_s
from eupg.forget.sisa.method import SISA
from eupg.learn.torch.learner import TorchLearner
from eupg.learn.xgboost import XGBoostLearner
from eupg.rng import Seeded


def run() -> list[Result]:
    data = table()
    results = []
    for name, learner, effort in (
        ("MLP, 50 epochs", TorchLearner(), 50),
        ("XGBoost, 100 trees", XGBoostLearner(threads=1), 100),
    ):
        seconds = {}
        for jobs in (2, 1):
            method = SISA(learner, effort, jobs=jobs)
            seconds[jobs] = median_s(lambda method=method: method.train(data, Seeded(0)), repeats=1)
        ratio = seconds[1] / seconds[2]
        detail = f"{seconds[1]:.1f} s against {seconds[2]:.1f} s for 5 shards × 10 slices of 32,561×90, {name}"
        goal = "> 1 (5 shards on 2 cores: at most 5/3)"
        results.append(Result(f"SISA training, one process over two, {name}", ratio, goal, ratio > 1, detail))
    return results


if __name__ == "__main__":
    for result in run():
        print(f"{result.name}: {result.ratio:.2f}\n     {result.detail}")
