"""Measure one thing after the other, without losing what was measured when something fails or somebody interrupts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from eupg.errors import EupgError

T = TypeVar("T")


@dataclass(frozen=True)
class Measurements(Generic[T]):
    """The results of some tasks, and the reasons of those without a result, each by the task's position.

    Parameters
    ----------
    results, reasons
        Every task is in one of them.
    interrupted
        Whether an interruption from the keyboard ended the measurement.
    """

    results: dict[int, T]
    reasons: dict[int, str]
    interrupted: bool


def measure_each(tasks: Sequence[Callable[[], T]]) -> Measurements[T]:
    """Do one task after the other; if none has a result, raise the first error, or the interruption."""
    results: dict[int, T] = {}
    reasons: dict[int, str] = {}
    first_error: Exception | None = None
    for i, task in enumerate(tasks):
        try:
            results[i] = task()
        except KeyboardInterrupt:
            if not results:
                raise
            rest = dict.fromkeys(range(i, len(tasks)), "interrupted before it was measured")
            return Measurements(results, reasons | rest, interrupted=True)
        except Exception as error:
            # Frameworks raise errors of every kind, and none of them is worth losing earlier results.
            first_error = first_error or error
            reasons[i] = str(error) if isinstance(error, EupgError) else f"{type(error).__name__}: {error}"
    if first_error is not None and not results:
        raise first_error
    return Measurements(results, reasons, interrupted=False)


class Once(Generic[T]):
    """Work that several tasks share: done when first needed, with the same result, or error, each time."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._result: tuple[T] | None = None
        self._error: Exception | None = None

    def __call__(self) -> T:
        """Return the result, or raise the error."""
        if self._error is not None:
            raise self._error
        if self._result is None:
            try:
                self._result = (self._work(),)
            except Exception as error:
                self._error = error
                raise
        return self._result[0]
