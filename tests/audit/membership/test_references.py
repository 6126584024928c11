"""Reference models: balanced, repeatable, resumable, and gone when somebody in their pool is forgotten."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tasks
from eupg import EUPG, Retrain, Seeded
from eupg.audit import ReferenceStore
from eupg.audit.membership.references import complementary_halves, train_references
from eupg.data.attribute import Numeric
from eupg.data.schema import Schema
from eupg.errors import DataError, ParameterError
from eupg.executor import InProcess, LocalProcesses
from eupg.learn import SklearnLearner, TorchLearner, XGBoostLearner
from eupg.protect import LocalDP
from people import people

RECIPE = Retrain(XGBoostLearner(threads=1), effort=2)


def halves(rows: int, models: int = 4) -> np.ndarray:
    return complementary_halves(np.zeros(rows, dtype=np.int64), models, np.random.default_rng(0))


@given(st.integers(1, 5).map(lambda i: 2 * i), st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_every_record_is_outside_exactly_half_of_the_models(models, groups):
    inside = complementary_halves(np.array(groups), models, np.random.default_rng(1))
    assert (inside.sum(axis=0) == models // 2).all()
    for group in set(groups):
        share = inside[:, np.array(groups) == group].sum(axis=1)
        assert abs(share - groups.count(group) / 2).max() <= 0.5


@pytest.mark.parametrize("models", [0, 1, 3, True])
def test_odd_numbers_of_models_are_refused(models):
    with pytest.raises(ParameterError, match="an even number of at least 2"):
        halves(10, models)


@pytest.mark.parametrize(
    "recipe",
    [RECIPE, Retrain(TorchLearner(), 1), EUPG(LocalDP(1.0), SklearnLearner(), pretrain=1, finetune=1)],
    ids=["xgboost", "torch", "eupg"],
)
def test_two_processes_give_what_one_gives(recipe):
    pool, inside = people(80), halves(80)
    alone, together = (train_references(recipe, pool, inside, seed=3, jobs=jobs).probabilities for jobs in (1, 2))
    np.testing.assert_array_equal(alone, together)


def test_killed_process_changes_no_prediction(tmp_path):
    pool, inside = people(80), halves(80)
    killed = tasks.Killing(LocalProcesses(2), tmp_path / "killed")
    alone, together = (
        train_references(RECIPE, pool, inside, seed=3, executor=executor).probabilities
        for executor in (InProcess(), killed)
    )
    assert (tmp_path / "killed").exists()
    np.testing.assert_array_equal(alone, together)


def test_jobs_and_executor_are_not_both_taken():
    with pytest.raises(ParameterError, match="jobs and executor both say where models are trained: pass one of them"):
        train_references(RECIPE, people(80), halves(80), seed=3, jobs=2, executor=InProcess())


def test_models_see_their_half_alone():
    """Changing the rows outside a half leaves its model's other predictions bit-identical."""
    pool, inside = people(120), halves(120, 2)
    X = pool.X.copy()
    X[~inside[0], 0] = 99
    changed = dataclasses.replace(pool, X=X)
    before, after = (train_references(RECIPE, p, inside, seed=0, jobs=1).probabilities for p in (pool, changed))
    np.testing.assert_array_equal(before[0, inside[0]], after[0, inside[0]])
    assert not np.array_equal(before[1], after[1])


class Fragile:
    """A recipe that breaks down at its third model, unless mended."""

    def __init__(self, breaks: bool):
        self.breaks, self.calls = breaks, 0

    def train(self, data, rng):
        self.calls += 1
        if self.breaks and self.calls == 3:
            raise KeyboardInterrupt
        return RECIPE.train(data, rng)

    def __repr__(self) -> str:
        return "Fragile()"


def test_killed_run_goes_on_where_it_stopped(tmp_path):
    pool, inside, store = people(80), halves(80, 6), ReferenceStore(tmp_path)
    first, second, steps = Fragile(True), Fragile(False), []
    with pytest.raises(KeyboardInterrupt):
        train_references(first, pool, inside, seed=0, jobs=1, store=store)
    assert len(store) == 2
    resumed = train_references(
        second, pool, inside, seed=0, jobs=1, store=store, step=lambda done, total: steps.append((done, total))
    )
    assert second.calls == 4
    assert steps == [(3, 6), (4, 6), (5, 6), (6, 6)]
    whole = train_references(Fragile(False), pool, inside, seed=0, jobs=1)
    np.testing.assert_array_equal(resumed.probabilities, whole.probabilities)


