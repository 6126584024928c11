"""LiRA against Gaussian densities computed the plain way, and the loss attack as the floor."""

import numpy as np
import pytest
from scipy.stats import norm

from eupg.audit.membership.lira import LiRA
from eupg.audit.membership.loss import LossAttack
from eupg.audit.membership.report import report
from eupg.audit.membership.roc import auc
from eupg.audit.membership.signals import SignalKind, Signals
from eupg.errors import DataError


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("online", [False, True])
def test_own_variance_equals_densities_one_by_one(simulate, online, queries):
    signals, _ = simulate(1, records=30, models=8, queries=queries)
    expected = []
    for record in range(30):
        total = 0.0
        for query in range(queries):
            seen, values = signals.target[record, query], signals.references[:, record, query]
            without, within = values[~signals.inside[:, record]], values[signals.inside[:, record]]
            if online:
                total += norm.logpdf(seen, within.mean(), within.std(ddof=1))
                total -= norm.logpdf(seen, without.mean(), without.std(ddof=1))
            else:
                total -= norm.logsf(seen, without.mean(), without.std(ddof=1))
        expected.append(total)
    assert LiRA(online=online, fixed_variance=False).score(signals) == pytest.approx(expected)


def test_fixed_variance_is_the_spread_round_each_records_own_mean(simulate):
    """Records differ in ease by 1.5, models by 0.5: pooling without the records' means would find 1.6."""
    signals, _ = simulate(2, records=5000)
    _, sigma = LiRA()._moments(signals.references, ~signals.inside)
    assert sigma.shape == (1, 1)
    assert sigma[0, 0] == pytest.approx(0.5, abs=0.02)


def test_offline_score_tells_records_apart_far_out_in_the_tail():
    """log Φ(z) is a rounded zero beyond z = 38; the tail is not."""
    target = np.array([[40.0], [50.0], [1e6]])
    references = np.tile(np.array([-1.0, 1.0])[:, None, None], (1, 3, 1))
    signals = Signals(target, references, np.zeros((2, 3), dtype=bool), kind=SignalKind.MARGIN)
    scores = LiRA().score(signals)
    assert np.isfinite(scores).all()
    assert (np.diff(scores) > 0).all()


def test_reference_models_that_agree_exactly_do_not_divide_by_zero():
    signals = Signals(
        np.array([[1.0], [2.0]]), np.ones((3, 2, 1)), np.zeros((3, 2), dtype=bool), kind=SignalKind.MARGIN
    )
    for attack in (LiRA(), LiRA(fixed_variance=False)):
        scores = attack.score(signals)
        assert np.isfinite(scores).all()
        assert scores[1] > scores[0]


def test_own_variance_needs_three_models_a_side(simulate):
    signals, _ = simulate(3, models=4)
    assert LiRA().score(signals).shape == (400,)
    with pytest.raises(DataError, match="at least 3 reference models trained without"):
        LiRA(fixed_variance=False).score(signals)


@pytest.mark.parametrize("online", [False, True])
@pytest.mark.parametrize("fixed_variance", [False, True])
def test_a_model_that_remembers_is_found(simulate, online, fixed_variance):
    signals, members = simulate(4, records=1000)
    attack = LiRA(online=online, fixed_variance=fixed_variance)
    found = report(attack.score(signals), members, attack=attack)
    assert found.exposed
    assert found.auc > 80
    # The reference models are what makes the difference: the loss attack confuses easy with learnt.
    assert found.auc > 100 * auc(LossAttack().score(signals), members) + 10


def test_loss_attack_averages_queries_and_needs_no_reference_models():
    signals = Signals.without_references(np.array([[0.2, 0.4], [0.9, 0.7]]))
    assert LossAttack().score(signals) == pytest.approx([0.3, 0.8])
    assert signals.out_counts.tolist() == [0, 0]
