"""The words of the command line, and the objects behind them: the only place where a name selects behaviour."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from eupg.errors import DataError, ParameterError

if TYPE_CHECKING:
    from eupg.data.dataset import Dataset
    from eupg.data.sources import Source
    from eupg.forget.protected_training import ProtectedTraining
    from eupg.learn.learner import Learner
    from eupg.learn.recipes import Recipe
    from eupg.protect.mechanism import Mechanism

SOURCES = ("rand_hie", "adult", "heart", "credit")
PRIVATE_EPOCHS = 5
# The options of each guarantee: those of the others are refused with it.
PARAMETERS = {
    "kanonymity": ("k",),
    "dp": ("epsilon", "label_epsilon"),
    "synthesis": ("epsilon", "delta", "max_records"),
    "dpsgd": ("epsilon", "delta", "max_records"),
    "private-trees": ("epsilon", "delta", "max_records"),
}


class LearnerName(StrEnum):
    """The learners of ``--learner``."""

    XGBOOST = "xgboost"
    LIGHTGBM = "lightgbm"
    MLP = "mlp"
    LOGISTIC = "logistic"


class GuaranteeName(StrEnum):
    """The guarantees of ``--guarantee``."""

    KANONYMITY = "kanonymity"
    DP = "dp"
    SYNTHESIS = "synthesis"
    DPSGD = "dpsgd"
    PRIVATE_TREES = "private-trees"


LEARNERS = tuple(name.value for name in LearnerName)
GUARANTEES = tuple(name.value for name in GuaranteeName)


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What a user chooses of a method; None where nothing was said.

    Parameters
    ----------
    guarantee, learner
        Their names.
    k, epsilon, delta, label_epsilon, max_records
        The parameters of the guarantee; each has those of :data:`PARAMETERS`.
    exposure
        The share of people who are seen raw.
    """

    guarantee: str | None = None
    k: int | None = None
    epsilon: float | None = None
    delta: float | None = None
    label_epsilon: float | None = None
    max_records: int | None = None
    exposure: float | None = None
    learner: str | None = None

    @property
    def passed(self) -> dict[str, object]:
        """The choices that were made, by the name of their field."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def parameters(self) -> dict[str, object]:
        """Every parameter of a guarantee; None where it was not passed."""
        names = {name for parameters in PARAMETERS.values() for name in parameters}
        return {name: getattr(self, name) for name in names}


def recipe(name: str, table: str = "") -> Recipe:
    """Return the paper's recipe for a learner by name, with its settings for the table where it has some."""
    from eupg.learn.recipes import paper_recipe

    _check_learner(name)
    return paper_recipe(name, table)


def careful_recipe(name: str) -> Recipe:
    """Return the library's one rule for base models and fine-tuning, for a learner by name."""
    from eupg.learn import recipes

    _check_learner(name)
    return recipes.careful_recipe(name)


def _check_learner(name: str) -> None:
    if name not in LEARNERS:
        raise ParameterError(f"no learner {name!r}: choose one of {', '.join(LEARNERS)}")


def base_recipe(guarantee: str, learner: str, rule: Recipe) -> tuple[Learner, int]:
    """Return the base model's learner and effort: the rule's, or, where training is private, one network, briefly."""
    if guarantee != "dpsgd":
        return rule.learner, rule.pretrain
    # Every pass costs budget, and choosing among several would cost it again for each.
    return recipe(learner).learner, PRIVATE_EPOCHS


def follow_plan(plan: Path, choices: Choices) -> tuple[Choices, list[str]]:
    """Take guarantee, exposure and learner from a plan; return them and what certificates must say because of it."""
    if choices.passed:
        chosen = ", ".join(map(_option, choices.passed))
        raise ParameterError(f"the plan chooses {chosen}: pass --plan without it, or no plan")
    try:
        values = json.loads(plan.read_text(encoding="utf-8"))
        take, looked = values["take"], str(values["not_covered"])
        if take is None:
            raise ParameterError(f"{plan} recommends nothing: pass --guarantee and --learner yourself")
        kind, _, value = str(take["guarantee"]).partition("=")
        guarantee = {"k": "kanonymity", "ε": "dp", "synthetic ε": "synthesis"}[kind]
        advised = replace(
            choices,
            guarantee=guarantee,
            k=int(value) if kind == "k" else None,
            epsilon=None if kind == "k" else float(value),
            exposure=float(take["exposure"]),
            learner=str(take["learner"]),
            max_records=int(take["max_records"]) if guarantee == "synthesis" else None,
        )
    except ParameterError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{plan} is not a plan ({error!r}): pass a file that eupg plan --out wrote") from error
    return advised, [looked]


