"""Measure the frontier: utility, cost of an erasure and claim, of every way to train and forget that can be deployed.

People are split once: some are held out to measure utility, and the others are what a workspace would train on.
Everything is fitted by the one rule of :mod:`eupg.learn.recipes`. A plan looks at raw records, also at those held out;
whatever is trained by its advice carries a sentence that says so. Rows that cannot be measured are listed with the
reason, and an interrupted plan returns the rows measured until then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from eupg.compare.measuring import Once, measure_each
from eupg.compare.rows import MethodRow, method_rows, unseeded
from eupg.data.dataset import Dataset
from eupg.data.score import auc
from eupg.data.sources import Source
from eupg.errors import DataError, ParameterError
from eupg.forget.durable import Durable, forget_rows, subtracts
from eupg.forget.eupg import EUPG, FEWEST_EXPOSED, Base
from eupg.forget.lottery import exposed_people
from eupg.forget.retrain import Retrain
from eupg.forget.storage import storage
from eupg.forget.unlearner import Trained
from eupg.guarantees import Guarantee
from eupg.learn.recipes import Recipe
from eupg.manage.description import describe
from eupg.manage.quality import utility_spread
from eupg.pages import card
from eupg.progress import Progress
from eupg.protect.mechanism import Mechanism
from eupg.rng import Randomness, Seeded

T = TypeVar("T")
EXPOSURES = (0.0, 0.01, 0.05, 0.2)
_FEWEST_PEOPLE = 50


@dataclass(frozen=True)
class Point:
    """One measured way to train and to forget.

    Parameters
    ----------
    name
        Its name in the table.
    guarantee, exposure
        The name of the protection and the share of people seen raw; None for a control.
    utility, low, high
        In percent, on people held out, with the 95 % interval.
    train_s
        Seconds of the training before any request.
    erase_s
        Seconds in which the method removes a person whom the model was fitted on.
    free
        The expected share of erasures that need nothing.
    claim
        The claim for a forgotten record.
    low, high
        The 95 % interval of the utility.
    method
        The method itself, which a workspace can run.
    storage_bytes
        Size of the model files that the method keeps.
    """

    name: str
    guarantee: str | None
    exposure: float | None
    utility: float
    train_s: float
    erase_s: float
    free: float
    claim: Guarantee
    low: float = 0.0
    high: float = 100.0
    method: Durable | None = None
    storage_bytes: int = 0

    @property
    def changes(self) -> bool:
        """Whether an erasure may change the model, so that a comparison of before and after shows something."""
        return self.free < 1

    @property
    def reveals(self) -> str:
        """What a comparison of the models before and after an erasure shows."""
        return "who was forgotten, if few are at once" if self.changes else "nothing"

    def dominates(self, other: Point) -> bool:
        """Tell whether this is at least as good in every respect, and better in one."""
        mine = (self.utility, -self.expected_s, not self.changes)
        theirs = (other.utility, -other.expected_s, not other.changes)
        at_least = all(a >= b for a, b in zip(mine, theirs, strict=True)) and self.claim.implies(other.claim)
        return at_least and (mine != theirs or not other.claim.implies(self.claim))

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
        values = {name: value for name, value in vars(self).items() if name not in ("claim", "method")}
        described = None if self.method is None else describe(self.method)
        further = {"expected_s": self.expected_s, "reveals": self.reveals, "method": described}
        return values | further | {"claim": self.claim.to_json()}


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
        The name of the table.
    records, people
        How many there are to train on; each record counts as a person where ``names_people`` is false.
    utility_name
        The measure of utility.
    points
        The measured ways.
    unmeasured
        The others, with the reasons.
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
        """What is counted: people, or records if it is not known whose they are."""
        return "people" if self.names_people else "records"

    def _repr_html_(self) -> str:
        rows = [
            (p.name, f"{p.utility:.1f} ({p.low:.1f} to {p.high:.1f})", f"{p.expected_s:.2g}", p.claim.label)
            for p in sorted(self.points, key=lambda p: -p.utility)
        ]
        header = ("method", f"{self.utility_name}, %", "s per erasure", "claim")
        return card(f"Plan of {self.table}: {self.people:,} {self.units}", rows, header=header)

    def named(self, name: str) -> Point | None:
        """Return the point of that name, or None if it was not measured."""
        return next((p for p in self.points if p.name == name), None)


def measure(
    source: Source,
    recipe: Recipe,
    mechanisms: Mapping[str, Mechanism],
    *,
    methods: Mapping[str, Durable] = MappingProxyType({}),
    exposures: Sequence[float] = EXPOSURES,
    seed: int = 0,
    progress: Progress,
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
    methods
        Further methods by name.
    exposures
        Chances to be seen raw; a row with too few people to fine-tune on is listed as unmeasured.
    seed
        Makes the plan repeatable; no model of a plan is stored or served.
    progress
        Is told of every step.
    """
    people, units = len(np.unique(source.train.subjects)), "people" if source.train.names_people else "records"
    if people < _FEWEST_PEOPLE:
        raise DataError(f"a plan needs at least {_FEWEST_PEOPLE} {units} to train on, got {people}: bring more records")
    if not (mechanisms or methods):
        raise ParameterError("a plan needs a guarantee or a further method to measure: pass mechanisms or methods")
    rows = method_rows(recipe, mechanisms, methods=methods, exposures=exposures)
    measurements = measure_each(_tasks(source, rows, Seeded(seed), progress))
    return Frontier(
        source.name,
        len(source.train),
        people,
        getattr(source.utility, "__name__", "utility"),
        tuple(measurements.results.values()),
        tuple(_unmeasured(rows[i], reason) for i, reason in measurements.reasons.items()),
        source.train.names_people,
        measurements.interrupted,
    )


