"""Tests of significance that refute a claim from outputs alone, each with a known rate of false alarms."""

import math

import numpy as np
from scipy.stats import beta, chi2, hypergeom

from eupg.rng import Randomness, Secret, Seeded

ALPHA = 1e-6
# Below this chi-square p-value a release is called wrong. No file of tests computes more than a thousand of them on
# unseeded randomness, so all together raise a false alarm less than once in a million runs.
RARE = 1e-9


def source(mode: str, seed: int) -> Randomness:
    """Return the operating system's randomness, or a seeded stream."""
    return Secret() if mode == "secret" else Seeded(seed)


def refuted(first: np.ndarray, second: np.ndarray, epsilon: float) -> bool:
    """Tell whether any single output, or any set of the likeliest ones, contradicts ε.

    A set S contradicts P(S|x) ≤ e^ε · P(S|x′) when the lower confidence bound of the first exceeds e^ε times the upper
    confidence bound of the second (Clopper and Pearson). Outputs are ranked on a tenth of the runs and counted on the
    others, and all sets share α: a true claim is refuted with probability ``ALPHA`` at most.
    """
    outputs, codes = np.unique(np.concatenate([first, second]), return_inverse=True)
    columns = np.split(codes, [len(first)])
    tenths = [len(column) // 10 for column in columns]
    seen = [np.bincount(c[:t], minlength=len(outputs)) for c, t in zip(columns, tenths, strict=True)]
    ranked = np.argsort(-(seen[0] + 0.5) / (seen[1] + 0.5), kind="stable")
    rest = [np.bincount(c[t:], minlength=len(outputs))[ranked] for c, t in zip(columns, tenths, strict=True)]
    hits, others = (np.concatenate([counts, np.cumsum(counts)]) for counts in rest)
    total, many = rest[0].sum(), rest[1].sum()
    error = ALPHA / (2 * len(hits))
    low = np.where(hits > 0, beta.ppf(error, np.maximum(hits, 1), total - hits + 1), 0.0)
    high = np.where(others < many, beta.isf(error, others + 1, np.maximum(many - others, 1)), 1.0)
    return bool((low > math.exp(epsilon) * high).any())


def in_order(order: np.ndarray) -> str:
    """Return what of the natural order is left in these positions, or nothing.

    At least m fixed points, or m neighbours that stay neighbours, have probability 1/m! at most in a uniform order; how
    many of the first half stay there is hypergeometric. A false alarm comes less than once in 10⁸ times.
    """
    count, most = len(order), 13
    half = count // 2
    steps = np.diff(order)
    for found, share in (
        ("rows stay where they were", order == np.arange(count)),
        ("rows follow each other as before", steps == 1),
        ("rows follow each other backwards", steps == -1),
    ):
        if share.sum() >= most:
            return found
    stay = (order[:half] < half).sum()
    chance = hypergeom(count, half, half)
    return "" if min(chance.cdf(stay), chance.sf(stay - 1)) > RARE else "the first half is not mixed with the second"


def chi_square(counts: np.ndarray, chances: np.ndarray) -> float:
    """Return how likely counts at least as far from these chances are (Pearson).

    Cells with less than 25 expected counts are taken together, so that the tail of the distribution can be trusted
    down to ``RARE``. An impossible outcome has p-value 0.
    """
    expected = chances * counts.sum() / chances.sum()
    if counts[expected == 0].any():
        return 0.0
    small = expected < 25
    if small.any():
        counts = np.append(counts[~small], counts[small].sum())
        expected = np.append(expected[~small], expected[small].sum())
        counts, expected = counts[expected > 0], expected[expected > 0]
    if len(counts) < 2:
        return 1.0
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1))
