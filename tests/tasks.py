"""Work for other processes: they import it by name."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eupg.executor import Executor
from eupg.executor.executor import opened


def double_and_say_where(factor: int, task: int) -> tuple[int, int]:
    print("a framework that talks")
    return factor * task, os.getpid()


def threads_allowed(task: int) -> str:
    return os.environ["OMP_NUM_THREADS"]


def killed(task: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fails(task: int) -> None:
    raise KeyError(f"task {task} is wrong")


class TwoArguments(Exception):
    """An exception that pickle can write and not read back."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def fails_oddly(task: int) -> None:
    raise TwoArguments(task, task)


@dataclass(frozen=True)
class KilledOnce:
    """Work whose process, if it is another, is killed the first time: once it is done and before it answers."""

    work: Callable[[Any], Any]
    flag: Path
    home: int = field(default_factory=os.getpid)

    def __call__(self, task: Any) -> Any:
        result = self.work(task)
        if os.getpid() == self.home:
            return result
        try:
            self.flag.touch(exist_ok=False)
        except FileExistsError:
            return result
        return os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Killing:
    """An executor one of whose processes is killed in the first call that has several tasks."""

    executor: Executor
    flag: Path

    def map(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        return self.executor.map(KilledOnce(work, self.flag), tasks)

    @contextmanager
    def opened(self) -> Iterator[Executor]:
        with opened(self.executor) as processes:
            yield Killing(processes, self.flag)


def negative_and_process(task: int) -> tuple[int, int]:
    return -task, os.getpid()


def sleeps(mark: str) -> None:
    aside = Path(f"{mark}.aside")
    aside.write_text(str(os.getpid()), encoding="utf-8")
    aside.rename(mark)
    time.sleep(60)


def doubled(task: int) -> int:
    return 2 * task
