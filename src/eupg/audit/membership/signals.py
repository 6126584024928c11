"""Signals: how confident the audited model and the reference models are in each record's true label.

Attacks are arithmetic on a :class:`Signals` object and never touch a model. A signal is one number per record: the
probability of the true class, its scaled logit (Carlini et al. 2022, §V), or the soft-margin Taylor softmax
(Zarifzadeh, Liu and Shokri 2024, after Banerjee et al. 2020).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eupg.errors import DataError

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Mask = NDArray[np.bool_]

# Smaller probabilities count as this: single precision hardly distinguishes them from zero.
FLOOR = 1e-12
_ROUNDING, _ROW_SUM = 1e-6, 1e-3
_SOFT_MARGIN, _TEMPERATURE = 0.6, 2.0
# exp to the fourth order, and where that polynomial is least: its derivative has one real root.
_TAYLOR = (1 / 24, 1 / 6, 1 / 2, 1.0, 1.0)
_TURNING_POINT = -1.5960716379833215


class SignalKind(StrEnum):
    """What the numbers in a :class:`Signals` object are."""

    PROBABILITY = "true-class probability"
    MARGIN = "scaled logit"
    TAYLOR = "soft-margin Taylor softmax"


@dataclass(frozen=True, eq=False)
class Signals:
    """The signals of all models on all records, and which reference model was trained on which record.

    Parameters
    ----------
    target
        The audited model's signals, (records, queries). Query 0 is the record itself, the others are altered copies.
    references
        The reference models' signals, (models, records, queries).
    inside
        (models, records): whether the reference model was trained on the record.
    population
        The same for records whose membership is not in question: RMIA's z.
    kind
        What the numbers are; an attack refuses other kinds than its own.

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
    kind: SignalKind = SignalKind.PROBABILITY

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
            _check_range(values, name, bounded=self.kind is not SignalKind.MARGIN)
        for name, view in (("target", target.view()), ("references", references.view()), ("inside", inside.view())):
            view.setflags(write=False)
            object.__setattr__(self, name, view)
        if self.population is not None:
            self._check_population(self.population)

    def _check_population(self, population: Signals) -> None:
        if population.population is not None:
            raise DataError("a population must not have a population of its own: pass it as plain signals")
        if (len(population.references), population.kind) != (len(self.references), self.kind):
            raise DataError(
                f"the population must be scored by the same {len(self.references)} reference models with the same "
                f"signal ({self.kind}), got {len(population.references)} and {population.kind}"
            )

    @classmethod
    def without_references(cls, target: Floats, *, kind: SignalKind = SignalKind.PROBABILITY) -> Signals:
        """Return the signals of the audited model alone, for an attack that needs no reference models."""
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


def true_class_probability(probabilities: Floats, labels: Labels) -> Floats:
    """Return the probability of each record's true class.

    Examples
    --------
    >>> true_class_probability(np.array([[0.25, 0.75], [0.5, 0.5]]), np.array([1, 0]))
    array([0.75, 0.5 ])
    """
    probabilities, labels = _check_probabilities(probabilities, labels)
    return np.asarray(probabilities[np.arange(len(labels)), labels])


def scaled_logit(probabilities: Floats, labels: Labels, *, floor: float = FLOOR) -> Floats:
    """Return log p of the true class minus the log of the sum of all others; both at least ``floor``.

    Unlike the probability it is nearly Gaussian over models. The others are summed instead of taken as 1 − p, which
    would round to zero for a confident model.

    Examples
    --------
    >>> scaled_logit(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([0, 0])).round(2)
    array([ 0.  , 27.63])
    """
    probabilities, labels = _check_probabilities(probabilities, labels)
    rows = np.arange(len(labels))
    others = probabilities.copy()
    others[rows, labels] = 0
    ahead, behind = np.maximum(probabilities[rows, labels], floor), np.maximum(others.sum(axis=1), floor)
    return np.asarray(np.log(ahead) - np.log(behind))


