"""The kinds of measurement by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from eupg.errors import ParameterError
from eupg_reproduction.cell import Cell
from eupg_reproduction.cell_figures import CellFigures

Measure = Callable[[Sequence[Cell]], Iterator[tuple[Cell, CellFigures]]]


@dataclass(frozen=True)
class Kind:
    """One kind of measurement, in a module that is loaded on first use.

    Cells of one job may differ in the settings ``together``. A kind that measures time runs ``alone``.
    """

    module: str
    together: frozenset[str]
    alone: bool = False

    @property
    def measure(self) -> Measure:
        """The function that measures some cells."""
        function: Measure = importlib.import_module(self.module).measure
        return function


KINDS = {
    "quality": Kind("eupg_reproduction.quality", frozenset({"method", "finetune", "forget"})),
    "base": Kind("eupg_reproduction.base", frozenset()),
    "exposure": Kind("eupg_reproduction.exposure", frozenset({"exposure"})),
    "exposure_audit": Kind("eupg_reproduction.exposure_audit", frozenset()),
    "epsilon_models": Kind("eupg_reproduction.epsilon_models", frozenset({"model", "exposure", "canary"})),
    "runtime": Kind("eupg_reproduction.runtime", frozenset({"method", "finetune"}), alone=True),
    # Cells that share reference models are one job: there is one GPU.
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
