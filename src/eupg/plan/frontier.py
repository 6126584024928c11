"""Measure the frontier: utility, cost of an erasure and claim, for guarantees and exposures, beside exact controls.

People are split once: some are held out to measure utility, the others are what a workspace would train on. Everything
is fitted by the one rule of :mod:`eupg.learn.recipes`. A plan looks at raw records, those held out among them; whatever
is trained by its advice carries a sentence that says so.

What was measured is never thrown away. A row that cannot be measured is listed with its reason, and whoever interrupts
a plan gets the rows that were measured until then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from eupg.data.dataset import Dataset
from eupg.data.sources import Source
from eupg.errors import DataError, EupgError, ParameterError
from eupg.forget.eupg import EUPG, FEWEST_EXPOSED
from eupg.forget.lottery import exposed_people
from eupg.guarantees import Exact, Guarantee
from eupg.learn.learner import Model
from eupg.learn.recipes import Recipe
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
        The expected share of erasures that need none.
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
class Unmeasured:
    """One way to train and to forget that was not measured, and why.

    Parameters
    ----------
    name, guarantee, exposure
        As those of a :class:`Point`.
    reason
        Why there are no figures.
    """

    name: str
    guarantee: str | None
    exposure: float | None
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Frontier:
    """All points, of one table and learner.

    Parameters
    ----------
    table
        What the table is called.
    records, people
        How many there are to train on; each record counts as a person where ``names_people`` is false.
    utility_name
        What utility is measured by.
    points
        The ways that were measured.
    unmeasured
        Those that were not, with their reasons.
    names_people
        Whether it is known which records belong to one person.
    interrupted
        Whether the measurement was interrupted.
    """

    table: str
    records: int
    people: int
    utility_name: str
    points: tuple[Point, ...]
    unmeasured: tuple[Unmeasured, ...] = ()
    names_people: bool = True
    interrupted: bool = False

    @property
    def units(self) -> str:
        """What is counted: people, or records where nobody knows whose they are."""
        return "people" if self.names_people else "records"

    def named(self, name: str) -> Point | None:
        """Return the point of that name, or None if it was not measured."""
        return next((p for p in self.points if p.name == name), None)


@dataclass(frozen=True)
class _Task:
    """One row of the plan, and how it is measured."""

    name: str
    guarantee: str | None
    exposure: float | None
    measure: Callable[[], Point]

    def because(self, reason: str) -> Unmeasured:
        return Unmeasured(self.name, self.guarantee, self.exposure, reason)


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

    A row that fails does not end the others: it is listed as unmeasured, with the reason. An interruption from the
    keyboard ends the measurement, and the rows measured until then are returned. Only if there are none is the first
    error, or the interruption, raised.

    Parameters
    ----------
    source
        The records, split by person.
    recipe
        How models are made.
    mechanisms
        Guarantees by name.
    exposures
        Chances to be seen raw; those that draw too few people to fine-tune on are not measured.
    seed
        Makes it repeatable; nothing that is made here is kept or served.
    watch
        Told of every step.
    """
    people, units = len(np.unique(source.train.subjects)), "people" if source.train.names_people else "records"
    if people < _FEWEST_PEOPLE:
        raise DataError(f"a plan needs at least {_FEWEST_PEOPLE} {units} to train on, got {people}: bring more records")
    if not mechanisms or not all(0 <= e <= 1 for e in exposures):
        raise ParameterError(f"a plan needs a guarantee and exposures from 0 to 1, got {list(exposures)!r}")
    rng = Seeded(seed)
    tasks = _controls(source, recipe, exposures, rng, watch)
    for name, mechanism in mechanisms.items():
        tasks += _guarantee(source, recipe, name, mechanism, exposures, rng, watch)
    points, unmeasured, interrupted = _measured(tasks)
    return Frontier(
        source.name,
        len(source.train),
        people,
        getattr(source.utility, "__name__", "utility"),
        points,
        unmeasured,
        source.train.names_people,
        interrupted,
    )


