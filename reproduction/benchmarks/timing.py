"""Timing shared by the benchmarks: a warm-up, then the median of several runs, one process, nothing else inside."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """One ratio: what was compared, the goal, and the figures behind it."""

    name: str
    ratio: float
    goal: str
    met: bool
    detail: str


def median_s(work: Callable[[], object], *, repeats: int = 3, warm_up: bool = True) -> float:
    """Return the median wall time of the work in seconds."""
    if warm_up:
        work()
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return sorted(seconds)[len(seconds) // 2]
