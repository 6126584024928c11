"""Run every benchmark and print one line each; exit 1 if a goal is missed."""

import sys

from benchmarks import (
    bench_certified_sp,
    bench_exact,
    bench_import,
    bench_local_dp,
    bench_manager,
    bench_mdav,
    bench_microaggregation,
    bench_mlp,
    bench_references,
    bench_sisa,
)


def main() -> int:
    """Print the ratios."""
    missed = 0
    for module in (
        bench_import,
        bench_local_dp,
        bench_mlp,
        bench_references,
        bench_sisa,
        bench_exact,
        bench_certified_sp,
        bench_manager,
        bench_mdav,
        bench_microaggregation,
    ):
        for result in module.run():
            missed += not result.met
            print(f"{'ok  ' if result.met else 'MISS'} {result.name}: {result.ratio:.2f} (goal {result.goal})")
            print(f"     {result.detail}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
