"""The kinds of measurement, by name: the function behind each, what it shares, and whether it must run alone."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from eupg.bench.cell import Cell
from eupg.bench.found import Found
from eupg.errors import ParameterError

Measure = Callable[[Sequence[Cell]], Iterator[tuple[Cell, Found]]]


@dataclass(frozen=True)
class Kind:
    """One kind of measurement.

    Parameters
    ----------
    module
        Where it is; loaded when it is first used.
    together
        What cells may differ in and still share work.
    alone
        Whether nothing may run beside it, because it measures time.
    """

    module: str
    together: frozenset[str]
    alone: bool = False

    @property
    def measure(self) -> Measure:
        """The function that measures some cells."""
        found: Measure = importlib.import_module(self.module).measure
        return found


KINDS = {
    "quality": Kind("eupg.bench.quality", frozenset({"method", "finetune", "forget"})),
    "base": Kind("eupg.bench.base", frozenset()),
    "exposure": Kind("eupg.bench.exposure", frozenset({"exposure"})),
    "exposure_audit": Kind("eupg.bench.exposure_audit", frozenset()),
    "epsilon_models": Kind("eupg.bench.epsilon_models", frozenset({"model", "exposure", "canary"})),
    "runtime": Kind("eupg.bench.runtime", frozenset({"method", "finetune"}), alone=True),
    # All that share reference models are one job: there is one GPU.
    "pictures": Kind(
        "eupg.bench.pictures", frozenset({"method", "finetune", "recipe", "pretrain", "references", "repetition"})
    ),
}


def kind(name: str) -> Kind:
    """Return a kind by name."""
    if name not in KINDS:
        raise ParameterError(f"no kind of measurement {name!r}: choose one of {', '.join(KINDS)}")
    return KINDS[name]
