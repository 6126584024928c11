"""Certified-SP's noisy steps against plain fine-tuning for as many steps."""

import numpy as np

from benchmarks.bench_mlp import table
from benchmarks.timing import Result, median_s
from eupg.learn.noisy_finetuning import GradientClipping, ModelClipping
from eupg.learn.torch.learner import TorchLearner

EPOCHS = 5


def run() -> list[Result]:
    data, learner = table(), TorchLearner()
    start = learner.fit(data, effort=1, rng=np.random.default_rng(0))
    steps = EPOCHS * -(-len(data) // learner.batch_size)
    plain = median_s(lambda: learner.fit(data, effort=EPOCHS, rng=np.random.default_rng(0), start=start), repeats=5)
    results = []
    for name, noise in (
        ("gradient clipping", GradientClipping(start=1.0, gradient=0.01, decay=2.0, step_size=0.1, steps=steps)),
        ("model clipping", ModelClipping(radius=0.1, step_size=0.1, steps=steps)),
    ):
        noisy = median_s(
            lambda noise=noise: learner.fit_noisy(
                data, effort=EPOCHS, noise=noise, sigma=0.01, rng=np.random.default_rng(0), start=start
            ),
            repeats=5,
        )
        ratio = noisy / plain
        detail = f"{noisy:.2f} s against {plain:.2f} s for {steps} steps of the MLP, all of them noisy"
        results.append(Result(f"noisy over plain steps, {name}", ratio, "≤ 1.5", ratio <= 1.5, detail))
    return results


if __name__ == "__main__":
    for result in run():
        print(f"{result.name}: {result.ratio:.2f}\n     {result.detail}")