def _measured(tasks: Sequence[_Task]) -> tuple[tuple[Point, ...], tuple[Unmeasured, ...], bool]:
    """Measure one row after the other, whatever happens to some of them."""
    points: list[Point] = []
    unmeasured: list[Unmeasured] = []
    first: Exception | None = None
    for i, task in enumerate(tasks):
        try:
            points.append(task.measure())
        except KeyboardInterrupt:
            if not points:
                raise
            unmeasured += [t.because("interrupted before it was measured") for t in tasks[i:]]
            return tuple(points), tuple(unmeasured), True
        except Exception as error:
            # Frameworks raise errors of every kind, and none of them is worth the rows that were measured before.
            first = first or error
            unmeasured.append(task.because(_reason(error)))
    if first is not None and not points:
        raise first
    return tuple(points), tuple(unmeasured), False


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, EupgError) else f"{type(error).__name__}: {error}"


def _check_enough(data: Dataset, exposure: float, rng: Randomness) -> None:
    """Refuse an exposure at which EUPG would not train, or would find too few people drawn here to fine-tune on."""
    if exposure == 0:
        return
    units = "people" if data.names_people else "records"
    expected = exposure * len(np.unique(data.subjects))
    drawn = len(np.unique(exposed_people(data, exposure, rng).subjects))
    if min(expected, drawn) < FEWEST_EXPOSED:
        count = f"{expected:.3g} on average" if expected < FEWEST_EXPOSED else f"{drawn} this time"
        raise DataError(f"fine-tuning needs at least {FEWEST_EXPOSED} {units}, and this exposure draws {count}")


def _controls(source: Source, recipe: Recipe, exposures: Sequence[float], rng: Randomness, watch: Watch) -> list[_Task]:
    data, exact = source.train, Exact(caveats=source.train.schema.caveats)

    def control(name: str, share: float | None, work: Callable[[], Model]) -> Point:
        model, seconds = _timed(partial(watch, name, work))
        # A workspace draws anew, so what counts is the chance to be drawn, not who was drawn here.
        free = 0.0 if share is None else 1 - share
        return Point(name, None, share, _utility(source, model), seconds, seconds, free, exact)

    def drawn(name: str, share: float) -> Point:
        _check_enough(data, share, rng)
        return control(name, share, partial(_scratch, recipe, exposed_people(data, share, rng), rng))

    short = partial(recipe.short.fit, data, effort=recipe.short_effort, rng=_stream(rng))
    retrain = partial(_scratch, recipe, data, rng)
    tasks = [
        _Task(name, None, None, partial(control, name, None, work))
        for name, work in (("Retrain", retrain), ("Short retrain", short))
    ]
    for exposure in exposures:
        if 0 < exposure < 1:
            name = f"From scratch, {exposure:.3g} exposed"
            tasks.append(_Task(name, None, exposure, partial(drawn, name, exposure)))
    return tasks


def _guarantee(
    source: Source,
    recipe: Recipe,
    name: str,
    mechanism: Mechanism,
    exposures: Sequence[float],
    rng: Randomness,
    watch: Watch,
) -> list[_Task]:
    """Make one base model and fine-tune it at each exposure."""
    data = source.train

    def make() -> tuple[Model, Guarantee]:
        release = mechanism.protect(data, rng.stage("protect"))
        return recipe.learner.fit(release, effort=recipe.pretrain, rng=_stream(rng)), release.guarantee

    base = _Once(partial(_timed, partial(watch, f"{name}: base model", make)))

    def exposed(step: str, exposure: float) -> Point:
        _check_enough(data, exposure, rng)
        (model, claim), made_s = base()
        # The plan is seeded; what is trained by its advice is not.
        claim = replace(claim, seeded=False)
        method = EUPG(mechanism, recipe.learner, 1, recipe.finetune, exposure=exposure, finetuner=recipe.finetuner)
        trained, seconds = _timed(partial(watch, step, partial(method.resume, model, claim, data, rng)))
        free = 1 - exposure if trained.ids else 1.0
        utility, spent = _utility(source, trained.model), seconds if trained.ids else 0.0
        return Point(step, name, exposure, utility, made_s, spent, free, trained.claim)

    steps = [(f"{name}, {exposure:.3g} exposed", exposure) for exposure in exposures]
    return [_Task(step, name, exposure, partial(exposed, step, exposure)) for step, exposure in steps]


class _Once(Generic[T]):
    """Does its work when it is first asked for, and then returns its result, or raises its error, each time."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._result: tuple[T] | None = None
        self._error: Exception | None = None

    def __call__(self) -> T:
        if self._error is not None:
            raise self._error
        if self._result is None:
            try:
                self._result = (self._work(),)
            except Exception as error:
                self._error = error
                raise
        return self._result[0]


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
