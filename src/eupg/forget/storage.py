"""What a method must store to be able to forget, and how many models one prediction needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from eupg.forget.scored_base import base_of
from eupg.forget.summed_base import SummedBase
from eupg.forget.unlearner import Trained
from eupg.learn.learner import Learner, Model, Summing
from eupg.learn.leaves.learner import CorrectedModel, LeafLearner, LeafModel
from eupg.temporary import TemporaryFolder


@dataclass(frozen=True)
class Storage:
    """Model files, their bytes, and the number of models behind one prediction."""

    files: int
    size_bytes: int
    models_a_prediction: int = 1


def storage(trained: Trained) -> Storage:
    """Return the storage of a trained model: the served model, and a base model, sums or checkpoints behind it."""
    own = getattr(trained.memory, "storage", None)
    if own is not None:
        report: Storage = own()
        return report
    models, base = [trained.model], base_of(trained.memory)
    if isinstance(base, Model) and base is not trained.model:
        models.append(base)
    sizes = [_size(model) for model in models]
    learner = getattr(trained.model, "learner", None)
    if isinstance(trained.memory, SummedBase) and isinstance(learner, Summing):
        sizes.append(_written(partial(learner.save_sums, trained.memory.sums, start=trained.memory.base)))
    return Storage(len(sizes), sum(sizes))


def _size(model: Model) -> int:
    if isinstance(model, CorrectedModel):
        return _size(model.base) + _size(cast(Model, model.correction))
    learner = LeafLearner() if isinstance(model, LeafModel) else getattr(model, "learner", None)
    return _written(partial(learner.save, model)) if isinstance(learner, Learner) else 0


def _written(save: Callable[[Path], None]) -> int:
    with TemporaryFolder() as folder:
        save(folder / "file")
        return (folder / "file").stat().st_size
