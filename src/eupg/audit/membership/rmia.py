"""RMIA, the relative membership attack: confidence relative to other models and to other records.

Zarifzadeh, Liu and Shokri, "Low-cost high-power membership inference attacks" (ICML 2024). By Bayes' rule the
likelihood ratio of a record x and a population record z is ratio(x)/ratio(z), with ratio(x) = p(x|θ)/p(x). The score of
x is the share of population records that it dominates by more than γ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from eupg.audit.membership.attack import check_counts, check_signals
from eupg.audit.membership.roc import auc
from eupg.audit.membership.signals import FLOOR, Floats, Mask, SignalKind, Signals, mean_over
from eupg.errors import DataError, ParameterError
from eupg.validation import check_positive

_CANDIDATES = tuple(i / 10 for i in range(11))


@dataclass(frozen=True, kw_only=True)
class RMIA:
    """Compare the model's confidence in a record with that of reference models, and the ratio with other records'.

    Offline, p(x) = ½[(1+a)·p_out(x) + (1−a)], where p_out is the mean over reference models trained without x. Online,
    p(x) = ½[p_in(x) + p_out(x)]. The queries of a record vote, as in the paper: x dominates z if more than half of x's
    queries do. This equals comparing the median of x's ratios, or the lower of two medians. z is reduced in the same
    way.

    Parameters
    ----------
    gamma
        The factor by which x must dominate z.
    a
        How a record's probability grows with training on it: p_in ≈ a·p_out + 1 − a. None: :func:`tune_a` chooses it
        from the reference models alone.
    online
        Use reference models trained with each record as well.
    by_ratio
        Return ratio(x) itself, which needs no population. The ranking is the same up to ties, which vanish with 1,000
        population records or more. Records that dominate every z tie at 1, so at very low false-positive rates the
        ratio is sharper.

    Examples
    --------
    >>> signals = Signals(
    ...     np.array([[0.9], [0.6]]), np.array([[[0.5], [0.6]]]), np.array([[False, False]])
    ... )
    >>> RMIA(a=1.0, by_ratio=True).score(signals)
    array([1.8, 1. ])
    """

    kinds: ClassVar[tuple[SignalKind, ...]] = (SignalKind.PROBABILITY, SignalKind.TAYLOR)
    gamma: float = 1.0
    a: float | None = None
    online: bool = False
    by_ratio: bool = False

    def __post_init__(self) -> None:
        check_positive("gamma", self.gamma)
        if self.a is not None:
            _check_a(self.a)

    @property
    def needs_out(self) -> int:
        """One; two if ``a`` must be tuned, where one of the reference models plays the target."""
        return 2 if self.needs_tuning else 1

    @property
    def needs_in(self) -> int:
        """One online, none offline."""
        return int(self.online)

    @property
    def needs_tuning(self) -> bool:
        """Whether ``a`` is still to be chosen."""
        return self.a is None and not self.online

    def tuned(self, signals: Signals) -> RMIA:
        """Return the attack with ``a`` chosen, so that a report can name it."""
        return replace(self, a=tune_a(signals)) if self.needs_tuning else self

    def score(self, signals: Signals) -> Floats:
        """Return the share of population records that each record dominates, or its ratio."""
        check_signals(self, signals)
        population = signals.population
        if population is None and not self.by_ratio:
            raise DataError(
                "RMIA compares each record with a population, but the signals have none: pass 1,000 or more other "
                "records as population, or rank by RMIA(by_ratio=True)"
            )
        attack = self.tuned(signals)
        ratios = _median(signals.target / attack._expected(signals))
        if population is None or self.by_ratio:
            return ratios
        if not self.online:
            check_counts(population.out_counts, 1, who="RMIA's population", trained="without")
        others = np.sort(_median(population.target / attack._expected(population)))
        # ratio(x)/ratio(z) > γ without the division, since ratio(z) may be zero.
        return np.asarray(np.searchsorted(self.gamma * others, ratios, side="left") / len(others))

    def _expected(self, signals: Signals) -> Floats:
        """Return p(x), the mean over models trained with and without x."""
        if self.online:
            # A population record may be inside all reference models or none: then it has one side only.
            sides = (signals.inside, ~signals.inside)
            means = [mean_over(signals.references, np.where(s.any(axis=0), s, ~s)) for s in sides]
            return np.asarray(np.maximum((means[0] + means[1]) / 2, FLOOR))
        assert self.a is not None
        return _offline(mean_over(signals.references, ~signals.inside), self.a)


def tune_a(signals: Signals, *, candidates: Sequence[float] = _CANDIDATES) -> float:
    """Choose RMIA's ``a`` by attacking reference models, whose training records are known.

    Each reference model in turn plays the target, and the others are its reference models. The candidate between 0 and
    1 with the largest mean AUC wins; of equals, the first. Every record needs two or more models trained without it.
    The audited model's own signals are not used.
    """
    if not len(candidates):
        raise ParameterError("tune_a needs at least one candidate for a, got none")
    for a in candidates:
        _check_a(a)
    check_counts(signals.out_counts, 2, who="tuning a", trained="without")
    mixed = np.flatnonzero(signals.inside.any(axis=1) & ~signals.inside.all(axis=1))
    if not len(mixed):
        raise DataError(
            "tuning a needs a reference model that was trained on some of the records and not on others, but there is "
            "none: pass a value for a, or tune it on other records with tune_a"
        )
    total = np.zeros(len(candidates))
    for model in mixed.tolist():
        outside = mean_over(signals.references, _left_out(signals.inside, model))
        played, inside = signals.references[model], signals.inside[model]
        total += [auc(_median(played / _offline(outside, a)), inside) for a in candidates]
    return float(candidates[int(total.argmax())])


def _left_out(inside: Mask, model: int) -> Mask:
    """Return which other models are out for each record: equally many, whether or not the played model is."""
    out = ~inside
    out[model] = False
    # A record inside the played model has one more model left than a record outside it: drop the next one.
    following = np.roll(out, -model - 1, axis=0).argmax(axis=0)
    spare = (following + model + 1) % len(inside)
    members = np.flatnonzero(inside[model])
    out[spare[members], members] = False
    return out


def _offline(outside: Floats, a: float) -> Floats:
    return np.asarray(np.maximum(((1 + a) * outside + (1 - a)) / 2, FLOOR))


def _median(ratios: Floats) -> Floats:
    """Return the median of each record's queries, or the lower of two."""
    place = (ratios.shape[1] - 1) // 2
    return np.asarray(np.partition(ratios, place, axis=1)[:, place])


def _check_a(a: float) -> None:
    if not 0 <= a <= 1:
        raise ParameterError(f"a must lie between 0 and 1, got {a!r}")
