"""The privacy argument of EUPG, rule by rule; each test fails if its rule is broken."""

import dataclasses
import gc
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eupg import EUPG, Dataset, Retrain, Schema, Seeded
from eupg.checks import names_reachable_from
from eupg.errors import DataError, NothingRetained, ParameterError, UnknownRecord
from eupg.forget.released import Released
from eupg.forget.unlearner import Unlearner
from eupg.guarantees import DifferentiallyPrivate, Exact, KAnonymous
from eupg.learn import LightGBMLearner, SklearnLearner, TorchLearner, XGBoostLearner
from eupg.protect import DPSynthesis, LocalDP, ProbabilisticKAnonymity, Unprotected
from people import SCHEMA, people

LEARNERS = [
    XGBoostLearner(threads=1),
    XGBoostLearner(refresh_leaves=True, threads=1),
    LightGBMLearner(threads=1),
    SklearnLearner(),
    TorchLearner(),
]
METHODS: list[Unlearner] = [EUPG(ProbabilisticKAnonymity(10), learner, pretrain=3, finetune=2) for learner in LEARNERS]
METHODS += [Retrain(learner, effort=3) for learner in LEARNERS]


@pytest.fixture(autouse=True)
def _no_salt(monkeypatch):
    """Leave the random salt of model files out, so that equal models are equal files."""
    monkeypatch.setattr("eupg.learn.envelope.secrets", SimpleNamespace(token_hex=lambda size: "00" * size))


def short(method) -> str:
    learner = method.learner
    return f"{type(method).__name__}-{type(learner).__name__}{'-refresh' * getattr(learner, 'refresh_leaves', False)}"


class OneRelease:
    """A mechanism that hands out one release, whatever records it is given: it fixes what the base model saw."""

    def __init__(self, release):
        self.release = release

    def guarantee(self, schema):
        return self.release.guarantee

    def protect(self, data, rng):
        return self.release


@pytest.mark.parametrize("method", METHODS, ids=short)
def test_changed_forgotten_rows_leave_the_result_bit_identical(method, tmp_path):
    """Given the same release, nothing of the forgotten rows may reach the new model, not the last bit of its file."""
    data, rng = people(200), Seeded(3)
    forgotten = data.ids[:20].tolist()
    X, y = data.X.copy(), data.y.copy()
    X[:20, 0] = 100 - X[:20, 0]
    X[:20, 1], X[:20, 4], y[:20] = 4999.5, np.nan, 1 - y[:20]
    changed = Dataset(data.schema, X, y, data.ids, data.subjects)
    if isinstance(method, EUPG):
        release = method.mechanism.protect(data, rng.stage("protect"))
        method = dataclasses.replace(method, mechanism=OneRelease(release))
    results = []
    for records in (data, changed):
        after = method.forget(method.train(records, rng), records.without(forgotten), rng)
        method.learner.save(after.model, tmp_path / "model")
        # skops writes memory addresses, so there the predictions must do.
        bare = isinstance(method.learner, SklearnLearner)
        results.append(after.model.predict_proba(data.X).tobytes() if bare else (tmp_path / "model").read_bytes())
    assert results[0] == results[1]
    assert not np.array_equal(
        method.train(data, rng).model.predict_proba(data.X), method.train(changed, rng).model.predict_proba(data.X)
    ), "the change must matter before forgetting, or this test shows nothing"


def with_canary(data: Dataset) -> Dataset:
    """Give three records to a person with values of their own."""
    X, y = data.X.copy(), data.y.copy()
    X[:3], y[:3] = [97.0, 4242.5, 2, 3, 1, 0.7], 1
    ids = np.array([*(f"canary-{i}" for i in range(3)), *data.ids[3:]])
    return Dataset(data.schema, X, y, ids, np.array([*["Canary, Carla"] * 3, *data.subjects[3:]]))


@pytest.mark.parametrize("method", METHODS, ids=short)
def test_canary_is_found_nowhere_after_forgetting(method, tmp_path):
    """A person with values of their own: no file, no scaler, no category list, no id may still know them.

    Given the release, the saved model must be, to the last bit, the one of a table in which they never were; and the
    model before forgetting must not be, or this would show nothing.
    """
    data, rng = with_canary(people(150)), Seeded(5)
    person = data.of_subjects(["Canary, Carla"])
    others = data.without(person.ids)
    if isinstance(method, EUPG):
        method = dataclasses.replace(method, mechanism=OneRelease(method.mechanism.protect(others, rng)))
    trained = method.train(data, rng)
    before = saved(method, trained.model, tmp_path)
    alive = weakref.ref(trained.model)
    after = method.forget(trained, others, rng)
    del trained
    gc.collect()
    assert alive() is None, "the served model must not live on inside the new one"
    assert not [name for name in names_reachable_from(after) if "anary" in name]
    never = saved(method, method.train(others, rng).model, tmp_path)
    assert saved(method, after.model, tmp_path) == never
    assert before != never
    assert b"anary" not in (tmp_path / "model").read_bytes()


