"""Quality of forgetting: utility and membership inference before and after, one method per cell.

All methods of a repetition share who asks and the split. The reference models of the audit, trained from scratch with
the methods' own learner, are shared by all repetitions. What methods begin with alike is trained once, and what
``runtime`` has trained is taken from it. Seconds are kept for orientation: other cells may run beside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from eupg.audit.membership import audit
from eupg.audit.references import References
from eupg.audit.rmia import RMIA
from eupg.data.sources import Source
from eupg.forget.retrain import Retrain
from eupg.learn.learner import Model
from eupg_reproduction import methods
from eupg_reproduction.cell import Cell
from eupg_reproduction.found import Found, audited, repetition, requests, utility
from eupg_reproduction.kept import Kept
from eupg_reproduction.shared_references import shared_references
from eupg_reproduction.trainings import Trainings


def measure(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Found]]:
    """Measure the methods of one repetition, for one share of people forgotten after the other."""
    source = methods.source(cells[0].set)
    trainings = Trainings(source.train, repetition(cells[0].repetition), Kept.of_run(gives=False))
    for _, mine in groupby(sorted(cells, key=_share), key=_share):
        asked = list(mine)
        case = _Case(source, trainings, asked[0])
        for cell in asked:
            yield cell, case.run(cell)


def _share(cell: Cell) -> float:
    return float(cell.get("forget"))


class _Case:
    """One repetition and share of people: who asks, who stays, and the references."""

    def __init__(self, source: Source, trainings: Trainings, cell: Cell) -> None:
        self.source, self.trainings, self.rng = source, trainings, trainings.rng
        self.members, self.retained = requests(source, _share(cell), self.rng)
        self._attack: RMIA | None = None
        self._references = self._train_references(cell)

    def _train_references(self, cell: Cell) -> References | None:
        outside = int(cell.get("references"))
        if not outside:
            return None
        given = methods.recipe(cell)
        return shared_references(Retrain(given.learner, given.pretrain), self.source, outside)

    def run(self, cell: Cell) -> Found:
        """Train, forget and measure one method."""
        done = self.trainings.honour(methods.method(cell), self.retained)
        kept = done.storage
        metrics = {
            "before": self._measured(done.before),
            "after": self._measured(done.after),
            "storage": {"files": kept.files, "bytes": kept.size_bytes, "models": kept.models_a_prediction},
            "records": {"train": len(self.source.train), "forgotten": len(self.members)},
            "claim": done.claim.to_json(),
        }
        return Found(metrics, done.seconds, done.shared)

    def _measured(self, model: Model) -> dict[str, Any]:
        found: dict[str, Any] = {"utility": utility(self.source, model)}
        if self._references is not None:
            report = audit(model, self.members, self.source.test, references=self._references, attack=self._attack)
            # Tuned on the references alone, so that it is the same for every model.
            self._attack = self._attack or RMIA(a=float(report.parameters["a"]))
            found["audit"] = audited(report)
        return found
