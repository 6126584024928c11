"""How a method keeps its state in files, so that a workspace can run any method.

A workspace stores the served model as one file, and beside it the parts that forgetting needs: a base model, counts,
checkpoints. Files that did not change are not written again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Dataset, RecordId
from eupg.forget.lottery import Lottery
from eupg.forget.unlearner import Trained, Unlearner
from eupg.guarantees import Guarantee
from eupg.learn.learner import Learner, Model
from eupg.rng import Randomness

Rows = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Part:
    """One file of a method's state.

    Parameters
    ----------
    content
        What the file holds. The same object needs no new file.
    write
        Writes the file.
    """

    content: object
    write: Callable[[Path], None]


@dataclass(frozen=True, eq=False)
class KeptState:
    """What a workspace knows of a trained model besides its files.

    Parameters
    ----------
    data, ids
        The records that the model may be fitted on, and the ids of those that it was fitted on.
    claim
        The claim for one record.
    lottery
        Who may be seen raw, where not everyone is.
    """

    data: Dataset
    ids: frozenset[RecordId]
    claim: Guarantee
    lottery: Lottery | None = None


@runtime_checkable
class Durable(Unlearner, Protocol):
    """An unlearner whose state can be kept in files."""

    @property
    def repair(self) -> str:
        """Say what forgetting does to a model that saw the records, as the end of a sentence for certificates."""

    def save(self, model: Model, path: Path) -> None:
        """Write the served model."""

    def load(self, path: Path) -> Model:
        """Read a served model back."""

    def parts(self, trained: Trained) -> Mapping[str, Part]:
        """Return the files that forgetting needs besides the served model, by name."""

    def restore(self, served: Path, parts: Mapping[str, Path], kept: KeptState) -> Trained:
        """Return the trained model from its files."""


@runtime_checkable
class Subtracting(Protocol):
    """An unlearner that can also work with the records that leave or join, instead of all that stay."""

    @property
    def subtracts(self) -> bool:
        """Whether it can with its present settings."""

    def erase(self, trained: Trained, rows: Dataset) -> Trained:
        """Return exactly what ``forget`` would for the other records."""

    def add(self, trained: Trained, rows: Dataset) -> Trained:
        """Return exactly what ``update`` would for the records with these."""


class ServedAlone:
    """A method with a learner whose served model is all that it needs to keep."""

    learner: Learner

    def save(self, model: Model, path: Path) -> None:
        """Write the served model."""
        self.learner.save(model, path)

    def load(self, path: Path) -> Model:
        """Read a served model back."""
        return self.learner.load(path)

    def parts(self, trained: Trained) -> Mapping[str, Part]:
        """Return no further file."""
        return {}


def subtracts(method: object) -> TypeGuard[Subtracting]:
    """Tell whether a method can subtract records with its present settings."""
    return isinstance(method, Subtracting) and method.subtracts


def forget_rows(method: Unlearner, trained: Trained, leaving: Dataset, retained: Dataset, rng: Randomness) -> Trained:
    """Forget records as a workspace does: by subtraction where the method can, otherwise from those that stay."""
    return method.erase(trained, leaving) if subtracts(method) else method.forget(trained, retained, rng)


def assumes_requests_apart(method: object) -> bool:
    """Tell whether a method's claims assume that no request was chosen by looking at a model; most do."""
    return bool(getattr(method, "assumes_requests_apart", True))
