"""A process that measures: one job a line comes in, one line a finished cell goes out.

Started by :mod:`eupg.bench.run` as ``python -m eupg.bench.worker``. It ends when whoever started it is gone, so that a
killed run leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any

from eupg.bench.cell import Cell
from eupg.bench.kept import clear
from eupg.bench.kinds import kind
from eupg.bench.version import forget_peak_memory, machine, peak_memory_mb


def main() -> None:
    """Measure jobs until there are no more."""
    # Whatever a library prints must not end up among the results.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    jobs: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(jobs,), daemon=True).start()
    while True:
        for message in _job(json.loads(jobs.get())):
            out.write(json.dumps(message, ensure_ascii=False) + "\n")
            out.flush()


def _listen(jobs: queue.Queue[str]) -> None:
    for line in sys.stdin:
        jobs.put(line)
    clear()
    os._exit(0)


def _job(configs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield one message a finished cell, then that the job is done, or what went wrong."""
    forget_peak_memory()
    spent = time.process_time()
    cells = [Cell.of(config) for config in configs]
    try:
        for cell, found in kind(cells[0].kind).measure(cells):
            now = time.process_time()
            yield {
                "key": cell.key,
                "metrics": found.metrics,
                "seconds": {phase: round(spent, 6) for phase, spent in found.seconds.items()},
                "shared": list(found.shared),
                # Of this process since the last line: what is shared counts where it was first needed.
                "cpu_s": round(now - spent, 3),
                "peak_mb": peak_memory_mb(),
                "machine": machine(),
            }
            spent = now
    except Exception as error:
        yield {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        return
    yield {"done": True}


if __name__ == "__main__":
    main()
