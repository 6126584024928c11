"""KLOM: how far an unlearning method's models are from models retrained without the forgotten records.

Part of stage 6, audit. For each record, compare the distribution of its margin (the scaled logit of the true class,
log p/(1−p)) over several unlearned models with that over several retrained ones: the KL divergence of margins of
Georgiev et al., "Attribute-to-Delete: Machine Unlearning via Datamodel Matching" (2024). It needs several models of
each kind, since one model is one draw. With few of them the estimate is biased upward, for a perfect method too: so it
is printed beside a null, the divergence between one half of the retrained models and the other.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eupg.errors import DataError, ParameterError
from eupg.validation import check_whole

Floats = NDArray[np.float64]
PERCENTILES = (50, 95, 99)


def klom(
    unlearned_margins: ArrayLike,
    retrained_margins: ArrayLike,
    *,
    bins: int = 20,
    clip: float = 100.0,
    floor: float = 1e-5,
) -> Floats:
    """Return, for each record, the KL divergence of its unlearned margins from its retrained ones.

    Margins are clipped, and the range that both kinds of models span for a record is cut into equal bins. With p the
    share of unlearned and q that of retrained models in a bin, the result is Σ p·log(p/q). Where p > 0, q is raised to
    at least ``floor``, and then scaled to sum to 1: an unlearned margin where no retrained model has one costs about
    log(1/floor), not infinity. Defaults are those of the authors' code; unlike there, the largest margin is kept in
    the last bin.

    Parameters
    ----------
    unlearned_margins, retrained_margins
        One row per model, one column per record; the same records in the same order.
    bins
        Number of bins.
    clip
        Largest margin, either way; infinite margins become this.
    floor
        Smallest share of retrained models in a bin that holds unlearned ones.

    Examples
    --------
    Of four unlearned models three have a low margin, of the retrained ones two: ¾·log(¾/½) + ¼·log(¼/½) = 0.1308.

    >>> klom([[-1.0], [-1.0], [-1.0], [1.0]], [[-1.0], [-1.0], [1.0], [1.0]], bins=2).round(4).tolist()
    [0.1308]
    """
    _check_options(bins, clip, floor)
    unlearned, retrained = _margins(unlearned_margins, "unlearned", 1), _margins(retrained_margins, "retrained", 1)
    _check_records(unlearned, retrained)
    return _divergence(unlearned, retrained, bins, clip, floor)


@dataclass(frozen=True)
class KlomReport:
    """KLOM over many records, beside what two halves of the retrained models show.

    Parameters
    ----------
    records, unlearned, retrained
        Numbers of records and of models.
    bins, clip, floor
        Settings of the estimate.
    percentiles
        Which percentiles over the records are listed.
    klom
        Divergence of all unlearned from all retrained models.
    matched
        The same from as few models as the null has: to be compared with it.
    null
        Divergence of one half of the retrained models from the other: what a perfect method would show.
    """

    records: int
    unlearned: int
    retrained: int
    bins: int
    clip: float
    floor: float
    percentiles: tuple[int, ...]
    klom: tuple[float, ...]
    matched: tuple[float, ...]
    null: tuple[float, ...]

    def sentence(self) -> str:
        """State the result in plain words."""
        rows = [
            f"{'median' if p == 50 else f'{p}th percentile'} {k:.2f} ({m:.2f} against a null of {n:.2f})"
            for p, k, m, n in zip(self.percentiles, self.klom, self.matched, self.null, strict=True)
        ]
        return (
            f"KLOM of {self.records:,} records over {self.unlearned} unlearned and {self.retrained} retrained models, "
            f"{self.bins} bins: {', '.join(rows)}. The null compares two halves of the retrained models; in brackets, "
            "both from equally few models. A perfect method shows the null, not 0: few models bias the estimate upward."
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}


def klom_report(
    unlearned_margins: ArrayLike,
    retrained_margins: ArrayLike,
    *,
    bins: int = 20,
    clip: float = 100.0,
    floor: float = 1e-5,
) -> KlomReport:
    """Summarise KLOM over the records, with its null.

    The retrained models are split into two halves. The null compares the first half with the second; ``matched``
    compares as many unlearned models with that same second half. If the unlearned models are distributed like
    retrained ones, both have one distribution, bias included. Models must come in no particular order.

    Parameters
    ----------
    unlearned_margins, retrained_margins, bins, clip, floor
        As for :func:`klom`; at least one unlearned and two retrained models.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> same, other = rng.normal(0, 1, (2, 200, 50))
    >>> good, bad = klom_report(same, other), klom_report(same + 3, other)
    >>> good.matched[0] < 1.5 * good.null[0] and bad.matched[0] > 2 * bad.null[0]
    True
    """
    _check_options(bins, clip, floor)
    unlearned, retrained = _margins(unlearned_margins, "unlearned", 1), _margins(retrained_margins, "retrained", 2)
    _check_records(unlearned, retrained)
    one, other = retrained[0::2], retrained[1::2]
    few = min(len(unlearned), len(one))
    pairs = ((unlearned, retrained), (unlearned[:few], other), (one[:few], other))
    percentiles = [np.percentile(_divergence(*pair, bins, clip, floor), PERCENTILES) for pair in pairs]
    return KlomReport(
        retrained.shape[1],
        len(unlearned),
        len(retrained),
        int(bins),
        float(clip),
        float(floor),
        PERCENTILES,
        *(tuple(values.tolist()) for values in percentiles),
    )


def _divergence(unlearned: Floats, retrained: Floats, bins: int, clip: float, floor: float) -> Floats:
    one, other = np.clip(unlearned, -clip, clip), np.clip(retrained, -clip, clip)
    low = np.minimum(one.min(axis=0), other.min(axis=0))
    width = np.maximum(one.max(axis=0), other.max(axis=0)) - low
    p, q = (_histogram(m, low, width, bins) for m in (one, other))
    added = np.where(p > 0, np.maximum(floor - q, 0.0), 0.0)
    q = (q + added) / (1 + added.sum(axis=1, keepdims=True))
    ratio = np.divide(p, q, out=np.ones_like(p), where=p > 0)
    # Rounding may leave values slightly below 0.
    return np.asarray(np.maximum((p * np.log(ratio)).sum(axis=1), 0.0))


def _histogram(margins: Floats, low: Floats, width: Floats, bins: int) -> Floats:
    """Return the share of models in each bin, one row per record; if all margins are equal, all fall in the first."""
    place = (margins - low) / np.where(width > 0, width, 1.0) * bins
    place = np.minimum(place.astype(np.int64), bins - 1) + bins * np.arange(margins.shape[1])
    return np.bincount(place.ravel(), minlength=bins * margins.shape[1]).reshape(-1, bins) / len(margins)


def _check_options(bins: int, clip: float, floor: float) -> None:
    check_whole("bins", bins, at_least=2)
    if not 0 < clip < np.inf:
        raise ParameterError(f"clip must be a positive finite number, got {clip!r}")
    if not 0 < floor < 1:
        raise ParameterError(f"floor must lie between 0 and 1, got {floor!r}: without it one empty bin is infinite")


def _margins(values: ArrayLike, name: str, least: int) -> Floats:
    margins = np.asarray(values, dtype=np.float64)
    if margins.ndim != 2 or len(margins) < least or not margins.shape[1]:
        raise DataError(
            f"the {name} margins must have one row per model, {least} or more, and one column per record, "
            f"got shape {margins.shape}"
        )
    if np.isnan(margins).any():
        raise DataError(f"{np.isnan(margins).sum()} {name} margins are NaN: check the models' probabilities")
    return margins


def _check_records(unlearned: Floats, retrained: Floats) -> None:
    if unlearned.shape[1] != retrained.shape[1]:
        raise DataError(
            f"both kinds of models must be asked about the same records, got {unlearned.shape[1]} and "
            f"{retrained.shape[1]}: compute all margins on one set"
        )
