"""The loss attack of Yeom et al. (2018): records the model is most confident about were members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from eupg.audit.membership.attack import check_signals
from eupg.audit.membership.signals import Floats, SignalKind, Signals


@dataclass(frozen=True)
class LossAttack:
    """Score each record by the model's confidence in its label; needs no reference models.

    The weakest and cheapest attack: it cannot distinguish a memorised record from an easy one. Several queries of a
    record are averaged.

    Examples
    --------
    >>> LossAttack().score(Signals.without_references(np.array([[0.9], [0.4]])))
    array([0.9, 0.4])
    """

    kinds: ClassVar[tuple[SignalKind, ...]] = (SignalKind.PROBABILITY, SignalKind.MARGIN)
    needs_out: ClassVar[int] = 0
    needs_in: ClassVar[int] = 0

    def score(self, signals: Signals) -> Floats:
        """Return the audited model's own signal."""
        check_signals(self, signals)
        return np.asarray(signals.target.mean(axis=1))
