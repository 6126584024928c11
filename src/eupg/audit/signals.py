"""What an attacker sees: how sure the model, and reference models, are of each record's true label.

Attacks are arithmetic on a :class:`Signals` object and never touch a model. The functions below turn a model's
probabilities into one number per record: the probability of the true class, its scaled logit (Carlini et al. 2022, §V)
or the soft-margin Taylor softmax (Zarifzadeh, Liu and Shokri 2024, after Banerjee et al. 2020).
"""

from __future__ import annotations

import functools
import math
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eupg.errors import DataError, ParameterError
from eupg.validation import is_whole

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Below this a probability counts as this: single precision hardly tells smaller ones from zero.
FLOOR = 1e-12
_ROUNDING, _ROW_SUM = 1e-6, 1e-3


class Kind(StrEnum):
    """What the numbers in a :class:`Signals` object are."""

    PROBABILITY = "true-class probability"
    MARGIN = "scaled logit"
    TAYLOR = "soft-margin Taylor softmax"


@dataclass(frozen=True, eq=False)
class Signals:
    """How sure each model is of each record's true label, and which reference model was trained on which record.

    Parameters
    ----------
    target
        The audited model's signals, shape (records, queries). Query 0 is the record itself; further queries are
        altered copies of it (a flipped image, say).
    references
        The reference models' signals, shape (models, records, queries).
    inside
        True where a reference model was trained on the record, shape (models, records).
    population
        The same for records whose membership nobody asks about: RMIA's z.
    kind
        What the numbers are; an attack refuses a kind it is not made for.

    Examples
    --------
    >>> signals = Signals(
    ...     np.array([[0.9], [0.4]]),
    ...     np.array([[[0.5], [0.4]], [[0.7], [0.6]]]),
    ...     np.array([[False, True], [True, False]]),
    ... )
    >>> signals.out_counts
    array([1, 1])
    """

    target: Floats
    references: Floats
    inside: Mask
    _: KW_ONLY
    population: Signals | None = None
    kind: Kind = Kind.PROBABILITY

    def __post_init__(self) -> None:
        target, references = (np.asarray(v, dtype=np.float64) for v in (self.target, self.references))
        inside = np.asarray(self.inside)
        if target.ndim != 2 or not target.size:
            hint = ": add the last axis, target[:, None]" if target.ndim == 1 else ""
            raise DataError(f"target must be (records, queries) with at least one of each, got {target.shape}{hint}")
        if references.ndim != 3 or references.shape[1:] != target.shape:
            raise DataError(f"references must be (models, {', '.join(map(str, target.shape))}), got {references.shape}")
        if inside.dtype != np.bool_ or inside.shape != references.shape[:2]:
            raise DataError(
                f"inside must be a boolean array of shape {references.shape[:2]} (models, records), "
                f"got {inside.dtype} of shape {inside.shape}"
            )
        for name, values in (("target", target), ("references", references)):
            _check_range(values, name, bounded=self.kind is not Kind.MARGIN)
        for name, view in (("target", target.view()), ("references", references.view()), ("inside", inside.view())):
            view.setflags(write=False)
            object.__setattr__(self, name, view)
        if self.population is not None:
            self._check_population(self.population)

    def _check_population(self, population: Signals) -> None:
        if population.population is not None:
            raise DataError("a population has no population of its own: pass it as plain signals")
        if (len(population.references), population.kind) != (len(self.references), self.kind):
            raise DataError(
                f"the population must be scored by the same {len(self.references)} reference models with the same "
                f"signal ({self.kind}), got {len(population.references)} and {population.kind}"
            )

    @classmethod
    def without_references(cls, target: Floats, *, kind: Kind = Kind.PROBABILITY) -> Signals:
        """Return the signals of the audited model alone, for an attack that needs no reference model."""
        shape = np.shape(target)
        return cls(target, np.empty((0, *shape)), np.empty((0, *shape[:1]), dtype=np.bool_), kind=kind)

    @property
    def out_counts(self) -> NDArray[np.int64]:
        """How many reference models were trained without each record."""
        return np.asarray((~self.inside).sum(axis=0), dtype=np.int64)

    @property
    def in_counts(self) -> NDArray[np.int64]:
        """How many reference models were trained with each record."""
        return np.asarray(self.inside.sum(axis=0), dtype=np.int64)


