"""The words of the experiments on pictures, and the objects behind them."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

from eupg.bench.cell import Cell
from eupg.bench.methods import Recipe, named
from eupg.errors import ParameterError
from eupg.forget.eupg import EUPG
from eupg.forget.unlearner import Unlearner
from eupg.learn.resnet_recipes import resnet18_finetuner, resnet18_learner
from eupg.protect.mechanism import Mechanism
from eupg.protect.pixel_dp import PixelDP
from eupg.protect.pixels import PixelPermutation

_K = re.compile(r"k=(\d+)(?:, blocks (\d+)×\2)?(, within classes)?")
_DP = re.compile(r"ε=([\d.]+)(, whole picture)?")
# Chosen on held-out training pictures by `python -m benchmarks.search_resnet`: of the recipes it tries, the one that is
# best for a base of 8×8 blocks and from scratch together.
_BETTER: dict[str, Any] = {"learning_rate": 0.2, "nesterov": True, "label_smoothing": 0.1, "weight_decay": 0.002}


@cache
def device() -> str:
    """Return where networks are trained: the first GPU, where there is one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def recipe(cell: Cell) -> Recipe:
    """Return how models are made: the paper's way, or with the fine-tuning that was found to be better for all.

    The short retrain is fine-tuning without a base: it gets the very same learner and effort.
    """
    width = int(cell.get("width")) if cell.has("width") else 64
    full = replace(resnet18_learner(device=device(), width=width), compile=_compiles())
    brief = replace(resnet18_finetuner(device=device(), width=width), compile=_compiles())
    if cell.get("recipe") == "better":
        brief = replace(brief, **_BETTER)
    elif cell.get("recipe") != "paper":
        raise ParameterError(f"no recipe {cell.get('recipe')!r}: choose paper or better")
    return Recipe(full, int(cell.get("effort")), brief, int(cell.get("finetune")), brief)


def _compiles() -> bool:
    return device() == "cuda"


def mechanism(words: str) -> Mechanism:
    """Return a protection of pictures by name: ``k=30``, ``k=30, blocks 8×8``, ``ε=1`` or ``ε=1, whole picture``.

    Examples
    --------
    >>> mechanism("k=30, blocks 8×8").block
    8
    """
    if found := _K.fullmatch(words):
        block, within = int(found[2] or 1), bool(found[3])
        return PixelPermutation(int(found[1]), block=block, within_labels=within, device=device())
    if found := _DP.fullmatch(words):
        return PixelDP(float(found[1]), unit="picture" if found[2] else "pixels")
    raise ParameterError(f"no protection {words!r}: say k=30, 'k=30, blocks 8×8', ε=1 or 'ε=1, whole picture'")


def method(cell: Cell) -> Unlearner:
    """Return the method a cell asks for; the base of EUPG may be trained for fewer epochs than Retrain."""
    given = recipe(cell)
    base = int(cell.get("pretrain")) if cell.has("pretrain") else given.full

    def eupg(words: str) -> EUPG:
        return EUPG(mechanism(words), given.learner, base, given.finetune, finetuner=given.finetuner)

    return named(cell.method, given, eupg)
