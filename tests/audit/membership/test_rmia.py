"""RMIA against the obvious slow form, and on simulated models that remember or do not."""

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eupg.audit.membership.report import report
from eupg.audit.membership.rmia import RMIA, _left_out, tune_a
from eupg.audit.membership.roc import auc
from eupg.audit.membership.signals import SignalKind, Signals
from eupg.errors import DataError, ParameterError


def slow_score(attack, signals):
    """Score one pair of records and one query at a time, as the paper defines it."""

    def ratio(part, record, query):
        values = part.references[:, record, query]
        outside = values[~part.inside[:, record]].mean()
        if attack.online:
            return part.target[record, query] / ((outside + values[part.inside[:, record]].mean()) / 2)
        return part.target[record, query] / (((1 + attack.a) * outside + 1 - attack.a) / 2)

    z, queries = signals.population, signals.target.shape[1]
    scores = []
    for x in range(len(signals.target)):
        ratios = [ratio(signals, x, q) for q in range(queries)]
        beaten = [sum(r > attack.gamma * ratio(z, j, 0) for r in ratios) for j in range(len(z.target))]
        scores.append(np.mean([wins > queries / 2 for wins in beaten]))
    return np.array(scores)


@pytest.mark.parametrize("queries", [1, 2, 3, 4])
@pytest.mark.parametrize("attack", [RMIA(a=0.3), RMIA(gamma=2.0, a=0.8), RMIA(online=True)])
def test_fast_score_equals_the_definition(simulate, attack, queries):
    signals, _ = simulate(1, records=40, population=30, queries=queries, kind=SignalKind.PROBABILITY)
    z = signals.population
    # The definition compares with z itself, its first query.
    alone = Signals(z.target[:, :1], z.references[:, :, :1], z.inside)
    signals = replace(signals, population=alone)
    assert attack.score(signals) == pytest.approx(slow_score(attack, signals))


def test_ranking_by_ratio_is_the_score_but_for_ties(simulate):
    signals, members = simulate(2, population=5000, queries=3, kind=SignalKind.PROBABILITY)
    share, ratio = RMIA(a=0.5).score(signals), RMIA(a=0.5, by_ratio=True).score(signals)
    assert (np.diff(share[np.argsort(ratio)]) >= 0).all()
    assert auc(share, members) == pytest.approx(auc(ratio, members), abs=0.002)
    # With ten z and γ = 2 most of it is lost in ties: why the population must be large.
    z = signals.population
    few = replace(signals, population=Signals(z.target[:10], z.references[:, :10], z.inside[:, :10]))
    assert auc(RMIA(gamma=2.0, a=0.5).score(few), members) < auc(ratio, members) - 0.05


def test_a_is_tuned_on_reference_models_and_never_on_the_target(simulate):
    signals, _ = simulate(3, kind=SignalKind.PROBABILITY)
    upside_down = replace(signals, target=1 - signals.target)
    assert tune_a(signals) == tune_a(upside_down)
    assert RMIA(by_ratio=True).tuned(signals) == RMIA(by_ratio=True, a=tune_a(signals))
    assert RMIA(a=0.2).tuned(signals).a == 0.2


def test_tuned_a_is_the_best_of_the_candidates(simulate):
    """Against a plain loop: each model is attacked with the others, equally many OUT on both sides."""
    signals, _ = simulate(4, records=120, models=6, kind=SignalKind.PROBABILITY)
    areas = {}
    for a in (0.0, 0.4, 1.0):
        areas[a] = 0.0
        for played in range(6):
            scores = []
            for record in range(120):
                after = [(played + step) % 6 for step in range(1, 6)]
                out = [m for m in after if not signals.inside[m, record]]
                out = out[1:] if signals.inside[played, record] else out
                mean = signals.references[out, record, 0].mean()
                scores.append(signals.references[played, record, 0] / ((1 + a) * mean + 1 - a))
            areas[a] += auc(np.array(scores), signals.inside[played])
    assert tune_a(signals, candidates=(0.0, 0.4, 1.0)) == max(areas, key=areas.__getitem__)
    assert len({round(v, 3) for v in areas.values()}) == 3


