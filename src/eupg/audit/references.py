"""Reference models: the target's recipe on random halves, so that an attack knows what "not seen" looks like.

Halves come in complementary pairs: of every two models each record is inside one and outside the other, so that every
scored record, member or not, is outside exactly half of them. Small models train side by side, one single-threaded
process a core; on a GPU, a recipe that can trains them all in the same steps. Only their predictions are kept, never
the models themselves; and what is kept is bound to the records it saw, so that :meth:`ReferenceStore.forget` can find
and delete it.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from eupg.data.dataset import Dataset, RecordId
from eupg.data.score import Probabilities
from eupg.errors import DataError, ParameterError
from eupg.learn.learner import Model
from eupg.learn.workers import side_by_side
from eupg.rng import Randomness, Seeded

Mask = NDArray[np.bool_]
Step = Callable[[int, int], None]


class Served(Protocol):
    """What a recipe returns: something that holds a model."""

    @property
    def model(self) -> Model:
        """The model."""


class Recipe(Protocol):
    """How the target was trained, to be repeated on other records; EUPG and Retrain are recipes."""

    def train(self, data: Dataset, rng: Randomness) -> Served:
        """Train on these records."""


@dataclass(frozen=True, eq=False)
class References:
    """Predictions of every reference model on all records of the pool, and who was inside which.

    Parameters
    ----------
    pool
        The records the halves were drawn from: scored ones and others.
    inside
        (models, records): whether the model was trained on the record.
    probabilities
        (models, records, classes).
    """

    pool: Dataset
    inside: Mask
    probabilities: NDArray[np.float64]

    def on(self, ids: Iterable[RecordId]) -> tuple[Mask, NDArray[np.float64]]:
        """Return who was inside, and the predictions, for these records in this order."""
        place = {name: row for row, name in enumerate(self.pool.ids.tolist())}
        try:
            rows = [place[str(name)] for name in ids]
        except KeyError as error:
            raise DataError(f"record {error} is not in the pool of the reference models: train them with it") from error
        return self.inside[:, rows], self.probabilities[:, rows]


def complementary_halves(groups: NDArray[np.int64], models: int, rng: np.random.Generator) -> Mask:
    """Draw random halves in pairs, a half and its complement, split evenly inside every group of records.

    Examples
    --------
    >>> halves = complementary_halves(np.array([0, 0, 0, 0, 1, 1]), 4, np.random.default_rng(7))
    >>> halves.sum(axis=0).tolist()
    [2, 2, 2, 2, 2, 2]
    """
    if isinstance(models, bool) or models < 2 or models % 2:
        raise ParameterError(f"reference models come in pairs: ask for an even number of at least 2, got {models!r}")
    inside = np.zeros((models, len(groups)), dtype=bool)
    for pair in range(0, models, 2):
        for group in np.unique(groups):
            rows = np.flatnonzero(groups == group)
            inside[pair, rng.permutation(rows)[: (len(rows) + pair // 2 % 2) // 2]] = True
        inside[pair + 1] = ~inside[pair]
    return inside


def train_references(
    recipe: Recipe,
    pool: Dataset,
    inside: Mask,
    *,
    seed: int,
    jobs: int | None = None,
    store: ReferenceStore | None = None,
    step: Step | None = None,
) -> References:
    """Train one model for each row of ``inside`` and collect its predictions on the whole pool.

    Parameters
    ----------
    recipe
        How the target was trained.
    pool, inside
        The records, and which of them each model sees.
    seed
        Model i is trained with a stream of its own, so a run can be repeated and resumed.
    jobs
        Processes at the same time; by default one a core. With 1 everything stays in this process.
    store
        Where predictions are kept, so that a killed run goes on where it stopped.
    step
        Called with (done, total) after each model; without it a terminal shows a progress bar.
    """
    with _bar(len(inside)) if step is None else nullcontext(step) as tell:
        return _collect(recipe, pool, inside, seed, jobs or os.cpu_count() or 1, store, tell)


def _collect(
    recipe: Recipe, pool: Dataset, inside: Mask, seed: int, jobs: int, store: ReferenceStore | None, tell: Step
) -> References:
    keys = [_key(recipe, pool, row, seed, i) for i, row in enumerate(inside)]
    found = {i: store.get(key) for i, key in enumerate(keys)} if store is not None else {}
    done = {i: p for i, p in found.items() if p is not None}
    tasks = [i for i in range(len(inside)) if i not in done]
    for i, probabilities in _trained(recipe, pool, inside, seed, tasks, jobs):
        done[i] = probabilities
        if store is not None:
            store.put(keys[i], probabilities, pool.ids)
        tell(len(done), len(inside))
    return References(pool, inside, np.stack([done[i] for i in range(len(inside))]))


@contextmanager
def _bar(models: int) -> Iterator[Step]:
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("training reference models", total=models)
        yield lambda done, _: progress.update(task, completed=done)


def _trained(
    recipe: Recipe, pool: Dataset, inside: Mask, seed: int, tasks: list[int], jobs: int
) -> Iterator[tuple[int, Probabilities]]:
    if tasks and getattr(recipe, "batches", False):
        streams = [Seeded(seed).stage(f"reference {i}") for i in tasks]
        served = recipe.train_many([pool.select(inside[i]) for i in tasks], streams)  # type: ignore[attr-defined]
        for i, each in zip(tasks, served, strict=True):
            yield i, each.model.predict_proba(pool.X)
        return
    parts = (recipe, getattr(recipe, "learner", None), getattr(recipe, "mechanism", None))
    yield from side_by_side(_one, (recipe, pool, inside, seed), tasks, jobs=jobs, parts=parts)


def _one(recipe: Recipe, pool: Dataset, inside: Mask, seed: int, i: int) -> Probabilities:
    served = recipe.train(pool.select(inside[i]), Seeded(seed).stage(f"reference {i}"))
    return served.model.predict_proba(pool.X)


def _key(recipe: Recipe, pool: Dataset, inside: Mask, seed: int, i: int) -> str:
    digest = hashlib.sha256(f"{recipe!r} {pool.schema!r} {seed} {i}".encode())
    for array in (pool.X, pool.y, pool.ids, inside):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


class ReferenceStore:
    """Predictions of reference models on disk, each bound to the records it saw.

    Reference models are trained on raw records. Their predictions may therefore be kept only as long as everybody in
    their pool is: :meth:`forget` deletes every entry whose pool held a forgotten record, inside or outside its half.

    Parameters
    ----------
    folder
        Where the entries lie; made if it is not there.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def get(self, key: str) -> Probabilities | None:
        """Return the predictions under a key, or None."""
        path = self.folder / f"{key}.npz"
        if not path.is_file():
            return None
        with np.load(path, allow_pickle=False) as content:
            return np.asarray(content["probabilities"])

    def put(self, key: str, probabilities: Probabilities, ids: NDArray[np.str_]) -> None:
        """Keep predictions, with the ids of all records in their pool; whole or not at all."""
        partial = self.folder / f"{key}.{os.getpid()}.partial"
        with partial.open("wb") as file:
            np.savez(file, probabilities=probabilities, ids=ids)
        partial.replace(self.folder / f"{key}.npz")

    def forget(self, ids: Iterable[RecordId]) -> list[str]:
        """Delete every entry that saw one of these records, check that it is gone, and return the keys deleted.

        What a killed run left half written, or what cannot be read, may have seen anyone: it is deleted too.
        """
        gone = np.array(sorted({str(i) for i in ids}), dtype=np.str_)
        deleted = []
        for path in self.folder.glob("*.partial"):
            path.unlink()
        for path in sorted(self.folder.glob("*.npz")):
            if _touches(path, gone):
                path.unlink()
                deleted.append(path.stem)
        left = [key for key in deleted if (self.folder / f"{key}.npz").exists()]
        if left:
            raise DataError(f"{len(left)} reference entries could not be deleted, first {left[0]}: check the folder")
        return deleted

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(list(self.folder.glob("*.npz")))


def _touches(path: Path, ids: NDArray[np.str_]) -> bool:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
            return bool(np.isin(content["ids"], ids).any())
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return True
