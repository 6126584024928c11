"""Refined groups against exact MDAV, interleaved, on one thread: ``python -m benchmarks.bench_microaggregation``.

Processor time, because other work on the machine does not count in it. Needs Adult, Heart and Credit (EUPG_DATA) for
``main``, which prints a table of all kinds of data and the growth from 10,000 to 1,000,000 rows; ``run`` needs none.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import Result
from eupg.protect.kanonymity import _geometry
from eupg.protect.microaggregation.groups import Groups, within_group_sse
from eupg.protect.microaggregation.mdav import mdav
from eupg.protect.microaggregation.refined import microaggregate
from eupg_reproduction.methods import SETS, source

Matrix = NDArray[np.float64]
ROWS, SIZES, REPEATS = 96_000, (10, 30, 100), 3
GROWTH = (10_000, 30_000, 100_000, 300_000, 1_000_000)
LARGE = ((200_000, 10), (300_000, 10), (300_000, 32))


def gaussian(n: int, d: int = 10) -> Matrix:
    return np.random.default_rng(0).normal(size=(n, d))


def mixed(n: int) -> Matrix:
    """Twelve clusters in six columns, two skewed columns, one with few values, and a flag; z-scores."""
    rng = np.random.default_rng(0)
    clusters = rng.normal(size=(12, 6))[rng.integers(0, 12, n)] * 3 + rng.normal(size=(n, 6))
    numbers = np.column_stack([clusters, rng.lognormal(size=(n, 2)), rng.integers(0, 20, n)])
    flag = rng.integers(0, 2, n) / np.sqrt(2)
    return np.column_stack([(numbers - numbers.mean(axis=0)) / numbers.std(axis=0), flag])


def real(name: str) -> Matrix:
    return np.asarray(_geometry(source(name).train))


def compared(X: Matrix, k: int, *, repeats: int = REPEATS) -> tuple[float, float, float]:
    """Return the ratio of squares, and the processor time of refined groups and exact MDAV per row, in µs."""
    times: dict[Callable[..., Groups], list[float]] = {microaggregate: [], mdav: []}
    squares = {}
    for repeat in range(repeats):
        for way in times:
            started = time.process_time()
            groups = way(X, k)
            times[way].append((time.process_time() - started) / len(X) * 1e6)
            if repeat == 0:
                squares[way] = within_group_sse(X, groups)
    ours, exact = (float(np.median(times[way])) for way in times)
    return squares[microaggregate] / squares[mdav], ours, exact


def compile_all() -> None:
    """Compile, so that no figure contains it: a table of several parts takes every path."""
    microaggregate(gaussian(70_000, 2), 10)
    mdav(gaussian(1_000, 2), 10)


def growth(*, k: int = 30) -> tuple[list[tuple[int, float]], float]:
    """Return rows and processor seconds, and the slope of their logarithms where there are several parts."""
    points = []
    for n in GROWTH:
        X = gaussian(n)
        started = time.process_time()
        microaggregate(X, k)
        points.append((n, time.process_time() - started))
    # A table of one part needs no second division, so the step to several parts is steeper.
    rows, seconds = np.log(np.array([(n, s) for n, s in points if n >= 100_000])).T
    return points, float(np.polyfit(rows, seconds, 1)[0])


def run() -> list[Result]:
    compile_all()
    results = []
    for name, X, goal in (("mixed", mixed(ROWS), 0.92), ("Gaussian", gaussian(ROWS), 0.96)):
        ratio, ours, exact = compared(X, 30, repeats=1)
        results.append(
            Result(
                f"microaggregation, {name} 96,000×10, k=30: squares over exact MDAV",
                ratio,
                f"≤ {goal}",
                ratio <= goal,
                f"{ours:.1f} µs per row, exact MDAV {exact:.1f}",
            )
        )
    points, exponent = growth()
    seconds = ", ".join(f"{n:,}: {s:.2f} s" for n, s in points)
    name = "microaggregation: growth exponent from 100,000 rows, k=30"
    results.append(Result(name, exponent, "≤ 1.15", exponent <= 1.15, seconds))
    return results


def show(name: str, X: Matrix, k: int, ratio: float, ours: float, exact: float) -> None:
    shape = f"{len(X):,}×{X.shape[1]}"
    print(f"{name:9} {shape:10} k={k:<3} squares {ratio:.3f}; {ours:.1f} µs per row, exact {exact:.1f}", flush=True)


def main() -> None:
    tables: dict[str, Callable[[], Matrix]] = {"mixed": lambda: mixed(ROWS), "gaussian": lambda: gaussian(ROWS)}
    tables |= {name: partial(real, name) for name in SETS}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(tables)}, large, growth; all by default")
    parts = parser.parse_args().parts or [*tables, "large", "growth"]
    compile_all()
    for name in (name for name in tables if name in parts):
        X = tables[name]()
        for k in SIZES:
            show(name, X, k, *compared(X, k))
    for n, d in LARGE if "large" in parts else ():
        X = gaussian(n, d)
        show("gaussian", X, 30, *compared(X, 30, repeats=1))
    if "growth" in parts:
        points, exponent = growth()
        seconds = ", ".join(f"{n:,}: {s / n * 1e6:.1f} µs per row" for n, s in points)
        print(f"growth at k=30: {seconds}; exponent from 100,000 rows {exponent:.2f}")


if __name__ == "__main__":
    main()