def check_members(members: Mask, records: int) -> Mask:
    """Return the mask if it names at least one member and one non-member among that many records; else refuse it."""
    mask = np.asarray(members)
    if mask.dtype != np.bool_ or mask.shape != (records,):
        raise DataError(f"members must be a boolean array of shape ({records},), got {mask.dtype} of {mask.shape}")
    if mask.all() or not mask.any():
        side = "non-members" if mask.all() else "members"
        raise DataError(f"an audit compares members with non-members, and there are no {side}: pass at least one")
    return mask


def check_balanced(inside: Mask, members: Mask) -> None:
    """Raise unless every scored record, member or not, was left out by the same number of reference models.

    A mean over fewer models is noisier, so a side that is left out less often gets more extreme scores: the TPR at low
    FPR, and the AUC, then look like exposure although the audited model remembers nothing.

    Parameters
    ----------
    inside
        True where a reference model was trained on the record, shape (models, records).
    members
        True where the record is one whose membership is asked of, shape (records,).
    """
    if np.ndim(inside) != 2 or inside.dtype != np.bool_:
        raise DataError(f"inside must be a boolean array (models, records), got {inside.dtype} of {inside.shape}")
    members = check_members(members, inside.shape[1])
    out = (~inside).sum(axis=0)
    if out.min() != out.max():
        raise DataError(
            "every scored record must be left out by the same number of reference models, but members are left out by "
            f"{out[members].mean():.2f} on average and non-members by {out[~members].mean():.2f} "
            f"(from {out.min()} to {out.max()}): draw the halves in pairs, each with its complement"
        )


def true_class_probability(probabilities: Floats, labels: NDArray[np.int64]) -> Floats:
    """Return the probability each record's true class was given.

    Examples
    --------
    >>> true_class_probability(np.array([[0.25, 0.75], [0.5, 0.5]]), np.array([1, 0]))
    array([0.75, 0.5 ])
    """
    probabilities, labels = _check_probabilities(probabilities, labels)
    return np.asarray(probabilities[np.arange(len(labels)), labels])


def scaled_logit(probabilities: Floats, labels: NDArray[np.int64], *, floor: float = FLOOR) -> Floats:
    """Return how far the true class is ahead of all others together: log p − log Σ of the others.

    Nearly Gaussian over models, unlike the probability. The others are added up rather than taken as 1 − p, so that a p
    that rounds to 1 keeps its distance; what is below ``floor`` counts as ``floor``.

    Examples
    --------
    >>> scaled_logit(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([0, 0])).round(2)
    array([ 0.  , 27.63])
    """
    probabilities, labels = _check_probabilities(probabilities, labels)
    _check_floor(floor)
    rows = np.arange(len(labels))
    others = probabilities.copy()
    others[rows, labels] = 0
    ahead, behind = np.maximum(probabilities[rows, labels], floor), np.maximum(others.sum(axis=1), floor)
    return np.asarray(np.log(ahead) - np.log(behind))


def taylor_softmax(
    probabilities: Floats,
    labels: NDArray[np.int64],
    *,
    margin: float = 0.6,
    order: int = 4,
    temperature: float = 2.0,
    floor: float = FLOOR,
) -> Floats:
    """Return a gentler probability of the true class, which separates members better among very sure predictions.

    With t the Taylor polynomial of exp: t(z_y/T − m) / [t(z_y/T − m) + Σ over the others of t(z_i/T)].

    Only probabilities are known here, so the logits z are their logarithms, less the mean over the classes of the
    record. Softmax does not notice that shift but its Taylor form does. A network trained with cross-entropy keeps its
    mean logit near the start's zero, so for networks these are close to its own logits; other models have none.

    The polynomial of even order turns upwards below its minimum (−1.596 for order 4), where a class ruled out would
    count as likely. Below it the minimum is used: a surer model never gets a lower signal. The paper does not do so,
    and differs there alone.

    Examples
    --------
    >>> taylor_softmax(np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([0, 0])).round(3)
    array([0.355, 0.622])
    """
    probabilities, labels = _check_probabilities(probabilities, labels)
    _check_floor(floor)
    if not is_whole(order) or order < 2 or order % 2:
        raise ParameterError(f"order must be an even whole number of at least 2, got {order!r}: odd ones go below zero")
    if not (math.isfinite(temperature) and temperature > 0 and math.isfinite(margin)):
        raise ParameterError(f"temperature must be positive and margin finite, got {temperature!r} and {margin!r}")
    rows = np.arange(len(labels))
    logs = np.log(np.maximum(probabilities, floor))
    logits = (logs - logs.mean(axis=1, keepdims=True)) / temperature
    own = _truncated_exponential(logits[rows, labels] - margin, order)
    others = _truncated_exponential(logits, order)
    others[rows, labels] = 0
    return np.asarray(own / (own + others.sum(axis=1)))


