"""LiRA, the likelihood-ratio attack: how unusual the model's confidence is for models trained without the record.

Carlini et al., "Membership inference attacks from first principles" (IEEE S&P 2022), Algorithm 1 and its offline form.
Scaled logits are modelled as Gaussian over models, with one mean per record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import log_ndtr

from eupg.audit.membership.attack import check_signals
from eupg.audit.membership.signals import Floats, Mask, SignalKind, Signals, mean_over

# Reference models that agree to the last bit would make every difference infinitely surprising.
_LEAST_SIGMA = 1e-6


@dataclass(frozen=True, kw_only=True)
class LiRA:
    """Compare the model's scaled logit with those of models trained without the record, and online also with it.

    Offline, the score is −log Pr[Z ≥ φ] with Z ~ N(μ_out, σ²). It ranks records as the paper's 1 − Pr[Z > φ] does, and
    does not saturate far out in the tail. Online, it is the log-likelihood ratio of the models with and without the
    record. The queries of a record are treated as independent: their logarithms are added.

    Parameters
    ----------
    online
        Use reference models trained with each record as well.
    fixed_variance
        True: one variance per query for all records. False: one variance per record, which pays off only with dozens of
        reference models.

    Examples
    --------
    >>> signals = Signals(
    ...     np.array([[1.0], [3.0]]),
    ...     np.array([[[0.0], [2.0]], [[2.0], [4.0]]]),
    ...     np.zeros((2, 2), dtype=bool),
    ...     kind=SignalKind.MARGIN,
    ... )
    >>> LiRA().score(signals).round(3)  # as expected without them: −log ½
    array([0.693, 0.693])
    """

    kinds: ClassVar[tuple[SignalKind, ...]] = (SignalKind.MARGIN,)
    online: bool = False
    fixed_variance: bool = True

    @property
    def needs_out(self) -> int:
        """Two for a shared variance, three for one per record."""
        return 2 if self.fixed_variance else 3

    @property
    def needs_in(self) -> int:
        """Online as many as ``needs_out``, offline none."""
        return self.needs_out if self.online else 0

    def score(self, signals: Signals) -> Floats:
        """Return the evidence that each record was a member."""
        check_signals(self, signals)
        mean, sigma = self._moments(signals.references, ~signals.inside)
        z = (signals.target - mean) / sigma
        if not self.online:
            return np.asarray(-log_ndtr(-z).sum(axis=1))
        mean_in, sigma_in = self._moments(signals.references, signals.inside)
        z_in = (signals.target - mean_in) / sigma_in
        return np.asarray(((z**2 - z_in**2) / 2 + np.log(sigma / sigma_in)).sum(axis=1))

    def _moments(self, references: Floats, chosen: Mask) -> tuple[Floats, Floats]:
        """Return each record's mean and standard deviation over the models chosen for it."""
        mean = mean_over(references, chosen)
        squares = np.einsum("mrq,mr->rq", (references - mean) ** 2, chosen)
        freedom = chosen.sum(axis=0)[:, None] - 1
        if self.fixed_variance:
            squares, freedom = squares.sum(axis=0, keepdims=True), freedom.sum(axis=0, keepdims=True)
        return mean, np.maximum(np.sqrt(squares / freedom), _LEAST_SIGMA)
