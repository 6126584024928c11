"""Attacks and statistics against values worked out by hand; the file names its sources and shows the steps."""

import json
from pathlib import Path

import numpy as np
import pytest

from eupg.audit.intervals import clopper_pearson
from eupg.audit.membership.lira import LiRA
from eupg.audit.membership.rmia import RMIA
from eupg.audit.membership.roc import chance_of_hits, delong, delong_difference, null_error
from eupg.audit.membership.signals import SignalKind, Signals, scaled_logit, taylor_softmax

GOLDEN = json.loads((Path(__file__).parent / "audit.json").read_text(encoding="utf-8"))


def approx(value, name):
    return pytest.approx(value, abs=GOLDEN[name]["tolerance"])


def cases(name, key="cases"):
    return pytest.mark.parametrize("case", GOLDEN[name][key])


@cases("scaled_logit")
def test_scaled_logit(case):
    found = scaled_logit(np.array([case["probabilities"]]), np.array([case["label"]]))
    assert found[0] == approx(case["value"], "scaled_logit")


@cases("taylor_softmax")
def test_taylor_softmax(case):
    weights = np.exp(np.array([case["logits"]], dtype=float))
    found = taylor_softmax(weights / weights.sum(), np.array([case["label"]]))
    assert found[0] == approx(case["value"], "taylor_softmax")


def rmia_signals():
    rmia = GOLDEN["rmia"]
    z = np.array(rmia["population_target"])
    inside = np.array(rmia["inside"])
    references = np.full((3, len(z), 1), rmia["population_out"])
    references[2] = 0.99
    population = Signals(z, references, np.repeat(inside[:, :1], len(z), axis=1))
    return Signals(np.array(rmia["target"]), np.array(rmia["references"]), inside, population=population)


def test_rmia_ratios():
    rmia, signals = GOLDEN["rmia"], rmia_signals()
    assert RMIA(a=rmia["a"], by_ratio=True).score(signals) == approx(rmia["ratios"], "rmia")
    assert RMIA(online=True, by_ratio=True).score(signals) == approx(rmia["online_ratios"], "rmia")


@cases("rmia", "scores")
def test_rmia_scores(case):
    attack = RMIA(a=GOLDEN["rmia"]["a"], gamma=case["gamma"])
    assert attack.score(rmia_signals()).tolist() == case["scores"]


@cases("rmia", "votes")
def test_rmia_votes(case):
    """With a = 1 and p_out = ½ a ratio is twice the target's probability."""
    ratios, z = np.array([case["ratios"]]), np.array(case["z"])[:, None]

    def signals(of, **more):
        return Signals(of / 2, np.full((1, *of.shape), 0.5), np.zeros((1, len(of)), dtype=bool), **more)

    assert RMIA(a=1.0).score(signals(ratios, population=signals(z)))[0] == case["score"]


@cases("lira")
def test_lira(case):
    references = np.array(case["out"] + case["in"], dtype=float)
    inside = np.zeros(references.shape[:2], dtype=bool)
    inside[len(case["out"]) :] = True
    signals = Signals(np.array(case["target"], dtype=float), references, inside, kind=SignalKind.MARGIN)
    attack = LiRA(online=case["online"], fixed_variance=case["fixed_variance"])
    assert attack.score(signals) == approx(case["scores"], "lira")


@cases("delong")
def test_delong(case):
    scores = np.array(case["members"] + case["nonmembers"], dtype=float)
    members = np.arange(len(scores)) < len(case["members"])
    assert delong(scores, members) == approx((case["auc"], case["variance"]), "delong")


def test_delong_difference():
    case = GOLDEN["delong"]["difference"]
    members = np.arange(len(case["a"])) < case["members"]
    found = delong_difference(np.array(case["a"]), np.array(case["b"]), members)
    assert found == approx((case["difference"], case["variance"]), "delong")


@cases("null_error")
def test_null_error(case):
    assert null_error(case["members"], case["nonmembers"]) == approx(case["value"], "null_error")


@cases("clopper_pearson")
def test_clopper_pearson(case):
    found = clopper_pearson(case["hits"], case["trials"], level=case["level"])
    assert found == approx((case["low"], case["high"]), "clopper_pearson")


@cases("chance_of_hits")
def test_chance_of_hits(case):
    found = chance_of_hits(case["hits"], case["members"], case["nonmembers"], case["fpr"])
    assert found == approx(case["value"], "chance_of_hits")