def taylor_softmax(probabilities: Floats, labels: Labels) -> Floats:
    """Return a flatter probability of the true class, which separates members better among confident predictions.

    With t the Taylor polynomial of exp of order 4, m = 0.6 and T = 2 as in the paper:
    t(z_y/T − m) / [t(z_y/T − m) + Σ over the others of t(z_i/T)].

    Only probabilities are known here, so the logits z are their logarithms minus the record's mean over the classes.
    Softmax is invariant under this shift, its Taylor form is not. A network trained with cross-entropy keeps its mean
    logit near zero, so for networks these are close to its own logits; other models have none.

    Below its minimum at −1.596 the polynomial rises again, so that a class ruled out would count as likely. There the
    minimum is used instead, which is the only difference from the paper: a more confident model never gets a lower
    signal.

    Examples
    --------
    >>> taylor_softmax(np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([0, 0])).round(3)
    array([0.355, 0.622])
    """
    probabilities, labels = _check_probabilities(probabilities, labels)
    rows = np.arange(len(labels))
    logs = np.log(np.maximum(probabilities, FLOOR))
    logits = (logs - logs.mean(axis=1, keepdims=True)) / _TEMPERATURE
    own = _truncated_exponential(logits[rows, labels] - _SOFT_MARGIN)
    others = _truncated_exponential(logits)
    others[rows, labels] = 0
    return np.asarray(own / (own + others.sum(axis=1)))


def _truncated_exponential(z: Floats) -> Floats:
    return np.asarray(np.polyval(_TAYLOR, np.maximum(z, _TURNING_POINT)))


_FUNCTIONS = {
    SignalKind.PROBABILITY: true_class_probability,
    SignalKind.MARGIN: scaled_logit,
    SignalKind.TAYLOR: taylor_softmax,
}


def measure(probabilities: Floats, labels: Labels, *, kind: SignalKind) -> Floats:
    """Return the signal of that kind with its default settings, one number per record."""
    return _FUNCTIONS[kind](probabilities, labels)


def measure_queries(probabilities: ArrayLike, labels: Labels, *, kind: SignalKind) -> Floats:
    """Return the signal of every query, (records, queries), from (records, queries, classes) or (records, classes)."""
    p = np.asarray(probabilities)
    if p.ndim not in (2, 3) or not p.size:
        raise DataError(f"probabilities must be (records, queries, classes), at least one of each, got {p.shape}")
    p = p[:, None] if p.ndim == 2 else p
    if np.shape(labels) != p.shape[:1]:
        raise DataError(f"{len(p)} records need as many labels, got {np.shape(labels)}: pass one per record")
    return measure(p.reshape(-1, p.shape[2]), np.repeat(labels, p.shape[1]), kind=kind).reshape(p.shape[:2])


def mean_over(references: Floats, chosen: Mask) -> Floats:
    """Return each record's mean signal, (records, queries), over the models chosen for it; each record needs one."""
    return np.asarray(np.einsum("mrq,mr->rq", references, chosen) / chosen.sum(axis=0)[:, None])


def check_members(members: Mask, records: int) -> Mask:
    """Return the mask, or refuse one without a member or without a non-member."""
    mask = np.asarray(members)
    if mask.dtype != np.bool_ or mask.shape != (records,):
        raise DataError(f"members must be a boolean array of shape ({records},), got {mask.dtype} of {mask.shape}")
    if mask.all() or not mask.any():
        side = "non-members" if mask.all() else "members"
        raise DataError(f"an audit compares members with non-members, but there are no {side}: pass at least one")
    return mask


def check_balanced(inside: Mask, members: Mask) -> None:
    """Refuse reference models that leave some scored records out more often than others.

    A mean over fewer models is noisier, so the side that is left out less often gets more extreme scores. Both the AUC
    and the TPR at low FPR would then show exposure although the audited model remembers nothing.
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
            f"{name} must hold values between 0 and 1, got {values.min():g} to {values.max():g}: pass probabilities, "
            "or name the kind of signal"
        )


def _check_probabilities(probabilities: Any, labels: Any) -> tuple[Floats, Labels]:
    """Check a model's output, and clip single-precision rounding errors to [0, 1]."""
    p, y = np.asarray(probabilities, dtype=np.float64), np.asarray(labels)
    if p.ndim != 2 or p.shape[1] < 2 or not len(p):
        raise DataError(f"probabilities must be (records, classes) with two classes or more, got {p.shape}")
    if y.shape != (len(p),) or not np.issubdtype(y.dtype, np.integer):
        raise DataError(f"labels must be {len(p)} whole numbers, one per record, got {y.dtype} of shape {y.shape}")
    if y.min() < 0 or y.max() >= p.shape[1]:
        raise DataError(f"labels must lie between 0 and {p.shape[1] - 1}, got {y.min()} to {y.max()}")
    p = np.where((p > -_ROUNDING) & (p < 1 + _ROUNDING), np.clip(p, 0, 1), p)
    _check_range(p, "probabilities", bounded=True)
    sums = p.sum(axis=1)
    if np.abs(sums - 1).max() > _ROW_SUM:
        worst = int(np.abs(sums - 1).argmax())
        raise DataError(f"each record's probabilities must add up to one, record {worst}'s add up to {sums[worst]:g}")
    return p, y
