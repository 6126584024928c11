"""Few people are seen raw: who they are follows from chance alone, and erasing anyone else needs no training."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from eupg import EUPG, LocalDP, ProbabilisticKAnonymity, Secret, Seeded, SklearnLearner, TorchLearner, XGBoostLearner
from eupg.checks import check_unlearner
from eupg.data.dataset import Dataset
from eupg.errors import DataError, ParameterError
from eupg.learn.lightgbm_learner import LightGBMLearner
from eupg.protect.guarantee import Exact
from forget.test_eupg import OneRelease
from people import people

LEARNERS = [XGBoostLearner(threads=1), LightGBMLearner(threads=1), SklearnLearner(), TorchLearner()]
METHOD = EUPG(ProbabilisticKAnonymity(10), SklearnLearner(), 2, 1, exposure=0.2)


def exposed_people(trained, data) -> set[str]:
    return set(data.subjects[np.isin(data.ids, list(trained.ids))].tolist())


def changed_rows(data: Dataset, rows) -> Dataset:
    X, y = data.X.copy(), data.y.copy()
    X[rows, 0] = 100 - X[rows, 0]
    y[rows] = 1 - y[rows]
    return dataclasses.replace(data, X=X, y=y)


@pytest.mark.parametrize("share", [0.0, 0.11, 0.2, 0.5, 1.0])
def test_share_of_people_is_exposed_with_all_their_records(share):
    data = people(300)
    trained = dataclasses.replace(METHOD, exposure=share).train(data, Seeded(3))
    names = exposed_people(trained, data)
    everyone = len(np.unique(data.subjects))
    assert len(names) == max(int(share > 0), round(share * everyone))
    assert trained.ids == set(data.ids[np.isin(data.subjects, list(names))].tolist())
    assert trained.kept == set(data.ids.tolist())


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: type(one).__name__)
def test_changed_unexposed_row_leaves_the_served_model_bit_identical(learner):
    data, rng = people(300), Seeded(5)
    release = ProbabilisticKAnonymity(10).protect(data, rng)
    method = EUPG(OneRelease(release), learner, 2, 2, exposure=0.2)
    trained = method.train(data, rng)
    hidden = ~np.isin(data.ids, list(trained.ids))
    other = method.train(changed_rows(data, hidden), rng)
    np.testing.assert_array_equal(trained.model.predict_proba(data.X), other.model.predict_proba(data.X))
    seen = method.train(changed_rows(data, ~hidden), rng)
    assert not np.array_equal(trained.model.predict_proba(data.X), seen.model.predict_proba(data.X))


def test_erasing_the_unexposed_returns_at_once_with_the_same_model():
    data = people(300)
    trained = METHOD.train(data, Seeded(3))
    hidden = data.ids[~np.isin(data.ids, list(trained.ids))].tolist()
    blind = dataclasses.replace(METHOD, learner=Untouchable())
    after = blind.forget(trained, data.without(hidden[:50]), Seeded(3))
    assert after.model is trained.model
    assert after.ids == trained.ids
    assert after.kept == trained.kept - set(hidden[:50])


class Untouchable(SklearnLearner):
    """A learner that must not be asked for anything."""

    def fit(self, examples, *, effort, rng, start=None):
        raise AssertionError("nothing was to be trained")


def test_erasing_an_exposed_person_fine_tunes_on_the_others_who_are_exposed():
    data = people(300)
    trained = METHOD.train(data, Seeded(3))
    leaving = min(exposed_people(trained, data))
    retained = data.select(data.subjects != leaving)
    after = METHOD.forget(trained, retained, Seeded(3))
    assert exposed_people(after, retained) == exposed_people(trained, data) - {leaving}
    assert after.model is not trained.model


def test_top_up_draws_others_and_keeps_those_who_are_in():
    data = people(300)
    method = dataclasses.replace(METHOD, top_up=True)
    trained = method.train(data, Seeded(3))
    before = exposed_people(trained, data)
    leaving = min(before)
    retained = data.select(data.subjects != leaving)
    after = method.forget(trained, retained, Seeded(3))
    now = exposed_people(after, retained)
    assert before - {leaving} <= now
    assert len(now) == round(0.2 * len(np.unique(retained.subjects)))
    assert method.depends_on_history
    assert not METHOD.depends_on_history


def test_new_people_are_exposed_at_the_same_share_and_those_exposed_stay():
    data, later = people(300), people(200, seed=8)
    later = dataclasses.replace(later, ids=np.char.add("n", later.ids), subjects=np.char.add("n", later.subjects))
    trained = METHOD.train(data, Seeded(3))
    grown = METHOD.update(trained, data.plus(later), Seeded(3))
    now = exposed_people(grown, data.plus(later))
    assert exposed_people(trained, data) <= now
    newcomers = {name for name in now if name.startswith("n")}
    assert len(newcomers) == round(0.2 * len(np.unique(later.subjects)))
    assert grown.claim_for(later.of_subjects([min(newcomers)])).notion == Exact().notion


def test_drawing_is_uniform_and_secret():
    """Each of 100 people is drawn with probability 0.2; false alarm below 1e-6 over all, caught above 0.25 or so."""
    data = people(300)
    names = np.unique(data.subjects)
    method = dataclasses.replace(METHOD, finetune=0)
    counts = np.zeros(len(names), dtype=int)
    for _ in range(2000):
        counts += np.isin(names, data.subjects[method._draw(data, frozenset(), Secret())])
    wanted = round(0.2 * len(names)) / len(names)
    assert all(binomtest(int(c), 2000, wanted).pvalue > 1e-8 for c in counts)


@given(st.integers(0, 2**31), st.sets(st.integers(0, 40), min_size=1, max_size=20))
@settings(max_examples=25, deadline=None)
def test_forgetting_does_not_depend_on_the_order(seed, chosen):
    data, rng = people(120), Seeded(seed)
    method = dataclasses.replace(METHOD, exposure=0.5)
    names = np.unique(data.subjects)
    leaving = [str(names[i % len(names)]) for i in chosen]
    trained = method.train(data, rng)
    at_once = method.forget(trained, data.select(~np.isin(data.subjects, leaving)), rng)
    state = trained
    for count in range(1, len(leaving) + 1):
        state = method.forget(state, data.select(~np.isin(data.subjects, leaving[:count])), rng)
    assert state.ids == at_once.ids
    np.testing.assert_array_equal(state.model.predict_proba(data.X), at_once.model.predict_proba(data.X))


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_contract_holds_at_any_exposure(share):
    check_unlearner(EUPG(LocalDP(1.0), SklearnLearner(), 2, 1, exposure=share), people(120))


def test_fewer_exposed_people_than_fine_tuning_needs_are_refused_with_the_least_share():
    data = people(300)
    everyone = len(np.unique(data.subjects))
    with pytest.raises(
        DataError, match=rf"exposes 1, and fine-tuning needs at least 10: raise it to {10 / everyone:.2g}"
    ):
        dataclasses.replace(METHOD, exposure=0.01).train(data, Seeded(1))
    assert not dataclasses.replace(METHOD, exposure=0.01, finetune=0).train(data, Seeded(1)).ids
    dataclasses.replace(METHOD, exposure=11 / everyone).train(data, Seeded(1))


@pytest.mark.parametrize("wrong", [-0.1, 1.1, float("nan"), "all", True, None])
def test_exposure_outside_the_range_is_refused(wrong):
    with pytest.raises(ParameterError, match="exposure is a share of people from 0 to 1"):
        dataclasses.replace(METHOD, exposure=wrong)


def test_without_a_person_column_the_claim_says_that_a_record_is_a_person():
    data = people(200)
    nameless = Dataset(
        dataclasses.replace(data.schema, attributes=tuple(a for a in data.schema.attributes if a.role != "subject")),
        data.X,
        data.y,
        data.ids,
        data.ids,
    )
    said = METHOD.train(nameless, Seeded(1)).claim.sentence()
    assert "each record counts as a person of its own" in said
    assert "person of its own" not in METHOD.train(data, Seeded(1)).claim.sentence()
    whole = dataclasses.replace(METHOD, exposure=1.0)
    assert "other records of the same person are not known here" in whole.train(nameless, Seeded(1)).claim.sentence()
    assert "not known here" not in whole.train(data, Seeded(1)).claim.sentence()


def test_finetuner_fits_the_second_stage_alone():
    data, rng = people(200), Seeded(2)
    mild = XGBoostLearner(max_depth=1, learning_rate=0.1, threads=1)
    method = EUPG(LocalDP(1.0), XGBoostLearner(threads=1), 3, 2, finetuner=mild)
    trained = method.train(data, rng)
    assert trained.model.learner == mild
    assert trained.memory.base.learner == XGBoostLearner(threads=1)
    assert trained.model.effort == 5


def test_finetuner_that_cannot_go_on_is_refused():
    from sklearn.neighbors import KNeighborsClassifier

    with pytest.raises(ParameterError, match="cannot go on from a given model"):
        EUPG(LocalDP(1.0), SklearnLearner(), finetuner=SklearnLearner(KNeighborsClassifier()))
