"""Utility against the share of people ever seen raw, beside its controls.

Everything is fitted by the library's rule (:mod:`eupg.learn.recipes`). The base model of a protection is made once and
fine-tuned at each exposure; exposure 0 is the base alone. Controls: the same rule from scratch on the same exposed
people, which is exact for everyone else (at exposure 1 this is full retraining), and the short retrain on everyone.
Nothing is chosen on test records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from eupg.data.sources import Source
from eupg.forget.eupg import EUPG, Base
from eupg.forget.lottery import exposed_people
from eupg.forget.released import Released
from eupg.learn import recipes
from eupg.learn.recipes import Recipe
from eupg.protect.mechanism import Mechanism
from eupg.rng import Seeded
from eupg_reproduction import methods
from eupg_reproduction.cell import Cell
from eupg_reproduction.cell_figures import CellFigures, timed, utility

CONTROLS = ("From scratch", "Short retrain")


def measure(cells: Sequence[Cell]) -> Iterator[tuple[Cell, CellFigures]]:
    """Measure one draw of one protection or control at every exposure."""
    source, rule = methods.source(cells[0].set), recipes.careful_recipe(cells[0].model)
    if cells[0].method in CONTROLS:
        for cell in cells:
            yield cell, _control(source, rule, cell)
        return
    mechanism, rng = methods.mechanism(cells[0].method), Seeded(cells[0].repetition)
    made: dict[str, float] = {}
    release = timed(made, "protect", lambda: mechanism.protect(source.train, rng.stage("protect")))
    model = timed(made, "pretrain", lambda: rule.learner.fit(release, effort=rule.pretrain, rng=_numbers(cells[0])))
    base = Base(model, release.guarantee, Released.of(source.train))
    for cell in cells:
        method = _method(mechanism, rule, float(cell.get("exposure")))
        yield cell, _served(source, method, base, rng, made)


def _served(source: Source, method: EUPG, base: Base, rng: Seeded, made: dict[str, float]) -> CellFigures:
    seconds = dict(made)
    if method.exposure == 0:
        trained = method.resume(base, source.train, rng)
    else:
        trained = timed(seconds, "finetune", lambda: method.resume(base, source.train, rng))
    outside = next((i for i in source.train.ids.tolist() if i not in trained.ids), None)
    if outside is not None:
        left = source.train.without([outside])
        timed(seconds, "erase outside", lambda: method.forget(trained, left, rng))
    metrics = {
        "utility": utility(source, trained.model),
        "kept_base": trained.model is base.model,
        "effort": getattr(trained.model, "effort", None),
        "exposed": len(trained.ids),
        "claim": trained.claim.to_json(),
    }
    return CellFigures(metrics, seconds, ("protect", "pretrain"))


def _control(source: Source, rule: Recipe, cell: Cell) -> CellFigures:
    seconds: dict[str, float] = {}
    if cell.method == "Short retrain":
        model = timed(
            seconds, "train", lambda: rule.short.fit(source.train, effort=rule.short_effort, rng=_numbers(cell))
        )
        exposed = len(source.train)
    else:
        seen = exposed_people(source.train, float(cell.get("exposure")), Seeded(cell.repetition))
        model = timed(seconds, "train", lambda: rule.learner.fit(seen, effort=rule.pretrain, rng=_numbers(cell)))
        exposed = len(seen)
    metrics = {"utility": utility(source, model), "effort": getattr(model, "effort", None), "exposed": exposed}
    return CellFigures(metrics, seconds)


def _method(mechanism: Mechanism, rule: Recipe, exposure: float) -> EUPG:
    return EUPG(mechanism, rule.learner, 1, rule.finetune, exposure=exposure, finetuner=rule.finetuner)


def _numbers(cell: Cell) -> np.random.Generator:
    return np.random.default_rng(cell.repetition)
