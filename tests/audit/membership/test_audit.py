"""The audit from end to end: chance where nothing is remembered, exposure where much is, bad input named."""

import dataclasses
import os

import numpy as np
import pytest
from scipy.stats import binom

from eupg import EUPG, Retrain, Seeded, sources
from eupg.audit import LiRA, LossAttack, audit
from eupg.audit.membership.report import AuditReport
from eupg.audit.membership.rmia import RMIA
from eupg.data.dataset import Dataset
from eupg.errors import DataError, ParameterError
from eupg.learn import SklearnLearner, TorchLearner, XGBoostLearner
from eupg.protect import LocalDP
from people import people

OVERFITTING = Retrain(XGBoostLearner(threads=1, reg_lambda=0.1), effort=30)


def named(data: Dataset, prefix: str) -> Dataset:
    names = np.char.add(prefix, data.ids)
    return dataclasses.replace(data, ids=names, subjects=names)


def noisy(rows: int, seed: int, prefix: str) -> Dataset:
    """Records whose labels are half noise, so that a model must learn them by heart."""
    data = people(rows, seed)
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(rows) < 0.5, rng.integers(0, 2, rows), data.y)
    return named(dataclasses.replace(data, y=y), prefix)


@pytest.fixture(scope="module")
def case():
    members, nonmembers, others = noisy(150, 1, "m"), noisy(300, 2, "n"), noisy(500, 3, "o")
    trained = OVERFITTING.train(members.plus(others), Seeded(1))
    after = OVERFITTING.forget(trained, others, Seeded(1))
    return members, nonmembers, others, trained.model, after.model


@pytest.mark.parametrize("attack", [RMIA(), RMIA(online=True), LiRA(), LiRA(online=True), LossAttack()], ids=repr)
def test_overfitted_model_is_exposed_and_retraining_is_not(case, attack):
    members, nonmembers, others, before, after = case
    found = audit(before, members, nonmembers, others=others, attack=attack, recipe=OVERFITTING, jobs=1)
    assert found.auc > (57 if isinstance(attack, LossAttack) else 65)
    assert found.exposed
    assert found.baseline is not None
    assert found.baseline.low < 50 < found.baseline.high
    clean = audit(after, members, nonmembers, others=others, attack=attack, recipe=OVERFITTING, jobs=1)
    assert not clean.exposed
    assert clean.low < 50 < clean.high


def test_plain_call_takes_the_recipe_from_the_model(case):
    members, nonmembers, _, before, _ = case
    found = audit(before, members, nonmembers, references=4, attack=RMIA(), jobs=1)
    assert found.auc > 60
    assert found.parameters["a"] is not None
    assert AuditReport.from_json(found.to_json()) == found


def test_shuffled_membership_gives_chance(case):
    members, nonmembers, others, before, _ = case
    everyone = members.plus(nonmembers)
    order = np.random.default_rng(0).permutation(len(everyone))
    first = np.zeros(len(everyone), dtype=bool)
    first[order[: len(members)]] = True
    found = audit(before, everyone.select(first), everyone.select(~first), others=others, recipe=OVERFITTING, jobs=1)
    assert not found.exposed
    assert found.from_chance < 4 * found.null_error


def test_intervals_cover_chance_as_often_as_they_say():
    """60 audits of models that never saw the members, each on records of its own: 95 % intervals cover 50.

    Fewer than 46 of 60 would happen by chance less than once in a million. An attack on an overfitted model (above)
    and intervals of a tenth of the width (here) are told apart.
    """
    covered = narrow = 0
    recipe = Retrain(XGBoostLearner(threads=1, max_depth=3), effort=5)
    for seed in range(60):
        parts = [noisy(80, 10 * seed + i, name) for i, name in enumerate(("m", "n", "o"))]
        stranger = recipe.train(noisy(80, 10 * seed + 5, "s"), Seeded(seed)).model
        found = audit(stranger, *parts[:2], others=parts[2], recipe=recipe, references=4, jobs=1, baseline=stranger)
        covered += found.low <= 50 <= found.high
        narrow += abs(found.auc - 50) <= (found.high - found.low) / 20
    assert binom.cdf(45, 60, 0.95) < 1e-6
    assert covered >= 46
    assert narrow < 46


def test_eupg_recipe_and_network_are_audited_alike(case):
    members, nonmembers, others, _, _ = case
    for recipe in (EUPG(LocalDP(1.0), SklearnLearner(), 2, 2), Retrain(TorchLearner(), 3)):
        model = recipe.train(others, Seeded(1)).model
        found = audit(model, members, nonmembers, others=others, recipe=recipe, references=4, jobs=1)
        assert found.low < 50 < found.high


def test_references_are_equally_outside_for_both_sides_and_prepared_ones_are_accepted(case):
    from eupg.audit.membership.references import complementary_halves, train_references

    members, nonmembers, _, before, _ = case
    pool = members.plus(nonmembers)
    balanced = complementary_halves(np.zeros(len(pool), dtype=np.int64), 4, np.random.default_rng(0))
    ready = train_references(OVERFITTING, pool, balanced, seed=0, jobs=1)
    assert audit(before, members, nonmembers, references=ready).auc > 60
    lopsided = balanced.copy()
    lopsided[0, : len(members)] = True
    lopsided[1, : len(members)] = True
    unfair = train_references(OVERFITTING, pool, lopsided, seed=0, jobs=1)
    with pytest.raises(DataError, match="left out by the same number of reference models"):
        audit(before, members, nonmembers, references=unfair, attack=RMIA(a=0.5))


def test_bad_input_is_named(case):
    members, nonmembers, _, before, _ = case
    with pytest.raises(DataError, match="there are no members"):
        audit(before, members.select(np.zeros(len(members), dtype=bool)), nonmembers)
    with pytest.raises(DataError, match="150 ids are among members and non-members"):
        audit(before, members, members)
    with pytest.raises(ParameterError, match="an even number"):
        audit(before, members, nonmembers, references=3)

    class Bare:
        def predict_proba(self, X):
            return np.full((len(X), 2), 0.5)

    with pytest.raises(ParameterError, match="pass recipe="):
        audit(Bare(), members, nonmembers)

    class Broken(Bare):
        def predict_proba(self, X):
            return np.full((len(X), 2), np.nan)

    with pytest.raises(DataError, match="not finite numbers"):
        audit(Broken(), members, nonmembers, attack=LossAttack())


@pytest.mark.paper
@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("adult", 57.0), ("heart", 62.0)])
def test_known_exposure_of_the_papers_models_is_found_and_gone_after_retraining(name, least):
    """XGBoost 100×7: the paper finds 57.9 (Adult) and 64.6 (Heart) before forgetting 5 %, and about 50 after."""
    if not os.environ.get("EUPG_DATA"):
        pytest.skip("EUPG_DATA is not set: point it at the folder with the paper's data sets")
    source = getattr(sources, name)()
    train, nonmembers = named(source.train, "train "), named(source.test, "test ")
    gone = np.random.default_rng(0).random(len(train)) < 0.05
    method = Retrain(XGBoostLearner(threads=1), 100)
    before = method.train(train, Seeded(1)).model
    others = train.select(~gone)
    found = audit(before, train.select(gone), nonmembers, others=others, recipe=method)
    assert found.auc > least
    assert found.baseline is not None
    assert found.baseline.from_chance < 4 * found.baseline.null_error