def test_nothing_is_reused_for_another_recipe_seed_or_table(tmp_path):
    store = ReferenceStore(tmp_path)
    pool, inside = people(80), halves(80, 2)
    runs = [
        (RECIPE, pool, 0),
        (Retrain(XGBoostLearner(threads=1), effort=3), pool, 0),
        (RECIPE, pool, 1),
        (RECIPE, dataclasses.replace(pool, y=1 - pool.y), 0),
    ]
    for number, (recipe, data, seed) in enumerate(runs, start=1):
        train_references(recipe, data, inside, seed=seed, jobs=1, store=store)
        assert len(store) == 2 * number


def test_store_deletes_what_saw_a_forgotten_record_and_keeps_the_rest(tmp_path):
    store = ReferenceStore(tmp_path)
    theirs, ours = people(60), dataclasses.replace(people(60, 5), ids=np.array([f"other {i}" for i in range(60)]))
    for pool in (theirs, ours):
        train_references(RECIPE, pool, halves(60, 2), seed=0, jobs=1, store=store)
    assert len(store) == 4
    # Even a record that a model did not train on was predicted by it, so its whole pool counts.
    assert len(store.forget(["r7"])) == 2
    assert len(store) == 2
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert "r7".encode("utf-32-le") not in content
    assert "other 7".encode("utf-32-le") in content
    assert store.forget(["r7"]) == []


def test_half_written_or_damaged_entry_is_no_entry_and_goes_with_the_next_forget(tmp_path):
    store = ReferenceStore(tmp_path)
    (tmp_path / "abc.1.partial").write_bytes(b"half of what saw r7")
    assert len(store) == 0
    assert store.get("abc") is None
    train_references(RECIPE, people(60), halves(60, 2), seed=0, jobs=1, store=store)
    assert not [p for p in tmp_path.iterdir() if p.suffix != ".npz" and p.name != "abc.1.partial"]
    damaged = next(tmp_path.glob("*.npz"))
    damaged.write_bytes(damaged.read_bytes()[:100])
    assert store.forget(["somebody else"]) == [damaged.stem]
    assert not (tmp_path / "abc.1.partial").exists()
    assert len(store) == 1


def test_record_outside_the_pool_is_named():
    references = train_references(RECIPE, people(60), halves(60, 2), seed=0, jobs=1)
    with pytest.raises(DataError, match="'nobody' is not in the pool"):
        references.on(["r1", "nobody"])
    inside, probabilities = references.on(["r5", "r2"])
    np.testing.assert_array_equal(probabilities[:, 0], references.probabilities[:, 5])
    assert inside.shape == (2, 2)


def test_networks_trained_together_are_those_trained_one_by_one():
    tables = [people(600, seed) for seed in range(3)]
    learner = TorchLearner()
    together = learner.fit_many(tables, effort=3, rngs=[np.random.default_rng(i) for i in range(3)])
    for seed, (table, model) in enumerate(zip(tables, together, strict=True)):
        alone = learner.fit(table, effort=3, rng=np.random.default_rng(seed))
        np.testing.assert_allclose(model.predict_proba(table.X), alone.predict_proba(table.X), atol=1e-5)


def test_recipe_that_trains_together_is_used_so(monkeypatch):
    recipe = Retrain(TorchLearner(), 2)
    pool, inside = people(120), halves(120)
    alone = train_references(recipe, pool, inside, seed=3, jobs=1)
    monkeypatch.setattr(TorchLearner, "batches", True)
    monkeypatch.setattr(Retrain, "train", lambda *_: pytest.fail("one by one"))
    together = train_references(recipe, pool, inside, seed=3)
    np.testing.assert_allclose(together.probabilities, alone.probabilities, atol=1e-5)


def test_streams_of_models_differ():
    recipe = Retrain(SklearnLearner(), 1)
    pool = people(60)
    everyone = np.ones((2, 60), dtype=bool)
    first, second = train_references(recipe, pool, everyone, seed=0, jobs=1).probabilities
    assert not np.array_equal(first, second)
    assert Seeded(0).stage("reference 0").words(1) != Seeded(0).stage("reference 1").words(1)


def test_schemas_that_differ_have_models_of_their_own(tmp_path):
    """The short forms of two schemas can be equal, so models are not named by them."""
    data, store = people(40), ReferenceStore(tmp_path)
    wider = tuple(
        dataclasses.replace(a, upper=120.0) if isinstance(a, Numeric) and a.name == "age" else a
        for a in data.schema.attributes
    )
    other = dataclasses.replace(data, schema=Schema(wider))
    assert repr(data.schema) == repr(other.schema)
    for pool in (data, other):
        train_references(RECIPE, pool, halves(len(pool), 2), seed=1, store=store, jobs=1)
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 4
