"""What methods begin with alike is trained once, and nobody's figures change by it."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from eupg import EUPG, SISA, Retrain, Seeded
from eupg.data.score import accuracy
from eupg.data.sources import Source
from eupg.forget import CertifiedSP
from eupg.learn import MLP, TorchLearner, XGBoostLearner
from eupg.protect import ProbabilisticKAnonymity
from eupg_reproduction import methods, quality
from eupg_reproduction.cell import Cell
from eupg_reproduction.trainings import Trainings
from people import people

LEARNER = XGBoostLearner(max_depth=2, threads=1)


@dataclass(frozen=True)
class Counted(ProbabilisticKAnonymity):
    """A protection that notes how often it was asked for."""

    asked: list = field(default_factory=list, compare=False, repr=False)

    def protect_in_groups(self, data, rng):
        self.asked.append(len(data))
        return super().protect_in_groups(data, rng)


def test_a_base_is_made_once_for_all_efforts_of_fine_tuning():
    mechanism = Counted(5)
    data, trainings = people(200), Trainings(people(200), Seeded(1))
    for finetune in (0, 1, 3):
        method = EUPG(mechanism, LEARNER, 5, finetune)
        trained, seconds, shared = trainings.train(method)
        expected = method.train(data, Seeded(1)).model.predict_proba(data.X)
        np.testing.assert_array_equal(trained.model.predict_proba(data.X), expected)
        assert shared == ("protect", "pretrain")
        assert set(seconds) == {"protect", "pretrain", "finetune"}
    # Once here, and once for each of the three it is compared with.
    assert len(mechanism.asked) == 4


def test_another_protection_gets_a_base_of_its_own():
    data, trainings = people(200), Trainings(people(200), Seeded(1))
    served = [trainings.train(EUPG(ProbabilisticKAnonymity(k), LEARNER, 5, 0))[0].model for k in (5, 50)]
    assert not np.array_equal(served[0].predict_proba(data.X), served[1].predict_proba(data.X))


def test_every_effort_is_a_training_of_its_own():
    data, trainings = people(200), Trainings(people(200), Seeded(1))
    for effort in (1, 5, 1):
        trained, _, _ = trainings.train(Retrain(LEARNER, effort))
        expected = Retrain(LEARNER, effort).train(data, Seeded(1)).model.predict_proba(data.X)
        np.testing.assert_array_equal(trained.model.predict_proba(data.X), expected)


def test_certified_sp_begins_with_the_training_of_retrain_and_forgets_as_it_would_alone():
    data, trainings, learner = people(200), Trainings(people(200), Seeded(1)), TorchLearner(MLP((8,)), batch_size=16)
    method = CertifiedSP(learner, 3, 2)
    retrained, _, _ = trainings.train(Retrain(learner, 3))
    trained, _, shared = trainings.train(method)
    alone = method.train(data, Seeded(1))
    assert trained.model is retrained.model
    assert shared == ("train",)
    np.testing.assert_array_equal(trained.model.predict_proba(data.X), alone.model.predict_proba(data.X))
    retained = data.select(np.arange(len(data)) >= 20)
    found, expected = (method.forget(t, retained, Seeded(1)) for t in (trained, alone))
    np.testing.assert_array_equal(found.model.predict_proba(data.X), expected.model.predict_proba(data.X))
    assert found.claim == expected.claim


def test_sisa_forgets_from_a_training_that_no_earlier_forget_has_touched():
    data, trainings = people(200), Trainings(people(200), Seeded(1))
    method = SISA(LEARNER, 4, shards=2, slices=2, jobs=1)
    for share in (0.5, 0.1):
        trained, _, shared = trainings.train(method)
        assert shared == ()
        retained = data.select(np.random.default_rng(0).random(len(data)) >= share)
        after = method.forget(trained, retained, Seeded(1))
        expected = method.forget(method.train(data, Seeded(1)), retained, Seeded(1))
        np.testing.assert_array_equal(after.model.predict_proba(data.X), expected.model.predict_proba(data.X))


@pytest.fixture
def small(monkeypatch):
    """Put a small table in the place of every data set."""
    data, rest = people(400), people(150, seed=9)
    rest = replace(rest, ids=np.char.add("test ", rest.ids), subjects=np.char.add("test ", rest.subjects))
    monkeypatch.setattr(methods, "source", lambda name: Source("people", data, rest, accuracy))


def test_shares_measured_together_give_what_each_gives_alone(small):
    settings = {"recipe": "paper", "effort": 5, "finetune": 1, "references": 4, "set": "adult", "model": "xgboost"}
    cells = [
        Cell.of({"kind": "quality", "method": method, "forget": share, "repetition": 0} | settings)
        for method in ("Retrain", "EUPG k=30", "SISA")
        for share in (0.3, 0.05)
    ]
    together = {cell.key: found.metrics for cell, found in quality.measure(cells)}
    assert len(together) == len(cells)
    for cell in cells:
        ((_, alone),) = quality.measure([cell])
        assert together[cell.key] == alone.metrics
