"""A lower bound on ε of models: a canary, one person chosen to stand out, is in the records of half of the trainings.

People with the canary and the same people without it are neighbours in the sense of DP synthesis. Models are trained on
both many times, with fresh randomness. The log-odds of the canary's label are one output per model, and
:func:`~eupg.audit.epsilon.epsilon_lower_bound` returns the ε that the outputs refute.

At exposure 0 the base model is queried. Otherwise it is first fine-tuned on other people, each drawn with that
probability; with all of them it is the model after the canary's erasure. If the canary is seen raw, it is among those
people: nothing is claimed then, and a sound attack should find it, as in ``Unprotected``, a model of the records
themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eupg.audit.epsilon import epsilon_lower_bound, epsilons
from eupg.audit.membership.signals import scaled_logit
from eupg.data.attribute import Listed, Numeric
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.errors import DataError, ParameterError
from eupg.forget.eupg import FEWEST_EXPOSED
from eupg.forget.lottery import exposed_people
from eupg.guarantees import DifferentiallyPrivate, Neighbours
from eupg.learn import recipes
from eupg.learn.learner import Model
from eupg.protect.mechanism import Mechanism
from eupg.rng import Randomness, Seeded
from eupg_reproduction import methods
from eupg_reproduction.cell import Cell
from eupg_reproduction.cell_figures import CellFigures, timed

NEVER, RAW = "never seen raw", "seen raw"
UNPROTECTED = "Unprotected"
_CONFIDENCE = 0.95
_TINY = 1e-300
Scores = NDArray[np.float64]


def measure(cells: Sequence[Cell]) -> Iterator[tuple[Cell, CellFigures]]:
    """Bound ε of one protection; all models and exposures share its releases."""
    one, seconds = cells[0], dict[str, float]()
    for cell in cells:
        _check(cell)
    people = draw_people(methods.source(one.set).train, int(one.get("people")), Seeded(one.repetition))
    mechanism = None if one.method == UNPROTECTED else methods.mechanism(one.method)
    claim = None if mechanism is None else covering(mechanism, people.schema)
    attack = Attack(people, canary(people.schema), mechanism)
    runs, rng = int(one.get("runs")), Seeded(one.repetition).stage(one.method)
    scores = timed(seconds, "runs", lambda: attack.scores(cells, runs, rng))
    for at, cell in enumerate(cells):
        covered = claim if cell.get("canary") == NEVER else None
        yield cell, CellFigures(bounded(scores[:, :, at], covered), seconds, ("runs",))


def canary(schema: Schema) -> Dataset:
    """Return the record that should stand out most, by a rule that uses the schema alone.

    Numbers are at their upper bound, listed values at the last of their list, and the label is the first class. Every
    record adds one to the same number of counts of a synthesis; it stands out where few others are counted, which is at
    the ends of public ranges. The last class ("yes" after "no") goes with large values more often than not, so the
    first is the rarer one for such a record. If a table is different, the attack is weaker; the bound still holds.

    Examples
    --------
    >>> from eupg.data.attribute import Categorical, Role
    >>> record = canary(Schema((Numeric(name="age", lower=0, upper=9), Categorical(name="town", categories=("A", "B")),
    ...                         Categorical(name="ill", role=Role.LABEL, categories=("no", "yes")))))
    >>> record.to_pandas().to_dict("list")
    {'age': [9.0], 'town': ['B'], 'ill': ['no']}
    """
    values = []
    for attribute in schema.features:
        if isinstance(attribute, Numeric):
            values.append(float(attribute.upper))
        elif isinstance(attribute, Listed):
            values.append(float(len(attribute.categories) - 1))
        else:
            raise DataError(f"column {attribute.name!r} is a {attribute.kind}: canaries exist for tables only")
    name = np.array(["canary"])
    return Dataset(schema, np.array([values]), np.zeros(1, dtype=np.int64), name, name)


def covering(mechanism: Mechanism, schema: Schema) -> DifferentiallyPrivate:
    """Return a mechanism's claim; refuse one that does not cover the presence of a person."""
    claim = mechanism.guarantee(schema)
    if not isinstance(claim, DifferentiallyPrivate) or claim.neighbours is not Neighbours.ADD_OR_REMOVE:
        raise ParameterError(
            f"{mechanism!r} does not claim that adding a person makes no difference, which is tested here: "
            "choose a synthesis, or audit the mechanism's own claim"
        )
    return claim