def check_parameters(values: Mapping[str, object], asked: Sequence[str], known: Sequence[str] = GUARANTEES) -> None:
    """Refuse options that belong to none of the guarantees asked for.

    Parameters
    ----------
    values
        The options of the command that are parameters of guarantees; None where one was not passed.
    asked, known
        The guarantees that the user chose, and those that the command knows.
    """
    own = sorted({name for guarantee in asked for name in PARAMETERS[guarantee] if name in values})
    for name in sorted({name for guarantee in known for name in PARAMETERS[guarantee]}.difference(own)):
        if values.get(name) is not None:
            whose = [guarantee for guarantee in known if name in PARAMETERS[guarantee]]
            raise ParameterError(
                f"{_option(name)} belongs to --guarantee {' or '.join(whose)} and would be ignored with "
                f"{' and '.join(asked)}, which can have {', '.join(map(_option, own))}: leave it out, or choose "
                "another guarantee"
            )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def mechanism(options: Choices) -> Mechanism | ProtectedTraining:
    """Return the protection asked for by ``--guarantee`` and its parameters."""
    from eupg.protect.kanonymity import ProbabilisticKAnonymity
    from eupg.protect.local_dp import LocalDP

    if options.guarantee == "kanonymity":
        return ProbabilisticKAnonymity(30 if options.k is None else options.k)
    if options.guarantee == "synthesis":
        from eupg.protect.synthesis import DPSynthesis

        return DPSynthesis(
            1.0 if options.epsilon is None else options.epsilon,
            0.0 if options.delta is None else options.delta,
            max_records=1 if options.max_records is None else options.max_records,
        )
    if options.guarantee == "dpsgd":
        from eupg.forget.dp_sgd import DPSGDBase

        return DPSGDBase(
            1.0 if options.epsilon is None else options.epsilon,
            1e-5 if options.delta is None else options.delta,
            max_records=1 if options.max_records is None else options.max_records,
        )
    if options.guarantee == "private-trees":
        from eupg.forget.private_trees.base import PrivateTrees

        return PrivateTrees(
            1.0 if options.epsilon is None else options.epsilon,
            1e-5 if options.delta is None else options.delta,
            max_records=1 if options.max_records is None else options.max_records,
        )
    return LocalDP(1.0 if options.epsilon is None else options.epsilon, label_epsilon=options.label_epsilon)


def source(name: str) -> Source:
    """Return a public data set by name."""
    if name not in SOURCES:
        raise ParameterError(f"no data set {name!r}: choose one of {', '.join(SOURCES)}, or give a file with --data")
    from eupg.data import sources

    chosen: Source = getattr(sources, name)()
    return chosen


def split(name: str, data: Dataset, *, hold_out: float, seed: int) -> Source:
    """Split a user's records by person into training and test."""
    import numpy as np

    from eupg.data.score import accuracy, auc
    from eupg.data.sources import Source

    if not 0 < hold_out < 1:
        raise ParameterError(f"the share to hold out lies between 0 and 1, got {hold_out!r}")
    people = np.random.default_rng(seed).permutation(np.unique(data.subjects))
    count = round(hold_out * len(people))
    if not 0 < count < len(people):
        units = "people" if data.names_people else "records"
        raise DataError(f"{len(people)} {units} cannot be split into training and test: bring more records")
    test = data.where_subjects(people[:count].tolist())
    return Source(name, data.select(~test), data.select(test), auc if data.schema.classes == 2 else accuracy)
