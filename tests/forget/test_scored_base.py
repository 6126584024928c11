"""What the base model said of a record is remembered while the record is kept, and not a moment longer."""

import dataclasses
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eupg import EUPG, Dataset, Seeded
from eupg.checks import check_unlearner, names_reachable_from
from eupg.forget.scored_base import ScoredBase, _digests
from eupg.forget.storage import storage
from eupg.learn import LightGBMLearner, XGBoostLearner
from eupg.learn.best_of import BestOf
from eupg.learn.learner import Model
from eupg.protect import LocalDP, ProbabilisticKAnonymity
from people import people

RNG = Seeded(3)
PLAIN = XGBoostLearner(threads=1)


@dataclass(frozen=True)
class Counting(XGBoostLearner):
    """Notes how many rows the base model is asked about, each time."""

    threads: int = 1
    asked: list[int] = field(default_factory=list, compare=False)

    def scores(self, model, X):
        self.asked.append(len(X))
        return super().scores(model, X)


def counted(**options) -> EUPG:
    return EUPG(ProbabilisticKAnonymity(10), Counting(), pretrain=4, finetune=2, **options)


def edited(data: Dataset, row: int, column: int, value: float) -> Dataset:
    X = data.X.copy()
    X[row, column] = value
    return dataclasses.replace(data, X=X)


def test_forget_asks_the_base_about_nobody_it_knew():
    data, method = people(200), counted()
    after = method.forget(method.train(data, RNG), data.without(["r0", "r7"]), RNG)
    method.forget(after, data.without(["r0", "r7", "r9"]), RNG)
    assert method.learner.asked == [200]


def test_order_of_the_records_makes_no_difference():
    data, method = people(200), counted()
    trained = method.train(data, RNG)
    turned = [getattr(data, name)[::-1] for name in ("X", "y", "ids", "subjects")]
    after = method.update(trained, Dataset(data.schema, *turned), RNG)
    assert method.learner.asked == [200]
    np.testing.assert_array_equal(after.memory.scores, trained.memory.scores[::-1])


def test_update_asks_about_new_records_alone():
    data, method = people(200), counted()
    new = dataclasses.replace(people(5, seed=9), ids=np.array([f"n{i}" for i in range(5)]))
    method.update(method.train(data, RNG), data.plus(new), RNG)
    assert method.learner.asked == [200, 5]


@pytest.mark.parametrize(("column", "value"), [(0, 41.25), (4, np.nan), (4, 0.0), (4, 1.0)])
def test_record_whose_values_changed_is_asked_about_anew(column, value):
    data, method = people(200), counted()
    row = int(np.flatnonzero(np.isnan(data.X[:, 4]) != np.isnan(value))[0])
    changed = edited(data, row, column, value)
    after = method.update(method.train(data, RNG), changed, RNG)
    assert method.learner.asked == [200, 1]
    np.testing.assert_array_equal(after.memory.scores, PLAIN.scores(after.memory.base, changed.X))


@pytest.mark.parametrize("classes", [2, 3])
def test_model_with_remembered_scores_is_the_model_without_bit_for_bit(classes, tmp_path):
    """Starting from the base model alone, as after a restart, or from one that remembers: the same trees."""
    data = people(300, 1, classes)
    method = EUPG(ProbabilisticKAnonymity(10), PLAIN, pretrain=4, finetune=2)
    trained = method.train(data, RNG)
    retained = data.without(data.ids[10:40].tolist())
    restarted = dataclasses.replace(trained, memory=trained.memory.base)
    quick, slow = (method.forget(state, retained, RNG) for state in (trained, restarted))
    plain = PLAIN.fit(retained, effort=2, rng=RNG.stage("finetune").generator(), start=trained.memory.base)
    for model in (quick.model, slow.model):
        assert [b.save_raw("ubj") for b in model.boosters] == [b.save_raw("ubj") for b in plain.boosters]


def test_scores_of_the_forgotten_are_gone():
    data, method = people(200), counted()
    X = data.X.copy()
    X[3] = [97.0, 4242.5, 2, 3, 1, 0.7]
    data = dataclasses.replace(data, X=X)
    trained = method.train(data, RNG)
    canary = trained.memory.digests[3]
    after = method.forget(trained, data.without(["r3"]), RNG)
    kept = after.memory
    assert canary in trained.memory.digests
    assert canary not in kept.digests
    assert len(kept.scores) == len(kept.digests) == 199
    for array in (kept.scores, kept.digests):
        assert array.base is None, "a view would keep the array behind it, with those who left"


