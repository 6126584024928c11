"""Try several recipes on a part of the examples, take the one that does best on the rest, and fit it to all of them.

On a release this is post-processing, inside its guarantee. On exposed people it is fine-tuning on those people only:
no record outside the examples influences the choice.
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

# With fewer rows or people a held-out part decides nothing: the start is kept, or the first recipe at its least.
_FEWEST = 100
# From here on one held-out part is enough; with fewer, each part is held out in turn.
_MANY = 2_000
# How many standard errors a recipe must gain over the model it continues from.
_SURE = 2.0
Losses = NDArray[np.float64]
Folds = list[NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some of the examples, read by the same scales as all of them."""

    schema: Schema
    X: Matrix
    y: Labels
    scales: Encoder | None


@dataclass(frozen=True, eq=False)
class _Judged:
    """The result on held-out examples: the loss of each, and the summed AUC of two classes (0: not two)."""

    losses: Losses
    order: float


@dataclass(frozen=True)
class BestOf:
    """Choose among learners, and among efforts, by log-loss on held-out examples.

    Effort is the most that may be spent: each learner is tried at an eighth, a quarter, a half and all of it, until
    more does worse than less. A model to continue from is itself one of the choices, so a step that does not help is
    not taken. With two classes the choice must not lower their AUC either: better probabilities do not help a user who
    ranks people.

    Parameters
    ----------
    learners
        The recipes, of one framework; the mildest first.
    held_out
        The share of examples that decides. If examples name their people, people are held out, not rows.
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
        """Whether all learners can continue from a model."""
        return all(one.warm_starts for one in self.learners)

    @property
    def accumulates(self) -> bool:
        """Whether effort counts trees."""
        return accumulates(self.learners[0])

    def fit(self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model | None = None) -> Model:
        """Choose, then fit the choice to all examples; return ``start`` itself if nothing was better."""
        check_fit(examples, effort)
        # Choosing has its own stream, so that the final fit is that of the plain learner.
        choosing = rng.spawn(1)[0]
        choice = self._choose(examples, int(effort), choosing, start)
        if choice is None and start is not None:
            return start
        learner, effort = choice or (self.learners[0], 1)
        return learner.fit(examples, effort=effort, rng=rng, start=start)

    def _choose(
        self, examples: Examples, effort: int, rng: np.random.Generator, start: Model | None
    ) -> tuple[Learner, int] | None:
        """Return the best learner and effort; None if the start is as good, or there are too few examples to tell."""
        folds = _folds(examples, self.held_out, rng)
        if not folds:
            return None
        before = None if start is None else _judge([start] * len(folds), examples, folds)
        candidates = [
            (learner, step, judged)
            for learner in self.learners
            for step, judged in _climb(learner, examples, folds, effort, rng, start)
            if before is None or judged.order >= before.order
        ]
        if not candidates:
            return None
        learner, step, best = min(candidates, key=lambda candidate: candidate[2].losses.mean())
        if before is not None:
            gain = _by_person(before.losses - best.losses, examples, folds)
            # One of several recipes looks better than the start by chance alone: the gain must exceed that.
            if gain.mean() <= _SURE * gain.std() / np.sqrt(len(gain)):
                return None
        return learner, step

    def save(self, model: Model, path: str | Path) -> None:
        """Write a model."""
        self.learners[0].save(model, path)

    def load(self, path: str | Path) -> Model:
        """Read a model back."""
        return self.learners[0].load(path)


def _climb(
    learner: Learner, examples: Examples, folds: Folds, effort: int, rng: np.random.Generator, start: Model | None
) -> Iterator[tuple[int, _Judged]]:
    """Judge increasing effort, until more does worse than less.

    Trees stay, so a smaller ensemble is the beginning of the largest, and only the largest is fitted.
    """
    scales = getattr(examples, "scales", None)
    rows = [_Rows(examples.schema, examples.X[~apart], examples.y[~apart], scales) for apart in folds]

    def fitted(most: int) -> list[Model]:
        return [learner.fit(seen, effort=most, rng=rng, start=start) for seen in rows]

    largest, least = fitted(effort) if isinstance(learner, Adding) else [], np.inf
    for step in sorted({max(1, effort // 8), max(1, effort // 4), max(1, effort // 2), effort}):
        if isinstance(learner, Adding):
            models = [learner.first(one, step, start=start) for one in largest]
        else:
            models = fitted(step)
        judged = _judge(models, examples, folds)
        yield step, judged
        if judged.losses.mean() > least:
            return
        least = judged.losses.mean()


def _folds(examples: Examples, share: float, rng: np.random.Generator) -> Folds:
    """Hold out people, or rows if nobody is named: one part of many examples, each part in turn of few.

    Returns nothing if a part would lack a class or there are too few examples to tell anything.
    """
    subjects = getattr(examples, "subjects", None)
    names = np.arange(len(examples.y)) if subjects is None else subjects
    people, place = np.unique(names, return_inverse=True)
    if len(people) < _FEWEST:
        return []
    parts = round(1 / share)
    part = (rng.permutation(len(people)) % parts)[place]
    folds = [part == i for i in range(1 if share * len(names) >= _MANY else parts)]
    classes = len(np.unique(examples.y))
    complete = all(len(np.unique(examples.y[side])) == classes for fold in folds for side in (fold, ~fold))
    return folds if complete else []


def _by_person(gains: Losses, examples: Examples, folds: Folds) -> Losses:
    """Return the sum of each person's gains: several records of one person are one piece of evidence."""
    subjects = getattr(examples, "subjects", None)
    if subjects is None:
        return gains
    place = np.unique(np.concatenate([subjects[fold] for fold in folds]), return_inverse=True)[1]
    return np.asarray(np.bincount(place, weights=gains), dtype=np.float64)


def _judge(models: Sequence[Model], examples: Examples, folds: Folds) -> _Judged:
    """Let each fold's model predict what was held out; a probability of zero counts as one in a million."""
    losses, order = [], 0.0
    for model, apart in zip(models, folds, strict=True):
        chances, y = model.predict_proba(examples.X[apart]), examples.y[apart]
        losses.append(-np.log(np.clip(chances[np.arange(len(y)), y], 1e-6, 1.0)))
        if examples.schema.classes == 2 and len(np.unique(y)) == 2:
            order += auc(chances, y)
    return _Judged(np.concatenate(losses), order)
