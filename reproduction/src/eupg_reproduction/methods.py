"""Data sets, recipes, protections and methods by the names that experiments use."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from eupg.data import sources
from eupg.data.sources import Source
from eupg.errors import ParameterError
from eupg.forget.eupg import EUPG
from eupg.forget.retrain import Retrain
from eupg.forget.unlearner import Unlearner
from eupg.learn.recipes import Recipe, careful_recipe, paper_learner
from eupg.protect.mechanism import Mechanism
from eupg_reproduction.cell import Cell

SETS = ("adult", "heart", "credit")
_K = re.compile(r"k=(\d+)")
_DP = re.compile(r"ε=([\d.]+)(?:, label ε=([\d.]+))?")
_SYNTHESIS = re.compile(r"synthesis ε=([\d.]+)")


@lru_cache(maxsize=1)
def source(name: str) -> Source:
    """Return a data set by name."""
    known = (*SETS, "rand_hie", "cifar10")
    if name not in known:
        raise ParameterError(f"no data set {name!r}: choose one of {', '.join(known)}")
    data: Source = getattr(sources, name)()
    return data


def recipe(cell: Cell) -> Recipe:
    """Return the recipe of a cell: the paper's, or the library's rule, tuned on the data it may see."""
    name = cell.get("recipe")
    if name == "tuned":
        return careful_recipe(cell.model)
    if name != "paper":
        raise ParameterError(f"no recipe {name!r}: choose paper or tuned")
    learner, finetune = paper_learner(cell.model, cell.set), int(cell.get("finetune"))
    return Recipe(learner, int(cell.get("effort")), None, finetune, learner, finetune)


def mechanism(words: str) -> Mechanism:
    """Return a protection by name: ``k=30``, ``ε=1``, ``ε=1, label ε=1`` or ``synthesis ε=1``.

    Examples
    --------
    >>> mechanism("k=30")
    ProbabilisticKAnonymity(k=30, microaggregation=MDAV())
    """
    if match := _K.fullmatch(words):
        from eupg.protect.kanonymity import ProbabilisticKAnonymity
        from eupg.protect.microaggregation.choice import MDAV

        # The paper's groups are those of exact MDAV, whatever the size of the table.
        return ProbabilisticKAnonymity(int(match[1]), MDAV())
    if match := _DP.fullmatch(words):
        from eupg.protect.local_dp import LocalDP

        return LocalDP(float(match[1]), label_epsilon=float(match[2]) if match[2] else None)
    if match := _SYNTHESIS.fullmatch(words):
        from eupg.protect.synthesis.mechanism import DPSynthesis

        return DPSynthesis(float(match[1]))
    raise ParameterError(f"no protection {words!r}: say k=30, ε=1, 'ε=1, label ε=1' or synthesis ε=1")


def method(cell: Cell) -> Unlearner:
    """Return the method of a cell."""
    settings = recipe(cell)
    return named(cell.method, settings, lambda words: _eupg(cell, words, settings))


def named(words: str, recipe: Recipe, eupg: Callable[[str], EUPG]) -> Unlearner:
    """Return a method by name; ``eupg`` makes an EUPG object from the words after its name."""
    if words == "Retrain":
        return Retrain(recipe.learner, recipe.pretrain)
    if words == "Short retrain":
        return Retrain(recipe.short, recipe.short_effort)
    if words == "SISA":
        from eupg.forget.sisa.method import SISA

        # One process, like every other method: its shards would otherwise run in parallel.
        return SISA(recipe.learner, recipe.pretrain, jobs=1)
    if words in ("Certified-SP", "Certified-SP, published calibration"):
        from eupg.forget.certified_sp import CertifiedSP

        return CertifiedSP(recipe.learner, recipe.pretrain, recipe.finetune, published_calibration="published" in words)
    if words.startswith("EUPG "):
        return eupg(words.removeprefix("EUPG "))
    raise ParameterError(
        f"no method {words!r}: say Retrain, Short retrain, SISA, Certified-SP or EUPG and a protection"
    )


def _eupg(cell: Cell, words: str, recipe: Recipe) -> EUPG:
    base = words.removesuffix(", leaves refreshed")
    finetuner = recipe.finetuner if base == words else paper_learner(cell.model, cell.set, refresh=True)
    return EUPG(mechanism(base), recipe.learner, recipe.pretrain, recipe.finetune, finetuner=finetuner)
