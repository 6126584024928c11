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
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from eupg.audit.queries import Queries, predictions
from eupg.data.dataset import Dataset, RecordId
from eupg.data.score import Probabilities
from eupg.errors import DataError, ParameterError
from eupg.learn.learner import Model
from eupg.learn.workers import side_by_side
from eupg.rng import Randomness, Seeded
from eupg.validation import is_whole

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
        (models, records, classes); with queries (models, records, queries, classes).
    queries
        The altered copies the models were asked about, if any.
    """

    pool: Dataset
    inside: Mask
    probabilities: NDArray[np.float64]
    queries: Queries | None = None

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
    if not is_whole(models) or models < 2 or models % 2:
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
    queries: Queries | None = None,
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
    queries
        Altered copies of each record to ask the models about too; by default the record alone.
    jobs
        Processes at the same time; by default one a core. With 1 everything stays in this process.
    store
        Where predictions are kept, so that a killed run goes on where it stopped.
    step
        Called with (done, total) after each model; without it a terminal shows a progress bar.
    """
    with _bar(len(inside)) if step is None else nullcontext(step) as tell:
        plan = _Plan(recipe, pool, inside, seed, queries)
        return _collect(plan, jobs or os.cpu_count() or 1, store, tell)


@dataclass(frozen=True, eq=False)
class _Plan:
    """Which models are to be trained, on which records, and what they are asked."""

    recipe: Recipe
    pool: Dataset
    inside: Mask
    seed: int
    queries: Queries | None

    def stream(self, i: int) -> Randomness:
        """Return the randomness of model i."""
        return Seeded(self.seed).stage(f"reference {i}")

    def ask(self, model: Model) -> NDArray[np.float64]:
        """Return a model's predictions on the whole pool."""
        found = predictions(model, self.pool, self.queries)
        return found[:, 0] if self.queries is None else found

    def key(self, i: int) -> str:
        """Return the name under which model i's predictions are kept."""
        asked = "" if self.queries is None else f" {self.queries!r}"
        digest = hashlib.sha256(f"{self.recipe!r} {self.pool.schema!r} {self.seed} {i}{asked}".encode())
        for array in (self.pool.X, self.pool.y, self.pool.ids, self.inside[i]):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def _collect(plan: _Plan, jobs: int, store: ReferenceStore | None, tell: Step) -> References:
    pool, inside = plan.pool, plan.inside
    keys = [plan.key(i) for i in range(len(inside))] if store is not None else []
    found = {i: store.get(key) for i, key in enumerate(keys)} if store is not None else {}
    done = {i: p for i, p in found.items() if p is not None}
    tasks = [i for i in range(len(inside)) if i not in done]
    for i, probabilities in _trained(plan, tasks, jobs):
        done[i] = probabilities
        if store is not None:
            store.put(keys[i], probabilities, pool.ids)
        tell(len(done), len(inside))
    return References(pool, inside, np.stack([done[i] for i in range(len(inside))]), plan.queries)


def _bar(models: int) -> AbstractContextManager[Step]:
    """Return what shows progress on a terminal, where the package that draws it is installed."""
    try:
        import rich.progress  # noqa: F401
    except ModuleNotFoundError:
        return nullcontext(_quiet)
    return _drawn(models)


@contextmanager
def _drawn(models: int) -> Iterator[Step]:
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("training reference models", total=models)
        yield lambda done, _: progress.update(task, completed=done)


def _quiet(done: int, total: int) -> None:
    del done, total


def _trained(plan: _Plan, tasks: list[int], jobs: int) -> Iterator[tuple[int, Probabilities]]:
    recipe, pool, inside = plan.recipe, plan.pool, plan.inside
    if tasks and getattr(recipe, "batches", False):
        streams = [plan.stream(i) for i in tasks]
        served = recipe.train_many([pool.select(inside[i]) for i in tasks], streams)  # type: ignore[attr-defined]
        for i, each in zip(tasks, served, strict=True):
            yield i, plan.ask(each.model)
        return
    parts = (recipe, getattr(recipe, "learner", None), getattr(recipe, "mechanism", None))
    # On a GPU one process after another trains: they would share its memory and run no faster.
    jobs = 1 if any(getattr(part, "in_process", False) for part in parts) else jobs
    yield from side_by_side(_one, (plan,), tasks, jobs=jobs)


def _one(plan: _Plan, i: int) -> Probabilities:
    return plan.ask(plan.recipe.train(plan.pool.select(plan.inside[i]), plan.stream(i)).model)


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
