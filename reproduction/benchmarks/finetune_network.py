"""Fine-tuning a public network beyond a private head, on some people's pictures, beside its control and the head alone.

    python -m benchmarks.finetune_network                                       # CIFAR-10, needs a GPU
    python -m benchmarks.finetune_network --device cpu --rows 300 --size 32     # tries it anywhere

For each share of people who may be seen raw: the private head at ε = 1, the network fine-tuned from it on these people,
and the control, the network fine-tuned from the public weights on as many people. Results are lines of JSON in
``results/finetune_network.jsonl``; a run that was stopped continues with what is missing.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eupg import EUPG, Retrain, Seeded
from eupg.data.score import accuracy
from eupg.data.sources import cifar10
from eupg.forget import PrivateNetwork, PublicNetwork
from eupg.learn import Augment, TorchLearner
from eupg.protect import EfficientNetLite0

RESULTS = Path(__file__).parents[1] / "results" / "finetune_network.jsonl"
SHARES, EPOCHS, REPETITIONS = (0.05, 0.2, 1.0), 2, 3


def main() -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, help="use only so many pictures of each part")
    parser.add_argument("--size", type=int, default=128, help="height and width at which the network looks")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no GPU here: pass --device cpu --rows 300 --size 32 to try the benchmark")
    source = cifar10()
    train, test = source.train, source.test
    if options.rows:
        train, test = (part.select(np.arange(len(part)) < options.rows) for part in (train, test))
    encoder = EfficientNetLite0(size=options.size)
    learner = TorchLearner(
        PublicNetwork(encoder),
        learning_rate=1e-3,
        batch_size=128,
        device=options.device,
        augment=Augment(padding=2, border="reflect"),
        precision="float32" if options.device == "cpu" else "bfloat16",
    )
    head = PrivateNetwork(epsilon=1.0, encoder=encoder)
    methods: dict[str, Any] = {"private head": EUPG(head, learner, pretrain=1, finetune=0, exposure=0)}
    for share in SHARES:
        methods[f"from the private head, share {share:g}"] = EUPG(head, learner, 1, EPOCHS, exposure=share)
        methods[f"from the public weights, share {share:g}"] = Retrain(learner, EPOCHS, exposure=share)
    lines = options.out.read_text(encoding="utf-8").splitlines() if options.out.is_file() else []
    known = {(d["method"], d["seed"], d["train"], d["size"]) for d in map(json.loads, lines)}
    for name, method in methods.items():
        for seed in range(REPETITIONS):
            if (name, seed, len(train), options.size) in known:
                continue
            started = time.perf_counter()
            trained = method.train(train, Seeded(100 + seed))
            # Predictions wait for the device.
            value = accuracy(trained.model.predict_proba(test.X), test.y)
            line = {
                "method": name, "seed": seed, "train": len(train), "size": options.size, "device": options.device,
                "seen_raw": len(trained.ids), "value": value, "seconds": time.perf_counter() - started,
            }  # fmt: skip
            print(line, flush=True)
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