_FUNCTIONS = {Kind.PROBABILITY: true_class_probability, Kind.MARGIN: scaled_logit, Kind.TAYLOR: taylor_softmax}


def measure(probabilities: Floats, labels: NDArray[np.int64], *, kind: Kind) -> Floats:
    """Return the signal of that kind, one number per record, with its usual settings.

    Examples
    --------
    >>> measure(np.array([[0.25, 0.75]]), np.array([1]), kind=Kind.PROBABILITY)
    array([0.75])
    """
    return _FUNCTIONS[kind](probabilities, labels)


def mean_over(references: Floats, chosen: Mask) -> Floats:
    """Return each record's mean signal over the reference models chosen for it: (models, records) → (records, queries).

    Every record must have at least one.
    """
    return np.asarray(np.einsum("mrq,mr->rq", references, chosen) / chosen.sum(axis=0)[:, None])


@functools.cache
def _turning_point(order: int) -> float:
    """Return where the Taylor polynomial of exp is least: its derivative, one order lower, has one real root."""
    roots = np.roots([1 / math.factorial(i) for i in range(order - 1, -1, -1)])
    return float(roots[np.abs(roots.imag).argmin()].real)


def _truncated_exponential(z: Floats, order: int) -> Floats:
    z = np.maximum(z, _turning_point(order))
    coefficients = [1 / math.factorial(i) for i in range(order, -1, -1)]
    return np.asarray(np.polyval(coefficients, z))


def _check_range(values: Floats, name: str, *, bounded: bool) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        where = tuple(np.argwhere(bad)[0].tolist())
        raise DataError(
            f"{name} has {bad.sum()} values that are not finite numbers (the first, {values[where]}, at {where}): "
            "look for a model that diverged"
        )
    if bounded and values.size and not (values.min() >= 0 and values.max() <= 1):
        raise DataError(
            f"{name} must hold values between 0 and 1, found {values.min():g} to {values.max():g}: pass probabilities, "
            "or name the kind of signal"
        )


def _check_probabilities(probabilities: Any, labels: Any) -> tuple[Floats, NDArray[np.int64]]:
    """Check what a model returned; differences from [0, 1] that are single-precision rounding are taken off."""
    p, y = np.asarray(probabilities, dtype=np.float64), np.asarray(labels)
    if p.ndim != 2 or p.shape[1] < 2 or not len(p):
        raise DataError(f"probabilities must be (records, classes) with two classes or more, got {p.shape}")
    if y.shape != (len(p),) or not np.issubdtype(y.dtype, np.integer):
        raise DataError(f"labels must be {len(p)} whole numbers, one per record, got {y.dtype} of shape {y.shape}")
    if y.min() < 0 or y.max() >= p.shape[1]:
        raise DataError(f"labels must lie between 0 and {p.shape[1] - 1}, found {y.min()} to {y.max()}")
    close = (p > -_ROUNDING) & (p < 1 + _ROUNDING)
    p = np.where(close, np.clip(p, 0, 1), p)
    _check_range(p, "probabilities", bounded=True)
    sums = p.sum(axis=1)
    if np.abs(sums - 1).max() > _ROW_SUM:
        worst = int(np.abs(sums - 1).argmax())
        raise DataError(f"each record's probabilities must add up to one, record {worst}'s add up to {sums[worst]:g}")
    return p, y


def _check_floor(floor: float) -> None:
    if not 0 < floor < 1:
        raise ParameterError(f"floor must lie between 0 and 1, got {floor!r}")
