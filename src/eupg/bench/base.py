"""The base model before fine-tuning: utility and membership inference against the strength of the protection.

The references of the audit are made as the model is, by protecting and training on halves of the records: an attacker
who knows the method would do so. ``Unprotected`` is the original-data line, trained on the records themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eupg.audit.membership import audit
from eupg.bench import methods
from eupg.bench.cell import Cell
from eupg.bench.found import Found, audited, repetition, requests, timed, utility
from eupg.bench.shared_references import shared_references
from eupg.forget.eupg import EUPG
from eupg.forget.retrain import Retrain


def measure(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Found]]:
    """Measure base models."""
    for cell in cells:
        yield cell, _measure(cell)


def _measure(cell: Cell) -> Found:
    source, rng, seconds = methods.source(cell.set), repetition(cell.repetition), dict[str, float]()
    members, _ = requests(source, float(cell.get("forget")), rng)
    learner, effort = methods.plain(cell.model, cell.set), int(cell.get("effort"))
    method: EUPG | Retrain = Retrain(learner, effort)
    if cell.method != "Unprotected":
        method = EUPG(methods.mechanism(cell.method), learner, effort, 0)
    model = timed(seconds, "train", lambda: method.train(source.train, rng)).model
    references = shared_references(method, source, int(cell.get("references")))
    report = audit(model, members, source.test, references=references)
    return Found({"utility": utility(source, model), "audit": audited(report)}, seconds)
