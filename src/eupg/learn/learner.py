"""The protocols of models and learners.

A learner is stateless: its fields are its hyper-parameters. One method serves pre-training and fine-tuning; it knows
neither which stage it serves nor anything about privacy, ids or erasure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Attribute, Listed, Missing
from eupg.data.dataset import Examples, Matrix
from eupg.data.picture import Picture
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.errors import NothingRetained, ParameterError
from eupg.validation import check_whole, is_number, is_whole

# A margin an example; one for each class where there are more than two.
Scores = NDArray[np.float32]


@runtime_checkable
class Model(Protocol):
    """Something that predicts. It takes rows in the schema's coding and encodes them itself.

    Models of this library take a table too, whose columns they match by name (:mod:`eupg.data.rows`), and refuse a
    matrix of another width than the schema's.
    """

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the probability of every class: one row an example, rows sum to one."""


@runtime_checkable
class Learner(Protocol):
    """Fits models to examples."""

    @property
    def warm_starts(self) -> bool:
        """Whether ``fit`` can go on from a given model."""

    def fit(self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model | None = None) -> Model:
        """Fit a new model; ``start``, if given, is where to begin and stays as it is.

        Effort counts passes over the data (networks, linear models) or trees (boosting). Everything computed from the
        examples on the way, such as scales, belongs to the new model alone.
        """

    def save(self, model: Model, path: str | Path) -> None:
        """Write the model to one file, without pickle."""

    def load(self, path: str | Path) -> Model:
        """Read a model written by :meth:`save`; running code from the file is impossible."""


@runtime_checkable
class Staged(Protocol):
    """A learner that can stop and go on as if it had not stopped: its models carry the optimiser's state."""

    def fit_part(
        self,
        examples: Examples,
        *,
        effort: int,
        rng: np.random.Generator,
        part: tuple[float, float],
        start: Model | None = None,
    ) -> Model:
        """Fit over a part of the schedule of the whole training, which runs from 0.0 to 1.0."""


@runtime_checkable
class Scoring(Protocol):
    """A learner that goes on from what a model says of each example, and need not ask it again.

    Boosted trees correct the margins of the trees before them and use nothing else of those.
    """

    @property
    def uses_scores(self) -> bool:
        """Whether it does so with its settings."""

    def scores(self, model: Model, X: Matrix) -> Scores:
        """Return what the model says of each row, before it becomes a probability."""

    def fit_scored(
        self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model, scores: Scores
    ) -> Model:
        """Return exactly what ``fit`` would, given the scores that ``start`` gives the examples."""


@runtime_checkable
class Adding(Protocol):
    """A learner whose first trees are the model that less effort would have given."""

    def first(self, model: Model, trees: int, *, start: Model | None = None) -> Model:
        """Return the model without the later ones of the trees that were added to ``start``, or to nothing."""


def accumulates(learner: Learner) -> bool:
    """Tell whether effort adds to the model, as trees do, where an epoch goes over the examples once more."""
    return bool(getattr(learner, "accumulates", False))


class Described(Model, Protocol):
    """A model that knows the schema its rows come under, as all of this library's do."""

    @property
    def schema(self) -> Schema:
        """What the columns mean."""


Kind = TypeVar("Kind", bound=Described)


def own(model: Model, kind: type[Kind]) -> Kind:
    """Return the model as one of this kind; that of another learner is an error."""
    if not isinstance(model, kind):
        raise ParameterError(f"expected a {kind.__name__}, got a {type(model).__name__}: use one learner throughout")
    return model


def own_start(start: Model | None, kind: type[Kind], examples: Examples) -> Kind | None:
    """Return the model to go on from, once it is found to read rows and classes as the examples code them."""
    if start is None:
        return None
    model = own(start, kind)
    found = _difference(model.schema, examples.schema)
    if found:
        raise ParameterError(
            f"the model to go on from comes from another table: {found}; go on with the features and classes it was "
            "fitted on, or start anew"
        )
    return model


def _difference(before: Schema, now: Schema) -> str:
    """Name the first feature, or the classes, that two schemas code differently; empty where there is none."""
    for number, (old, new) in enumerate(zip_longest(before.features, now.features), start=1):
        names = [repr(a.name) if a else "nothing" for a in (old, new)]
        if names[0] != names[1]:
            return f"feature {number} is {names[0]} in the model and {names[1]} in the examples"
        for word in (w for w, value in _coding(old).items() if value != _coding(new)[w]):
            return f"{word} of {names[0]}: {_coding(old)[word]} in the model and {_coding(new)[word]} in the examples"
    if before.label.categories != now.label.categories:
        return f"classes {before.label.categories} in the model and {now.label.categories} in the examples"
    return ""


def _coding(attribute: Attribute) -> dict[str, object]:
    categories = attribute.categories if isinstance(attribute, Listed) else ()
    keeps = "kept" if attribute.missing is Missing.KEEP else "not kept"
    size = attribute.shape if isinstance(attribute, Picture) else ()
    return {"kind": attribute.kind, "categories": categories, "missing values": keeps, "size": size}


def check_settings(
    learner: object, *, whole: Mapping[str, int], positive: Sequence[str], not_negative: Sequence[str]
) -> None:
    """Refuse settings that are no number, or too small; ``whole`` gives the least value of whole numbers.

    Comparisons are written so that NaN, which is neither small nor large, fails them.
    """
    for name, least in whole.items():
        check_whole(name, getattr(learner, name), at_least=least)
    for name in (*positive, *not_negative):
        value = getattr(learner, name)
        if not is_number(value) or not 0 <= value < math.inf or (name in positive and value == 0):
            above = "above 0" if name in positive else "of at least 0"
            raise ParameterError(f"{name} must be a finite number {above}, got {value!r}")


def check_fit(examples: Examples, effort: int) -> None:
    """Refuse an empty table or an effort that does nothing."""
    if not is_whole(effort) or effort < 1:
        raise ParameterError(f"effort must be a whole number of at least 1 (epochs or trees), got {effort!r}")
    if len(examples.y) == 0:
        raise NothingRetained("no example is left to learn from: keep at least one record, or retire the model")


def total_effort(effort: int, start: Model | None) -> int:
    """Return the effort of a model with that of the one it goes on from."""
    return int(effort) + int(getattr(start, "effort", 0))


def threads_for_table(examples: Examples, asked: int) -> int:
    """Return how many threads to boost with: as asked, or, for 0, one on a small table and all (0) on a large one.

    Below a million values a second thread gains little where it is free and costs much where it is not.
    """
    return asked or (1 if examples.X.size < 1_000_000 else 0)


def coarse_first_guess(examples: Examples) -> Scores:
    """Return the score of each class, or of the second of two, before any tree: log-odds, or logarithms of shares.

    Exact shares of two versions of a model would tell the label of who left in between. Rounded to half a unit they are
    the same, but for a rare step. A fixed guess will not do: trees that start far off split badly, or not at all, where
    there is little to learn.
    """
    counts = np.bincount(examples.y, minlength=examples.schema.classes) + 0.5
    scores = np.log(counts[1:] / counts[:1]) if len(counts) == 2 else np.log(counts / counts.sum())
    return np.asarray(np.round(2 * scores) / 2, dtype=np.float32)


def both_classes(positive: np.ndarray[tuple[int], np.dtype[np.floating]]) -> Probabilities:
    """Turn the probability of the second class into that of both."""
    second = positive.astype(np.float64)
    return np.column_stack([1.0 - second, second])