def test_played_model_leaves_both_sides_equally_many_out(simulate):
    signals, _ = simulate(5, models=8)
    for played in range(8):
        out = _left_out(signals.inside, played)
        assert not out[played].any()
        assert not (out & signals.inside).any()
        assert (out.sum(axis=0) == 3).all()


def test_tuning_needs_a_model_with_known_members(simulate):
    signals, _ = simulate(6, kind=SignalKind.PROBABILITY, inside=np.zeros((4, 400), dtype=bool))
    with pytest.raises(DataError, match="pass a value for a"):
        RMIA(by_ratio=True).score(signals)
    assert RMIA(by_ratio=True, a=0.3).score(signals).shape == (400,)
    with pytest.raises(ParameterError, match="at least one candidate"):
        tune_a(signals, candidates=())


def test_without_population_the_next_step_is_named(simulate):
    signals, _ = simulate(7, kind=SignalKind.PROBABILITY)
    with pytest.raises(DataError, match=r"by_ratio=True"):
        RMIA(a=0.3).score(signals)


def test_population_record_seen_by_every_model_is_refused_offline(simulate):
    signals, _ = simulate(8, kind=SignalKind.PROBABILITY, population=10)
    z = signals.population
    inside = z.inside.copy()
    inside[:, 3] = True
    signals = replace(signals, population=Signals(z.target, z.references, inside))
    with pytest.raises(DataError, match=r"population needs at least 1 .* 1 of 10"):
        RMIA(a=0.3).score(signals)
    assert np.isfinite(RMIA(online=True).score(signals)).all()


@pytest.mark.parametrize("options", [{"gamma": 0.0}, {"gamma": np.nan}, {"a": -0.1}, {"a": 1.1}])
def test_impossible_parameters_are_refused(options):
    with pytest.raises(ParameterError):
        RMIA(**options)


@given(st.integers(0, 2**32), st.floats(0, 1), st.floats(0.1, 10))
def test_scores_are_shares_whatever_the_probabilities(seed, a, gamma):
    rng = np.random.default_rng(seed)
    # Probabilities of exactly 0 and 1 are common: boosted trees and tired networks give them.
    target, z = rng.integers(0, 3, (5, 2)) / 2, rng.integers(0, 3, (7, 2)) / 2
    references, inside = rng.integers(0, 3, (2, 12, 2)) / 2, np.zeros((2, 12), dtype=bool)
    population = Signals(z, references[:, 5:], inside[:, 5:])
    signals = Signals(target, references[:, :5], inside[:, :5], population=population)
    scores = RMIA(a=a, gamma=gamma).score(signals)
    assert ((scores >= 0) & (scores <= 1)).all()


@pytest.mark.parametrize("attack", [RMIA(), RMIA(by_ratio=True), RMIA(online=True)])
def test_a_model_that_remembers_is_found(simulate, attack):
    """The simulated margin gains one unit, two noise widths: an AUC near 0.85, ten null errors above chance."""
    signals, members = simulate(9, population=1000, kind=SignalKind.PROBABILITY)
    found = report(attack.score(signals), members, attack=attack)
    assert found.exposed
    assert found.auc > 75


def test_several_queries_find_more_than_one(simulate):
    one, members = simulate(10, records=2000, queries=1, kind=SignalKind.PROBABILITY)
    many, _ = simulate(10, records=2000, queries=9, kind=SignalKind.PROBABILITY)
    attack = RMIA(a=0.8, by_ratio=True)
    assert auc(attack.score(many), members) > auc(attack.score(one), members) + 0.05


def test_large_audit_is_quick(simulate):
    """50,000 records against 10,000 of the population; measured 0.01 s, so a quadratic form (minutes) would show."""
    signals, _ = simulate(11, records=50_000, population=10_000, models=4, kind=SignalKind.PROBABILITY)
    began = time.perf_counter()
    RMIA(a=0.3).score(signals)
    assert time.perf_counter() - began < 1
