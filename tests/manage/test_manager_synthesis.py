"""Synthesis from records to certificate: a person nobody could mistake is erased, and no file holds them any more.

Their incomes lie off the public grid, on which every synthetic value lies: what is found is theirs, not a chance draw.
"""

import numpy as np
import pytest

from canary import INCOMES, canary_table
from eupg import EUPG, Manager
from eupg.data.attribute import Categorical, Key, Numeric, Role
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.guarantees import Neighbours, Unit
from eupg.learn import LightGBMLearner, TorchLearner, XGBoostLearner
from eupg.protect.synthesis.mechanism import DPSynthesis
from eupg.rng import Secret
from traces import of_number, of_text, traces

SCHEMA = Schema(
    (
        Key(name="person", role=Role.SUBJECT),
        Numeric(name="age", lower=0, upper=100),
        Numeric(name="income", lower=0, upper=9000),
        Categorical(name="town", categories=("A", "B", "C")),
        Categorical(name="ill", role=Role.LABEL, categories=("no", "yes")),
    )
)
NAME, RECORD = "Zyxwv-Canary of Nowhere", "record-7c1f-of-canary"
WANTED = {
    "the name": of_text(NAME),
    "the record's id": of_text(RECORD),
    **{f"income {value}": of_number(value) for value in INCOMES},
}
MECHANISM = DPSynthesis(1.0, max_records=3)


def table(rows: int = 300) -> Dataset:
    return canary_table(SCHEMA, NAME, RECORD, rows)


LEARNERS = {
    "torch": TorchLearner(),
    "xgboost": XGBoostLearner(threads=1),
    "lightgbm": LightGBMLearner(threads=1),
}


@pytest.mark.parametrize("learner", LEARNERS)
def test_nothing_is_left_of_a_forgotten_person_and_the_certificate_says_what_is_claimed(tmp_path, learner):
    folder = tmp_path / "workspace"
    manager = Manager(folder, EUPG(MECHANISM, LEARNERS[learner], pretrain=5, finetune=2))
    manager.train(table(), hold_out=0.0)
    assert {what for _, what, _ in traces(folder / "records", WANTED)} == set(WANTED), "the search can find them"
    request = manager.request_erasure(subject=NAME)
    assert manager.forget().records == 3
    certificate = manager.certify(request.id)
    manager.verify(certificate)
    certificate.save(folder / "certificate.json")
    manager.close()
    assert traces(folder, WANTED) == []
    claim = certificate.body.claimed.claim
    assert (claim.epsilon, claim.delta, claim.unit, claim.seeded) == (1.0, 0.0, Unit.PERSON, False)
    assert claim.neighbours == Neighbours.ADD_OR_REMOVE
    assert (claim.covers, claim.leaves_open) == (("age", "income", "town", "ill"), ())
    assert "person-level ε = 1" in str(certificate)


def test_no_release_holds_a_value_of_a_record_that_is_off_the_grid():
    """Not in the rows, and not in any noisy count's way into them: ten releases with a budget that leaves no noise."""
    data = table()
    for _ in range(10):
        release = DPSynthesis(1e6, max_records=3).protect(data, Secret())
        assert not np.isin(release.X, INCOMES).any()
        np.testing.assert_array_equal(release.X, np.rint(release.X))


def test_model_of_synthetic_rows_alone_is_served_where_no_record_is_seen_raw(tmp_path):
    """With ``finetune=0`` erasing is immediate: the claim held all along."""
    manager = Manager(tmp_path, EUPG(MECHANISM, XGBoostLearner(threads=1), pretrain=20, finetune=0))
    manager.train(table(), hold_out=0.0)
    request = manager.request_erasure(subject=NAME)
    before = manager.space.state().served
    manager.forget()
    assert manager.space.state().served == before
    manager.verify(manager.certify(request.id))
    manager.close()
    assert traces(tmp_path, WANTED) == []


def test_one_record_of_a_person_who_stays_is_claimed_at_twice_the_budget_until_all_are_gone(tmp_path):
    """Without the erased record another one of theirs may have taken part: that is a removal and an addition."""
    manager = Manager(tmp_path, EUPG(DPSynthesis(1.0), XGBoostLearner(threads=1), pretrain=5, finetune=2))
    manager.train(table(), hold_out=0.0)
    one = manager.request_erasure(record=f"{RECORD}-40")
    manager.forget()
    certificate = manager.certify(one.id)
    manager.verify(certificate)
    claim = certificate.body.claimed.claim
    assert (claim.epsilon, claim.neighbours) == (2.0, Neighbours.ALTERED)
    assert "7.39 times" in str(certificate).replace("\n", " ").replace("  ", " ")
    rest = manager.request_erasure(subject=NAME)
    manager.forget()
    assert manager.certify(rest.id).body.claimed.claim.epsilon == 1.0
    manager.close()


def test_claim_before_forgetting_knows_whether_the_person_keeps_other_records():
    data = table()
    trained = EUPG(DPSynthesis(1.0), XGBoostLearner(threads=1), pretrain=2, finetune=1).train(data, Secret())
    theirs = data.of_subjects([NAME])
    assert trained.claim_for(theirs).epsilon == 1.0
    assert trained.claim_for(data.select(data.where([f"{RECORD}-40"]))).epsilon == 2.0
