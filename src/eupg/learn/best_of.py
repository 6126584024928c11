"""Try several recipes on a part of the examples, keep the one that does best on the rest, and fit it to all of them.

On a release this is post-processing, inside its guarantee. On exposed people it is fine-tuning on them and nobody else.
The examples decide for themselves; no record outside of them has a part in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Examples, Labels, Matrix
from eupg.data.encode import Encoder
from eupg.data.schema import Schema
from eupg.data.score import auc
from eupg.errors import ParameterError
from eupg.learn.learner import Adding, Learner, Model, accumulates, check_fit

# Below this many rows or people a held-out part decides nothing: the start is kept, or the first recipe at its least.
_FEWEST = 100
# From here on one held-out part is enough; with fewer, each part is held out in turn.
_MANY = 2_000
# How many standard errors a recipe must gain over the model it goes on from.
_SURE = 2.0
Losses = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some of the examples, read by the same scales as all of them."""

    schema: Schema
    X: Matrix
    y: Labels
    scales: Encoder | None


@dataclass(frozen=True, eq=False)
class _Judged:
    """What held-out examples say: the loss of each, and how well two classes are told apart by order (0: not two)."""

    losses: Losses
    order: float


@dataclass(frozen=True)
class BestOf:
    """Choose among learners, and among efforts, by log-loss on held-out examples.

    Effort is the most that may be spent: each learner is tried at an eighth, a quarter, a half and all of it, until
    more does worse than less did. Where there is a model to go on from, it is itself one of the choices: what does not
    help is not done. With two classes it must not spoil their order (AUC) either: probabilities that fit better are no
    help to someone who asks who comes first.

    Parameters
    ----------
    learners
        The recipes, of one framework; the mildest first.
    held_out
        The share of examples that decides. Where examples know whose they are, people are held out, not rows.
    """

    learners: tuple[Learner, ...]
    held_out: float = 0.25

    def __post_init__(self) -> None:
        if not self.learners or not all(isinstance(one, Learner) for one in self.learners):
            raise ParameterError(f"expected one or more learners, got {self.learners!r}")
        if len({type(one) for one in self.learners}) > 1:
            raise ParameterError("the learners must be of one framework, so that one can load what another saved")
        if not 0 < self.held_out < 1:
            raise ParameterError(f"held_out is a share between 0 and 1, got {self.held_out!r}")

    @property
    def warm_starts(self) -> bool:
        """Whether all of them can go on from a given model."""
        return all(one.warm_starts for one in self.learners)

    @property
    def accumulates(self) -> bool:
        """Whether effort counts trees."""
        return accumulates(self.learners[0])

    def fit(self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model | None = None) -> Model:
        """Choose, then fit the choice to all examples; return ``start`` itself where nothing was better."""
        check_fit(examples, effort)
        # A stream of their own for choosing, so that the final fit is that of the plain learner.
        choosing = rng.spawn(1)[0]
        chosen = self._choose(examples, int(effort), choosing, start)
        if chosen is None and start is not None:
            return start
        learner, least = chosen or (self.learners[0], 1)
        return learner.fit(examples, effort=least, rng=rng, start=start)

    def _choose(
        self, examples: Examples, effort: int, rng: np.random.Generator, start: Model | None
    ) -> tuple[Learner, int] | None:
        """Return the best learner and effort; None where the start is as good, or too little is there to tell."""
        folds = _folds(examples, self.held_out, rng)
        if not folds:
            return None
        before = None if start is None else _judge([start] * len(folds), examples, folds)
        found = [
            (learner, step, judged)
            for learner in self.learners
            for step, judged in _climb(learner, examples, folds, effort, rng, start)
            if before is None or judged.order >= before.order
        ]
        if not found:
            return None
        learner, step, best = min(found, key=lambda one: one[2].losses.mean())
        if before is not None:
            gain = _by_person(before.losses - best.losses, examples, folds)
            # Chance alone makes one of several recipes look better than the start: it has to be more than that.
            if gain.mean() <= _SURE * gain.std() / np.sqrt(len(gain)):
                return None
        return learner, step

    def save(self, model: Model, path: str | Path) -> None:
        """Write a model."""
        self.learners[0].save(model, path)

    def load(self, path: str | Path) -> Model:
        """Read a model back."""
        return self.learners[0].load(path)


def _efforts(most: int) -> list[int]:
    return sorted({max(1, most // 8), max(1, most // 4), max(1, most // 2), most})


def _climb(
    learner: Learner,
    examples: Examples,
    folds: list[NDArray[np.bool_]],
    effort: int,
    rng: np.random.Generator,
    start: Model | None,
) -> Iterator[tuple[int, _Judged]]:
    """Judge more and more effort, until more does worse than less did.

    Trees that are there stay, so a smaller ensemble is the beginning of the largest, which alone is fitted.
    """
    scales = getattr(examples, "scales", None)
    rows = [_Rows(examples.schema, examples.X[~apart], examples.y[~apart], scales) for apart in folds]

    def fitted(most: int) -> list[Model]:
        return [learner.fit(seen, effort=most, rng=rng, start=start) for seen in rows]

    largest, least = fitted(effort) if isinstance(learner, Adding) else [], np.inf
    for step in _efforts(effort):
        if isinstance(learner, Adding):
            models = [learner.first(one, step, start=start) for one in largest]
        else:
            models = fitted(step)
        found = _judge(models, examples, folds)
        yield step, found
        if found.losses.mean() > least:
            return
        least = found.losses.mean()


def _folds(examples: Examples, share: float, rng: np.random.Generator) -> list[NDArray[np.bool_]]:
    """Hold out people, or rows where nobody is named: one part of many examples, each part in turn of few.

    Returns nothing where a part would lack a class or there are too few to tell anything.
    """
    whose = getattr(examples, "subjects", None)
    names = np.arange(len(examples.y)) if whose is None else whose
    people, place = np.unique(names, return_inverse=True)
    if len(people) < _FEWEST:
        return []
    parts = round(1 / share)
    part = (rng.permutation(len(people)) % parts)[place]
    folds = [part == i for i in range(1 if share * len(names) >= _MANY else parts)]
    classes = len(np.unique(examples.y))
    whole = all(len(np.unique(examples.y[side])) == classes for fold in folds for side in (fold, ~fold))
    return folds if whole else []


def _by_person(gains: Losses, examples: Examples, folds: list[NDArray[np.bool_]]) -> Losses:
    """Return the sum of each person's gains: several records of one person are one piece of evidence."""
    whose = getattr(examples, "subjects", None)
    if whose is None:
        return gains
    place = np.unique(np.concatenate([whose[fold] for fold in folds]), return_inverse=True)[1]
    return np.asarray(np.bincount(place, weights=gains), dtype=np.float64)


def _judge(models: Sequence[Model], examples: Examples, folds: list[NDArray[np.bool_]]) -> _Judged:
    """Ask the models, one a fold, about what was held out; a probability of zero counts as one in a million."""
    losses, order = [], 0.0
    for model, apart in zip(models, folds, strict=True):
        chances, y = model.predict_proba(examples.X[apart]), examples.y[apart]
        losses.append(-np.log(np.clip(chances[np.arange(len(y)), y], 1e-6, 1.0)))
        if examples.schema.classes == 2 and len(np.unique(y)) == 2:
            order += auc(chances, y)
    return _Judged(np.concatenate(losses), order)
