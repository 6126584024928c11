"""Measure the frontier: utility, cost of an erasure and claim, for guarantees and exposures, beside exact controls.

People are split once: some are held out to measure utility, the others are what a workspace would train on. Everything
is fitted by the one rule of :mod:`eupg.learn.recipes`. A plan looks at raw records, those held out among them; whatever
is trained by its advice carries a sentence that says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from eupg.data.dataset import Dataset
from eupg.data.sources import Source
from eupg.errors import DataError, ParameterError
from eupg.forget.eupg import EUPG, FEWEST_EXPOSED
from eupg.learn.learner import Model
from eupg.learn.recipes import Recipe
from eupg.protect.guarantee import Exact, Guarantee
from eupg.protect.mechanism import Mechanism
from eupg.rng import Randomness, Seeded
from eupg.watch import Watch

T = TypeVar("T")
EXPOSURES = (0.0, 0.01, 0.05, 0.2)
_FEWEST_PEOPLE = 50


@dataclass(frozen=True)
class Point:
    """One way to train and to forget, measured.

    Parameters
    ----------
    name
        What it is called.
    guarantee, exposure
        The protection by name and the share of people seen raw; None for a control.
    utility
        On people held out, in percent.
    train_s
        Seconds of the training before any request.
    erase_s
        Seconds of one fine-tuning or retraining, when one is needed.
    free
        The share of erasures that need none.
    claim
        What holds for a forgotten record.
    """

    name: str
    guarantee: str | None
    exposure: float | None
    utility: float
    train_s: float
    erase_s: float
    free: float
    claim: Guarantee

    @property
    def expected_s(self) -> float:
        """Seconds of training that one erasure costs on average."""
        return (1 - self.free) * self.erase_s

    @property
    def is_control(self) -> bool:
        """Whether this is an exact method, for comparison."""
        return self.guarantee is None

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self) | {"claim": self.claim.to_json(), "expected_s": self.expected_s}


@dataclass(frozen=True)
class Frontier:
    """All points, of one table and learner."""

    table: str
    records: int
    people: int
    utility_name: str
    points: tuple[Point, ...]

    def named(self, name: str) -> Point:
        """Return the point of that name."""
        return next(p for p in self.points if p.name == name)


def measure(
    source: Source,
    recipe: Recipe,
    mechanisms: Mapping[str, Mechanism],
    *,
    exposures: Sequence[float] = EXPOSURES,
    seed: int = 0,
    watch: Watch,
) -> Frontier:
    """Measure every guarantee at every exposure, and the controls.

    Parameters
    ----------
    source
        The records, split by person.
    recipe
        How models are made.
    mechanisms
        Guarantees by name.
    exposures
        Shares of people seen raw; those of too few people to fine-tune on are left out.
    seed
        Makes it repeatable; nothing that is made here is kept or served.
    watch
        Told of every step.
    """
    people = len(np.unique(source.train.subjects))
    if people < _FEWEST_PEOPLE:
        raise DataError(f"a plan needs at least {_FEWEST_PEOPLE} people to train on, got {people}: bring more records")
    if not mechanisms or not all(0 <= e <= 1 for e in exposures):
        raise ParameterError(f"a plan needs a guarantee and exposures from 0 to 1, got {list(exposures)!r}")
    rng = Seeded(seed)
    # Shares of too few people to fine-tune on are left out.
    exposures = [e for e in exposures if e == 0 or round(e * people) >= FEWEST_EXPOSED]
    points = _controls(source, recipe, exposures, rng, watch)
    for name, mechanism in mechanisms.items():
        points += _guarantee(source, recipe, name, mechanism, exposures, rng, watch)
    utility_name = getattr(source.utility, "__name__", "utility")
    return Frontier(source.name, len(source.train), people, utility_name, tuple(points))


def _controls(source: Source, recipe: Recipe, exposures: Sequence[float], rng: Randomness, watch: Watch) -> list[Point]:
    data, exact = source.train, Exact(caveats=source.train.schema.caveats)
    everyone = len(np.unique(data.subjects))
    short = partial(recipe.short.fit, data, effort=recipe.short_effort, rng=_stream(rng))
    plans: list[tuple[str, float | None, int, Callable[[], Model]]] = [
        ("Retrain", None, everyone, partial(_scratch, recipe, data, rng)),
        ("Short retrain", None, everyone, short),
    ]
    for exposure in exposures:
        if 0 < exposure < 1:
            seen = _drawn(data, exposure, rng)
            people = len(np.unique(seen.subjects))
            name = f"From scratch, {exposure:.3g} exposed"
            plans.append((name, exposure, people, partial(_scratch, recipe, seen, rng)))
    points = []
    for name, share, people, work in plans:
        model, seconds = _timed(partial(watch, name, work))
        points.append(Point(name, None, share, _utility(source, model), seconds, seconds, 1 - people / everyone, exact))
    return points


def _guarantee(
    source: Source,
    recipe: Recipe,
    name: str,
    mechanism: Mechanism,
    exposures: Sequence[float],
    rng: Randomness,
    watch: Watch,
) -> list[Point]:
    """Make one base model and fine-tune it at each exposure."""
    data = source.train

    def make() -> tuple[Model, Guarantee]:
        release = mechanism.protect(data, rng.stage("protect"))
        return recipe.learner.fit(release, effort=recipe.pretrain, rng=_stream(rng)), release.guarantee

    (base, measured), made_s = _timed(partial(watch, f"{name}: base model", make))
    # The plan is seeded; what is trained by its advice is not.
    claim = replace(measured, seeded=False)
    points = []
    for exposure in exposures:
        method = EUPG(mechanism, recipe.learner, 1, recipe.finetune, exposure=exposure, finetuner=recipe.finetuner)
        step = f"{name}, {exposure:.3g} exposed"
        trained, seconds = _timed(partial(watch, step, partial(method.resume, base, claim, data, rng)))
        seen = len(np.unique(data.subjects[np.isin(data.ids, list(trained.ids))]))
        free = 1 - seen / len(np.unique(data.subjects))
        utility, spent = _utility(source, trained.model), seconds if seen else 0.0
        points.append(Point(step, name, exposure, utility, made_s, spent, free, method.claim(claim, data)))
    return points


def _drawn(data: Dataset, exposure: float, rng: Randomness) -> Dataset:
    people = np.unique(data.subjects)
    chosen = rng.stage("exposure").permutation(len(people))[: max(1, round(exposure * len(people)))]
    return data.of_subjects(people[chosen].tolist())


def _scratch(recipe: Recipe, data: Dataset, rng: Randomness) -> Model:
    return recipe.learner.fit(data, effort=recipe.pretrain, rng=_stream(rng))


def _stream(rng: Randomness) -> np.random.Generator:
    return rng.stage("pretrain").generator()


def _utility(source: Source, model: Model) -> float:
    return source.utility(model.predict_proba(source.test.X), source.test.y)


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started
