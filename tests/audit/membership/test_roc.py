"""ROC arithmetic against slow definitions, the bootstrap, and 400 repetitions with bounds at a false alarm of 1e-6."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from eupg.audit.intervals import clopper_pearson
from eupg.audit.membership.roc import (
    auc,
    auc_interval,
    delong,
    delong_difference,
    null_error,
    roc_curve,
    tpr_at_fpr,
)
from eupg.errors import ParameterError

REPEATS, ALARM = 400, 1e-6


def two_sides(seed, m=200, n=200, shift=0.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=m + n) + shift * (np.arange(m + n) < m), np.arange(m + n) < m


def slow_delong(scores, members):
    """Return the placements by comparing every member with every non-member."""
    x, y = scores[members], scores[~members]
    wins = (x[:, None] > y[None, :]) + 0.5 * (x[:, None] == y[None, :])
    return wins.mean(axis=1), wins.mean(axis=0)


@given(st.integers(0, 2**32), st.integers(2, 12), st.integers(2, 12), st.integers(1, 9))
def test_delong_equals_its_definition(seed, m, n, distinct):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, distinct, (2, m + n)).astype(float)
    members = rng.permutation(np.arange(m + n) < m)
    (over_a, under_a), (over_b, under_b) = slow_delong(a, members), slow_delong(b, members)
    area, variance = delong(a, members)
    assert area == pytest.approx(over_a.mean())
    assert area == pytest.approx(auc(a, members))
    assert variance == pytest.approx(over_a.var(ddof=1) / m + under_a.var(ddof=1) / n, abs=1e-12)
    difference, spread = delong_difference(a, b, members)
    # By the definition: var a + var b − 2 cov, side by side.
    expected = 0.0
    for x, y, size in ((over_a, over_b, m), (under_a, under_b, n)):
        expected += (np.var(x, ddof=1) + np.var(y, ddof=1) - 2 * np.cov(x, y)[0, 1]) / size
    assert difference == pytest.approx(over_a.mean() - over_b.mean())
    assert spread == pytest.approx(expected, abs=1e-12)


def test_delong_agrees_with_the_bootstrap():
    """2,000 resamples of 150 and 250 records know a standard deviation to 1.6 %; 10 % is six of that."""
    scores, members = two_sides(1, 150, 250, shift=0.7)
    other = scores + np.random.default_rng(2).normal(size=400)
    rng, areas, gaps = np.random.default_rng(3), [], []
    for _ in range(2000):
        rows = np.concatenate([rng.integers(0, 150, 150), rng.integers(150, 400, 250)])
        areas.append(auc(scores[rows], members))
        gaps.append(areas[-1] - auc(other[rows], members))
    assert np.sqrt(delong(scores, members)[1]) == pytest.approx(np.std(areas), rel=0.1)
    assert np.sqrt(delong_difference(scores, other, members)[1]) == pytest.approx(np.std(gaps), rel=0.1)


def test_null_error_is_the_spread_of_knowing_nothing():
    areas = [auc(*two_sides(seed, 60, 140)) for seed in range(REPEATS)]
    # A standard deviation from 400 draws is known to 3.5 %; 20 % is over five of that.
    assert np.std(areas) == pytest.approx(null_error(60, 140), rel=0.2)


def test_tpr_is_that_of_the_last_threshold_within_the_rate():
    scores = np.array([9.0, 8.0, 7.0, 7.0, 6.0, 5.0, 4.0, 3.0])
    members = np.array([True, False, True, False, True, False, True, False])
    # Thresholds accuse 0, 0, 1, 2, 2, 3, 3, 4 of the four non-members; the tie at 7 comes in together.
    assert tpr_at_fpr(scores, members, 0.0) == (1, 0)
    assert tpr_at_fpr(scores, members, 0.25) == (1, 1)
    assert tpr_at_fpr(scores, members, 0.49) == (1, 1)
    assert tpr_at_fpr(scores, members, 0.5) == (3, 2)
    assert tpr_at_fpr(scores, members, 1.0) == (4, 4)
    # 0.29 · 100 is 28.999… in floating point.
    assert tpr_at_fpr(np.arange(101.0)[::-1], np.arange(101) == 100, 0.29) == (0, 29)
    fpr, tpr = roc_curve(scores, members)
    assert fpr.tolist() == [0, 0, 0.25, 0.5, 0.5, 0.75, 0.75, 1]
    assert tpr.tolist() == [0, 0.25, 0.25, 0.5, 0.75, 0.75, 1, 1]
    with pytest.raises(ParameterError, match=r"0\.01 is one per cent"):
        tpr_at_fpr(scores, members, 5)


@given(st.integers(0, 40), st.integers(1, 40), st.sampled_from([0.9, 0.95, 0.99]))
def test_clopper_pearson_puts_the_stated_share_in_each_tail(hits, trials, level):
    hits = min(hits, trials)
    low, high = clopper_pearson(hits, trials, level=level)
    assert low <= hits / trials <= high
    if hits:
        assert binom.sf(hits - 1, trials, low) == pytest.approx((1 - level) / 2)
    if hits < trials:
        assert binom.cdf(hits, trials, high) == pytest.approx((1 - level) / 2)


def test_interval_without_a_variance_holds_for_any_score():
    """Members' and non-members' scores from far-apart normals: AUC 0.98, seen as 1.0 in most small samples."""
    truth, covered = norm.cdf(2.0), 0
    for seed in range(REPEATS):
        area, variance = delong(*two_sides(seed, 8, 8, shift=2.0 * np.sqrt(2)))
        low, high = auc_interval(area, 0.0 if area == 1 else variance, 8, 8, level=0.95)
        covered += low <= truth <= high
    assert covered >= binom.ppf(ALARM, REPEATS, 0.9)
