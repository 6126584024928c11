"""Recipes, protections and methods for pictures by the names that experiments use."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

from eupg.errors import ParameterError
from eupg.forget.eupg import EUPG
from eupg.forget.unlearner import Unlearner
from eupg.learn.recipes import Recipe
from eupg.learn.torch.augment import Augment
from eupg.learn.torch.learner import TorchLearner
from eupg.learn.torch.networks import ResNet18
from eupg.protect.mechanism import Mechanism
from eupg.protect.pictures.pixel_dp import PixelDP
from eupg.protect.pictures.pixel_permutation import PixelPermutation
from eupg.protect.pictures.public_features import EfficientNetLite0
from eupg_reproduction.cell import Cell
from eupg_reproduction.methods import named
from eupg_reproduction.picture_recipes import BASE, BETTER, FEATURES

_K = re.compile(r"k=(\d+)(?:, blocks (\d+)×\2)?(, within classes)?")
_DP = re.compile(r"ε=([\d.]+)(, whole picture)?")


@cache
def device() -> str:
    """Return where networks are trained: the first GPU, if there is one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def resnet18_learner(*, device: str = "cuda", width: int = 64) -> TorchLearner:
    """Return the paper's settings for training from scratch: SGD with momentum, batches of 256, a cosine from 0.1.

    On a GPU layers are computed in bfloat16.
    """
    return TorchLearner(
        ResNet18(width),
        learning_rate=0.1,
        batch_size=256,
        weight_decay=5e-4,
        device=device,
        optimiser="sgd",
        augment=Augment(),
        precision="float32" if device.startswith("cpu") else "bfloat16",
    )


def resnet18_finetuner(*, device: str = "cuda", width: int = 64) -> TorchLearner:
    """Return the paper's settings for fine-tuning: the same with one cycle up to 0.05 and down."""
    return replace(resnet18_learner(device=device, width=width), learning_rate=5e-2, schedule="one-cycle")


def recipe(cell: Cell) -> Recipe:
    """Return the recipe of a cell: the paper's, or a better one for the few epochs.

    The short retrain is fine-tuning without a base: it has the same learner and effort.
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
    if match := _K.fullmatch(words):
        block, within = int(match[2] or 1), bool(match[3])
        look = EfficientNetLite0(**features)
        return PixelPermutation(int(match[1]), block=block, features=look, within_labels=within, device=device())
    if match := _DP.fullmatch(words):
        return PixelDP(float(match[1]), unit="picture" if match[2] else "pixels")
    raise ParameterError(f"no protection {words!r}: say k=30, 'k=30, blocks 8×8', ε=1 or 'ε=1, whole picture'")


def method(cell: Cell) -> Unlearner:
    """Return the method of a cell.

    The base of EUPG is trained like Retrain or, if the cell states its epochs, by the better recipe for bases.
    """
    settings = recipe(cell)
    learner, effort = settings.learner, settings.pretrain
    features = FEATURES if cell.get("recipe") == "better" else {}
    if cell.has("pretrain") and isinstance(learner, TorchLearner):
        learner, effort = changed(learner, **BASE), int(cell.get("pretrain"))

    def eupg(words: str) -> EUPG:
        return EUPG(mechanism(words, **features), learner, effort, settings.finetune, finetuner=settings.finetuner)

    return named(cell.method, settings, eupg)
