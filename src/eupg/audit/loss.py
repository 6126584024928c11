"""The loss attack: whoever the model is surest of was a member (Yeom et al. 2018). No reference models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from eupg.audit.attack import check_signals
from eupg.audit.signals import Floats, Kind, Signals


@dataclass(frozen=True)
class LossAttack:
    """Guess that the records the model is surest of were members.

    The weakest attack, and the cheapest: it cannot tell a record that was learnt from one that is easy. Several queries
    of a record are averaged.

    Examples
    --------
    >>> LossAttack().score(Signals.without_references(np.array([[0.9], [0.4]])))
    array([0.9, 0.4])
    """

    kinds: ClassVar[tuple[Kind, ...]] = (Kind.PROBABILITY, Kind.MARGIN)
    needs_out: ClassVar[int] = 0
    needs_in: ClassVar[int] = 0

    def score(self, signals: Signals) -> Floats:
        """Return the audited model's own signal."""
        check_signals(self, signals)
        return np.asarray(signals.target.mean(axis=1))
