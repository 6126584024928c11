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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from eupg.data import sources
from eupg.data.score import accuracy
from eupg.forget.certified_sp import CertifiedSP
from eupg.forget.retrain import Retrain
from eupg.learn.learner import Model
from eupg.learn.noisy_finetuning import GradientClipping
from eupg.learn.torch import training
from eupg.rng import Seeded
from eupg_reproduction.picture_methods import changed, device, mechanism, resnet18_finetuner, resnet18_learner

HELD_OUT, EPOCHS = 5_000, 5
FIRST = "k=30, blocks 8×8"
# Ways to train a base: what is changed of the paper's way to train from scratch.
_CYCLE = {"schedule": "one-cycle", "learning_rate": 0.2, "nesterov": True, "weight_decay": 1e-3}
_SMALL = {**_CYCLE, "scale": 0.4}
WAYS: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "one cycle": _CYCLE,
    "one cycle, small weights": _SMALL,
    "one cycle, small weights, smoothed": {**_SMALL, "label_smoothing": 0.1},
}
# Further protections, epochs, and ways to train their bases; None is the best of these ways for the first.
FURTHER: tuple[tuple[str, int, str | None], ...] = (
    ("ε=1", 30, None),
    ("ε=1", 100, "the paper's"),
    ("ε=1", 100, None),
    ("k=30", 30, None),
    (f"{FIRST}, within classes", 30, None),
    (FIRST, 60, None),
    ("k=30, blocks 16×16", 30, None),
)
# How pictures are looked at to be grouped.
LOOK = {"size": 160, "unit": True}
# Where the paper's figure for k=30 may come from: other groups, under its own way to train bases, and what it does not
# say of its few epochs.
PUBLISHED: dict[str, tuple[str, dict[str, Any]]] = {
    "from scratch": ("", {}),
    "k=30, 100 epochs, the paper's": ("k=30", {}),
    "k=30, closer, 100 epochs, the paper's": ("k=30", LOOK),
    "k=30, within classes, 100 epochs, the paper's": ("k=30, within classes", {}),
}
CYCLED, AS_THEY_ARE = "momentum in a cycle", "pictures as they are"
VARIANTS: tuple[dict[str, str], ...] = ({}, {"variant": CYCLED}, {"variant": AS_THEY_ARE})
_BETTER: dict[str, Any] = {"nesterov": True, "label_smoothing": 0.1}
_STRONG: dict[str, Any] = {"learning_rate": 0.2, **_BETTER, "weight_decay": 2e-3}
_HALF: dict[str, Any] = {"learning_rate": 0.1, **_BETTER, "weight_decay": 2e-3, "batch_size": 128}
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
    _STRONG,
    {"learning_rate": 0.2, **_BETTER, "weight_decay": 1e-3, "batch_size": 128},
    {**_STRONG, "padding": 2},
    {**_STRONG, "padding": 2, "border": "reflect"},
    {**_STRONG, "padding": 2, "scale": 0.4},
    {**_HALF, "padding": 2},
    {**_HALF, "padding": 2, "scale": 0.4},
    {**_HALF, "padding": 2, "border": "reflect", "warm_up": 0.2},
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
        kept = [json.loads(line) for line in lines]
        self.done = {json.dumps(one["what"], sort_keys=True): float(one["held_out"]) for one in kept}
        train = sources.cifar10().train
        held = np.random.default_rng(0).permutation(len(train)) < HELD_OUT
        self.seen, self.held = train.select(~held), train.select(held)

    def finetune(self, start: str, base: Model | None, change: dict[str, Any]) -> None:
        """Run one recipe from one start."""
        what = {"start": start, **change}
        if self._skips(what):
            return
        settings = dict(change)
        variant, given = settings.pop("variant", None), resnet18_finetuner(device=device())
        given = replace(given, augment=None) if variant == AS_THEY_ARE else given
        learner = changed(given, compile=self.compiled, **settings)
        begun = time.perf_counter()
        with moving_momentum() if variant == CYCLED else nullcontext():
            model = learner.fit(self.seen, effort=EPOCHS, rng=Seeded(1).generator(), start=base)
        self._keep(what, model, begun)

    def from_base(
        self, name: str, words: str, epochs: int, change: dict[str, Any], recipes: Sequence[Any], **look: Any
    ) -> None:
        """Train a base on a release, and fine-tune it by each recipe; nothing where all was done before."""
        if all(self._skips({"start": name, **recipe}) for recipe in recipes):
            return
        base = self._base(name, words, epochs, change, **look)
        for recipe in recipes:
            self.finetune(name, base, recipe)

    def published(self, recipes: Sequence[Any]) -> None:
        """Fine-tune from scratch, and from bases of single pixels by the paper's way, as each of the variants says."""
        for name, (words, look) in PUBLISHED.items():
            changes = [{**variant, **recipe} for variant in VARIANTS for recipe in recipes]
            if all(self._skips({"start": name, **change}) for change in changes):
                continue
            base = self._base(name, words, 100, {}, **look) if words else None
            for change in changes:
                self.finetune(name, base, change)

    def _base(self, name: str, words: str, epochs: int, change: dict[str, Any], **look: Any) -> Model:
        begun = time.perf_counter()
        release = mechanism(words, **look).protect(self.seen, Seeded(2).stage("protect"))
        protect = time.perf_counter() - begun
        learner = changed(resnet18_learner(device=device()), compile=self.compiled, **change)
        base = learner.fit(release, effort=epochs, rng=Seeded(2).generator())
        self._keep({"base": name, "epochs": epochs, **change}, base, begun, protect=round(protect, 2))
        return base

    def best(self) -> dict[str, Any]:
        """Return the recipe that is best by the mean of both starts."""
        means = {i: (self.found(FIRST, r) + self.found("from scratch", r)) / 2 for i, r in enumerate(RECIPES)}
        return RECIPES[max(means, key=lambda i: means[i])]

    def found(self, start: str, recipe: dict[str, Any]) -> float:
        """Return what a recipe reached from a start; below anything where it was not tried."""
        return self.done.get(json.dumps({"start": start, **recipe}, sort_keys=True), float("-inf"))

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

    def _keep(self, what: dict[str, Any], model: Any, begun: float, **more: float) -> None:
        spent = time.perf_counter() - begun
        found = accuracy(model.predict_proba(self.held.X), self.held.y)
        both = replace(model, learner=replace(model.learner, mirror=True))
        mirrored = accuracy(both.predict_proba(self.held.X), self.held.y)
        line = {"what": what, "held_out": round(found, 2), "mirrored": round(mirrored, 2), "seconds": round(spent, 2)}
        line |= more
        print(json.dumps(line, ensure_ascii=False), flush=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self.done[json.dumps(what, sort_keys=True)] = found


@contextmanager
def moving_momentum() -> Iterator[None]:
    """Let momentum fall from 0.95 to 0.85 as the rate rises, and rise again, as ``OneCycleLR`` does unless told not to.

    Both bend alike, so one follows from the other. A captured step has a momentum that is fixed: none is taken.
    """

    def move(optimiser: torch.optim.Optimizer, *_: Any) -> None:
        group = optimiser.param_groups[0]
        group["momentum"] = 0.95 - 0.1 * group["lr"] / optimiser.defaults["lr"]

    hook, worth = register_optimizer_step_pre_hook(move), training.WORTH_CAPTURING
    training.WORTH_CAPTURING = 10**9
    try:
        yield
    finally:
        hook.remove()
        training.WORTH_CAPTURING = worth


def main() -> None:
    """Search."""
    parser = argparse.ArgumentParser(description="How to fine-tune a ResNet-18 in five epochs.")
    parser.add_argument("--results", type=Path, default=Path("results/search_resnet.jsonl"))
    parser.add_argument("--minutes", type=float, default=4.0, help="after which no run is begun")
    parser.add_argument("--compile", action="store_true", help="fuse kernels, which pays in long searches")
    options = parser.parse_args()
    search = Search(options.results, seconds=60 * options.minutes, compiled=options.compile)
    for change in RECIPES:
        search.finetune("from scratch", None, change)
    search.from_base(FIRST, FIRST, 30, {}, RECIPES)
    few: tuple[dict[str, Any], ...] = ({}, search.best())
    for way, change in WAYS.items():
        search.from_base(f"{FIRST}, closer, {way}", FIRST, 30, change, few, **LOOK)
    best = max(WAYS, key=lambda way: search.found(f"{FIRST}, closer, {way}", few[1]))
    for words, epochs, other in FURTHER:
        way = other or best
        look, closer = (LOOK, ", closer") if words.startswith("k") else ({}, "")
        search.from_base(f"{words}{closer}, {epochs} epochs, {way}", words, epochs, WAYS[way], few, **look)
    search.noisy()
    search.published(few)


if __name__ == "__main__":
    main()
