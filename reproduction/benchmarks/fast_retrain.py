"""The fast exact retrain for pictures beside EUPG, SISA and the short retrain: accuracy and seconds on one GPU.

    python -m benchmarks.fast_retrain                                 # CIFAR-10, needs a GPU
    python -m benchmarks.fast_retrain --device cpu --rows 200 --small # tries it anywhere

Every method is trained once, then forgets 1 % of the pictures, three times with different draws. Results are lines of
JSON in ``results/fast_retrain.jsonl``; a run that was stopped continues with what is missing. Seconds are wall time of
``forget``, after a first call that compiles and captures; test pictures are used once, for the figures.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eupg import EUPG, SISA, Dataset, Retrain, Seeded
from eupg.data.score import accuracy
from eupg.data.sources import cifar10
from eupg.learn import fast_picture_learner
from eupg.protect import EfficientNetLite0, PixelFeatures, PixelPermutation
from eupg_reproduction.picture_methods import changed, resnet18_finetuner, resnet18_learner
from eupg_reproduction.picture_recipes import BASE, BASE_EPOCHS, BETTER, FEATURES

RESULTS = Path(__file__).parents[1] / "results" / "fast_retrain.jsonl"
REPETITIONS, SHARE = 3, 0.01


def methods(device: str, *, small: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Return the methods by name, each with a function that makes it."""
    width, compile_ = (4, False) if small else (64, device == "cuda")
    fast = replace(fast_picture_learner(device=device, width=width), compile=compile_)
    full = replace(resnet18_learner(device=device, width=width), compile=compile_)
    brief = changed(replace(resnet18_finetuner(device=device, width=width), compile=compile_), **BETTER)
    long, few = (1, 1) if small else (100, 5)
    for count in (1, 2) if small else (10, 16, 24):
        yield f"fast retrain, epochs: {count}", lambda count=count: Retrain(fast, effort=count)  # type: ignore[misc]
    yield f"short retrain, epochs: {few}", lambda: Retrain(brief, effort=few)
    yield f"retrain, epochs: {long}", lambda: Retrain(full, effort=long)
    yield f"SISA, epochs: {long}", lambda: SISA(full, long, jobs=1)
    k, base = (3, 1) if small else (30, BASE_EPOCHS)
    look = PixelFeatures() if small else EfficientNetLite0(**FEATURES)
    protection = PixelPermutation(k, block=8, features=look, device=device)
    tuned = changed(full, **BASE)
    yield f"EUPG, k={k}, blocks 8×8, epochs: {few}", lambda: EUPG(protection, tuned, base, few, finetuner=brief)


def synchronised(device: str) -> float:
    """Return the time once the device has done all it was asked."""
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def measure(make: Callable[[], Any], train: Dataset, test: Dataset, device: str, seed: int) -> dict[str, float]:
    """Train, forget a draw of the pictures, and return seconds and accuracies."""
    method = make()
    gone = np.random.default_rng(seed).permutation(train.ids)[: max(1, int(SHARE * len(train)))]
    rest = train.without(gone.tolist())
    started = synchronised(device)
    trained = method.train(train, Seeded(100 + seed))
    train_s = synchronised(device) - started
    started = synchronised(device)
    forgotten = method.forget(trained, rest, Seeded(200 + seed))
    forget_s = synchronised(device) - started
    before, after = (accuracy(t.model.predict_proba(test.X), test.y) for t in (trained, forgotten))
    return {"train_s": train_s, "forget_s": forget_s, "before": before, "after": after}


def done(path: Path) -> set[tuple[str, int, int, str]]:
    """Return what was measured before."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return {(d["method"], d["seed"], d["train"], d["device"]) for d in map(json.loads, lines)}


def main() -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, help="use only so many pictures of each part")
    parser.add_argument("--small", action="store_true", help="small networks and few epochs")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no GPU here: pass --device cpu --rows 200 --small to try the benchmark")
    source = cifar10()
    train, test = source.train, source.test
    if options.rows:
        train, test = (part.select(np.arange(len(part)) < options.rows) for part in (train, test))
    machine = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
    known = done(options.out)
    for name, make in methods(options.device, small=options.small):
        for seed in range(REPETITIONS):
            if (name, seed, len(train), machine) in known:
                continue
            figures = measure(make, train, test, options.device, seed)
            line = {"method": name, "seed": seed, "train": len(train), "device": machine, **figures}
            print(line, flush=True)
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
