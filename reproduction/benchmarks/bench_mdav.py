"""Exact MDAV against the textbook in NumPy, on one thread; ``python -m benchmarks.bench_mdav`` adds a million rows."""

import sys
from pathlib import Path

import numpy as np

from benchmarks.timing import Result, median_s
from eupg.protect.microaggregation.groups import within_group_sse
from eupg.protect.microaggregation.mdav import mdav, partitioned_mdav

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from protect.oracle_mdav import plain_mean, textbook_mdav

K = 30
ROWS, COLUMNS = 96_215, 10  # the shape of the Credit training set
LARGE = 1_000_000


def run() -> list[Result]:
    X = np.random.default_rng(0).normal(size=(ROWS, COLUMNS))
    mdav(X[:1000], K)
    ours = median_s(lambda: mdav(X, K))
    textbook = median_s(lambda: textbook_mdav(X, K, centroid=plain_mean), repeats=1, warm_up=False)
    sse = within_group_sse(X, mdav(X, K))
    expected = within_group_sse(X, textbook_mdav(X, K, centroid=plain_mean))
    return [
        Result(
            "mdav, 96,215×10, k=30: textbook NumPy over ours",
            textbook / ours,
            "≥ 20, same SSE to 6 digits",
            textbook >= 20 * ours and abs(sse / expected - 1) < 1e-6,
            f"{textbook:.1f} s against {ours:.2f} s; SSE {expected:.8g} and {sse:.8g}",
        )
    ]


def run_large() -> list[Result]:
    """Compare the partitioned form with the exact one."""
    X = np.random.default_rng(0).normal(size=(LARGE, COLUMNS))
    mdav(X[:1000], K)
    exact = median_s(lambda: mdav(X, K), repeats=1, warm_up=False)
    cells = median_s(lambda: partitioned_mdav(X, K), repeats=1, warm_up=False)
    loss = within_group_sse(X, partitioned_mdav(X, K)) / within_group_sse(X, mdav(X, K))
    detail = f"{exact:.1f} s against {cells:.1f} s, with {loss:.2f} times the SSE"
    return [Result("1,000,000×10, k=30: exact over partitioned", exact / cells, "none", True, detail)]


if __name__ == "__main__":
    for result in run() + run_large():
        print(f"{result.name}: {result.ratio:.1f}\n     {result.detail}")
