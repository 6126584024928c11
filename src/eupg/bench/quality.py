"""Quality of forgetting: utility and membership inference before and after, one method a cell.

All methods of a repetition share who asks, the split, and the reference models of the audit, which are trained from
scratch with the methods' own learner on halves of the retained records. What they begin with alike is trained once.
Seconds are kept for orientation: other cells may run beside; ``runtime`` measures alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from eupg.audit.membership import audit, references_for
from eupg.audit.references import References
from eupg.audit.rmia import RMIA
from eupg.bench import methods
from eupg.bench.cell import Cell
from eupg.bench.found import Found, audited, repetition, requests, seed_of, silent, timed, utility
from eupg.bench.trainings import Trainings
from eupg.data.sources import Source
from eupg.forget.retrain import Retrain
from eupg.forget.storage import storage
from eupg.forget.unlearner import Trained


def measure(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Found]]:
    """Measure the methods of one repetition, for one share of people forgotten after the other."""
    source = methods.source(cells[0].set)
    trainings = Trainings(source.train, repetition(cells[0].repetition))
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
        models = int(cell.get("references"))
        if not models:
            return None
        given = methods.recipe(cell)
        return references_for(
            Retrain(given.learner, given.full),
            self.members,
            self.source.test,
            self.retained,
            models=models,
            seed=seed_of(self.rng, "references"),
            jobs=1,
            step=silent,
        )

    def run(self, cell: Cell) -> Found:
        """Train, forget and measure one method."""
        method = methods.method(cell)
        trained, seconds, shared = self.trainings.train(method)
        kept = storage(trained)
        after = timed(seconds, "forget", lambda: method.forget(trained, self.retained, self.rng))
        metrics = {
            "before": self._measured(trained),
            "after": self._measured(after),
            "storage": {"files": kept.files, "bytes": kept.size_bytes, "models": kept.models_a_prediction},
            "records": {"train": len(self.source.train), "forgotten": len(self.members)},
            "claim": after.claim.to_json(),
        }
        return Found(metrics, seconds, shared)

    def _measured(self, trained: Trained) -> dict[str, Any]:
        found: dict[str, Any] = {"utility": utility(self.source, trained.model)}
        if self._references is not None:
            report = audit(
                trained.model, self.members, self.source.test, references=self._references, attack=self._attack
            )
            # Tuned on the references alone, so that it is the same for every model.
            self._attack = self._attack or RMIA(a=float(report.parameters["a"]))
            found["audit"] = audited(report)
        return found
