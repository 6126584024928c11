"""Tasks on a Ray cluster. Every machine has this package installed and sees the same files under the same paths.

Only the core of Ray is used: one remote call per task. Tasks and results are small. The work is put into Ray's object
store once per call of ``map``, and may hold records, so no reference to it is kept when the call ends. Ray repeats a
task whose process or machine is lost.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from eupg.errors import MissingFramework, WorkerLost
from eupg.executor.executor import LOSSES, Answer, Task

# Tasks that wait for a core, per core: enough to keep it busy, few enough that little is lost with a machine.
_AHEAD = 2


@dataclass(frozen=True)
class RayCluster:
    """Runs tasks on a Ray cluster. A process or machine that is lost is replaced by others.

    Parameters
    ----------
    address
        The address of the cluster, as ``ray.init`` takes it. By default the cluster that this process has joined, or
        one that is started on this machine.
    """

    address: str | None = None

    def map(self, work: Callable[[Task], Answer], tasks: Sequence[Task]) -> Iterator[tuple[int, Answer]]:
        """Call ``work`` for each task on the cluster, and yield its position and result as soon as it is done."""
        ray = _joined(self.address)
        call = ray.remote(_call).options(num_cpus=1, max_retries=LOSSES)
        sent = ray.put(work)
        waiting: dict[Any, int] = {}
        following = iter(enumerate(tasks))
        try:
            while True:
                room = _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1))) - len(waiting)
                for _, (position, task) in zip(range(room), following, strict=False):
                    waiting[call.remote(sent, task)] = position
                if not waiting:
                    return
                done, _ = ray.wait(list(waiting), num_returns=1)
                for reference in done:
                    yield waiting.pop(reference), _answer(ray, reference)
        finally:
            for reference in waiting:
                ray.cancel(reference, force=True)
            # Ray frees an object with the last reference to it, which a traceback would keep.
            sent = None
            waiting.clear()


def _joined(address: str | None) -> Any:
    try:
        ray = importlib.import_module("ray")
    except ModuleNotFoundError as error:
        raise MissingFramework("RayCluster needs ray: pip install 'eupg[ray]'") from error
    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False)
    return ray


def _call(work: Callable[[Any], Any], task: Any) -> Any:
    return work(task)


def _answer(ray: Any, reference: Any) -> Any:
    """Return a result, or raise what the task raised."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise WorkerLost(
            f"a task lost its process or machine {LOSSES + 1} times, perhaps for lack of memory "
            f"({type(error).__name__}): give it smaller tasks or larger machines, and repeat"
        ) from error
