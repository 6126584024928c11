"""Reference models: the target's recipe on random halves, which show an attack how models behave on unseen records.

Halves come in complementary pairs, so that every scored record, member or not, is outside exactly half of the models.
Small models train in parallel through an executor, by default in one single-threaded process per core; a recipe that
can trains them all in the same steps on a GPU. Only their predictions are kept, bound to the records they saw, so that
:meth:`.ReferenceStore.forget` can find and delete them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from eupg.audit.membership.queries import Queries, predictions
from eupg.audit.membership.reference_store import ReferenceStore
from eupg.audit.membership.signals import Mask
from eupg.data.dataset import Dataset, RecordId
from eupg.data.score import Probabilities
from eupg.errors import DataError, ParameterError
from eupg.executor import Executor, InProcess, LocalProcesses
from eupg.learn.learner import Learner, Model
from eupg.rng import Randomness, Seeded
from eupg.validation import is_whole

Step = Callable[[int, int], None]


class HoldsModel(Protocol):
    """What a recipe returns: something with a model."""

    @property
    def model(self) -> Model:
        """The model."""


class ReferenceRecipe(Protocol):
    """How the target was trained, to be repeated on other records; EUPG and Retrain are recipes."""

    def train(self, data: Dataset, rng: Randomness) -> HoldsModel:
        """Train on these records."""


@dataclass(frozen=True)
class FittedModel:
    """A model that was fitted for an audit."""

    model: Model


@dataclass(frozen=True)
class FromScratch:
    """The plainest recipe: one learner, one effort, no starting model."""

    learner: Learner
    effort: int

    def train(self, data: Dataset, rng: Randomness) -> FittedModel:
        """Fit a model."""
        return FittedModel(self.learner.fit(data, effort=self.effort, rng=rng.generator()))


def recipe_of(model: Model) -> FromScratch:
    """Return the recipe that a model states: its learner, from scratch, with its total effort."""
    learner, effort = getattr(model, "learner", None), getattr(model, "effort", 0)
    if not isinstance(learner, Learner) or effort < 1:
        raise ParameterError(
            f"{type(model).__name__} does not state how it was trained: pass recipe=, its EUPG or Retrain object"
        )
    return FromScratch(learner, effort)


@dataclass(frozen=True, eq=False)
class References:
    """Predictions of every reference model on all records of the pool, and which records each model saw.

    ``inside`` is (models, records), ``probabilities`` (models, records, classes); with queries, (models, records,
    queries, classes).
    """

    pool: Dataset
    inside: Mask
    probabilities: NDArray[np.float64]
    queries: Queries | None = None

    def on(self, ids: Iterable[RecordId]) -> tuple[Mask, NDArray[np.float64]]:
        """Return ``inside`` and the predictions for these records in this order."""
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
    recipe: ReferenceRecipe,
    pool: Dataset,
    inside: Mask,
    *,
    seed: int,
    queries: Queries | None = None,
    jobs: int | None = None,
    executor: Executor | None = None,
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
        Each model is trained with its own stream, so a run can be repeated and resumed.
    queries
        Altered copies of each record to query as well; by default the record alone.
    jobs
        Parallel processes; by default one per core. With 1 everything stays in this process.
    executor
        Where the models are trained, instead of in ``jobs`` processes: for example ``RayCluster(address)``. It receives
        the records of the pool, and does not change a bit of the predictions.
    store
        Where predictions are kept, so that an interrupted run can resume.
    step
        Called with (done, total) after each model; by default a terminal shows a progress bar.
    """
    plan = _Plan(recipe, pool, inside, seed, queries)
    executor = _executor(recipe, jobs, executor)
    models = range(len(inside))
    keys = [plan.key(i) for i in models] if store is not None else []
    stored = {i: store.get(keys[i]) for i in models} if store is not None else {}
    done = {i: probabilities for i, probabilities in stored.items() if probabilities is not None}
    tasks = [i for i in models if i not in done]
    with _progress_bar(len(inside), step) as tell:
        for i, probabilities in _trained(plan, tasks, executor):
            done[i] = probabilities
            if store is not None:
                store.put(keys[i], probabilities, pool.ids)
            tell(len(done), len(inside))
    return References(pool, inside, np.stack([done[i] for i in models]), queries)


@dataclass(frozen=True, eq=False)
class _Plan:
    """Which models to train, on which records, and with which queries."""

    recipe: ReferenceRecipe
    pool: Dataset
    inside: Mask
    seed: int
    queries: Queries | None

    def stream(self, i: int) -> Randomness:
        return Seeded(self.seed).stage(f"reference {i}")

    def predict(self, model: Model) -> NDArray[np.float64]:
        probabilities = predictions(model, self.pool, self.queries)
        return probabilities[:, 0] if self.queries is None else probabilities

    def key(self, i: int) -> str:
        """Return the name under which model i's predictions are stored."""
        queries = "" if self.queries is None else f" {self.queries!r}"
        # Every attribute counts: the short form of a schema does not name them.
        schema = f"Schema(attributes={self.pool.schema.attributes!r})"
        digest = hashlib.sha256(f"{self.recipe!r} {schema} {self.seed} {i}{queries}".encode())
        for array in (self.pool.X, self.pool.y, self.pool.ids, self.inside[i]):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


@contextmanager
def _progress_bar(models: int, step: Step | None) -> Iterator[Step]:
    """Return the caller's step, or a progress bar on a terminal if rich is installed."""
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ModuleNotFoundError:
        step = step or (lambda *_: None)
    if step is not None:
        yield step
        return
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("training reference models", total=models)
        yield lambda done, _: progress.update(task, completed=done)


def _executor(recipe: ReferenceRecipe, jobs: int | None, executor: Executor | None) -> Executor:
    if jobs is not None and executor is not None:
        raise ParameterError("jobs and executor both say where models are trained: pass one of them")
    parts = (recipe, getattr(recipe, "learner", None), getattr(recipe, "mechanism", None))
    # On a GPU, parallel processes would share its memory and run no faster.
    if any(getattr(part, "in_process", False) for part in parts):
        return InProcess()
    return LocalProcesses(jobs) if executor is None else executor


def _trained(plan: _Plan, tasks: list[int], executor: Executor) -> Iterator[tuple[int, Probabilities]]:
    recipe, pool, inside = plan.recipe, plan.pool, plan.inside
    if tasks and getattr(recipe, "batches", False):
        streams = [plan.stream(i) for i in tasks]
        trained = recipe.train_many([pool.select(inside[i]) for i in tasks], streams)  # type: ignore[attr-defined]
        for i, result in zip(tasks, trained, strict=True):
            yield i, plan.predict(result.model)
        return
    for position, probabilities in executor.map(partial(_train_one, plan), tasks):
        yield tasks[position], probabilities


def _train_one(plan: _Plan, i: int) -> Probabilities:
    return plan.predict(plan.recipe.train(plan.pool.select(plan.inside[i]), plan.stream(i)).model)
