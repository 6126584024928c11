"""A process that measures: it reads one line per job and writes one line per finished cell.

Started by :mod:`eupg_reproduction.run` as ``python -m eupg_reproduction.worker``. It ends when it is told to, or when
whoever started it is gone; then it deletes what the run has left behind.
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
from eupg_reproduction.kept import clear
from eupg_reproduction.kinds import kind
from eupg_reproduction.version import forget_peak_memory, machine, peak_memory_mb

# The last line of a run that lives. Without it the end of input means that the run was killed; who the parent is tells
# nothing, since a process that is killed closes its pipes before its children get another parent.
END = "end\n"


def main() -> None:
    """Measure jobs until there are no more."""
    # Whatever a library prints must not end up among the results.
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
        # Nobody reads on: the listener finds that out, too, and must not be cut short while it deletes.
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
    """Yield one message per finished cell, then that the job is done, or what went wrong."""
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
