"""The kinds of measurement, by name: the function behind each, what it shares, and whether it must run alone."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from eupg.errors import ParameterError
from eupg_reproduction.cell import Cell
from eupg_reproduction.found import Found

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
    "quality": Kind("eupg_reproduction.quality", frozenset({"method", "finetune", "forget"})),
    "base": Kind("eupg_reproduction.base", frozenset()),
    "exposure": Kind("eupg_reproduction.exposure", frozenset({"exposure"})),
    "exposure_audit": Kind("eupg_reproduction.exposure_audit", frozenset()),
    "epsilon_models": Kind("eupg_reproduction.epsilon_models", frozenset({"model", "exposure", "canary"})),
    "runtime": Kind("eupg_reproduction.runtime", frozenset({"method", "finetune"}), alone=True),
    # All that share reference models are one job: there is one GPU.
    "pictures": Kind(
        "eupg_reproduction.pictures",
        frozenset({"method", "finetune", "recipe", "pretrain", "references", "repetition"}),
    ),
}


def kind(name: str) -> Kind:
    """Return a kind by name."""
    if name not in KINDS:
        raise ParameterError(f"no kind of measurement {name!r}: choose one of {', '.join(KINDS)}")
    return KINDS[name]
