"""Utility of every method on the paper's tables, before and after forgetting 5 %.

Run with ``python -m benchmarks.utility [repetitions [method…]]``; needs the data sets (EUPG_DATA). A repetition draws a
fresh initialisation, mechanism randomness and forget set; the split stays fixed. Prints Markdown, with the paper's
values (its tables of unlearning quality for MLP and XGBoost) in brackets; the paper has no short retrain.
"""

import sys

import numpy as np

from eupg import (
    EUPG,
    MLP,
    SISA,
    CertifiedSP,
    LocalDP,
    ProbabilisticKAnonymity,
    Retrain,
    Seeded,
    TorchLearner,
    XGBoostLearner,
    sources,
)
from eupg.data.sources import Source
from eupg.forget.unlearner import Unlearner

PAPER = {
    ("adult", "mlp"): {
        "Retrain": (85.35, 85.21),
        "SISA": (85.16, 85.29),
        "Certified-SP": (85.35, 85.63),
        "EUPG k=30": (85.64, 85.58),
        "EUPG ε=1": (85.64, 85.60),
    },
    ("heart", "mlp"): {
        "Retrain": (73.38, 73.29),
        "SISA": (72.98, 72.99),
        "Certified-SP": (73.38, 73.33),
        "EUPG k=30": (73.25, 73.29),
        "EUPG ε=1": (73.35, 73.37),
    },
    ("credit", "mlp"): {
        "Retrain": (81.46, 81.44),
        "SISA": (80.92, 81.19),
        "Certified-SP": (81.46, 81.34),
        "EUPG k=30": (81.26, 81.26),
        "EUPG ε=1": (81.37, 81.31),
    },
    ("adult", "xgboost"): {
        "Retrain": (86.88, 87.00),
        "SISA": (87.01, 87.03),
        "EUPG k=30": (86.44, 86.45),
        "EUPG ε=1": (85.37, 85.39),
    },
    ("heart", "xgboost"): {
        "Retrain": (72.43, 72.45),
        "SISA": (73.06, 73.09),
        "EUPG k=30": (72.30, 72.21),
        "EUPG ε=1": (70.72, 70.74),
    },
    ("credit", "xgboost"): {
        "Retrain": (82.90, 82.65),
        "SISA": (83.12, 83.03),
        "EUPG k=30": (82.16, 82.18),
        "EUPG ε=1": (80.93, 81.14),
    },
}


def methods(dataset: str, model: str) -> dict[str, Unlearner]:
    """Return the paper's recipe for a table and model, under every method."""
    if model == "xgboost":
        learner, full = XGBoostLearner(), 100
        refresh = XGBoostLearner(refresh_leaves=True)
        extra = {"EUPG k=30, leaves refreshed": EUPG(ProbabilisticKAnonymity(30), refresh, full, 5)}
    else:
        width = 256 if dataset == "credit" else 128
        decay = 1e-4 if dataset == "adult" else 1e-5
        learner, full = TorchLearner(MLP((width, width)), weight_decay=decay), 50
        extra = {
            "Certified-SP": CertifiedSP(learner, full, 5),
            "Certified-SP, published calibration": CertifiedSP(learner, full, 5, published_calibration=True),
        }
    return {
        "Retrain": Retrain(learner, full),
        "Short retrain": Retrain(learner, 5),
        "SISA": SISA(learner, full),
        "EUPG k=30": EUPG(ProbabilisticKAnonymity(30), learner, full, 5),
        "EUPG ε=1": EUPG(LocalDP(1.0), learner, full, 5),
        **extra,
    }


def measure(source: Source, method: Unlearner, seed: int) -> tuple[float, float]:
    """Return utility before and after forgetting a random twentieth of the records."""
    rng = Seeded(seed)
    gone = rng.stage("requests").generator().random(len(source.train)) < 0.05
    trained = method.train(source.train, rng)
    after = method.forget(trained, source.train.select(~gone), rng)
    before, later = (source.utility(t.model.predict_proba(source.test.X), source.test.y) for t in (trained, after))
    return before, later


def main(repetitions: int, only: list[str]) -> None:
    """Print one table, of all methods or of those named."""
    print("| set | model | method | before | after |\n| --- | --- | --- | --- | --- |")
    for dataset, model in PAPER:
        source = getattr(sources, dataset)()
        for name, method in methods(dataset, model).items():
            if only and name not in only:
                continue
            runs = np.array([measure(source, method, seed) for seed in range(repetitions)])
            cells = [f"{m:.2f} ± {s:.2f}" for m, s in zip(runs.mean(axis=0), runs.std(axis=0), strict=True)]
            paper = PAPER[dataset, model].get(name)
            if paper:
                cells = [f"{cell} ({value:.2f})" for cell, value in zip(cells, paper, strict=True)]
            print(f"| {dataset} | {model} | {name} | {cells[0]} | {cells[1]} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3, sys.argv[2:])
