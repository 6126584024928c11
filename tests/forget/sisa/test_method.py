"""SISA: exact forgetting by shards and slices; each test fails if its rule is broken."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eupg import Retrain, Secret, Seeded
from eupg.checks import names_reachable_from
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.errors import DataError, NothingRetained, ParameterError, UnknownRecord
from eupg.forget.sisa.method import SISA, Aggregate, Ensemble
from eupg.forget.storage import storage
from eupg.guarantees import Exact, Unit
from eupg.guarantees.wording import REQUESTS_APART
from eupg.learn import XGBoostLearner
from forget.families import FAMILIES, FAST, NO_START, Noting, family, files, late, names, place, same
from people import SCHEMA, people


@pytest.mark.parametrize("learner", [*FAMILIES.values(), NO_START], ids=[*FAMILIES, "sklearn neighbours"])
def test_one_shard_and_one_slice_is_retrain(learner):
    data, rng = people(150), Seeded(3)
    sisa, plain = SISA(learner, effort=3, shards=1, slices=1), Retrain(learner, effort=3)
    before, expected = sisa.train(data, rng), plain.train(data, rng)
    assert same(before, expected, data.X)
    retained = data.without(["r0", "r77"])
    assert same(sisa.forget(before, retained, rng), plain.forget(expected, retained, rng), data.X)


@family
@pytest.mark.parametrize("unit", Unit)
def test_forgetting_is_never_having_seen_for_every_learner(learner, unit):
    """The strongest form of exactness: with the same seed, bit for bit the ensemble of a training without them."""
    data, rng = people(240), Seeded(5)
    sisa = SISA(learner, effort=4, shards=2, slices=3, unit=unit)
    retained = data.without(["r3", "r4", "r90", "r200"])
    before = sisa.train(data, rng)
    never = sisa.train(retained, rng)
    assert same(sisa.forget(before, retained, rng), never, data.X)
    assert not same(before, never, data.X), "the records must have mattered, or this shows nothing"


@pytest.mark.parametrize("learner", [FAMILIES[n] for n in ("torch", "xgboost", "lightgbm", "sklearn sgd")], ids=repr)
@given(
    gone=st.sets(st.integers(0, 59), min_size=1, max_size=59),
    shards=st.integers(1, 4),
    slices=st.integers(1, 4),
    unit=st.sampled_from(Unit),
    seed=st.integers(0, 9),
)
@settings(max_examples=12)
def test_forgetting_any_set_is_never_having_seen_it(learner, gone, shards, slices, unit, seed):
    data, rng = people(60), Seeded(seed)
    sisa = SISA(learner, effort=3, shards=shards, slices=slices, unit=unit)
    retained = data.without(data.ids[sorted(gone)].tolist())
    after = sisa.forget(sisa.train(data, rng), retained, rng)
    assert same(after, sisa.train(retained, rng), data.X)
    assert after.ids == after.kept == set(retained.ids.tolist())
    assert not set(data.ids[sorted(gone)].tolist()) & names_reachable_from(after)
    assert names(after) == set(files(after.memory.folder.path))


@given(st.lists(st.sets(st.integers(0, 89), min_size=1, max_size=12), min_size=2, max_size=4), st.integers(0, 9))
@settings(max_examples=12)
def test_repeated_requests_work_on_the_updated_state(requests, seed):
    data, rng = people(90), Seeded(seed)
    sisa = SISA(FAST, effort=4, shards=3, slices=3)
    state, gone = sisa.train(data, rng), set()
    for request in requests:
        gone |= request
        retained = data.without(data.ids[sorted(gone)].tolist())
        state = sisa.forget(state, retained, rng)
        assert names(state) == set(files(state.memory.folder.path))
    assert same(state, sisa.train(retained, rng), data.X)


def test_shards_that_held_no_forgotten_record_are_untouched(tmp_path):
    data = people(240)
    sisa = SISA(FAMILIES["torch"], effort=4, shards=4, slices=3, folder=tmp_path)
    before = sisa.train(data, Seeded(1))
    stored = files(tmp_path)
    hit = {place(before, r)[0] for r in ("r0", "r7")}
    after = sisa.forget(before, data.without(["r0", "r7"]), Seeded(1))
    assert 0 < len(hit) < 4
    for shard in range(4):
        untouched = shard not in hit
        assert (after.memory.checkpoints[shard] == before.memory.checkpoints[shard]) == untouched
        assert (after.memory.models[shard] is before.memory.models[shard]) == untouched
        if untouched:
            assert all(files(tmp_path)[name] == stored[name] for name in after.memory.checkpoints[shard])


@pytest.mark.parametrize("learner", [FAMILIES["torch"], FAMILIES["xgboost"]], ids=["torch", "xgboost"])
@pytest.mark.parametrize("hit", [0, 2, 4])
def test_affected_shard_restarts_at_the_first_slice_that_held_a_forgotten_record(learner, hit, tmp_path):
    """Checkpoints before it stay; those that saw the record are nowhere in the folder, under any name."""
    data = people(300)
    sisa = SISA(learner, effort=10, shards=2, slices=5, folder=tmp_path)
    before = sisa.train(data, Seeded(1))
    stored = files(tmp_path)
    here = [r for r in before.memory.places if place(before, r)[0] == 1]
    gone = [next(r for r in here if place(before, r)[1] == part) for part in {hit, 4}]
    after = sisa.forget(before, data.without(gone), Seeded(1))
    old, new = before.memory.checkpoints[1], after.memory.checkpoints[1]
    assert old[:hit] == new[:hit]
    assert not set(old[hit:]) & set(new[hit:])
    assert set(files(tmp_path)) == names(after)
    assert not {stored[name] for name in old[hit:]} & set(files(tmp_path).values())
    assert all(files(tmp_path)[name] == stored[name] for name in new[:hit])


def test_slices_are_cumulative_and_only_what_is_needed_is_trained_again():
    data, learner = people(300), Noting(max_depth=2, threads=1)
    sisa = SISA(learner, effort=12, shards=2, slices=4)
    trained = sisa.train(data, Seeded(1))
    sizes = np.zeros((2, 4), dtype=int)
    for record in data.ids.tolist():
        sizes[place(trained, record)] += 1
    expected = [(int(sizes[s, : r + 1].sum()), 3, r > 0) for s in range(2) for r in range(4)]
    assert learner.calls == expected
    learner.calls.clear()
    gone = next(r for r in data.ids.tolist() if place(trained, r) == (1, 2))
    sisa.forget(trained, data.without([gone]), Seeded(1))
    assert learner.calls == [(sizes[1, :3].sum() - 1, 3, True), (sizes[1].sum() - 1, 3, True)]


def test_claim_carries_what_the_schema_read_from_the_data():
    data = people(60)
    town = dataclasses.replace(SCHEMA["town"], inferred=("categories",))
    schema = Schema(tuple(town if a.name == "town" else a for a in SCHEMA.attributes))
    data = Dataset(schema, data.X, data.y, data.ids, data.subjects)
    trained = SISA(FAST, effort=2, shards=2, slices=2).train(data, Seeded(1))
    assert "ategories of 'town' read from the data" in trained.claim_for(data.of_subjects(["p1"])).sentence()


def test_update_with_new_records_is_a_training_with_them():
    data, rng = people(240), Seeded(1)
    sisa = SISA(FAMILIES["torch"], effort=4, shards=4, slices=3)
    before, more = sisa.train(data, rng), data.plus(late(data, "newcomer"))
    grown = sisa.update(before, more, rng)
    assert same(grown, sisa.train(more, rng), data.X)
    shard, part = place(grown, "late-1")
    for s in range(4):
        assert (grown.memory.checkpoints[s] == before.memory.checkpoints[s]) == (s != shard)
    assert grown.memory.checkpoints[shard][:part] == before.memory.checkpoints[shard][:part]
    assert grown.claim_for(more.of_subjects(["newcomer"])) == Exact(caveats=(REQUESTS_APART,))
    assert same(sisa.forget(grown, data, rng), before, data.X)


def test_update_may_add_and_drop_at_once():
    data, rng = people(240), Seeded(1)
    sisa = SISA(FAST, effort=4, shards=4, slices=3)
    changed = data.without(["r0", "r100"]).plus(late(data, "newcomer"))
    assert same(sisa.update(sisa.train(data, rng), changed, rng), sisa.train(changed, rng), data.X)


def test_forgetting_nothing_changes_nothing():
    data, sisa = people(60), SISA(FAST, effort=2, shards=2, slices=2)
    trained = sisa.train(data, Seeded(1))
    assert sisa.forget(trained, data, Seeded(1)) is trained


def test_nobody_left_is_refused():
    data, sisa = people(60), SISA(FAST, effort=2, shards=2, slices=2)
    nobody = data.select(np.zeros(60, dtype=bool))
    with pytest.raises(NothingRetained, match="retire the model"):
        sisa.forget(sisa.train(data, Seeded(1)), nobody, Seeded(1))
    with pytest.raises(NothingRetained):
        sisa.train(nobody, Seeded(1))


@pytest.mark.parametrize("learner", [FAMILIES[n] for n in ("torch", "xgboost", "lightgbm", "sklearn sgd")], ids=repr)
def test_empty_shards_and_slices_have_no_model_and_no_checkpoint(learner):
    data, rng = people(4), Seeded(1)
    sisa = SISA(learner, effort=2, shards=4, slices=5, unit=Unit.RECORD)
    trained = sisa.train(data, rng)
    filled = {place(trained, r)[0] for r in data.ids.tolist()}
    assert [m is not None for m in trained.memory.models] == [s in filled for s in range(4)]
    assert storage(trained).models_a_prediction == len(filled) < 4
    for shard in filled:
        first = min(place(trained, r)[1] for r in data.ids.tolist() if place(trained, r)[0] == shard)
        assert [name is not None for name in trained.memory.checkpoints[shard]] == [r >= first for r in range(5)]
    np.testing.assert_allclose(trained.model.predict_proba(people(20, 3).X).sum(axis=1), 1)
    for record in data.ids.tolist():
        after = sisa.forget(trained, data.without([record]), rng)
        assert same(after, sisa.train(data.without([record]), rng), people(20, 3).X)


class Fixed:
    def __init__(self, *rows):
        self.rows = np.array(rows)

    def predict_proba(self, X):
        return self.rows[: len(X)]


def test_mean_and_vote_differ_where_one_shard_is_sure():
    models = (Fixed([0.9, 0.1]), Fixed([0.4, 0.6]), Fixed([0.4, 0.6]))
    np.testing.assert_allclose(Ensemble(models, Aggregate.MEAN).predict_proba(np.zeros((1, 1))), [[1.7 / 3, 1.3 / 3]])
    np.testing.assert_allclose(Ensemble(models, Aggregate.VOTE).predict_proba(np.zeros((1, 1))), [[1 / 3, 2 / 3]])


@pytest.mark.parametrize("aggregate", Aggregate)
def test_ensemble_answers_as_told(aggregate):
    data = people(150)
    trained = SISA(FAST, effort=4, shards=3, slices=2, aggregate=aggregate).train(data, Seeded(1))
    each = [m.predict_proba(data.X) for m in trained.memory.models]
    expected = np.mean(each if aggregate is Aggregate.MEAN else [np.eye(2)[p.argmax(axis=1)] for p in each], axis=0)
    np.testing.assert_array_equal(trained.model.predict_proba(data.X), expected)
    assert trained.model.predict_proba(data.X[:0]).shape == (0, 2)


def test_shards_side_by_side_give_the_same_result():
    data, learner = people(150), FAMILIES["sklearn sgd"]
    one, two = (SISA(learner, effort=4, shards=3, slices=2, jobs=jobs) for jobs in (1, 2))
    before = one.train(data, Seeded(1))
    gone = [name for name in data.ids[:10].tolist() if place(before, name) != (1, 0)]
    # One shard starts from its first slice, another continues from a checkpoint.
    assert {place(before, name) for name in gone} == {(0, 0), (1, 1)}
    retained = data.without(gone)
    assert same(two.forget(before, retained, Seeded(1)), one.train(retained, Seeded(1)), data.X)


@pytest.mark.parametrize(("name", "effort"), [("torch", 20), ("xgboost", 20), ("lightgbm", 50)])
def test_no_collapse_from_before_to_after(name, effort):
    data, test = people(1500, 1), people(500, 2)
    sisa = SISA(FAMILIES[name], effort=effort, shards=3, slices=4)
    before = sisa.train(data, Seeded(1))
    after = sisa.forget(before, data.without(data.ids[:75].tolist()), Seeded(1))
    scores = [float((t.model.predict_proba(test.X).argmax(axis=1) == test.y).mean()) for t in (before, after)]
    assert min(scores) > 0.85
    assert abs(scores[0] - scores[1]) < 0.03


def test_learner_that_cannot_go_on_is_refused_with_slices_and_accepted_without():
    with pytest.raises(ParameterError, match=r"cannot continue from a model, which slices need.*slices=1"):
        SISA(NO_START, slices=2)
    SISA(NO_START, slices=1)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"learner": XGBoostLearner}, "expected a learner such as"),
        ({"learner": "xgboost"}, "expected a learner such as"),
        ({"effort": 0}, "effort must be a whole number of at least 1"),
        ({"shards": 0}, "shards must be a whole number of at least 1"),
        ({"slices": 2.5}, "slices must be a whole number of at least 1"),
        ({"jobs": 0}, "jobs must be a whole number of at least 1"),
        ({"unit": "person"}, "unit must be one of Unit.RECORD, Unit.PERSON"),
        ({"aggregate": "vote"}, "aggregate must be one of Aggregate.MEAN, Aggregate.VOTE"),
        ({"redraw": 1.5}, "redraw is a share of a shard's records from 0 to 1, or None, got 1.5"),
        ({"redraw": True}, "redraw is a share"),
        ({"likelihood": {"p1": float("nan")}}, "likelihoods must be finite numbers"),
    ],
)
def test_wrong_parameters_are_refused_when_the_method_is_built(wrong, message):
    with pytest.raises(ParameterError, match=message):
        SISA(**({"learner": FAST} | wrong))


def test_odd_requests_are_named():
    data, rng = people(60), Seeded(1)
    sisa = SISA(FAST, effort=2, shards=2, slices=2)
    trained = sisa.train(data, rng)
    with pytest.raises(UnknownRecord, match="to add records call update"):
        sisa.forget(sisa.forget(trained, data.without(["r1"]), rng), data, rng)
    with pytest.raises(ParameterError, match="not trained by SISA"):
        sisa.forget(Retrain(FAST, 1).train(data, rng), data.without(["r1"]), rng)
    turned = Schema((*SCHEMA.attributes[:-1], dataclasses.replace(SCHEMA.label, categories=("yes", "no"))))
    other = Dataset(turned, data.X, data.y, data.ids, data.subjects).without(["r1"])
    with pytest.raises(DataError, match="another schema"):
        sisa.forget(trained, other, rng)


def test_corrected_values_behind_a_kept_name_are_trained_anew():
    """A rectification: same names, other values. The shard that holds them must not go on with the old ones."""
    data, rng = people(80), Seeded(2)
    method = SISA(XGBoostLearner(threads=1), 4, shards=3, slices=2)
    trained = method.train(data, rng)
    X = data.X.copy()
    X[7, 0] = 100 - X[7, 0]
    corrected = dataclasses.replace(data, X=X)
    after = method.update(trained, corrected, rng)
    never = method.train(corrected, rng)
    np.testing.assert_array_equal(after.model.predict_proba(X), never.model.predict_proba(X))
    untouched = [s for s in range(3) if s != place(trained, data.ids[7])[0]]
    assert all(after.memory.checkpoints[s] == trained.memory.checkpoints[s] for s in untouched)


def in_shard(trained, shard: int) -> list[str]:
    return [name for name in trained.memory.places if place(trained, name)[0] == shard]


@pytest.mark.parametrize(("redraw", "emptied"), [(0.3, False), (None, True)])
def test_shard_whose_members_are_known_cannot_be_emptied(redraw, emptied, tmp_path):
    """Someone who knows who sits in a shard has them erased one after another; a new draw ends their knowledge."""
    data = people(120)
    sisa = SISA(FAST, effort=2, shards=3, slices=2, unit=Unit.RECORD, redraw=redraw, folder=tmp_path)
    state = sisa.train(data, Secret())
    key, known, gone, keys = state.memory.sharding.key, in_shard(state, 0), [], set()
    for name in known:
        gone.append(name)
        state = sisa.forget(state, data.without(gone), Secret())
        keys.add(state.memory.sharding.key)
        assert names(state) == set(files(tmp_path)), "what the old shards left is deleted"
    assert (state.memory.models[0] is None) == emptied
    assert (not keys - {key}) == emptied


def test_shards_are_drawn_anew_when_one_has_lost_the_share_and_not_before(tmp_path):
    data = people(120)
    sisa = SISA(FAST, effort=2, shards=3, slices=2, unit=Unit.RECORD, redraw=0.25, folder=tmp_path)
    before = sisa.train(data, Secret())
    members = in_shard(before, 1)
    few = -(-len(members) // 4)
    almost = sisa.forget(before, data.without(members[: few - 1]), Secret())
    assert almost.memory.sharding.key == before.memory.sharding.key
    assert almost.memory.checkpoints[0] == before.memory.checkpoints[0]
    # What was lost before counts: one more is enough.
    due = sisa.forget(almost, data.without(members[:few]), Secret())
    assert due.memory.sharding.key != before.memory.sharding.key
    assert due.memory.lost == (0, 0, 0)
    assert sum(due.memory.dealt) == 120 - few
    assert names(due) == set(files(tmp_path))


def test_newcomers_count_as_dealt_and_corrections_as_lost():
    data, rng = people(80), Seeded(2)
    sisa = SISA(FAST, effort=2, shards=2, slices=2, redraw=0.9)
    trained = sisa.train(data, rng)
    grown = sisa.update(trained, data.plus(late(data, "newcomer")), rng)
    assert sum(grown.memory.dealt) == 80 + len(late(data, "newcomer"))
    X = data.X.copy()
    X[7, 0] = 100 - X[7, 0]
    corrected = sisa.update(trained, dataclasses.replace(data, X=X), rng)
    assert corrected.memory.lost[place(trained, data.ids[7])[0]] == sum(corrected.memory.lost) == 1


def test_drawing_anew_is_a_training_on_those_who_are_left():
    data, rng = people(120), Seeded(4)
    sisa = SISA(FAST, effort=4, shards=3, slices=2, redraw=0.0)
    retained = data.without(["r3"])
    after = sisa.forget(sisa.train(data, rng), retained, rng)
    assert same(after, sisa.train(retained, rng), data.X)
    assert sisa.train(data, Secret()).claim == Exact(), "nothing has to be assumed about requests"


def test_new_draw_that_fails_leaves_the_old_shards_and_no_other_file(tmp_path, monkeypatch):
    data = people(120)
    sisa = SISA(FAST, effort=2, shards=3, slices=2, redraw=0.0, folder=tmp_path)
    before = sisa.train(data, Secret())
    monkeypatch.setattr(type(FAST), "save", lambda *_: (_ for _ in ()).throw(OSError("the disk is full")))
    with pytest.raises(OSError, match="the disk is full"):
        sisa.forget(before, data.without(["r3"]), Secret())
    assert names(before) == set(files(tmp_path))
