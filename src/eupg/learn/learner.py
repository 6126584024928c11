"""The protocols of models and learners, and the checks that learners share.

A learner is stateless: its fields are its hyper-parameters. One method serves pretraining and fine-tuning. It knows
neither which stage it serves nor anything about privacy, ids or erasure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Attribute, Listed, Missing
from eupg.data.dataset import Examples, Matrix
from eupg.data.pictures.attribute import Picture
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.data.vector import Vector
from eupg.errors import NothingRetained, ParameterError
from eupg.validation import check_whole, is_number, is_whole

# One margin per example; with more than two classes, one per class.
Scores = NDArray[np.float32]
# The number of a leaf within its tree: one row per record, one column per tree.
Leaves = NDArray[np.int64]


@runtime_checkable
class Model(Protocol):
    """A model that predicts. It takes rows in the schema's coding and encodes them itself.

    Models of this library also take a table and match its columns by name (:mod:`eupg.data.rows`). They refuse a matrix
    whose width is not the schema's.
    """

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the probability of every class: one row per example; rows sum to one."""


@runtime_checkable
class Learner(Protocol):
    """Fits models to examples."""

    @property
    def warm_starts(self) -> bool:
        """Whether ``fit`` can continue from a model."""

    def fit(self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model | None = None) -> Model:
        """Fit a new model, from scratch or from ``start``, which is not changed.

        Effort counts passes over the data (networks, linear models) or trees (boosting). Everything computed from the
        examples on the way, such as scales, belongs to the new model alone.
        """

    def save(self, model: Model, path: str | Path) -> None:
        """Write the model to one file, without pickle."""

    def load(self, path: str | Path) -> Model:
        """Read a model written by :meth:`save`; no code from the file can run."""


@runtime_checkable
class Staged(Protocol):
    """A learner that can stop and continue as if it had not stopped: its models carry the optimiser's state."""

    def fit_part(
        self,
        examples: Examples,
        *,
        effort: int,
        rng: np.random.Generator,
        part: tuple[float, float],
        start: Model | None = None,
    ) -> Model:
        """Fit over a part of the whole training's schedule, which runs from 0.0 to 1.0."""


@runtime_checkable
class Scoring(Protocol):
    """A learner that continues from a model's scores of the examples and needs nothing else of the model.

    Boosted trees correct the margins of the trees before them.
    """

    @property
    def uses_scores(self) -> bool:
        """Whether it does so with its settings."""

    def scores(self, model: Model, X: Matrix) -> Scores:
        """Return the model's output for each row before it becomes a probability."""

    def fit_scored(
        self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model, scores: Scores
    ) -> Model:
        """Return exactly what ``fit`` would, given the scores of ``start`` for the examples."""


class Described(Model, Protocol):
    """A model that knows the schema of its rows, as all models of this library do."""

    @property
    def schema(self) -> Schema:
        """What the columns mean."""


class Margined(Described, Protocol):
    """A model that tells its margins: one number per record for two classes, else one per class."""

    def margins(self, X: Matrix) -> Scores:
        """Return the model's output for each row before it becomes a probability."""


@runtime_checkable
class Correcting(Learner, Protocol):
    """A learner that corrects the margins of any other model, by margins of its own that are added to them."""

    def fit_correction(self, examples: Examples, *, effort: int, rng: np.random.Generator, scores: Scores) -> Margined:
        """Fit a model whose margins, added to these scores of the examples, predict them."""


@runtime_checkable
class Adding(Protocol):
    """A learner whose first trees are the model that less effort would have produced."""

    def first(self, model: Model, trees: int, *, start: Model | None = None) -> Model:
        """Return the model with only the first of the trees that were added to ``start``, or to nothing."""


