"""Choosing among recipes: by held-out examples, by person where people are known, and never for the worse."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from eupg.checks import check_learner
from eupg.errors import ParameterError
from eupg.learn import LightGBMLearner, TorchLearner, XGBoostLearner, best_of
from eupg.learn.best_of import BestOf, _by_person, _folds
from eupg.learn.recipes import MODELS, careful_recipe
from people import learnable, people

STUMPS = XGBoostLearner(max_depth=1, learning_rate=0.1, threads=1)
WILD = XGBoostLearner(max_depth=10, learning_rate=1.0, reg_lambda=0.0, threads=1)


def fit(learner, data, effort=16, seed=1, start=None):
    return learner.fit(data, effort=effort, rng=np.random.default_rng(seed), start=start)


def noise(rows: int):
    """Records whose label has nothing to do with them: whatever is learnt from them is wrong."""
    data = people(rows)
    return dataclasses.replace(data, y=np.random.default_rng(3).integers(0, 2, rows))


@pytest.mark.parametrize("order", [(STUMPS, WILD), (WILD, STUMPS)])
def test_the_milder_recipe_wins_where_there_is_little_to_learn(order):
    model = fit(BestOf(order), noise(400))
    assert model.learner == STUMPS
    assert model.effort < 16


def test_more_effort_wins_where_there_is_much_to_learn():
    data = people(2000)
    learnable = dataclasses.replace(
        data, y=((data.X[:, 0] > 40) ^ (data.X[:, 1] > np.median(data.X[:, 1]))).astype(int)
    )
    slow = XGBoostLearner(max_depth=3, learning_rate=0.05, threads=1)
    assert fit(BestOf((slow,)), learnable, effort=80).effort == 80


def test_final_model_is_the_plain_learners_on_all_examples():
    data = people(400)
    model = fit(BestOf((STUMPS,)), data)
    plain = STUMPS.fit(data, effort=model.effort, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(model.predict_proba(data.X), plain.predict_proba(data.X))


TREES = (XGBoostLearner(max_depth=3, threads=1), LightGBMLearner(leaves=6, threads=1))


@pytest.mark.parametrize("learner", TREES, ids=["xgboost", "lightgbm"])
@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_first_trees_are_the_model_of_less_effort(learner, goes_on, classes):
    data = people(400, classes=classes)
    start = fit(learner, data, effort=5, seed=2) if goes_on else None
    long, short = (fit(learner, data, effort=effort, start=start) for effort in (12, 4))
    first = learner.first(long, 4, start=start)
    assert first.effort == short.effort
    np.testing.assert_allclose(first.predict_proba(data.X), short.predict_proba(data.X), atol=1e-6)
    assert np.abs(long.predict_proba(data.X) - short.predict_proba(data.X)).max() > 0.01


@pytest.mark.parametrize("classes", [2, 3])
def test_the_first_trees_are_counted_from_those_a_start_has_not_from_those_it_was_asked_for(classes):
    data = people(400, classes=classes)
    learner = LightGBMLearner(leaves=4, threads=1)
    same = dataclasses.replace(data, X=np.zeros_like(data.X))
    start = fit(learner, same, effort=10)
    assert start.booster.current_iteration() < 10
    long, short = (fit(learner, data, effort=effort, start=start) for effort in (12, 4))
    first = learner.first(long, 4, start=start)
    np.testing.assert_allclose(first.predict_proba(data.X), short.predict_proba(data.X), atol=1e-6)
    assert np.abs(long.predict_proba(data.X) - short.predict_proba(data.X)).max() > 0.01


def test_where_nothing_is_left_to_split_all_trees_are_the_first():
    data = people(400)
    learner = LightGBMLearner(leaves=4, threads=1)
    start = fit(learner, data, effort=3)
    same = dataclasses.replace(data, X=np.zeros_like(data.X))
    long = fit(learner, same, effort=16, start=start)
    added = long.booster.current_iteration() - 3
    assert added < 8
    for trees in (8, 16):
        first = learner.first(long, trees, start=start)
        assert first.booster.current_iteration() == 3 + added
        np.testing.assert_array_equal(first.predict_proba(data.X), long.predict_proba(data.X))


@pytest.mark.parametrize("learner", TREES, ids=["xgboost", "lightgbm"])
@pytest.mark.parametrize("goes_on", [False, True])
def test_one_large_ensemble_gives_the_choice_of_one_fit_an_effort(learner, goes_on, monkeypatch):
    data = people(1200)
    start = fit(learner, dataclasses.replace(data, y=1 - data.y), effort=3) if goes_on else None
    found = fit(BestOf((learner,)), data, start=start)
    monkeypatch.setattr(best_of, "Adding", Spoils)
    one_by_one = fit(BestOf((learner,)), data, start=start)
    assert found.effort == one_by_one.effort
    np.testing.assert_array_equal(found.predict_proba(data.X), one_by_one.predict_proba(data.X))


def test_start_is_returned_itself_where_going_on_does_not_help():
    good = fit(XGBoostLearner(max_depth=3, learning_rate=0.2, threads=1), people(3000), effort=30)
    assert fit(BestOf((WILD,)), noise(300), start=good) is good


def test_going_on_is_done_where_it_helps():
    data = people(2000)
    flipped = dataclasses.replace(data, y=1 - data.y)
    wrong = fit(STUMPS, flipped, effort=20)
    better = fit(BestOf((STUMPS,)), data, effort=40, start=wrong)
    assert better is not wrong
    truth = data.y == 1
    assert better.predict_proba(data.X)[truth, 1].mean() > wrong.predict_proba(data.X)[truth, 1].mean()


@dataclasses.dataclass(frozen=True)
class Says:
    """A learner that is its own model: one probability for the old, another for the rest, and some mixed up."""

    low: float
    high: float
    blurred: float
    warm_starts: bool = True

    def predict_proba(self, X):
        chance = np.where(X[:, 0] > 40, self.high, self.low)
        mixed = np.random.default_rng(len(X)).random(len(X)) < self.blurred
        chance = np.where(mixed, 0.5, chance)
        return np.column_stack([1 - chance, chance])

    def fit(self, examples, *, effort, rng, start=None):
        return self

    def save(self, model, path):
        raise NotImplementedError

    def load(self, path):
        raise NotImplementedError


def test_better_probabilities_do_not_make_up_for_a_worse_order():
    """As on a table of few defaults: shares that fit better, and the likeliest no longer first."""
    data = people(2000)
    old = data.X[:, 0] > 40
    known = dataclasses.replace(data, y=(old & (np.random.default_rng(1).random(2000) < 0.4)).astype(int))
    start = Says(low=0.4, high=0.9, blurred=0.0)
    mixed, clear = Says(low=0.01, high=0.4, blurred=0.05), Says(low=0.01, high=0.4, blurred=0.0)
    assert fit(BestOf((mixed,)), known, start=start) is start
    assert fit(BestOf((mixed, clear)), known, start=start) is clear


def test_people_of_one_class_alone_are_no_reason_to_stop():
    data = people(400)
    same = dataclasses.replace(data, y=np.ones(400, dtype=int))
    sure = Says(low=0.9, high=0.9, blurred=0.0)
    assert fit(BestOf((sure,)), same, start=Says(low=0.5, high=0.5, blurred=0.0)) is sure


class Spoils:
    """A learner that does best at a quarter of the effort, and does not know all of it."""

    warm_starts = True

    def __init__(self):
        self.tried = []

    def fit(self, examples, *, effort, rng, start=None):
        self.tried.append(effort)
        right = {2: 0.7, 4: 0.8, 8: 0.6}[effort]
        return SimpleNamespace(effort=effort, predict_proba=lambda X: np.tile([1 - right, right], (len(X), 1)))

    def save(self, model, path):
        raise NotImplementedError

    def load(self, path):
        raise NotImplementedError


def test_more_effort_is_not_tried_once_more_did_worse():
    learner, data = Spoils(), people(9000)
    same = dataclasses.replace(data, y=np.ones(len(data), dtype=int))
    assert fit(BestOf((learner,)), same, effort=16).effort == 4
    assert learner.tried == [2, 4, 8, 4]


def test_few_examples_take_the_first_recipe_at_its_least_or_keep_the_start():
    few = people(20)
    assert fit(BestOf((STUMPS, WILD)), few, effort=9).effort == 1
    start = fit(STUMPS, people(100))
    assert fit(BestOf((STUMPS,)), few, start=start) is start


def test_people_are_held_out_whole_and_each_of_few_in_turn():
    data = people(600)
    folds = _folds(data, 0.25, np.random.default_rng(0))
    assert len(folds) == 4
    assert np.array_equal(sum(folds), np.ones(600))
    for fold in folds:
        assert set(data.subjects[fold]).isdisjoint(data.subjects[~fold])
    assert len(_folds(people(9000), 0.25, np.random.default_rng(0))) == 1


@pytest.mark.parametrize("model", MODELS)
def test_recipes_keep_the_contract_of_learners(model, tmp_path):
    given = careful_recipe(model)
    check_learner(given.learner, people(300), tmp_path, effort=8)
    check_learner(given.short, people(300), tmp_path, effort=given.short_effort)
    assert given.short_effort <= given.finetune
    data = people(300)
    base = fit(given.learner, data, effort=4)
    tuned = fit(given.finetuner, data, effort=4, start=base)
    given.finetuner.save(tuned, tmp_path / "tuned")
    again = given.finetuner.load(tmp_path / "tuned")
    np.testing.assert_array_equal(tuned.predict_proba(data.X), again.predict_proba(data.X))


@pytest.mark.parametrize("model", ["xgboost", "lightgbm"])
def test_the_short_retrain_is_no_weaker_than_the_first_trees_of_a_base(model):
    seen, asked = learnable()
    given = careful_recipe(model)
    first = fit(given.learner.learners[0], seen, effort=given.finetune)
    short = fit(given.short, seen, effort=given.short_effort)
    truth = np.arange(len(asked)), asked.y
    assert np.log(short.predict_proba(asked.X)[truth]).mean() > np.log(first.predict_proba(asked.X)[truth]).mean()


@pytest.mark.parametrize("wrong", [(), (STUMPS, LightGBMLearner()), ("xgboost",)])
def test_other_than_learners_of_one_framework_is_refused(wrong):
    with pytest.raises(ParameterError, match="learners"):
        BestOf(wrong)


@pytest.mark.parametrize("wrong", [0, 1, -0.5])
def test_share_held_out_is_between_0_and_1(wrong):
    with pytest.raises(ParameterError, match="between 0 and 1"):
        BestOf((STUMPS,), wrong)


def test_anchored_network_stays_nearer_and_head_only_moves_the_last_layer_alone():
    data = people(300)
    start = fit(TorchLearner(), data, effort=3)
    flipped = dataclasses.replace(data, y=1 - data.y)

    def moved(learner) -> list[float]:
        after = fit(learner, flipped, effort=5, start=start)
        pairs = zip(start.network.parameters(), after.network.parameters(), strict=True)
        return [float((b - a).norm().detach()) for a, b in pairs]

    free, held, head = (moved(TorchLearner(**s)) for s in ({}, {"anchor": 50.0}, {"head_only": True}))
    assert all(h < f for h, f in zip(held, free, strict=True))
    assert head[:-2] == [0.0] * (len(head) - 2)
    assert min(head[-2:]) > 0


def test_anchor_and_head_mean_nothing_without_a_start():
    data = people(200)
    plain, bound = (fit(TorchLearner(**s), data, effort=2) for s in ({}, {"anchor": 9.0, "head_only": True}))
    np.testing.assert_array_equal(plain.predict_proba(data.X), bound.predict_proba(data.X))


def test_many_records_of_one_person_are_one_piece_of_evidence():
    data = people(300)
    folds = [np.ones(len(data), dtype=bool)]
    gains = np.ones(len(data))
    found = _by_person(gains, data, folds)
    assert len(found) == len(np.unique(data.subjects))
    assert found.sum() == len(data)
    rows = SimpleNamespace(y=data.y)
    np.testing.assert_array_equal(_by_person(gains, rows, folds), gains)
