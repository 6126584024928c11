"""The words of the experiments, and the objects behind them: data sets, models, protections and methods by name."""

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
    found: Source = getattr(sources, name)()
    return found


def recipe(cell: Cell) -> Recipe:
    """Return the recipe a cell asks for: the paper's, or the library's own rule, tuned inside what it may see."""
    wanted = cell.get("recipe")
    if wanted == "tuned":
        return careful_recipe(cell.model)
    if wanted != "paper":
        raise ParameterError(f"no recipe {wanted!r}: choose paper or tuned")
    learner, finetune = paper_learner(cell.model, cell.set), int(cell.get("finetune"))
    return Recipe(learner, int(cell.get("effort")), None, finetune, learner, finetune)


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
        return Retrain(given.learner, given.pretrain)
    if words == "Short retrain":
        return Retrain(given.short, given.short_effort)
    if words == "SISA":
        from eupg.forget.sisa import SISA

        # One process, as every other method has: its shards would otherwise run side by side.
        return SISA(given.learner, given.pretrain, jobs=1)
    if words in ("Certified-SP", "Certified-SP, published calibration"):
        from eupg.forget.certified_sp import CertifiedSP

        return CertifiedSP(given.learner, given.pretrain, given.finetune, published_calibration="published" in words)
    if words.startswith("EUPG "):
        return eupg(words.removeprefix("EUPG "))
    raise ParameterError(
        f"no method {words!r}: say Retrain, Short retrain, SISA, Certified-SP or EUPG and a protection"
    )


def _eupg(cell: Cell, words: str, given: Recipe) -> EUPG:
    base = words.removesuffix(", leaves refreshed")
    finetuner = given.finetuner if base == words else paper_learner(cell.model, cell.set, refresh=True)
    return EUPG(mechanism(base), given.learner, given.pretrain, given.finetune, finetuner=finetuner)
