"""What a method must keep to be able to forget, and what its answers cost."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from eupg.forget.scored_base import base_of
from eupg.forget.unlearner import Trained
from eupg.learn.learner import Learner, Model


@dataclass(frozen=True)
class Storage:
    """Model files kept, their bytes, and how many models answer one prediction."""

    files: int
    size_bytes: int
    models_a_prediction: int = 1


def storage(trained: Trained) -> Storage:
    """Return what a trained model costs to keep: the served model, and a base model or checkpoints behind it."""
    own = getattr(trained.memory, "storage", None)
    if own is not None:
        found: Storage = own()
        return found
    kept, base = [trained.model], base_of(trained.memory)
    if isinstance(base, Model) and base is not trained.model:
        kept.append(base)
    return Storage(len(kept), sum(_size(model) for model in kept))


def _size(model: Model) -> int:
    learner = getattr(model, "learner", None)
    if not isinstance(learner, Learner):
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        learner.save(model, path)
        return path.stat().st_size
