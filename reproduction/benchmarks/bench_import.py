"""How long ``import eupg`` takes in a fresh interpreter."""

import statistics
import subprocess
import sys

from benchmarks.timing import Result

_CODE = "import time; t = time.perf_counter(); import eupg; print(time.perf_counter() - t)"
_PEER = "import time; t = time.perf_counter(); import numpy; print(time.perf_counter() - t)"


def run() -> list[Result]:
    ours, numpy = (
        statistics.median(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(7))
        for code in (_CODE, _PEER)
    )
    detail = f"{ours:.3f} s (numpy alone: {numpy:.3f} s)"
    return [Result("import eupg, over import numpy", ours / numpy, "< 0.3 s", ours < 0.3, detail)]
