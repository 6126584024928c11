"""The words of the experiments, and the objects behind them: data sets, models, protections and methods by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from eupg.bench.cell import Cell
from eupg.data import sources
from eupg.data.sources import Source
from eupg.errors import ParameterError
from eupg.forget.eupg import EUPG
from eupg.forget.retrain import Retrain
from eupg.forget.unlearner import Unlearner
from eupg.learn import recipes
from eupg.learn.learner import Learner
from eupg.protect.mechanism import Mechanism

SETS = ("adult", "heart", "credit")
MODELS = ("mlp", "xgboost", "lightgbm", "logistic")
# Epochs or trees of a full training, and of a fine-tuning: the paper's, and the library's own for models it lacks.
EFFORTS = {"mlp": (50, 5), "xgboost": (100, 5), "lightgbm": (100, 10), "logistic": (20, 5)}
_K = re.compile(r"k=(\d+)")
_DP = re.compile(r"ε=([\d.]+)(?:, label ε=([\d.]+))?")
_SYNTHESIS = re.compile(r"synthesis ε=([\d.]+)")


@dataclass(frozen=True)
class Recipe:
    """How models are made: from scratch, from scratch for a short time, and on from a base model.

    Parameters
    ----------
    learner, full
        The learner of full trainings and base models, and its effort.
    brief
        The learner of the short retrain.
    finetune
        The effort of a fine-tuning.
    finetuner
        The learner of fine-tuning; None where it is that of the base.
    brief_effort
        The effort of the short retrain; None where it is that of a fine-tuning.
    """

    learner: Learner
    full: int
    brief: Learner
    finetune: int
    finetuner: Learner | None = None
    brief_effort: int | None = None


@lru_cache(maxsize=1)
def source(name: str) -> Source:
    """Return a data set by name."""
    known = (*SETS, "rand_hie", "cifar10")
    if name not in known:
        raise ParameterError(f"no data set {name!r}: choose one of {', '.join(known)}")
    found: Source = getattr(sources, name)()
    return found


def recipe(cell: Cell) -> Recipe:
    """Return the recipe a cell asks for: the paper's, or the library's own rule, tuned inside what it may see."""
    wanted = cell.get("recipe")
    if wanted == "tuned":
        rule = careful(cell.model)
        return Recipe(rule.learner, rule.pretrain, rule.short, rule.finetune, rule.finetuner, rule.short_effort)
    if wanted != "paper":
        raise ParameterError(f"no recipe {wanted!r}: choose paper or tuned")
    learner = plain(cell.model, cell.set)
    return Recipe(learner, int(cell.get("effort")), learner, int(cell.get("finetune")))


def careful(model: str) -> recipes.Recipe:
    """Return the library's one rule for a model: efforts and strengths chosen on held-out parts of what is seen."""
    if model not in MODELS:
        raise ParameterError(f"no model {model!r}: choose one of {', '.join(MODELS)}")
    found: recipes.Recipe = getattr(recipes, f"{model}_recipe")()
    return found


def plain(model: str, table: str, *, refresh: bool = False, threads: int = 1) -> Learner:
    """Return the learner with the paper's settings for the table, or the library's own for models the paper lacks.

    Parameters
    ----------
    model
        One of ``MODELS``.
    table
        The data set's name; any other name gets the settings that the paper uses on most.
    refresh
        Whether fine-tuning refreshes the leaves of trees instead of adding trees (XGBoost).
    threads
        CPU threads of boosted trees; 0 takes one for small tables and all for large ones.
    """
    if model == "mlp":
        from eupg.learn.networks import MLP
        from eupg.learn.torch_learner import TorchLearner

        width, decay = (256 if table == "credit" else 128), (1e-5 if table in ("heart", "credit") else 1e-4)
        return TorchLearner(MLP((width, width)), weight_decay=decay)
    if model == "xgboost":
        from eupg.learn.xgboost_learner import XGBoostLearner

        return XGBoostLearner(refresh_leaves=refresh, threads=threads)
    if model == "lightgbm":
        from eupg.learn.lightgbm_learner import LightGBMLearner

        return LightGBMLearner(threads=threads)
    if model == "logistic":
        from eupg.learn.sklearn_learner import SklearnLearner

        return SklearnLearner()
    raise ParameterError(f"no model {model!r}: choose one of {', '.join(MODELS)}")


def mechanism(words: str) -> Mechanism:
    """Return a protection by name: ``k=30``, ``ε=1``, ``ε=1, label ε=1`` or ``synthesis ε=1``.

    Examples
    --------
    >>> mechanism("k=30")
    ProbabilisticKAnonymity(k=30)
    """
    if found := _K.fullmatch(words):
        from eupg.protect.kanonymity import ProbabilisticKAnonymity

        return ProbabilisticKAnonymity(int(found[1]))
    if found := _DP.fullmatch(words):
        from eupg.protect.local_dp import LocalDP

        return LocalDP(float(found[1]), label_epsilon=float(found[2]) if found[2] else None)
    if found := _SYNTHESIS.fullmatch(words):
        from eupg.protect.synthesis import DPSynthesis

        return DPSynthesis(float(found[1]))
    raise ParameterError(f"no protection {words!r}: say k=30, ε=1, 'ε=1, label ε=1' or synthesis ε=1")


def method(cell: Cell) -> Unlearner:
    """Return the method a cell asks for."""
    given = recipe(cell)
    return named(cell.method, given, lambda words: _eupg(cell, words, given))


def named(words: str, given: Recipe, eupg: Callable[[str], EUPG]) -> Unlearner:
    """Return a method by name; ``eupg`` makes EUPG of the words that follow its name."""
    if words == "Retrain":
        return Retrain(given.learner, given.full)
    if words == "Short retrain":
        return Retrain(given.brief, given.brief_effort or given.finetune)
    if words == "SISA":
        from eupg.forget.sisa import SISA

        # One process, as every other method has: its shards would otherwise run side by side.
        return SISA(given.learner, given.full, jobs=1)
    if words in ("Certified-SP", "Certified-SP, published calibration"):
        from eupg.forget.certified_sp import CertifiedSP

        return CertifiedSP(given.learner, given.full, given.finetune, published_calibration="published" in words)
    if words.startswith("EUPG "):
        return eupg(words.removeprefix("EUPG "))
    raise ParameterError(
        f"no method {words!r}: say Retrain, Short retrain, SISA, Certified-SP or EUPG and a protection"
    )


def _eupg(cell: Cell, words: str, given: Recipe) -> EUPG:
    base = words.removesuffix(", leaves refreshed")
    finetuner = given.finetuner if base == words else plain(cell.model, cell.set, refresh=True)
    return EUPG(mechanism(base), given.learner, given.full, given.finetune, finetuner=finetuner)
