"""Work for other processes: they import it by name."""

import os
import signal


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
