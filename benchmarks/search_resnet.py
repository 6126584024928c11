"""Find how to fine-tune a ResNet-18 in five epochs, on held-out training pictures, for EUPG and from scratch alike.

    python -m benchmarks.search_resnet [--results FILE] [--minutes 4] [--base-epochs 30]

Of the 50,000 training pictures of CIFAR-10, 5,000 are held out; test pictures are never looked at. Bases are trained on
releases of the others; then every recipe fine-tunes each of them, and a fresh network, for five epochs. One line of
JSON a run, appended, so that a run that was cut goes on where it stopped. A GPU is needed in practice.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from eupg.bench.picture_methods import device, mechanism
from eupg.data import sources
from eupg.data.score import accuracy
from eupg.forget.certified_sp import CertifiedSP
from eupg.forget.retrain import Retrain
from eupg.learn.learner import Model
from eupg.learn.noisy import GradientClipping
from eupg.learn.resnet_recipes import resnet18_finetuner, resnet18_learner
from eupg.rng import Seeded

HELD_OUT, EPOCHS = 5_000, 5
BASES = ("k=30, blocks 8×8", "k=30", "ε=1", "k=30, blocks 8×8, within classes", "k=30, blocks 4×4")
RECIPES: tuple[dict[str, Any], ...] = (
    {},
    {"learning_rate": 0.1},
    {"learning_rate": 0.2},
    {"learning_rate": 0.4},
    {"learning_rate": 0.1, "nesterov": True, "label_smoothing": 0.1},
    {"learning_rate": 0.2, "nesterov": True, "label_smoothing": 0.1},
    {"learning_rate": 0.4, "nesterov": True, "label_smoothing": 0.1},
    {"learning_rate": 0.2, "nesterov": True, "label_smoothing": 0.1, "warm_up": 0.15},
    {"learning_rate": 0.1, "nesterov": True, "label_smoothing": 0.1, "warm_up": 0.15},
    {"learning_rate": 0.2, "nesterov": True, "label_smoothing": 0.1, "weight_decay": 1e-3},
    {"learning_rate": 0.4, "nesterov": True, "label_smoothing": 0.1, "weight_decay": 1e-3},
    {"learning_rate": 0.4, "nesterov": True, "label_smoothing": 0.1, "weight_decay": 2e-3},
    {"learning_rate": 0.2, "nesterov": True, "label_smoothing": 0.1, "weight_decay": 2e-3},
    {"learning_rate": 0.2, "nesterov": True, "label_smoothing": 0.1, "weight_decay": 1e-3, "batch_size": 128},
)
NOISES = (
    GradientClipping(start=0.1, gradient=0.01, decay=2.0, step_size=0.1, steps=20),
    GradientClipping(start=1.0, gradient=0.1, decay=2.0, step_size=0.1, steps=20),
    GradientClipping(start=0.1, gradient=0.01, decay=0.5, step_size=0.1, steps=100),
)


class Search:
    """The pictures, and the file of what was found."""

    def __init__(self, path: Path, *, seconds: float, compiled: bool) -> None:
        self.path, self.until, self.compiled = path, time.monotonic() + seconds, compiled
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.done = {json.dumps(json.loads(line)["what"], sort_keys=True) for line in lines}
        train = sources.cifar10().train
        held = np.random.default_rng(0).permutation(len(train)) < HELD_OUT
        self.seen, self.held = train.select(~held), train.select(held)

    def finetune(self, start: str, base: Model | None, change: dict[str, Any]) -> None:
        """Run one recipe from one start."""
        what = {"start": start, **change}
        if self._skips(what):
            return
        learner = replace(resnet18_finetuner(device=device()), compile=self.compiled, **change)
        begun = time.perf_counter()
        model = learner.fit(self.seen, effort=EPOCHS, rng=Seeded(1).generator(), start=base)
        self._keep(what, model, begun)

    def base(self, words: str, epochs: int) -> Model:
        """Train a base on a release."""
        begun = time.perf_counter()
        release = mechanism(words).protect(self.seen, Seeded(2).stage("protect"))
        protect = time.perf_counter() - begun
        model = self._full.fit(release, effort=epochs, rng=Seeded(2).generator())
        self._keep({"base": words, "epochs": epochs}, model, begun, protect=protect)
        return model

    def noisy(self) -> None:
        """Compare noises of Certified-SP."""
        whats = [{"noise": repr(noise)} for noise in NOISES]
        if all(self._skips(what) for what in whats):
            return
        plain = Retrain(self._full, 30).train(self.seen, Seeded(3))
        for noise, what in zip(NOISES, whats, strict=True):
            if not self._skips(what):
                method, begun = CertifiedSP(self._full, 30, EPOCHS, noise=noise), time.perf_counter()
                model = self._full.fit_noisy(
                    self.seen, effort=EPOCHS, noise=noise, sigma=method.sigma, rng=Seeded(3).generator(),
                    start=plain.model,
                )  # fmt: skip
                self._keep(what, model, begun)

    @property
    def _full(self) -> Any:
        return replace(resnet18_learner(device=device()), compile=self.compiled)

    def _skips(self, what: dict[str, Any]) -> bool:
        return json.dumps(what, sort_keys=True) in self.done or time.monotonic() > self.until

    def _keep(self, what: dict[str, Any], model: Model, begun: float, **more: float) -> None:
        spent = time.perf_counter() - begun
        found = accuracy(model.predict_proba(self.held.X), self.held.y)
        line = {"what": what, "held_out": round(found, 2), "seconds": round(spent, 2), **more}
        print(json.dumps(line, ensure_ascii=False), flush=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self.done.add(json.dumps(what, sort_keys=True))


def main() -> None:
    """Search."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/search_resnet.jsonl"))
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--base-epochs", type=int, default=30)
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    search = Search(options.results, seconds=60 * options.minutes, compiled=options.compile)
    for number, words in enumerate(BASES):
        base = search.base(words, options.base_epochs)
        # The first base and a fresh network get every recipe, the other bases the first few alone.
        for change in RECIPES if number == 0 else RECIPES[:1] + RECIPES[5:6]:
            search.finetune(words, base, change)
            if number == 0:
                search.finetune("from scratch", None, change)
        if time.monotonic() > search.until:
            return
    search.noisy()


if __name__ == "__main__":
    main()