def saved(method, model, folder) -> bytes:
    """Return the bytes of the saved model; skops writes memory addresses, so there scales and predictions must do."""
    method.learner.save(model, folder / "model")
    if isinstance(method.learner, SklearnLearner):
        return model.encoder.centre.tobytes() + model.predict_proba(people(50, 8).X).tobytes()
    return (folder / "model").read_bytes()


@pytest.mark.parametrize("rows", [5, 150])
@pytest.mark.parametrize("learner", [SklearnLearner(), TorchLearner()], ids=["sklearn", "torch"])
@pytest.mark.parametrize("mechanism", [LocalDP(1.0), DPSynthesis(1.0), ProbabilisticKAnonymity(10)], ids=repr)
def test_served_model_keeps_the_scales_of_the_release(mechanism, learner, rows):
    data, rng = people(200), Seeded(1)
    method = EUPG(mechanism, learner, pretrain=2, finetune=1)
    trained = method.train(data, rng)
    after = method.forget(trained, data.select(np.arange(200) < rows), rng)
    assert after.model is not trained.memory
    assert after.model.encoder is trained.memory.encoder is trained.model.encoder


@given(st.sets(st.integers(0, 99), max_size=40), st.sets(st.integers(0, 99), max_size=40))
@settings(max_examples=15, deadline=None)
def test_forgetting_a_then_b_equals_forgetting_both(a, b):
    data, rng = people(100), Seeded(2)
    for method in (
        EUPG(ProbabilisticKAnonymity(5), SklearnLearner(), pretrain=2, finetune=1),
        Retrain(SklearnLearner(), effort=2),
    ):
        trained = method.train(data, rng)
        without_a = data.without(data.ids[sorted(a)].tolist())
        without_both = data.without(data.ids[sorted(a | b)].tolist())
        in_steps = method.forget(method.forget(trained, without_a, rng), without_both, rng)
        at_once = method.forget(trained, without_both, rng)
        np.testing.assert_array_equal(in_steps.model.predict_proba(data.X), at_once.model.predict_proba(data.X))
        assert in_steps.ids == at_once.ids == set(without_both.ids.tolist())


def test_base_model_sees_the_release_alone():
    """Training with one fixed release on other records must give the same base model, bit for bit."""
    data, other, rng = people(100), people(100, seed=9), Seeded(2)
    release = LocalDP(1.0).protect(data, rng)
    method = EUPG(OneRelease(release), XGBoostLearner(threads=1), pretrain=3, finetune=1)
    bases = [method.base(d, rng).model.boosters[0].save_raw("ubj") for d in (data, other)]
    assert bases[0] == bases[1]


def test_serving_the_base_makes_every_erasure_immediate():
    data, rng = people(100), Seeded(2)
    method = EUPG(LocalDP(1.0), SklearnLearner(), pretrain=2, finetune=0)
    trained = method.train(data, rng)
    assert trained.ids == frozenset()
    after = method.forget(trained, data.without(["r0"]), rng)
    assert after.model is trained.model
    assert "r0" not in after.kept
    assert "r0" not in after.released.kept


def test_claim_counts_the_records_of_a_person():
    data, rng = people(100), Seeded(2)
    trained = EUPG(LocalDP(0.5), SklearnLearner(), pretrain=1, finetune=1).train(data, rng)
    claim = trained.claim_for(data.of_subjects(["p7"]))
    assert isinstance(claim, DifferentiallyPrivate)
    assert claim.epsilon == pytest.approx(1.5)
    anonymous = EUPG(ProbabilisticKAnonymity(10), SklearnLearner(), 1, 1).train(data, rng)
    linked = anonymous.claim_for(data.of_subjects(["p7"]))
    assert isinstance(linked, KAnonymous)
    assert linked.bound == pytest.approx(0.3)


def late(data: Dataset, subject: str) -> Dataset:
    """Two records that arrive after the release."""
    return dataclasses.replace(
        data.select(np.arange(len(data)) < 2), ids=np.array(["late-1", "late-2"]), subjects=np.array([subject] * 2)
    )


