"""Time exact MDAV against the textbook in NumPy, on one thread: ``python benchmarks/bench_mdav.py [--large]``."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eupg.protect.mdav import mdav, partitioned_mdav, within_group_sse

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from protect.oracle_mdav import plain_mean, textbook_mdav

K = 30
ROWS, COLUMNS = 96_215, 10  # the shape of the Credit training set
LARGE = 1_000_000
GOAL = 20.0

Groups = NDArray[np.int64]
Figure = tuple[str, float, str]


def normal(rows: int) -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(size=(rows, COLUMNS))


def timed(group: Callable[[], Groups]) -> tuple[float, Groups]:
    start = time.perf_counter()
    groups = group()
    return time.perf_counter() - start, groups


def run(*, repeats: int = 3) -> list[Figure]:
    """Compare with the textbook; return name, textbook's time over ours, and the figures in words."""
    X = normal(ROWS)
    compile_s, _ = timed(lambda: mdav(X[:1000], K))
    ours = [timed(lambda: mdav(X, K)) for _ in range(repeats)]
    ours_s = statistics.median(seconds for seconds, _ in ours)
    textbook_s, textbook = timed(lambda: textbook_mdav(X, K, centroid=plain_mean))
    sse, expected = within_group_sse(X, ours[0][1]), within_group_sse(X, textbook)
    text = (
        f"{ROWS:,}×{COLUMNS}, k={K}: {ours_s:.2f} s (median of {repeats}), textbook {textbook_s:.1f} s, "
        f"ratio {textbook_s / ours_s:.0f} (goal {GOAL:.0f}); SSE {sse:.8g} and {expected:.8g}; "
        f"first call, with compilation or its cache, {compile_s:.1f} s"
    )
    return [("mdav against the textbook", textbook_s / ours_s, text)]


def run_large() -> list[Figure]:
    """Compare the partitioned form with the exact one; return name, ratio of times, and the figures in words."""
    X = normal(LARGE)
    mdav(X[:1000], K)
    exact_s, exact = timed(lambda: mdav(X, K))
    cells_s, cells = timed(lambda: partitioned_mdav(X, K))
    loss = within_group_sse(X, cells) / within_group_sse(X, exact)
    text = (
        f"{LARGE:,}×{COLUMNS}, k={K}: exact {exact_s:.1f} s, partitioned {cells_s:.1f} s with {loss:.2f} times the SSE"
    )
    return [("partitioned against exact", exact_s / cells_s, text)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="also a million rows, in about a minute")
    for _, _, line in run() + (run_large() if parser.parse_args().large else []):
        print(line)
