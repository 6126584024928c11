"""Few people are seen raw: who they are follows from chance alone, and erasing anyone else needs no training."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from eupg import EUPG, Secret, Seeded
from eupg.checks import check_unlearner
from eupg.data.dataset import Dataset
from eupg.errors import DataError, ParameterError
from eupg.forget.eupg import FEWEST_EXPOSED, TOPPED_UP
from eupg.forget.lottery import Lottery, exposed_people
from eupg.guarantees import Exact
from eupg.learn import SklearnLearner, TorchLearner, XGBoostLearner
from eupg.learn.lightgbm import LightGBMLearner
from eupg.protect import LocalDP, ProbabilisticKAnonymity
from forget.test_eupg import OneRelease
from people import people

LEARNERS = [XGBoostLearner(threads=1), LightGBMLearner(threads=1), SklearnLearner(), TorchLearner()]
METHOD = EUPG(ProbabilisticKAnonymity(10), SklearnLearner(), 2, 1, exposure=0.2)


def exposed_in(trained, data) -> set[str]:
    return set(data.subjects[np.isin(data.ids, list(trained.ids))].tolist())


def changed_rows(data: Dataset, rows) -> Dataset:
    X, y = data.X.copy(), data.y.copy()
    X[rows, 0] = 100 - X[rows, 0]
    y[rows] = 1 - y[rows]
    return dataclasses.replace(data, X=X, y=y)


@pytest.mark.parametrize("share", [0.0, 0.11, 0.2, 0.5, 1.0])
def test_share_of_people_is_exposed_with_all_their_records(share):
    data = people(600)
    trained = dataclasses.replace(METHOD, exposure=share).train(data, Seeded(3))
    names = exposed_in(trained, data)
    everyone = len(np.unique(data.subjects))
    assert names == set(exposed_people(data, share, Seeded(3)).subjects.tolist())
    assert binomtest(len(names), everyone, share).pvalue > 0.01
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
    leaving = min(exposed_in(trained, data))
    retained = data.select(data.subjects != leaving)
    after = METHOD.forget(trained, retained, Seeded(3))
    assert exposed_in(after, retained) == exposed_in(trained, data) - {leaving}
    assert after.model is not trained.model


def test_top_up_draws_others_and_keeps_those_who_are_in():
    data = people(300)
    method = dataclasses.replace(METHOD, top_up=True)
    trained = method.train(data, Seeded(3))
    before = exposed_in(trained, data)
    leaving = min(before)
    retained = data.select(data.subjects != leaving)
    after = method.forget(trained, retained, Seeded(3))
    now = exposed_in(after, retained)
    assert before - {leaving} <= now
    assert len(now) == round(0.2 * len(np.unique(retained.subjects)))
    assert method.depends_on_history
    assert not METHOD.depends_on_history


def test_new_people_are_exposed_at_the_same_share_and_those_exposed_stay():
    data, later = people(300), people(200, seed=8)
    later = dataclasses.replace(later, ids=np.char.add("n", later.ids), subjects=np.char.add("n", later.subjects))
    trained = METHOD.train(data, Seeded(3))
    grown = METHOD.update(trained, data.plus(later), Seeded(3))
    now = exposed_in(grown, data.plus(later))
    assert exposed_in(trained, data) <= now
    newcomers = {name for name in now if name.startswith("n")}
    assert binomtest(len(newcomers), len(np.unique(later.subjects)), 0.2).pvalue > 0.01
    assert grown.claim_for(later.of_subjects([min(newcomers)])).notion == Exact().notion


def test_drawing_is_uniform_and_secret():
    """Each of 100 people is drawn with probability 0.2; false alarm below 1e-6 over all, caught above 0.25 or so."""
    data = people(300)
    names = np.unique(data.subjects)
    counts = np.zeros(len(names), dtype=int)
    for _ in range(2000):
        counts += np.isin(names, exposed_people(data, 0.2, Secret()).subjects)
    assert all(binomtest(int(c), 2000, 0.2).pvalue > 1e-8 for c in counts)


def test_people_are_drawn_independently_of_each_other():
    """The number drawn has the spread of independent draws; a fixed number, or a stratified one, has less."""
    data = people(300)
    sizes = [len(np.unique(exposed_people(data, 0.2, Secret()).subjects)) for _ in range(2000)]
    # The variance of 100 draws is 16. Estimated from 2,000 runs its standard error is 0.5; six of them are allowed.
    assert 13 < np.var(sizes) < 19
    # Neighbours by name, and by place in the table, agree as often as strangers: 0.2² + 0.8² = 0.68 of the time.
    pairs = [Lottery.start(0.2, Secret()).drawn(data)[[0, 3, 150]] for _ in range(2000)]
    for other in (1, 2):
        assert binomtest(sum(bool(p[0] == p[other]) for p in pairs), 2000, 0.68).pvalue > 1e-8


def newcomers_of(count: int, seed: int = 8) -> list[Dataset]:
    later = people(3 * count, seed=seed)
    later = dataclasses.replace(later, ids=np.char.add("n", later.ids), subjects=np.char.add("n", later.subjects))
    return [later.of_subjects([name]) for name in np.unique(later.subjects).tolist()]


@pytest.mark.parametrize("rng", [Seeded(3), Secret()], ids=["seeded", "secret"])
def test_people_added_one_at_a_time_are_drawn_at_the_share_like_all_others(rng):
    data, method = people(900), dataclasses.replace(METHOD, exposure=0.05)
    state = method.train(data, rng)
    for newcomer in newcomers_of(60):
        data = data.plus(newcomer)
        state = method.update(state, data, rng)
    drawn = {name for name in data.subjects[state.lottery.drawn(data)].tolist() if name.startswith("n")}
    # 60 of 60 when every positive share is at least one person; more than 15 has a chance of 3e-8.
    assert len(drawn) <= 15


def test_whether_someone_is_exposed_does_not_depend_on_who_came_and_left():
    data, rng = people(300), Seeded(3)
    trained = METHOD.train(data, rng)
    later = newcomers_of(20)
    for a, b in zip(later[:10], later[10:], strict=True):
        alone = METHOD.update(trained, data.plus(b), rng)
        together = METHOD.update(trained, data.plus(a).plus(b), rng)
        left = METHOD.forget(together, data.plus(b), rng)
        assert exposed_in(left, data.plus(b)) == exposed_in(alone, data.plus(b))
        np.testing.assert_array_equal(left.model.predict_proba(data.X), alone.model.predict_proba(data.X))


def test_forgetting_is_never_having_been_there_but_for_the_release():
    """Who is drawn of those who stay, and the model given the release, are those of a table without the person."""
    data, rng = people(300), Seeded(5)
    method = EUPG(OneRelease(ProbabilisticKAnonymity(10).protect(data, rng)), SklearnLearner(), 2, 1, exposure=0.2)
    for name in ("p0", "p1", "p7", "p50"):
        retained = data.select(data.subjects != name)
        after, never = method.forget(method.train(data, rng), retained, rng), method.train(retained, rng)
        assert after.ids == never.ids
        np.testing.assert_array_equal(after.model.predict_proba(data.X), never.model.predict_proba(data.X))


def test_records_that_come_later_follow_the_decision_about_their_person():
    data = people(300)
    trained = METHOD.train(data, Secret())
    more = people(300, seed=4)
    more = dataclasses.replace(more, ids=np.char.add("later ", more.ids))
    grown = METHOD.update(trained, data.plus(more), Secret())
    assert exposed_in(grown, data.plus(more)) == exposed_in(trained, data)
    assert len(grown.ids) == 2 * len(trained.ids)


def test_someone_who_leaves_and_comes_back_is_not_drawn_again():
    data = people(300)
    trained = METHOD.train(data, Secret())
    for name in np.unique(data.subjects)[:20].tolist():
        without = METHOD.forget(trained, data.select(data.subjects != name), Secret())
        back = METHOD.update(without, data, Secret())
        assert exposed_in(back, data) == exposed_in(trained, data)


def test_below_the_fewest_exposed_the_base_is_served_until_newcomers_bring_them_back():
    data, rng = people(300), Seeded(3)
    trained = METHOD.train(data, rng)
    drawn = sorted(exposed_in(trained, data))
    assert len(drawn) > FEWEST_EXPOSED
    enough = data.select(~np.isin(data.subjects, drawn[FEWEST_EXPOSED:]))
    just = METHOD.forget(trained, enough, rng)
    assert exposed_in(just, enough) == set(drawn[:FEWEST_EXPOSED])
    assert just.model is not just.memory
    few = enough.select(enough.subjects != drawn[0])
    alone = METHOD.forget(just, few, rng)
    assert not alone.ids
    assert alone.model is alone.memory is trained.memory
    # Those who are drawn are not seen now, but stay drawn: one more makes them enough.
    one = next(n for n in newcomers_of(40) if alone.lottery.drawn(n).any())
    again = METHOD.update(alone, few.plus(one), rng)
    assert exposed_in(again, few.plus(one)) == {*drawn[1:FEWEST_EXPOSED], str(one.subjects[0])}
    # And she leaves no trace: without her the base is served again, as if she had never come.
    assert METHOD.forget(again, few, rng).model is trained.memory


def test_top_up_says_in_every_claim_that_the_sample_depends_on_who_left():
    data, newcomer = people(300), newcomers_of(1)[0]
    for top_up in (True, False):
        method = dataclasses.replace(METHOD, top_up=top_up)
        trained = method.update(method.train(data, Seeded(3)), data.plus(newcomer), Seeded(3))
        for records in (data.of_subjects(["p1"]), newcomer):
            assert (TOPPED_UP in trained.claim_for(records).caveats) == top_up
        assert method.depends_on_history == top_up


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
        DataError, match=rf"exposes 1 on average, and fine-tuning needs at least 10: raise it to {20 / everyone:.2g}"
    ):
        dataclasses.replace(METHOD, exposure=0.01).train(data, Seeded(1))
    assert not dataclasses.replace(METHOD, exposure=0.01, finetune=0).train(data, Seeded(1)).ids
    dataclasses.replace(METHOD, exposure=10 / everyone).train(data, Seeded(1))


def test_draw_that_is_too_small_by_chance_is_not_refused_and_serves_the_base():
    """Refusing it, so that one draws again, would make the sample depend on everyone who is there."""
    data = people(300)
    method = dataclasses.replace(METHOD, exposure=0.1)
    sizes = {s: len(np.unique(exposed_people(data, 0.1, Seeded(s)).subjects)) for s in range(20)}
    few = next(seed for seed, size in sizes.items() if size < FEWEST_EXPOSED)
    trained = method.train(data, Seeded(few))
    assert not trained.ids
    assert trained.model is trained.memory
    assert trained.lottery.drawn(data).any()


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
