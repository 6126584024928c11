"""Differential privacy for whole records: a synthetic table drawn from noisy counts.

The model is a tree-augmented naive Bayes network: the label, and every feature given the label and one other feature.
Four questions are asked of the records, each answered with exact noise (:mod:`eupg.protect.exact_noise`): how many
there are; how each feature goes with the label, cell by cell; which pairs of features belong together; how each chosen
pair goes with the label. All else is computed from the answers. ``docs/guarantees.md`` holds the proof.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eupg.data.attribute import Listed, Numeric
from eupg.data.dataset import Dataset
from eupg.data.picture import require_table
from eupg.data.schema import Schema
from eupg.errors import DataError, ParameterError
from eupg.guarantees import DifferentiallyPrivate
from eupg.protect.cells import Cells
from eupg.protect.release import Release
from eupg.protect.synthesis_budget import Budget
from eupg.protect.synthesis_model import SynthesisModel
from eupg.protect.units import random_rank, unit_claim
from eupg.rng import Randomness
from eupg.validation import check_positive, check_whole

_MOST_CATEGORIES = 20_000
_MOST_FEATURES = 500
# Beyond this a floating-point number no longer tells one step from the next.
_MOST_STEPS = 2**53


@dataclass(frozen=True)
class DPSynthesis:
    """Release a synthetic table with differential privacy for all of a person: attributes, label, presence.

    Parameters
    ----------
    epsilon
        Budget of one person, or of one record where the schema names no person.
    delta
        0 for pure ε-differential privacy (discrete Laplace noise); above 0 for the (ε, δ) form (discrete Gaussian
        noise), which is better for tables of many columns.
    max_records
        The most records of one person that are used; of those who have more, some are dropped at random. The noise
        grows with it.
    rows
        How many synthetic rows to draw; by default as many as there are records, by a noisy count.
    """

    epsilon: float = 1.0
    delta: float = 0.0
    max_records: int = 1
    rows: int | None = None

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        if not (isinstance(self.delta, (int, float, np.floating)) and 0 <= self.delta < 1):
            raise ParameterError(f"delta must be 0, or a small probability such as 1e-6, got {self.delta!r}")
        for name, value in (("max_records", self.max_records), ("rows", 1 if self.rows is None else self.rows)):
            check_whole(name, value, at_least=1)

    def guarantee(self, schema: Schema) -> DifferentiallyPrivate:
        """Return the claim: (ε, δ) for one person, on all attributes and the label."""
        require_table(schema, "DPSynthesis", "PixelDP")
        declared = (f"the number of rows, {self.rows}, was declared and not counted",) if self.rows else ()
        return unit_claim(self.epsilon, self.delta, schema, declared)

    def protect(self, data: Dataset, rng: Randomness) -> Release:
        """Ask the four questions, and draw a table from the answers."""
        # An empty table is not refused: that would tell it from one with a single person.
        varying = _varying(data.schema)
        kept = at_most(data, self.max_records, rng.stage("drop"))
        budget = Budget.split(self.epsilon, self.delta, self.max_records, len(varying))
        total = max(1, len(kept) + int(budget.count.draw(1, rng.stage("count"))[0]))
        model = SynthesisModel.ask(kept, varying, budget, total, rng)
        X, y = model.draw(total if self.rows is None else self.rows, rng.stage("draw").generator())
        return Release.shuffled(data, X, y, self.guarantee(data.schema), rng)


def at_most(data: Dataset, records: int, rng: Randomness) -> Dataset:
    """Keep at most that many records of each person, all choices equally likely.

    Where the schema names no person, a record is the unit and all are kept: were some dropped, removing one record
    could let another one in, and change two.
    """
    return data.select(random_rank(data, rng) < records)


def _varying(schema: Schema) -> list[int]:
    """Return the features that can take more than one value; refuse what the method cannot carry."""
    require_table(schema, "DPSynthesis", "PixelDP")
    for attribute in (*schema.features, schema.label):
        if isinstance(attribute, Listed) and len(attribute.categories) > _MOST_CATEGORIES:
            raise ParameterError(
                f"column {attribute.name!r} has {len(attribute.categories)} categories, and synthesis takes up to "
                f"{_MOST_CATEGORIES}: merge rare ones into one"
            )
        if isinstance(attribute, Numeric) and (attribute.upper - attribute.lower) / attribute.resolution > _MOST_STEPS:
            raise ParameterError(
                f"column {attribute.name!r} has more than {_MOST_STEPS} steps of {attribute.resolution:g} between its "
                "bounds, too many to tell apart: declare a coarser resolution, or closer bounds"
            )
    found = [j for j, attribute in enumerate(schema.features) if Cells.of(attribute, 2).size > 1]
    if not found:
        raise DataError("no feature of the schema can take two values, so there is nothing to draw: declare more")
    if len(found) > _MOST_FEATURES:
        raise ParameterError(
            f"the schema has {len(found)} features, and synthesis takes up to {_MOST_FEATURES}, since each shares the "
            "budget: drop those that matter least"
        )
    return found
