"""What a measurement gives back, a stopwatch for its phases, and the audit figures all kinds keep."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from eupg.audit.report import AuditReport
from eupg.data.dataset import Dataset
from eupg.data.sources import Source
from eupg.learn.learner import Model
from eupg.rng import Randomness, Seeded

T = TypeVar("T")


@dataclass(frozen=True)
class Found:
    """The figures of one cell, and the seconds of its phases; ``shared`` names phases that other cells used too."""

    metrics: dict[str, Any]
    seconds: dict[str, float] = field(default_factory=dict)
    shared: tuple[str, ...] = ()


def timed(seconds: dict[str, float], phase: str, work: Callable[[], T]) -> T:
    """Do the work and note its wall time, up to when a GPU has done its part."""
    _settle()
    started = time.perf_counter()
    result = work()
    _settle()
    seconds[phase] = time.perf_counter() - started
    return result


def _settle() -> None:
    """Wait for a GPU, where one is in use: what is asked of it goes on in the background."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def utility(source: Source, model: Model) -> float:
    """Return the set's utility on its test records, in percent."""
    return source.utility(model.predict_proba(source.test.X), source.test.y)


def audited(report: AuditReport) -> dict[str, float]:
    """Return the figures of an audit, in percent; ``null_error`` is that of an attack that knows nothing."""
    one = next(tail for tail in report.tails if tail.at == 1.0)
    return {
        "auc": report.auc,
        "low": report.low,
        "high": report.high,
        "null_error": report.null_error,
        "tpr_at_1": one.tpr,
    }


def repetition(number: int) -> Randomness:
    """Return the randomness of one repetition; it is that of ``eupg compare`` with seed 0."""
    return Seeded(0).stage(f"repetition {number}")


def requests(source: Source, share: float, rng: Randomness) -> tuple[Dataset, Dataset]:
    """Draw who asks to be forgotten, by person; return their records and those that stay."""
    everyone = np.unique(source.train.subjects)
    count = max(1, round(share * len(everyone)))
    asking = rng.stage("requests").generator().permutation(everyone)[:count]
    gone = source.train.where_subjects(asking)
    return source.train.select(gone), source.train.select(~gone)