@runtime_checkable
class TreeModel(Protocol):
    """A model made of trees, which tells in which of their leaves a record lies."""

    @property
    def schema(self) -> Schema:
        """What the columns mean."""

    @property
    def leaf_counts(self) -> tuple[int, ...]:
        """Number of leaves of each tree."""

    def leaves(self, X: Matrix, *, trees: int) -> Leaves:
        """Return in which leaf of each of the first trees a record lies."""

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the probability of every class."""


@runtime_checkable
class Sums(Protocol):
    """Exact sums over examples."""

    def plus(self, others: Self) -> Self:
        """Return the sums with those of further examples."""

    def minus(self, others: Self) -> Self:
        """Return the sums without those of some of the examples; others are refused."""


@runtime_checkable
class Summing(Protocol):
    """A learner whose model depends on the examples through exact sums alone, so that an example can be subtracted."""

    def sums(self, examples: Examples, *, start: Model) -> Sums:
        """Return the sums over these examples."""

    def fit_sums(self, sums: Sums, *, effort: int, start: Model) -> Model:
        """Return exactly what ``fit`` would, given the sums over the examples."""

    def save_sums(self, sums: Sums, path: Path, *, start: Model) -> None:
        """Write the sums, which are personal data as the examples are."""

    def load_sums(self, path: Path) -> Sums:
        """Read sums back."""


def accumulates(learner: Learner) -> bool:
    """Tell whether effort adds to the model, as trees do, while an epoch repeats the examples."""
    return bool(getattr(learner, "accumulates", False))


Kind = TypeVar("Kind", bound=Described)


def own(model: Model, kind: type[Kind]) -> Kind:
    """Return the model as one of this kind; another learner's model is an error."""
    if not isinstance(model, kind):
        raise ParameterError(f"expected a {kind.__name__}, got a {type(model).__name__}: use one learner throughout")
    return model


def own_start(start: Model | None, kind: type[Kind], examples: Examples) -> Kind | None:
    """Return the model to continue from, after checking that it codes rows and classes as the examples do."""
    if start is None:
        return None
    model = own(start, kind)
    difference = _difference(model.schema, examples.schema)
    if difference:
        raise ParameterError(
            f"the model to continue from was fitted to another table: {difference}; use the features and classes it "
            "was fitted on, or start anew"
        )
    return model


def _difference(before: Schema, now: Schema) -> str:
    """Name the first feature, or the classes, that two schemas code differently; empty if there is none."""
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
    missing = "kept" if attribute.missing is Missing.KEEP else "not kept"
    size: tuple[object, ...] = attribute.shape if isinstance(attribute, Picture) else ()
    if isinstance(attribute, Vector):
        size = (attribute.dimension, attribute.encoder, attribute.digest)
    return {"kind": attribute.kind, "categories": categories, "missing values": missing, "size": size}


def check_learner(learner: object, example: str = "XGBoostLearner()") -> None:
    """Refuse anything that is not a learner, such as the class of one."""
    if isinstance(learner, type) or not isinstance(learner, Learner):
        raise ParameterError(f"expected a learner such as {example}, got {learner!r}")


def check_settings(
    settings: object, *, whole: Mapping[str, int], positive: Sequence[str] = (), not_negative: Sequence[str] = ()
) -> None:
    """Refuse settings that are not numbers, or too small; ``whole`` maps whole numbers to their least value.

    Comparisons are written so that NaN, which is neither small nor large, fails them.
    """
    for name, least in whole.items():
        check_whole(name, getattr(settings, name), at_least=least)
    for name in (*positive, *not_negative):
        value = getattr(settings, name)
        if not is_number(value) or not 0 <= value < math.inf or (name in positive and value == 0):
            above = "above 0" if name in positive else "of at least 0"
            raise ParameterError(f"{name} must be a finite number {above}, got {value!r}")


def check_fit(examples: Examples, effort: int) -> None:
    """Refuse an empty table or an effort that does nothing."""
    check_effort(effort, len(examples.y))


def check_effort(effort: int, examples: int) -> None:
    """Refuse an effort that does nothing, or to learn from nothing."""
    if not is_whole(effort) or effort < 1:
        raise ParameterError(f"effort must be a whole number of at least 1 (epochs or trees), got {effort!r}")
    if examples == 0:
        raise NothingRetained("no example is left to learn from: keep at least one record, or retire the model")


def check_scores(examples: Examples, scores: Scores) -> None:
    """Refuse scores that are not one of each example."""
    if len(scores) != len(examples.y):
        raise ParameterError(f"{len(examples.y)} examples need as many scores, got {len(scores)}: pass one of each")


def total_effort(effort: int, start: Model | None) -> int:
    """Return the effort of a model, including that of the model it continues from."""
    return int(effort) + int(getattr(start, "effort", 0))


def both_classes(positive: np.ndarray[tuple[int], np.dtype[np.floating]]) -> Probabilities:
    """Turn the probability of the second class into that of both."""
    second = positive.astype(np.float64)
    return np.column_stack([1.0 - second, second])
