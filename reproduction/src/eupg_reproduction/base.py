"""The base model before fine-tuning: utility and membership inference against the strength of the protection.

The reference models of the audit are made like the model, by protecting halves of the records and training on them, as
an attacker who knows the method would do. ``Unprotected`` is trained on the records themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eupg.audit.membership.audit import audit
from eupg.forget.eupg import EUPG
from eupg.forget.retrain import Retrain
from eupg.learn import recipes
from eupg_reproduction import methods
from eupg_reproduction.cell import Cell
from eupg_reproduction.cell_figures import CellFigures, audited, repetition, requests, timed, utility
from eupg_reproduction.shared_references import shared_references


def measure(cells: Sequence[Cell]) -> Iterator[tuple[Cell, CellFigures]]:
    """Measure base models."""
    for cell in cells:
        yield cell, _measure(cell)


def _measure(cell: Cell) -> CellFigures:
    source, rng, seconds = methods.source(cell.set), repetition(cell.repetition), dict[str, float]()
    members, _ = requests(source, float(cell.get("forget")), rng)
    learner, effort = recipes.paper_learner(cell.model, cell.set), int(cell.get("effort"))
    method: EUPG | Retrain = Retrain(learner, effort)
    if cell.method != "Unprotected":
        method = EUPG(methods.mechanism(cell.method), learner, effort, 0)
    model = timed(seconds, "train", lambda: method.train(source.train, rng)).model
    references = shared_references(method, source, int(cell.get("references")))
    report = audit(model, members, source.test, references=references)
    return CellFigures({"utility": utility(source, model), "audit": audited(report)}, seconds)