def test_records_of_someone_new_are_forgotten_exactly():
    data, rng = people(100), Seeded(2)
    method = EUPG(LocalDP(0.5), SklearnLearner(), pretrain=1, finetune=1)
    more = data.plus(late(data, "newcomer"))
    trained = method.update(method.train(data, rng), more, rng)
    assert isinstance(trained.claim_for(more.of_subjects(["newcomer"])), Exact)


@pytest.mark.parametrize("mechanism", [LocalDP(0.5), ProbabilisticKAnonymity(5)], ids=["local DP", "k-anonymity"])
def test_claim_about_a_release_without_its_history_is_refused(mechanism):
    """It would call everyone a newcomer, of whom nothing remains."""
    trained = EUPG(mechanism, SklearnLearner(), pretrain=1, finetune=1).train(people(100), Seeded(2))
    with pytest.raises(ParameterError, match="needs the records behind it, got none"):
        dataclasses.replace(trained, released=Released())
    exact = dataclasses.replace(trained, released=Released(), claim=Exact())
    assert exact.claim_for(people(100).of_subjects(["p7"])) == Exact()


def test_base_without_its_history_is_refused():
    base = EUPG(LocalDP(0.5), SklearnLearner(), pretrain=1, finetune=1).base(people(50), Seeded(2))
    with pytest.raises(ParameterError, match="needs the records behind it, got none"):
        dataclasses.replace(base, released=Released())


def test_person_behind_the_base_who_joins_later_is_no_newcomer():
    """The base model was made from everybody's records; fine-tuning left one person out until now."""
    data, rng = people(100), Seeded(2)
    method = EUPG(LocalDP(0.5), SklearnLearner(), pretrain=1, finetune=1)
    person = data.of_subjects(["p7"])
    trained = method.resume(method.base(data, rng), data.without(person.ids.tolist()), rng)
    claim = method.update(trained, data, rng).claim_for(person)
    assert isinstance(claim, DifferentiallyPrivate)


def test_claim_of_a_person_with_old_and_new_records_counts_the_old_ones():
    data, rng = people(100), Seeded(2)
    method = EUPG(LocalDP(0.5), SklearnLearner(), pretrain=1, finetune=1)
    more = data.plus(late(data, "p0"))
    trained = method.update(method.train(data, rng), more, rng)
    claim = trained.claim_for(more.of_subjects(["p0"]))
    assert isinstance(claim, DifferentiallyPrivate)
    assert claim.epsilon == pytest.approx(1.5)


def test_records_forgotten_before_still_count_for_their_person():
    data, rng = people(100), Seeded(2)
    method = EUPG(LocalDP(0.5), SklearnLearner(), pretrain=1, finetune=1)
    retained = data.without(["r0"])
    after = method.forget(method.train(data, rng), retained, rng)
    assert after.claim_for(retained.of_subjects(["p0"])).epsilon == pytest.approx(1.5)
    assert after.claim_for(retained.of_subjects(["p1"])).epsilon == pytest.approx(1.5)


def test_record_that_comes_back_was_never_new_to_the_base():
    data, rng = people(100), Seeded(2)
    method = EUPG(LocalDP(0.5), SklearnLearner(), pretrain=1, finetune=1)
    after = method.forget(method.train(data, rng), data.without(["r0"]), rng)
    assert "r0" not in names_reachable_from(after)
    again = method.update(after, data, rng)
    assert again.claim_for(data.of_subjects(["p0"])).epsilon == pytest.approx(1.5)
    lone = dataclasses.replace(data.select(data.ids == "r0"), subjects=np.array(["somebody else"]))
    assert again.claim_for(lone).epsilon == pytest.approx(0.5)


@pytest.mark.parametrize("learner", [SklearnLearner(), TorchLearner()], ids=["sklearn", "torch"])
def test_scales_of_base_and_served_model_do_not_betray_the_forgotten(learner):
    """A release that keeps column sums, less the sum of the retained records, is the forgotten record itself.

    So a model that goes on from a base must not carry the retained records' own means. Were scales fitted again, the
    difference below would be the record, to the last digits.
    """
    data, rng = people(200), Seeded(1)
    retained = data.without(["r5"])
    method = EUPG(ProbabilisticKAnonymity(10), learner, pretrain=2, finetune=1)
    after = method.forget(method.train(data, rng), retained, rng)
    rebuilt = 200 * after.memory.encoder.centre - 199 * after.model.encoder.centre
    assert abs(rebuilt[0] - data.X[5, 0]) > 1
    assert abs(rebuilt[1] - data.X[5, 1]) > 50
    betrayed = 200 * data.X[:, :2].mean(axis=0) - 199 * retained.X[:, :2].mean(axis=0)
    np.testing.assert_allclose(betrayed, data.X[5, :2])


