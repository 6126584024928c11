"""The words of the experiments on pictures, and the objects behind them."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

from eupg.errors import ParameterError
from eupg.forget.eupg import EUPG
from eupg.forget.unlearner import Unlearner
from eupg.learn.recipes import Recipe
from eupg.learn.resnet_recipes import resnet18_finetuner, resnet18_learner
from eupg.learn.torch_learner import TorchLearner
from eupg.protect.mechanism import Mechanism
from eupg.protect.pixel_dp import PixelDP
from eupg.protect.pixels import PixelPermutation
from eupg.protect.public_features import EfficientNetLite0
from eupg_reproduction.cell import Cell
from eupg_reproduction.methods import named
from eupg_reproduction.picture_recipes import BASE, BETTER, FEATURES

_K = re.compile(r"k=(\d+)(?:, blocks (\d+)×\2)?(, within classes)?")
_DP = re.compile(r"ε=([\d.]+)(, whole picture)?")


@cache
def device() -> str:
    """Return where networks are trained: the first GPU, where there is one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def recipe(cell: Cell) -> Recipe:
    """Return how models are made: the paper's way, or with few epochs of a recipe that was found to be better for all.

    The short retrain is fine-tuning without a base: it gets the very same learner and effort.
    """
    width = int(cell.get("width")) if cell.has("width") else 64
    full = replace(resnet18_learner(device=device(), width=width), compile=_compiles())
    brief = replace(resnet18_finetuner(device=device(), width=width), compile=_compiles())
    if cell.get("recipe") == "better":
        brief = changed(brief, **BETTER)
    elif cell.get("recipe") != "paper":
        raise ParameterError(f"no recipe {cell.get('recipe')!r}: choose paper or better")
    epochs = int(cell.get("finetune"))
    return Recipe(full, int(cell.get("effort")), brief, epochs, brief, epochs)


def _compiles() -> bool:
    return device() == "cuda"


def changed(learner: TorchLearner, **change: Any) -> TorchLearner:
    """Return a learner of pictures with other settings; those of its augmentation and network are named alike.

    Examples
    --------
    >>> changed(resnet18_learner(device="cpu"), padding=2, learning_rate=0.2).augment
    Augment(padding=2, flip=True, border='zero')
    """
    shown = {name: change.pop(name) for name in ("padding", "border") if name in change}
    if shown and learner.augment is not None:
        change["augment"] = replace(learner.augment, **shown)
    if "scale" in change:
        change["network"] = replace(learner.network, scale=change.pop("scale"))  # type: ignore[type-var]
    return replace(learner, **change)


def mechanism(words: str, **features: Any) -> Mechanism:
    """Return a protection of pictures by name: ``k=30``, ``k=30, blocks 8×8``, ``ε=1`` or ``ε=1, whole picture``.

    Pictures are grouped by EfficientNet-Lite0, with these settings.

    Examples
    --------
    >>> mechanism("k=30, blocks 8×8").block
    8
    """
    if found := _K.fullmatch(words):
        block, within = int(found[2] or 1), bool(found[3])
        look = EfficientNetLite0(**features)
        return PixelPermutation(int(found[1]), block=block, features=look, within_labels=within, device=device())
    if found := _DP.fullmatch(words):
        return PixelDP(float(found[1]), unit="picture" if found[2] else "pixels")
    raise ParameterError(f"no protection {words!r}: say k=30, 'k=30, blocks 8×8', ε=1 or 'ε=1, whole picture'")


def method(cell: Cell) -> Unlearner:
    """Return the method a cell asks for.

    The base of EUPG is trained as Retrain is, or, where the cell says for how many epochs, by the better way for bases.
    """
    given = recipe(cell)
    learner, effort = given.learner, given.pretrain
    features = FEATURES if cell.get("recipe") == "better" else {}
    if cell.has("pretrain") and isinstance(learner, TorchLearner):
        learner, effort = changed(learner, **BASE), int(cell.get("pretrain"))

    def eupg(words: str) -> EUPG:
        return EUPG(mechanism(words, **features), learner, effort, given.finetune, finetuner=given.finetuner)

    return named(cell.method, given, eupg)