def test_memory_names_nobody():
    data, method = people(200), counted()
    after = method.forget(method.train(data, RNG), data.without(["r3"]), RNG)
    assert not names_reachable_from((after.memory.scores, after.memory.digests, after.memory.key))


def test_only_exposed_people_are_asked_about_and_others_leave_without_a_trace():
    data, method = people(300), counted(exposure=0.3)
    trained = method.train(data, RNG)
    assert method.learner.asked == [len(trained.ids)]
    outside = next(name for name in data.ids.tolist() if name not in trained.ids)
    after = method.forget(trained, data.without([outside]), RNG)
    assert after.memory is trained.memory
    inside = next(iter(sorted(trained.ids)))
    after = method.forget(trained, data.without([inside]), RNG)
    assert len(after.memory.scores) == len(trained.ids) - 1
    assert method.learner.asked == [len(trained.ids)]


@given(st.lists(st.integers(0, 59), min_size=1, max_size=80), st.integers(0, 5))
@settings(max_examples=25, deadline=None)
def test_any_rows_get_the_scores_that_the_base_gives_them(rows, more):
    data, new = people(60), people(60, seed=4)
    base = PLAIN.fit(data, effort=3, rng=np.random.default_rng(1))
    before = ScoredBase.of(base, data.X, PLAIN)
    X = np.concatenate([data.X[rows], new.X[:more]])
    after = before.on(X, PLAIN)
    np.testing.assert_array_equal(after.scores, PLAIN.scores(base, X))
    np.testing.assert_array_equal(after.on(data.X, PLAIN).scores, before.scores)


@pytest.mark.parametrize(("values", "columns"), [(64, 3), (8, 6), (2, 18)])
def test_digests_repeat_as_rarely_as_random_numbers(values, columns):
    """2¹⁸ rows of small whole numbers, whose bits all lie at the upper end: each half repeats 8 times on average."""
    rows = np.indices([values] * columns).reshape(columns, -1).T.astype(np.float64)
    rows[rows == values - 1] = np.nan
    for seed in range(5):
        key = np.random.default_rng(seed).integers(0, 2**63, columns, dtype=np.uint64) | np.uint64(1)
        digests = _digests(rows, key)
        assert len(np.unique(digests)) == 2**18
        for half in (digests >> np.uint64(32), digests & np.uint64(2**32 - 1)):
            assert 2**18 - len(np.unique(half)) < 25


def test_keys_of_two_models_differ():
    data, method = people(100), counted()
    first, second = (method.train(data, RNG).memory for _ in range(2))
    assert not np.array_equal(first.key, second.key)
    assert not np.intersect1d(first.digests, second.digests).size


@pytest.mark.parametrize(
    "learner",
    [XGBoostLearner(threads=1, refresh_leaves=True), BestOf((PLAIN,)), LightGBMLearner(threads=1)],
    ids=["refresh", "best of", "lightgbm"],
)
def test_learner_that_uses_no_scores_has_the_base_remembered_alone(learner):
    trained = EUPG(LocalDP(1.0), PLAIN if isinstance(learner, BestOf) else learner, 3, 2, finetuner=learner).train(
        people(150), RNG
    )
    assert isinstance(trained.memory, Model)


def test_learner_without_scores_takes_over_from_one_with_them():
    data = people(150)
    method = EUPG(LocalDP(1.0), PLAIN, 3, 2)
    refresh = dataclasses.replace(method, finetuner=XGBoostLearner(threads=1, refresh_leaves=True))
    trained = method.train(data, RNG)
    after = refresh.forget(trained, data.without(["r1"]), RNG)
    assert after.memory is trained.memory.base


def test_storage_counts_served_and_base_model():
    data = people(150)
    trained = EUPG(LocalDP(1.0), PLAIN, 3, 2).train(data, RNG)
    found = storage(trained)
    assert found.files == 2
    assert found == storage(dataclasses.replace(trained, memory=trained.memory.base))


def test_contract_of_unlearners_is_kept():
    check_unlearner(counted(), people(200))
