"""The words of the command line, and the objects behind them: the only place where a name selects behaviour."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from eupg.data import sources
from eupg.data.dataset import Dataset
from eupg.data.score import accuracy, auc
from eupg.data.sources import Source
from eupg.errors import DataError, ParameterError

if TYPE_CHECKING:
    import argparse

    from eupg.forget.protected_training import ProtectedTraining
    from eupg.learn.learner import Learner
    from eupg.learn.recipes import Recipe
    from eupg.protect.mechanism import Mechanism

SOURCES = ("rand_hie", "adult", "heart", "credit")
LEARNERS = ("xgboost", "lightgbm", "mlp", "logistic")
GUARANTEES = ("kanonymity", "dp", "synthesis", "dpsgd", "private-trees")
PRIVATE_EPOCHS = 5
# The options of each guarantee: those of the others are refused with it.
PARAMETERS = {
    "kanonymity": ("k",),
    "dp": ("epsilon", "label_epsilon"),
    "synthesis": ("epsilon", "delta", "max_records"),
    "dpsgd": ("epsilon", "delta", "max_records"),
    "private-trees": ("epsilon", "delta", "max_records"),
}


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


def base_recipe(options: argparse.Namespace, learner: Learner, effort: int) -> tuple[Learner, int]:
    """Return the base model's learner and effort: those given, or, where training is private, one network, briefly."""
    if options.guarantee != "dpsgd":
        return learner, effort
    # Every pass costs budget, and choosing among several would cost it again for each.
    return recipe(options.learner).learner, PRIVATE_EPOCHS


def follow_plan(options: argparse.Namespace) -> list[str]:
    """Take guarantee, exposure and learner from a plan; return what certificates must say because of it."""
    chosen = ("guarantee", "k", "epsilon", "delta", "label_epsilon", "max_records", "exposure", "learner")
    given = [_option(name) for name in chosen if getattr(options, name) is not None]
    if given:
        raise ParameterError(f"the plan chooses {', '.join(given)}: pass --plan without it, or no plan")
    try:
        values = json.loads(options.plan.read_text(encoding="utf-8"))
        take, looked = values["take"], str(values["not_covered"])
        if take is None:
            raise ParameterError(f"{options.plan} recommends nothing: pass --guarantee and --learner yourself")
        kind, _, value = str(take["guarantee"]).partition("=")
        options.guarantee = {"k": "kanonymity", "ε": "dp", "synthetic ε": "synthesis"}[kind]
        options.k, options.epsilon = (int(value), None) if kind == "k" else (None, float(value))
        options.exposure, options.learner = float(take["exposure"]), str(take["learner"])
        options.max_records = int(take["max_records"]) if options.guarantee == "synthesis" else None
    except ParameterError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{options.plan} is no plan ({error!r}): pass a file that eupg plan --out wrote") from error
    return [looked]


def check_parameters(options: argparse.Namespace, asked: Sequence[str], known: Sequence[str] = GUARANTEES) -> None:
    """Refuse options that belong to none of the guarantees asked for."""
    own = sorted({name for guarantee in asked for name in PARAMETERS[guarantee] if hasattr(options, name)})
    for name in sorted({name for guarantee in known for name in PARAMETERS[guarantee]}.difference(own)):
        if getattr(options, name, None) is not None:
            whose = [guarantee for guarantee in known if name in PARAMETERS[guarantee]]
            raise ParameterError(
                f"{_option(name)} belongs to --guarantee {' or '.join(whose)} and would be ignored with "
                f"{' and '.join(asked)}, which can have {', '.join(map(_option, own))}: leave it out, or choose "
                "another guarantee"
            )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def mechanism(options: argparse.Namespace) -> Mechanism | ProtectedTraining:
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
    found: Source = getattr(sources, name)()
    return found


def split(name: str, data: Dataset, *, test_share: float, seed: int) -> Source:
    """Split a user's records by person into training and test."""
    if not 0 < test_share < 1:
        raise ParameterError(f"the test share lies between 0 and 1, got {test_share!r}")
    people = np.random.default_rng(seed).permutation(np.unique(data.subjects))
    count = round(test_share * len(people))
    if not 0 < count < len(people):
        units = "people" if data.names_people else "records"
        raise DataError(f"{len(people)} {units} cannot be split into training and test: bring more records")
    test = data.where_subjects(people[:count].tolist())
    return Source(name, data.select(~test), data.select(test), auc if data.schema.classes == 2 else accuracy)
