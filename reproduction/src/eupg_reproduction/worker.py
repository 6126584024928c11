"""The measuring process: it reads one line per job and writes one line per finished cell.

:mod:`eupg_reproduction.run` starts it as ``python -m eupg_reproduction.worker``. It ends when it is told to, or when
the run is gone; then it deletes the run's folder.
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

from eupg_reproduction.cell import Cell
from eupg_reproduction.kinds import kind
from eupg_reproduction.run_cache import clear
from eupg_reproduction.version import forget_peak_memory, machine, peak_memory_mb

# The last line of an orderly run. If the input ends without it, the run was killed. The parent process is no evidence:
# a killed process closes its pipes before its children get another parent.
END = "end\n"


def main() -> None:
    """Measure jobs until there are no more."""
    # Output of libraries must not mix with the results.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    jobs: queue.Queue[str] = queue.Queue()
    listener = threading.Thread(target=_listen, args=(jobs,), daemon=True)
    listener.start()
    try:
        while True:
            for message in _job(json.loads(jobs.get())):
                out.write(json.dumps(message, ensure_ascii=False) + "\n")
                out.flush()
    except BrokenPipeError:
        # The run is gone. The listener notices it too, and must not be interrupted while it deletes.
        listener.join()


def _listen(jobs: queue.Queue[str]) -> None:
    for line in sys.stdin:
        if line == END:
            break
        jobs.put(line)
    else:
        clear()
    os._exit(0)


def _job(configs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield one message per finished cell, then one that the job is done or why it failed."""
    forget_peak_memory()
    spent = time.process_time()
    cells = [Cell.of(config) for config in configs]
    try:
        for cell, figures in kind(cells[0].kind).measure(cells):
            now = time.process_time()
            yield {
                "key": cell.key,
                "metrics": figures.metrics,
                "seconds": {phase: round(spent, 6) for phase, spent in figures.seconds.items()},
                "shared": list(figures.shared),
                # Of this process since the last line: shared work counts where it was first needed.
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