def draw_people(data: Dataset, count: int, rng: Randomness) -> Dataset:
    """Return all records of ``count`` people drawn uniformly."""
    everyone = np.unique(data.subjects)
    if not 0 < count <= len(everyone):
        raise DataError(f"expected to draw from 1 to {len(everyone)} people, got {count}: ask for fewer")
    return data.of_subjects(everyone[rng.stage("people").permutation(len(everyone))[:count]].tolist())


@dataclass(frozen=True, eq=False)
class Attack:
    """Trains models on ``people`` with and without the canary ``target``, and queries each model about it.

    ``mechanism`` protects the base models; None trains on the records themselves.
    """

    people: Dataset
    target: Dataset
    mechanism: Mechanism | None

    def scores(self, cells: Sequence[Cell], runs: int, rng: Randomness) -> Scores:
        """Return log-odds of the canary's label: with it and without it, one row per run, one column per cell."""
        out = np.empty((2, runs, len(cells)))
        for side, there in enumerate((True, False)):
            data = self.people.plus(self.target) if there else self.people
            for run in range(runs):
                fresh = rng.stage("with" if there else "without").stage(f"run {run}")
                out[side, run] = self._run(cells, data, fresh, there=there)
        return out

    def _run(self, cells: Sequence[Cell], data: Dataset, rng: Randomness, *, there: bool) -> list[float]:
        examples = data if self.mechanism is None else self.mechanism.protect(data, rng.stage("protect"))
        bases: dict[str, Model] = {}
        outputs = []
        for cell in cells:
            learner, (full, short) = recipes.paper_learner(cell.model, cell.set), recipes.EFFORTS[cell.model]
            if cell.model not in bases:
                stream = rng.stage("pretrain").generator()
                bases[cell.model] = learner.fit(examples, effort=full, rng=stream)
            model, exposure = bases[cell.model], float(cell.get("exposure"))
            if self.mechanism is not None and exposure:
                # The others are drawn without the canary, so it is never among them by chance.
                seen = exposed_people(self.people, exposure, rng)
                seen = seen.plus(self.target) if there and cell.get("canary") == RAW else seen
                # EUPG does not fine-tune on too few people.
                if len(np.unique(seen.subjects)) >= FEWEST_EXPOSED:
                    model = learner.fit(seen, effort=short, rng=rng.stage("finetune").generator(), start=model)
            outputs.append(log_odds(model, self.target))
        return outputs


def log_odds(model: Model, record: Dataset) -> float:
    """Return the log-odds of a record's label; for two classes from the raw margin, if the model has one.

    A margin does not saturate as a probability does. Any function of a model is valid: a less informative one makes the
    bound weaker, not wrong.
    """
    sign = 1.0 if record.y[0] else -1.0
    margins, encoder = getattr(model, "margins", None), getattr(model, "encoder", None)
    estimator: Any = getattr(model, "estimator", None)
    if record.schema.classes == 2 and margins is not None:
        return sign * float(margins(record.X)[0])
    if record.schema.classes == 2 and encoder is not None and hasattr(estimator, "decision_function"):
        return sign * float(estimator.decision_function(encoder(record.X))[0])
    return float(scaled_logit(model.predict_proba(record.X), record.y, floor=_TINY)[0])


def bounded(scores: Scores, claim: DifferentiallyPrivate | None) -> dict[str, Any]:
    """Return the bound, the claimed ε (None for a control), and the largest bound that this many runs can give."""
    there, gone = scores
    delta = 0.0 if claim is None else claim.delta
    bound = epsilon_lower_bound(there, gone, confidence=_CONFIDENCE, delta=delta)
    most = epsilons(bound.runs, bound.runs, 0, bound.other_runs, 1 - _CONFIDENCE, delta)
    return {
        "bound": bound.to_json(),
        "claimed": None if claim is None else claim.epsilon,
        "most": max(0.0, float(most)),
        "runs": len(there),
        "with": {"mean": float(there.mean()), "std": float(there.std())},
        "without": {"mean": float(gone.mean()), "std": float(gone.std())},
    }


def _check(cell: Cell) -> None:
    exposure, raw = float(cell.get("exposure")), cell.get("canary") == RAW
    if cell.get("canary") not in (NEVER, RAW):
        raise ParameterError(f"the canary is {NEVER!r} or {RAW!r}, got {cell.get('canary')!r}")
    if cell.method == UNPROTECTED and not (raw and exposure == 1):
        raise ParameterError(f"{UNPROTECTED} sees everyone raw: say exposure 1 and {RAW!r}, not {cell}")
    if raw and not exposure:
        raise ParameterError(f"at exposure 0 nobody is seen raw: say {NEVER!r}, or an exposure above 0, not {cell}")
