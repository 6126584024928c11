"""A person nobody could mistake is erased: their name and values stand in no file of the workspace any more.

Every file is searched as it is, and everything compressed in it is opened. What a *base model* holds is another matter:
it was trained on the release and stays. Under local differential privacy the release has noise in place of the values.
Under k-anonymity a release is a permutation of the very values, and a learner may keep one of them as it is: trees put
thresholds where values are, and the served model goes on from the base model's trees. The claim says no more: it bounds
linking, not what values there are. It is shown here rather than hidden.
"""

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest

from canary import INCOMES, canary_table
from eupg import EUPG, Manager, Seeded
from eupg.data.attribute import Categorical, Key, Numeric, Role
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.learn import LightGBMLearner, SklearnLearner, TorchLearner, XGBoostLearner
from eupg.manage.requests.states import State
from eupg.manage.storage import change
from eupg.protect import LocalDP, ProbabilisticKAnonymity
from traces import of_number, of_text, traces

SCHEMA = Schema(
    (
        Key(name="person", role=Role.SUBJECT),
        Numeric(name="age", lower=0, upper=100),
        Numeric(name="income", lower=0, upper=9000, resolution=2.0**-5),
        Categorical(name="town", categories=("A", "B", "C")),
        Categorical(name="ill", role=Role.LABEL, categories=("no", "yes")),
    )
)
NAME, RECORD = "../../etc/passwd Zyxwv-Canary", "канарейка-7c1f"
WANTED = {
    "the name": of_text(NAME),
    "the record's id": of_text(RECORD),
    **{f"income {value}": of_number(value) for value in INCOMES},
}


def table(rows: int = 300) -> Dataset:
    return canary_table(SCHEMA, NAME, RECORD, rows)


LEARNERS = {
    "sklearn": SklearnLearner(),
    "torch": TorchLearner(),
    "xgboost": XGBoostLearner(threads=1),
    "lightgbm": LightGBMLearner(threads=1),
}


def erased(folder, mechanism, learner, *, effort=5, rng=None):
    """Erase the canary, do all that can be done afterwards, and return the files still live."""
    manager = Manager(folder, EUPG(mechanism, LEARNERS[learner], pretrain=effort, finetune=2), rng=rng)
    manager.train(table(), hold_out=0.0)
    there = {what for _, what, _ in traces(folder / "records", WANTED)}
    assert there == set(WANTED), "a search that cannot find says nothing"
    request = manager.request_erasure(subject=NAME)
    assert manager.forget().records == 3
    manager.certify(request.id).save(folder / "certificate.json")
    assert manager.request_erasure(subject=NAME).state is State.REJECTED
    manager.status()
    manager.verify()
    return manager


@pytest.mark.parametrize("learner", LEARNERS)
def test_nothing_is_left_under_local_dp(tmp_path, learner):
    manager = erased(tmp_path, LocalDP(epsilon=1.0), learner)
    assert traces(tmp_path, WANTED) == []
    manager.close()
    assert traces(tmp_path, WANTED) == []


@pytest.mark.parametrize("learner", ["sklearn", "torch"])
def test_nothing_is_left_under_k_anonymity_where_a_model_is_weights(tmp_path, learner):
    manager = erased(tmp_path, ProbabilisticKAnonymity(k=10), learner)
    assert traces(tmp_path, WANTED) == []
    manager.close()


def test_files_of_lightgbm_keep_no_value_of_a_k_anonymous_release(tmp_path):
    """Its thresholds lie between values, and the ranges of columns, which it notes, are taken out."""
    for seed in range(5):
        folder = tmp_path / str(seed)
        manager = erased(folder, ProbabilisticKAnonymity(k=10), "lightgbm", effort=100, rng=Seeded(seed))
        manager.close()
        assert traces(folder, WANTED) == []


def test_trees_may_keep_a_value_of_a_k_anonymous_release_and_nothing_else_does(tmp_path):
    """A threshold of a tree of XGBoost; among some draws there is one."""
    for seed in range(20):
        folder = tmp_path / str(seed)
        manager = erased(folder, ProbabilisticKAnonymity(k=10), "xgboost", effort=100, rng=Seeded(seed))
        state, found = manager.space.state(), traces(folder, WANTED)
        manager.close()
        assert {Path(place.partition(",")[0]).name for place, _, _ in found} <= {state.base, state.served}
        assert {what for _, what, _ in found} <= {f"income {value}" for value in INCOMES}
        if found:
            return
    pytest.fail("no value was kept in any draw: then the words above, and in the docs, can promise more")


@pytest.mark.parametrize("mechanism", [LocalDP(epsilon=1.0), ProbabilisticKAnonymity(k=10)], ids=["dp", "k"])
def test_nothing_is_left_after_a_crash_in_the_middle_of_forgetting(tmp_path, mechanism, monkeypatch):
    manager = Manager(tmp_path, EUPG(mechanism, SklearnLearner(), pretrain=5, finetune=2))
    manager.train(table(), hold_out=0.0)
    manager.request_erasure(subject=NAME)
    monkeypatch.setattr(change, "settle", interrupted)
    with pytest.raises(KeyboardInterrupt):
        manager.forget()
    monkeypatch.undo()
    assert traces(tmp_path, WANTED)
    manager.recover()
    assert traces(tmp_path, WANTED) == []
    manager.close()


def interrupted(*_):
    raise KeyboardInterrupt


def test_search_opens_what_is_compressed(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(f"x {NAME} y".encode()))
    with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner", np.array([1.0, INCOMES[0]]).tobytes())
    assert {what for _, what, _ in traces(tmp_path, WANTED)} == {"the name", f"income {INCOMES[0]}"}
