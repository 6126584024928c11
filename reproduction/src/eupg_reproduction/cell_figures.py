"""The result of measuring one cell, a stopwatch for its phases, and figures that all kinds of measurement share."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from eupg.audit.membership.report import AuditReport
from eupg.data.dataset import Dataset
from eupg.data.sources import Source
from eupg.learn.learner import Model
from eupg.rng import Randomness, Seeded

T = TypeVar("T")


@dataclass(frozen=True)
class CellFigures:
    """The figures of one cell and the seconds of its phases; ``shared`` names phases that other cells also used."""

    metrics: dict[str, Any]
    seconds: dict[str, float] = field(default_factory=dict)
    shared: tuple[str, ...] = ()


@dataclass(frozen=True)
class Phases:
    """Measures the wall time of each phase, up to when a GPU has done its part."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str, /) -> Iterator[None]:
        """Run one phase and note its time."""
        _synchronize()
        started = time.perf_counter()
        yield
        _synchronize()
        self.seconds[name] = time.perf_counter() - started


def timed(seconds: dict[str, float], phase: str, work: Callable[[], T]) -> T:
    """Do the work and record its wall time, including work queued on a GPU."""
    with Phases(seconds).step(phase):
        return work()


def _synchronize() -> None:
    """Wait for the GPU, if one is in use: its work is asynchronous."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def utility(source: Source, model: Model) -> float:
    """Return the utility of a model on the test records, in percent."""
    return source.utility(model.predict_proba(source.test.X), source.test.y)


def audited(report: AuditReport) -> dict[str, float]:
    """Return the figures of an audit in percent; ``null_error`` is the standard error of chance."""
    one = next(tail for tail in report.tails if tail.at == 1.0)
    return {
        "auc": report.auc,
        "low": report.low,
        "high": report.high,
        "null_error": report.null_error,
        "tpr_at_1": one.tpr,
    }


def repetition(number: int) -> Randomness:
    """Return the randomness of one repetition, the same as in ``eupg compare`` with seed 0."""
    return Seeded(0).stage(f"repetition {number}")


def requests(source: Source, share: float, rng: Randomness) -> tuple[Dataset, Dataset]:
    """Draw people to be forgotten; return their records and the retained ones."""
    everyone = np.unique(source.train.subjects)
    count = max(1, round(share * len(everyone)))
    requesters = rng.stage("requests").generator().permutation(everyone)[:count]
    forgotten = source.train.where_subjects(requesters)
    return source.train.select(forgotten), source.train.select(~forgotten)
