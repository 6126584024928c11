"""Quality of forgetting: utility and membership inference before and after, one method per cell.

All methods of a repetition share the requests and the split. The reference models of the audit, trained from scratch
with the methods' own learner, are shared by all repetitions. Steps that methods share are trained once, or taken from
``runtime``. Seconds are for orientation only: other cells may run at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from eupg.audit.membership.audit import audit
from eupg.audit.membership.references import References
from eupg.audit.membership.rmia import RMIA
from eupg.data.sources import Source
from eupg.forget.retrain import Retrain
from eupg.learn.learner import Model
from eupg_reproduction import methods
from eupg_reproduction.cell import Cell
from eupg_reproduction.cell_figures import CellFigures, audited, repetition, requests, utility
from eupg_reproduction.run_cache import RunCache
from eupg_reproduction.shared_references import shared_references
from eupg_reproduction.trainings import Trainings


def measure(cells: Sequence[Cell]) -> Iterator[tuple[Cell, CellFigures]]:
    """Measure the methods of one repetition, for each share of people forgotten."""
    source = methods.source(cells[0].set)
    trainings = Trainings(source.train, repetition(cells[0].repetition), RunCache.of_run(writes=False))
    for _, mine in groupby(sorted(cells, key=_share), key=_share):
        same_share = list(mine)
        case = _Case(source, trainings, same_share[0])
        for cell in same_share:
            yield cell, case.run(cell)


def _share(cell: Cell) -> float:
    return float(cell.get("forget"))


class _Case:
    """One repetition and share of people: the requests, the retained records, and the reference models."""

    def __init__(self, source: Source, trainings: Trainings, cell: Cell) -> None:
        self.source, self.trainings, self.rng = source, trainings, trainings.rng
        self.members, self.retained = requests(source, _share(cell), self.rng)
        self._attack: RMIA | None = None
        self._references = self._train_references(cell)

    def _train_references(self, cell: Cell) -> References | None:
        outside = int(cell.get("references"))
        if not outside:
            return None
        recipe = methods.recipe(cell)
        return shared_references(Retrain(recipe.learner, recipe.pretrain), self.source, outside)

    def run(self, cell: Cell) -> CellFigures:
        """Train, forget and measure one method."""
        done = self.trainings.honour(methods.method(cell), self.retained)
        storage = done.storage
        metrics = {
            "before": self._measured(done.before),
            "after": self._measured(done.after),
            "storage": {"files": storage.files, "bytes": storage.size_bytes, "models": storage.models_a_prediction},
            "records": {"train": len(self.source.train), "forgotten": len(self.members)},
            "claim": done.claim.to_json(),
        }
        return CellFigures(metrics, done.seconds, done.shared)

    def _measured(self, model: Model) -> dict[str, Any]:
        figures: dict[str, Any] = {"utility": utility(self.source, model)}
        if self._references is not None:
            report = audit(model, self.members, self.source.test, references=self._references, attack=self._attack)
            # Tuned on the reference models alone, so it is the same for every model.
            self._attack = self._attack or RMIA(a=float(report.parameters["a"]))
            figures["audit"] = audited(report)
        return figures