def test_another_schema_is_refused():
    data, rng = people(60), Seeded(1)
    method = EUPG(LocalDP(1), SklearnLearner(), 1, 1)
    turned = Schema((*SCHEMA.attributes[:-1], dataclasses.replace(SCHEMA.label, categories=("yes", "no"))))
    other = Dataset(turned, data.X, data.y, data.ids, data.subjects).without(["r1"])
    for unlearner in (method, Retrain(SklearnLearner(), 1)):
        with pytest.raises(DataError, match="another schema"):
            unlearner.forget(unlearner.train(data, rng), other, rng)


@pytest.mark.parametrize("wrong", [7, None, np.random.default_rng(1)])
def test_randomness_that_cannot_say_whether_it_was_seeded_is_refused(wrong):
    with pytest.raises(ParameterError, match=r"expected Secret\(\)"):
        Retrain(SklearnLearner(), 1).train(people(60), wrong)


def test_seeded_training_is_said_to_be_not_private():
    trained = EUPG(LocalDP(1), SklearnLearner(), 1, 1).train(people(50), Seeded(1))
    assert "not private" in trained.claim.sentence()


def test_exact_claim_of_retrain_carries_what_the_schema_read_from_the_data():
    data = people(60)
    town = dataclasses.replace(SCHEMA["town"], inferred=("categories",))
    schema = Schema(tuple(town if a.name == "town" else a for a in SCHEMA.attributes))
    data = Dataset(schema, data.X, data.y, data.ids, data.subjects)
    trained = Retrain(SklearnLearner(), 1).train(data, Seeded(1))
    assert "ategories of 'town' read from the data" in trained.claim_for(data.select(data.ids == "r0")).sentence()


def test_learner_that_cannot_go_on_is_refused_when_the_method_is_built():
    from sklearn.neighbors import KNeighborsClassifier

    with pytest.raises(ParameterError, match="cannot go on from a given model, which EUPG needs"):
        EUPG(LocalDP(1), SklearnLearner(KNeighborsClassifier()))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"pretrain": 0}, "pretrain must be a whole number of at least 1"),
        ({"finetune": -1}, "finetune must be a whole number of at least 0"),
        ({"finetune": 2.5}, "finetune must be a whole number"),
        ({"mechanism": 30}, "expected a mechanism such as"),
        ({"learner": "xgboost"}, "expected a learner such as"),
    ],
)
def test_wrong_parameters_are_refused_when_the_method_is_built(wrong, message):
    good = {"mechanism": LocalDP(1), "learner": SklearnLearner(), "pretrain": 1, "finetune": 1}
    with pytest.raises(ParameterError, match=message):
        EUPG(**(good | wrong))


def test_nobody_left():
    data, rng = people(60), Seeded(1)
    nobody = data.select(np.zeros(60, dtype=bool))
    method = EUPG(LocalDP(1), SklearnLearner(), 1, 1)
    trained = method.train(data, rng)
    after = method.forget(trained, nobody, rng)
    assert after.model is trained.memory
    assert not after.ids
    with pytest.raises(NothingRetained, match="retire the model"):
        Retrain(SklearnLearner(), 1).forget(Retrain(SklearnLearner(), 1).train(data, rng), nobody, rng)
    with pytest.raises(NothingRetained):
        method.train(nobody, rng)


def test_forgetting_twice_or_unknown_ids_is_named():
    data, rng = people(60), Seeded(1)
    method = EUPG(LocalDP(1), SklearnLearner(), 1, 1)
    after = method.forget(method.train(data, rng), data.without(["r1"]), rng)
    with pytest.raises(UnknownRecord, match="already forgotten"):
        data.without(["r1"]).without(["r1"])
    with pytest.raises(UnknownRecord, match="to add records call update"):
        method.forget(after, data, rng)


def test_model_of_another_method_is_refused():
    data, rng = people(60), Seeded(1)
    trained = Retrain(SklearnLearner(), 1).train(data, rng)
    with pytest.raises(ParameterError, match="not trained by EUPG"):
        EUPG(LocalDP(1), SklearnLearner(), 1, 1).forget(trained, data.without(["r1"]), rng)


def test_unprotected_base_claims_nothing():
    with pytest.warns(UserWarning, match="ablation"):
        trained = EUPG(Unprotected(), SklearnLearner(), 1, 1).train(people(60), Seeded(1))
    assert trained.claim_for(people(60).select(people(60).ids == "r0")).sentence().startswith("No guarantee")
