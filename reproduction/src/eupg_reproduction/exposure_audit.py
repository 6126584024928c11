"""Membership inference on people seen raw and on people never seen raw, before any erasure.

Base models and fine-tuning follow the library's rule; the same method makes the reference models of the audit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from eupg.audit.membership.audit import audit
from eupg.audit.membership.rmia import RMIA
from eupg.forget.eupg import EUPG
from eupg.learn import recipes
from eupg.rng import Seeded
from eupg_reproduction import methods
from eupg_reproduction.cell import Cell
from eupg_reproduction.cell_figures import CellFigures, audited, timed
from eupg_reproduction.shared_references import shared_references

_MOST_MEMBERS = 3_000


def measure(cells: Sequence[Cell]) -> Iterator[tuple[Cell, CellFigures]]:
    """Audit served models."""
    for cell in cells:
        yield cell, _measure(cell)


def _measure(cell: Cell) -> CellFigures:
    source, rule, seconds = methods.source(cell.set), recipes.careful_recipe(cell.model), dict[str, float]()
    exposure = float(cell.get("exposure"))
    mechanism = methods.mechanism(cell.method)
    method = EUPG(mechanism, rule.learner, rule.pretrain, rule.finetune, exposure, finetuner=rule.finetuner)
    trained = timed(seconds, "train", lambda: method.train(source.train, Seeded(cell.repetition)))
    seen = np.isin(source.train.ids, list(trained.ids))
    references = shared_references(method, source, int(cell.get("references")))
    metrics = {}
    for group, mask in (("seen raw", seen), ("never seen raw", ~seen)):
        if not mask.any():
            continue
        chosen = np.random.default_rng(cell.repetition).permutation(np.flatnonzero(mask))[:_MOST_MEMBERS]
        members = np.isin(np.arange(len(mask)), chosen)
        report = audit(trained.model, source.train.select(members), source.test, attack=RMIA(), references=references)
        metrics[group] = audited(report)
    return CellFigures(metrics, seconds)
