"""A DaRE forest after deletions is, bit for bit, the forest that was trained without the records."""

import numpy as np
import pytest

from eupg import ExactTrees, Seeded
from eupg.checks import check_unlearner
from eupg.errors import NothingRetained, ParameterError
from eupg_reproduction.rivals.dare import DaRE, Forest
from eupg_reproduction.rivals.dare_kernel import ordered
from small_people import small_people

DATA = small_people(600)


def without(rows):
    return DATA.select(~np.isin(np.arange(len(DATA)), rows))


def only(rows):
    return DATA.select(np.isin(np.arange(len(DATA)), rows))


@pytest.mark.parametrize("random_layers", [0, 2, 8])
def test_deleting_equals_never_there(random_layers):
    method = DaRE(trees=4, depth=8, random_layers=random_layers, thresholds=3)
    trained = method.train(DATA, Seeded(1))
    draws = np.random.default_rng(5)
    for many in (1, 7, 300):
        rows = draws.permutation(len(DATA))[:many]
        never = method.train(without(rows), Seeded(1)).model
        deleted = method.erase(trained, only(rows)).model
        assert np.array_equal(deleted.predict_proba(DATA.X), never.predict_proba(DATA.X))
        same = np.array_equal(deleted.predict_proba(DATA.X), trained.model.predict_proba(DATA.X))
        assert not same or many == 1, "one record may have been in pure leaves only"


def test_deletions_one_after_another_equal_never_there():
    method = DaRE(trees=3, depth=8, random_layers=1, in_place=True)
    now = method.train(DATA, Seeded(1))
    first = now.model.predict_proba(DATA.X)
    served = now.model
    for row in range(60):
        now = method.erase(now, only([row]))
    never = method.train(without(range(60)), Seeded(1)).model
    assert np.array_equal(now.model.predict_proba(DATA.X), never.predict_proba(DATA.X))
    assert np.array_equal(served.predict_proba(DATA.X), first), "a model that is served must not change"


def test_a_deletion_builds_little_again_and_keeps_nothing_of_the_record():
    method = DaRE(trees=10, depth=8, random_layers=3)
    trained = method.train(DATA, Seeded(1))
    forest = method.erase(trained, only([17])).memory
    assert isinstance(forest, Forest)
    assert 0 < forest.rebuilt < 0.5 * 10 * len(DATA), "most of the trees must stay"
    assert not forest.X[17].any()
    assert "r 17" not in forest.rows


def test_it_keeps_the_contract():
    check_unlearner(DaRE(trees=2, depth=5, random_layers=1), DATA.select(np.arange(len(DATA)) < 120))


def test_it_predicts_better_than_chance_and_refuses_what_it_cannot_do():
    method = DaRE(trees=10, depth=6)
    trained = method.train(without(range(200)), Seeded(1))
    chance = trained.model.predict_proba(DATA.X)[:200, 1]
    assert ((chance > 0.5) == DATA.y[:200]).mean() > 0.65
    with pytest.raises(NothingRetained):
        method.erase(trained, without(range(200)))
    other = ExactTrees().train(DATA, Seeded(1))
    with pytest.raises(ParameterError, match="trained by DaRE"):
        method.erase(other, only([1]))


def test_whole_numbers_keep_the_order_of_values():
    values = np.array([-np.inf, -3.5, -0.0, 0.0, 1e-30, 2.0, 1e30])
    coded = ordered(values)
    assert (np.diff(coded.astype(np.int64)) >= 0).all()
    assert coded[2] == coded[3]
    assert (np.diff(coded[[0, 1, 3, 4, 5, 6]].astype(np.int64)) > 0).all()
