"""Find how to fine-tune a ResNet-18 in five epochs, on held-out training pictures, for EUPG and from scratch alike.

    python -m benchmarks.search_resnet [--results FILE] [--minutes 4] [--compile]

Of the 50,000 training pictures of CIFAR-10, 5,000 are held out; test pictures are never looked at. Bases are trained on
releases of the others; then every recipe fine-tunes each of them, and a fresh network, for five epochs. One line of
JSON a run, appended, so that a run that was cut goes on where it stopped. A GPU is needed in practice.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from eupg.bench.picture_methods import device, mechanism
from eupg.data import sources
from eupg.data.score import accuracy
from eupg.forget.certified_sp import CertifiedSP
from eupg.forget.retrain import Retrain
from eupg.learn.augment import Augment
from eupg.learn.learner import Model
from eupg.learn.noisy import GradientClipping
from eupg.learn.resnet_recipes import resnet18_finetuner, resnet18_learner
from eupg.learn.torch_learner import TorchLearner
from eupg.rng import Seeded

HELD_OUT, EPOCHS = 5_000, 5
FIRST = "k=30, blocks 8×8"
_CYCLE = {"schedule": "one-cycle", "learning_rate": 0.2, "nesterov": True, "label_smoothing": 0.1}
# Bases by name: what protects, for how many epochs, and what is changed of the paper's way to train from scratch.
BASES: dict[str, tuple[str, int, dict[str, Any]]] = {
    FIRST: (FIRST, 30, {}),
    "k=30, blocks 8×8, one cycle": (FIRST, 30, _CYCLE),
    "k=30, blocks 8×8, one cycle, 60 epochs": (FIRST, 60, _CYCLE),
    "k=30, blocks 8×8, within classes, one cycle": (f"{FIRST}, within classes", 30, _CYCLE),
    "k=30, one cycle": ("k=30", 30, _CYCLE),
    "ε=1, one cycle": ("ε=1", 30, _CYCLE),
    "ε=1, whole picture, one cycle": ("ε=1, whole picture", 30, _CYCLE),
}
_BETTER: dict[str, Any] = {"nesterov": True, "label_smoothing": 0.1}
RECIPES: tuple[dict[str, Any], ...] = (
    {},
    {"learning_rate": 0.1},
    {"learning_rate": 0.2},
    {"learning_rate": 0.4},
    {"learning_rate": 0.1, **_BETTER},
    {"learning_rate": 0.2, **_BETTER},
    {"learning_rate": 0.4, **_BETTER},
    {"learning_rate": 0.2, **_BETTER, "warm_up": 0.15},
    {"learning_rate": 0.1, **_BETTER, "warm_up": 0.15},
    {"learning_rate": 0.2, **_BETTER, "weight_decay": 1e-3},
    {"learning_rate": 0.4, **_BETTER, "weight_decay": 1e-3},
    {"learning_rate": 0.4, **_BETTER, "weight_decay": 2e-3},
    {"learning_rate": 0.2, **_BETTER, "weight_decay": 2e-3},
    {"learning_rate": 0.2, **_BETTER, "weight_decay": 1e-3, "batch_size": 128},
    {"learning_rate": 0.2, **_BETTER, "weight_decay": 2e-3, "padding": 2},
    {"learning_rate": 0.2, **_BETTER, "weight_decay": 2e-3, "padding": 1},
    {"learning_rate": 0.1, **_BETTER, "weight_decay": 2e-3, "padding": 2, "batch_size": 128},
)
# What the other bases are fine-tuned with: the paper's recipe, and the best so far.
FEW = (RECIPES[0], RECIPES[12], RECIPES[14])
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
        learner = changed(resnet18_finetuner(device=device()), compile=self.compiled, **change)
        begun = time.perf_counter()
        model = learner.fit(self.seen, effort=EPOCHS, rng=Seeded(1).generator(), start=base)
        self._keep(what, model, begun)

    def from_base(self, name: str, recipes: Sequence[dict[str, Any]]) -> None:
        """Train a base on a release, and fine-tune it by each recipe; nothing where all was done before."""
        if all(self._skips({"start": name, **change}) for change in recipes):
            return
        words, epochs, change = BASES[name]
        begun = time.perf_counter()
        release = mechanism(words).protect(self.seen, Seeded(2).stage("protect"))
        protect = time.perf_counter() - begun
        learner = changed(resnet18_learner(device=device()), compile=self.compiled, **change)
        base = learner.fit(release, effort=epochs, rng=Seeded(2).generator())
        self._keep({"base": name, "epochs": epochs}, base, begun, protect=round(protect, 2))
        for recipe in recipes:
            self.finetune(name, base, recipe)

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


def changed(learner: TorchLearner, *, padding: int = 4, **change: Any) -> TorchLearner:
    """Return a learner with other settings."""
    return replace(learner, augment=Augment(padding), **change)


def main() -> None:
    """Search."""
    parser = argparse.ArgumentParser(description="How to fine-tune a ResNet-18 in five epochs.")
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/search_resnet.jsonl"))
    parser.add_argument("--minutes", type=float, default=4.0, help="after which no run is begun")
    parser.add_argument("--compile", action="store_true", help="fuse kernels, which pays in long searches")
    options = parser.parse_args()
    search = Search(options.results, seconds=60 * options.minutes, compiled=options.compile)
    for change in RECIPES:
        search.finetune("from scratch", None, change)
    search.from_base(FIRST, RECIPES)
    for name in list(BASES)[1:]:
        search.from_base(name, FEW)
    search.noisy()


if __name__ == "__main__":
    main()
