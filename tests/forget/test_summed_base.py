"""EUPG with LeafRidge: what is subtracted leaves the model that fine-tuning on the others gives, bit for bit."""

import dataclasses

import numpy as np
import pytest

from eupg import EUPG, Dataset, PrivateTrees, Seeded
from eupg.checks import check_unlearner, names_reachable_from
from eupg.errors import DataError, ParameterError, UnknownRecord
from eupg.forget.storage import storage
from eupg.forget.summed_base import SummedBase
from eupg.forget.unlearner import Trained
from eupg.guarantees import DifferentiallyPrivate
from eupg.learn import LeafLearner, LightGBMLearner, XGBoostLearner
from eupg.learn.leaves.leaf_ridge import LeafRidge, LeafRidgeModel
from eupg.learn.leaves.statistics import RidgeStatistics
from eupg.protect import ProbabilisticKAnonymity
from people import people

RNG = Seeded(3)
XGBOOST, LIGHTGBM = XGBoostLearner(max_depth=3, threads=1), LightGBMLearner(threads=1, least_records=5)


def method(learner=XGBOOST, k: int = 10, **options) -> EUPG:
    mechanism = ProbabilisticKAnonymity(k)
    return EUPG(mechanism, learner, pretrain=4, finetune=1, finetuner=LeafRidge(learner), **options)


def part(data: Dataset, ids: list[str]) -> Dataset:
    return data.select(data.where(ids))


def state(trained: Trained) -> tuple:
    assert isinstance(trained.model, LeafRidgeModel)
    assert isinstance(trained.memory, SummedBase)
    released = trained.released.kept.keys(), len(trained.released.gone)
    return trained.model.scores.tobytes(), trained.memory.sums, trained.ids, trained.kept, released, trained.claim


@pytest.mark.parametrize("learner", [XGBOOST, LIGHTGBM], ids=["xgboost", "lightgbm"])
def test_contract_of_unlearners_is_kept(learner):
    check_unlearner(method(learner), people(120))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("learner", [XGBOOST, LIGHTGBM], ids=["xgboost", "lightgbm"])
def test_subtraction_equals_recomputation_with_groups_of_thirty(learner, classes):
    data, eupg = people(300, classes=classes), method(learner, k=30)
    trained = eupg.train(data, RNG)
    gone = data.ids[10:40].tolist()
    erased = eupg.erase(trained, part(data, gone))
    assert state(erased) == state(eupg.forget(trained, data.without(gone), RNG))
    assert state(erased)[0] != state(trained)[0]
    first, second = part(data, gone[:7]), part(data, gone[7:])
    assert state(eupg.erase(eupg.erase(trained, second), first)) == state(erased)


def test_added_records_are_exact_and_leave_without_a_trace():
    data, eupg = people(200), method()
    trained = eupg.train(data, RNG)
    names = np.array(["n0", "n1"])
    new = dataclasses.replace(people(2, seed=9), ids=names, subjects=names)
    grown = eupg.add(trained, new)
    assert state(grown) == state(eupg.update(trained, data.plus(new), RNG))
    assert grown.claim_for(new).notion == "exact"
    assert state(eupg.erase(grown, new)) == state(trained)


def test_what_the_forgotten_records_said_makes_no_difference_to_what_is_fine_tuned():
    """The same base model, fine-tuned on other labels of those who leave: erased, no bit of them is left."""
    data, eupg = people(200), method()
    base = eupg.base(data, RNG)
    gone = ["r3", "r8"]
    other = dataclasses.replace(data, y=np.where(data.where(gone), 1 - data.y, data.y))
    trained, otherwise = (eupg.resume(base, d, RNG) for d in (data, other))
    assert state(trained)[0] != state(otherwise)[0]
    erased = [eupg.erase(trained, part(data, gone)), eupg.erase(otherwise, part(other, gone))]
    assert state(erased[0])[0] == state(erased[1])[0]


def test_the_base_model_is_that_of_the_release():
    data, eupg = people(200), method()
    trained = eupg.train(data, RNG)
    after = eupg.erase(trained, part(data, ["r3"]))
    assert isinstance(trained.memory, SummedBase)
    assert isinstance(after.memory, SummedBase)
    assert after.memory.base is trained.memory.base
    # The served model, the base model, and the sums, which are the largest.
    assert storage(after).files == 3
    assert isinstance(after.memory.sums, RidgeStatistics)
    assert storage(after).size_bytes > 8 * after.memory.sums.pairs.size / 2


def test_memory_names_nobody():
    data, eupg = people(200), method()
    after = eupg.erase(eupg.train(data, RNG), part(data, ["r3"]))
    assert isinstance(after.memory, SummedBase)
    assert not names_reachable_from(after.memory.sums) & data.id_set
    assert "r3" not in names_reachable_from(after)


def test_everyone_can_leave_and_the_base_model_is_served():
    data, eupg = people(60), method()
    trained = eupg.train(data, RNG)
    assert isinstance(trained.memory, SummedBase)
    left = eupg.erase(trained, data)
    nobody = data.select(np.zeros(60, dtype=bool))
    assert left.model is eupg.forget(trained, nobody, RNG).model is trained.memory.base
    assert not left.ids
    assert not left.kept
    assert not left.released.kept


def test_records_that_are_not_there_or_already_there_are_refused():
    data, eupg = people(200), method()
    trained = eupg.train(data.without(["r5"]), RNG)
    with pytest.raises(UnknownRecord, match="not known to this model"):
        eupg.erase(trained, part(data, ["r5"]))
    with pytest.raises(DataError, match="ids that are taken"):
        eupg.add(trained, part(data, ["r6"]))


def test_a_method_without_sums_says_what_to_call_instead():
    data = people(200)
    plain = EUPG(ProbabilisticKAnonymity(10), XGBOOST, pretrain=3, finetune=2)
    drawn = method(exposure=0.5)
    for eupg in (plain, drawn):
        with pytest.raises(ParameterError, match="call forget with the records that stay"):
            eupg.erase(eupg.train(data, RNG), part(data, ["r3"]))


def test_people_who_are_not_drawn_are_not_counted():
    data, eupg = people(300), method(exposure=0.3)
    trained = eupg.train(data, RNG)
    assert isinstance(trained.memory, SummedBase)
    assert trained.memory.sums == LeafRidge(XGBOOST).sums(
        data.select(np.isin(data.ids, sorted(trained.ids))), start=trained.memory.base
    )
    assert 0 < len(trained.ids) < 300


def test_another_finetuner_takes_over_from_the_base_model():
    data, eupg = people(150), method()
    trained = eupg.train(data, RNG)
    plain = dataclasses.replace(eupg, finetuner=None)
    after = plain.forget(trained, data.without(["r1"]), RNG)
    again = plain.forget(plain.train(data, RNG), data.without(["r1"]), RNG)
    np.testing.assert_array_equal(after.model.predict_proba(data.X), again.model.predict_proba(data.X))


def test_a_private_base_model_can_be_fine_tuned_by_its_leaves():
    learner = LeafLearner()
    eupg = EUPG(PrivateTrees(epsilon=8.0), learner, pretrain=1, finetune=1, finetuner=LeafRidge(learner))
    data = people(200)
    trained = eupg.train(data, RNG)
    assert isinstance(trained.claim, DifferentiallyPrivate)
    after = eupg.erase(trained, part(data, ["r3"]))
    assert state(after) == state(eupg.forget(trained, data.without(["r3"]), RNG))