def _check_enough(data: Dataset, exposure: float, rng: Randomness) -> None:
    """Refuse an exposure that draws too few people to fine-tune on, on average or this time."""
    if exposure == 0:
        return
    units = "people" if data.names_people else "records"
    expected = exposure * len(np.unique(data.subjects))
    drawn = len(np.unique(exposed_people(data, exposure, rng).subjects))
    if min(expected, drawn) < FEWEST_EXPOSED:
        count = f"{expected:.3g} on average" if expected < FEWEST_EXPOSED else f"{drawn} this time"
        raise DataError(f"fine-tuning needs at least {FEWEST_EXPOSED} {units}, and this exposure draws {count}")


def _tasks(source: Source, rows: Sequence[MethodRow], rng: Randomness, progress: Progress) -> list[Callable[[], Point]]:
    """Return how each row is measured; rows of one guarantee share its base model."""
    bases: dict[str, Once[tuple[Base, float]]] = {}
    tasks: list[Callable[[], Point]] = []
    for row in rows:
        if isinstance(row.method, Retrain):
            tasks.append(partial(_control, source, row, row.method, rng, progress))
        elif isinstance(row.method, EUPG) and row.guarantee is not None and row.exposure is not None:
            made = partial(_base, source, row.guarantee, row.method, rng, progress)
            base = bases.setdefault(row.guarantee, Once(made))
            tasks.append(partial(_exposed, source, row, row.method, base, rng, progress))
        else:
            tasks.append(partial(_measured, source, row, rng, progress))
    return tasks


def _unmeasured(row: MethodRow, reason: str) -> Unmeasured:
    return Unmeasured(row.name, row.guarantee, row.exposure, reason)


def _control(source: Source, row: MethodRow, method: Retrain, rng: Randomness, progress: Progress) -> Point:
    """Measure an exact method that every plan has."""
    share = row.exposure
    if share is not None:
        _check_enough(source.train, share, rng)
    with progress.step(row.name):
        trained, seconds = _timed(partial(method.train, source.train, rng))
    # A workspace draws anew, so what counts is the chance to be drawn, not who was drawn here.
    return _point(source, row, trained, train_s=seconds, erase_s=seconds, free=0.0 if share is None else 1 - share)


def _base(source: Source, name: str, method: EUPG, rng: Randomness, progress: Progress) -> tuple[Base, float]:
    """Make the base model of a guarantee."""
    with progress.step(f"{name}: base model"):
        return _timed(partial(method.base, source.train, rng))


def _exposed(
    source: Source,
    row: MethodRow,
    method: EUPG,
    made: Once[tuple[Base, float]],
    rng: Randomness,
    progress: Progress,
) -> Point:
    """Fine-tune the base model of a guarantee at one exposure."""
    _check_enough(source.train, method.exposure, rng)
    base, made_s = made()
    with progress.step(row.name):
        trained, seconds = _timed(partial(method.resume, base, source.train, rng))
    free, spent = (1 - method.exposure, seconds) if trained.ids else (1.0, 0.0)
    return _point(source, row, trained, train_s=made_s, erase_s=spent, free=free)


def _measured(source: Source, row: MethodRow, rng: Randomness, progress: Progress) -> Point:
    """Train with a method, and let it forget somebody whom the model was fitted on."""
    data, method = source.train, row.method
    with progress.step(row.name):
        trained, train_s = _timed(partial(method.train, data, rng))
        if not trained.ids:
            return _point(source, replace(row, exposure=0.0), trained, train_s=train_s, erase_s=0.0, free=1.0)
        theirs = data.subjects == data.subjects[int(rng.stage("somebody").generator().integers(len(data)))]
        work = partial(forget_rows, method, trained, data.select(theirs), data.select(~theirs), rng)
        if subtracts(method):
            # Compiled code is loaded on first use.
            work()
        _, erase_s = _timed(work)
    return _point(source, row, trained, train_s=train_s, erase_s=erase_s, free=0.0)


def _point(source: Source, row: MethodRow, trained: Trained, *, train_s: float, erase_s: float, free: float) -> Point:
    chances = trained.model.predict_proba(source.test.X)
    spread = 100 * utility_spread(chances, source.test, auc=source.utility is auc)
    utility = source.utility(chances, source.test.y)
    return Point(
        row.name,
        row.guarantee,
        row.exposure,
        utility,
        train_s,
        erase_s,
        free,
        unseeded(trained.claim),
        max(0.0, utility - spread),
        min(100.0, utility + spread),
        row.method,
        storage(trained).size_bytes,
    )


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started
