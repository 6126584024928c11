"""The Attack protocol: signals in, one number per record out."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from eupg.audit.signals import Floats, Kind, Signals
from eupg.errors import DataError


class Attack(Protocol):
    """A rule that guesses, from signals alone, who was in the training data.

    An attack knows neither frameworks nor files. It scores every record by the same rule, without knowing whom the
    audit calls a member.
    """

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of signal it can use, the best suited first."""

    @property
    def needs_out(self) -> int:
        """The least number of reference models, per record, that were trained without it."""

    @property
    def needs_in(self) -> int:
        """The least number of reference models, per record, that were trained with it."""

    def score(self, signals: Signals) -> Floats:
        """Return one number a record: the higher, the more likely it was a member."""


def check_signals(attack: Attack, signals: Signals) -> None:
    """Raise unless the signals are of a kind the attack can use, with enough reference models for every record."""
    name = type(attack).__name__
    if signals.kind not in attack.kinds:
        expected = " or ".join(attack.kinds)
        raise DataError(f"{name} needs signals that are {expected}, got {signals.kind}: measure them as that kind")
    check_counts(signals.out_counts, attack.needs_out, who=name, trained="without")
    check_counts(signals.in_counts, attack.needs_in, who=name, trained="with")


def check_counts(counts: NDArray[np.int64], least: int, *, who: str, trained: str) -> None:
    """Raise unless every record has at least that many reference models."""
    short = int((counts < least).sum())
    if short:
        raise DataError(
            f"{who} needs at least {least} reference models trained {trained} each record, but {short} of "
            f"{len(counts)} records have fewer (the fewest: {counts.min()}): train more reference models"
        )
