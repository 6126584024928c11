"""RMIA asks whether the audited model is surer of this record than of others, beyond what any model would be.

Zarifzadeh, Liu and Shokri, "Low-cost high-power membership inference attacks" (ICML 2024). The likelihood ratio of a
record x and a population record z, by Bayes' rule, is ratio(x)/ratio(z) with ratio(x) = p(x|θ)/p(x); x's score is the
share of population records that it dominates by more than γ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from eupg.audit.attack import check_counts, check_signals
from eupg.audit.roc import auc
from eupg.audit.signals import FLOOR, Floats, Kind, Mask, Signals, mean_over
from eupg.errors import DataError, ParameterError

_CANDIDATES = tuple(i / 10 for i in range(11))


@dataclass(frozen=True, kw_only=True)
class RMIA:
    """Compare the model's confidence in a record with what reference models say, and that with other records'.

    Offline, p(x) = ½[(1+a)·p_out(x) + (1−a)], where p_out is the mean over reference models trained without x. Online,
    p(x) = ½[p_in(x) + p_out(x)]. Several queries of a record vote, as in the paper: x dominates z when more than half
    of x's queries do. That is the same as comparing the middle one of x's ratios (of two middle ones, the lower); z's
    own queries are reduced alike.

    Parameters
    ----------
    gamma
        By what factor x must dominate z.
    a
        How a record's probability grows when it is trained on: p_in ≈ a·p_out + 1 − a. None: chosen by :func:`tune_a`
        from the reference models alone.
    online
        True when there are reference models trained with each record too.
    by_ratio
        Return ratio(x) itself and need no population. The score never decreases with ratio(x), so the ranking is the
        same but for ties, which vanish as z grows in number: pass 1,000 or more of them. Records that dominate every z
        tie at 1, so for the TPR at very low FPR the ratio is the sharper score.

    Examples
    --------
    >>> signals = Signals(
    ...     np.array([[0.9], [0.6]]), np.array([[[0.5], [0.6]]]), np.array([[False, False]])
    ... )
    >>> RMIA(a=1.0, by_ratio=True).score(signals)
    array([1.8, 1. ])
    """

    kinds: ClassVar[tuple[Kind, ...]] = (Kind.PROBABILITY, Kind.TAYLOR)
    gamma: float = 1.0
    a: float | None = None
    online: bool = False
    by_ratio: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.gamma) and self.gamma > 0):
            raise ParameterError(f"gamma must be a positive finite number, got {self.gamma!r}")
        if self.a is not None:
            _check_a(self.a)

    @property
    def needs_out(self) -> int:
        """One, and one more where a reference model plays the target to choose ``a``."""
        return 2 if self.a is None and not self.online else 1

    @property
    def needs_in(self) -> int:
        """One if online, else none."""
        return int(self.online)

    def tuned(self, signals: Signals) -> RMIA:
        """Return the attack with ``a`` chosen, so that a report can name it."""
        return self if self.online or self.a is not None else replace(self, a=tune_a(signals))

    def score(self, signals: Signals) -> Floats:
        """Return the share of population records that each record dominates, or its ratio."""
        check_signals(self, signals)
        population = signals.population
        if population is None and not self.by_ratio:
            raise DataError(
                "RMIA compares each record with a population, and the signals have none: pass 1,000 or more records "
                "nobody asks about as population, or rank by RMIA(by_ratio=True)"
            )
        attack = self.tuned(signals)
        ratios = _middle(signals.target / attack._expected(signals))
        if population is None or self.by_ratio:
            return ratios
        if not self.online:
            check_counts(population.out_counts, 1, who="RMIA's population", trained="without")
        others = np.sort(_middle(population.target / attack._expected(population)))
        # ratio(x)/ratio(z) > γ, without the division: ratio(z) may be zero.
        return np.asarray(np.searchsorted(self.gamma * others, ratios, side="left") / len(others))

    def _expected(self, signals: Signals) -> Floats:
        """Return p(x): what any model, with or without x, says of it."""
        if self.online:
            # A population record that no reference model was trained with (or without) has one side only.
            sides = (signals.inside, ~signals.inside)
            each = [mean_over(signals.references, np.where(s.any(axis=0), s, ~s)) for s in sides]
            return np.asarray(np.maximum((each[0] + each[1]) / 2, FLOOR))
        assert self.a is not None
        return _offline(mean_over(signals.references, ~signals.inside), self.a)


def tune_a(signals: Signals, *, candidates: Sequence[float] = _CANDIDATES) -> float:
    """Choose RMIA's ``a`` by attacking reference models, whose training records are known; never the audited model.

    Each reference model in turn plays the target, and the others are its reference models. The candidate with the
    largest mean AUC wins; of equals, the first.

    Parameters
    ----------
    signals
        Signals in which every record has two or more models trained without it. Their target is not looked at.
    candidates
        Values between 0 and 1 to try.
    """
    if not len(candidates):
        raise ParameterError("tune_a needs at least one candidate for a, got none")
    for a in candidates:
        _check_a(a)
    check_counts(signals.out_counts, 2, who="tuning a", trained="without")
    mixed = np.flatnonzero(signals.inside.any(axis=1) & ~signals.inside.all(axis=1))
    if not len(mixed):
        raise DataError(
            "a is tuned by attacking a reference model that was trained on some of the records and not on others, and "
            "there is none: pass a value for a, or tune it on other records with tune_a"
        )
    total = np.zeros(len(candidates))
    for model in mixed.tolist():
        outside = mean_over(signals.references, _left_out(signals.inside, model))
        played, inside = signals.references[model], signals.inside[model]
        total += [auc(_middle(played / _offline(outside, a)), inside) for a in candidates]
    return float(candidates[int(total.argmax())])


def _left_out(inside: Mask, model: int) -> Mask:
    """Return which other models are OUT for each record, equally many whether or not the played one is."""
    out = ~inside
    out[model] = False
    # Where the played model was trained on the record, one OUT model too many is left: the next one is set aside.
    following = np.roll(out, -model - 1, axis=0).argmax(axis=0)
    spare = (following + model + 1) % len(inside)
    members = np.flatnonzero(inside[model])
    out[spare[members], members] = False
    return out


def _offline(outside: Floats, a: float) -> Floats:
    return np.asarray(np.maximum(((1 + a) * outside + (1 - a)) / 2, FLOOR))


def _middle(ratios: Floats) -> Floats:
    """Return the ratio that more than half of a record's queries reach: the median, or the lower of two."""
    place = (ratios.shape[1] - 1) // 2
    return np.asarray(np.partition(ratios, place, axis=1)[:, place])


def _check_a(a: float) -> None:
    if not 0 <= a <= 1:
        raise ParameterError(f"a must lie between 0 and 1, got {a!r}")
