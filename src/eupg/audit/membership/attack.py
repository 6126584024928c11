"""The Attack protocol: signals in, one score per record out."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from eupg.audit.membership.signals import Floats, SignalKind, Signals
from eupg.errors import DataError


class Attack(Protocol):
    """A rule that guesses from signals alone which records were in the training data.

    An attack knows neither frameworks nor files. It scores every record by the same rule and is never told which
    records are members.
    """

    @property
    def kinds(self) -> tuple[SignalKind, ...]:
        """The kinds of signal it can use, the preferred one first."""

    @property
    def needs_out(self) -> int:
        """The least number of reference models trained without each record."""

    @property
    def needs_in(self) -> int:
        """The least number of reference models trained with each record."""

    def score(self, signals: Signals) -> Floats:
        """Return one number per record: the higher, the more likely it was a member."""


def check_signals(attack: Attack, signals: Signals) -> None:
    """Refuse signals of a kind the attack cannot use, or with too few reference models for some record."""
    name = type(attack).__name__
    if signals.kind not in attack.kinds:
        expected = " or ".join(attack.kinds)
        raise DataError(f"{name} needs signals of kind {expected}, got {signals.kind}: measure them as that kind")
    check_counts(signals.out_counts, attack.needs_out, who=name, trained="without")
    check_counts(signals.in_counts, attack.needs_in, who=name, trained="with")


def check_counts(counts: NDArray[np.int64], least: int, *, who: str, trained: str) -> None:
    """Refuse records that have fewer reference models than ``least``."""
    short = int((counts < least).sum())
    if short:
        raise DataError(
            f"{who} needs at least {least} reference models trained {trained} each record, but {short} of "
            f"{len(counts)} records have fewer (the fewest: {counts.min()}): train more reference models"
        )
