"""Checkpoints: going on from them, deleting them, and what they cost."""

import dataclasses
import gc
import os
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch

from eupg import EUPG, Retrain, Seeded
from eupg.errors import DataError, StorageError
from eupg.forget.sisa.method import SISA
from eupg.forget.storage import Storage, storage
from eupg.learn import MLP, XGBoostLearner
from eupg.learn.torch.optimiser import TrainingRule
from eupg.learn.torch.training import train
from eupg.protect import LocalDP
from forget.families import FAMILIES, FAST, files, names, place, same
from people import people


@pytest.mark.parametrize("fails", ["silently", "with an error"])
def test_checkpoint_that_cannot_be_deleted_is_reported_and_the_others_are_deleted(fails, tmp_path, monkeypatch):
    data = people(120)
    sisa = SISA(FAST, effort=4, shards=1, slices=3, folder=tmp_path)
    trained = sisa.train(data, Seeded(1))
    gone = next(r for r in data.ids.tolist() if place(trained, r) == (0, 0))
    stuck, unlink = trained.memory.checkpoints[0][0], Path.unlink

    def refuse(path, missing_ok=False):
        if path.name != stuck:
            unlink(path, missing_ok=missing_ok)
        elif fails == "with an error":
            raise PermissionError(13, "not allowed")

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(StorageError, match=f"1 of 3 checkpoints could not be deleted.*{stuck}.*by hand"):
        sisa.forget(trained, data.without([gone]), Seeded(1))
    assert set(files(tmp_path)) == {stuck}
    monkeypatch.setattr(Path, "unlink", unlink)
    after = sisa.forget(trained, data.without([gone]), Seeded(1))
    assert set(files(tmp_path)) == names(after)
    assert same(after, sisa.train(data.without([gone]), Seeded(1)), data.X)


class GivesUp(XGBoostLearner):
    """Fails once it has trained a while."""

    left = 5

    def fit(self, examples, *, effort, rng, start=None):
        GivesUp.left -= 1
        if GivesUp.left < 0:
            raise DataError("no more strength: rest")
        return super().fit(examples, effort=effort, rng=rng, start=start)


def test_training_that_fails_leaves_no_checkpoint_behind(tmp_path):
    GivesUp.left = 5
    with pytest.raises(DataError, match="no more strength"):
        SISA(GivesUp(threads=1), effort=4, shards=3, slices=2, folder=tmp_path).train(people(120), Seeded(1))
    assert not files(tmp_path)


def test_forgetting_that_fails_leaves_the_old_state_as_it_was(tmp_path):
    data, GivesUp.left = people(120), 6
    sisa = SISA(GivesUp(threads=1), effort=4, shards=3, slices=2, folder=tmp_path)
    trained = sisa.train(data, Seeded(1))
    before, GivesUp.left = files(tmp_path), 1
    gone = data.ids[:30].tolist()
    with pytest.raises(DataError, match="no more strength"):
        sisa.forget(trained, data.without(gone), Seeded(1))
    assert files(tmp_path) == before
    GivesUp.left = 99
    assert same(sisa.forget(trained, data.without(gone), Seeded(1)), sisa.train(data.without(gone), Seeded(1)), data.X)


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_resuming_from_a_file_is_never_having_stopped(tmp_path):
    """Two stages by hand; between them the model is kept, saved and loaded, or stripped of the optimiser's state."""
    data, learner = people(200), FAMILIES["torch batch norm"]
    one = learner.fit_part(data, effort=2, rng=rng(1), part=(0.0, 0.4))
    learner.save(one, tmp_path / "checkpoint")
    bare = dataclasses.replace(one, moments=None)
    ends = [
        learner.fit_part(data, effort=2, rng=rng(2), part=(0.4, 1.0), start=start).predict_proba(data.X)
        for start in (one, learner.load(tmp_path / "checkpoint"), bare)
    ]
    np.testing.assert_array_equal(ends[0], ends[1])
    assert not np.array_equal(ends[0], ends[2])


def test_two_parts_of_a_schedule_are_the_whole():
    """Weights, moments and learning rate go on: epochs in two parts equal the same epochs in one, bit for bit."""
    X, y = torch.randn(40, 3, generator=torch.Generator().manual_seed(1)), torch.arange(40) % 2
    rule, networks = TrainingRule(0.01, 1e-4, 8), []
    for parts in (((0.0, 1.0),), ((0.0, 0.5), (0.5, 1.0))):
        with torch.random.fork_rng():
            torch.manual_seed(1)
            network = MLP((4,))(3, 2)
        generator, moments = torch.Generator().manual_seed(2), None
        for part in parts:
            steps = 40 // len(parts)
            moments = train(
                network, X, y, rule, steps=steps, generator=generator, part=part, moments=moments, keep=True
            )
        networks.append(network)
    for a, b in zip(*(network.parameters() for network in networks), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_checkpoints_hold_the_optimiser_of_all_steps_so_far(tmp_path):
    data, learner = people(200), FAMILIES["torch"]
    trained = SISA(learner, effort=6, shards=1, slices=3, folder=tmp_path).train(data, Seeded(1))
    sizes = np.cumsum([sum(place(trained, r)[1] == part for r in data.ids.tolist()) for part in range(3)])
    steps = np.cumsum([3 * -(-rows // 32) for rows in sizes])
    *loaded, last = [learner.load(tmp_path / name).moments for name in trained.memory.checkpoints[0]]
    assert [int(m["step.0.weight"]) for m in loaded] == steps[:-1].tolist()
    # Nothing goes on from the last: it is served, and what the optimiser remembers of the records stays out of it.
    assert last is None
    assert all(float(m["exp_avg_sq.0.weight"].sum()) > 0 for m in loaded)


@pytest.mark.parametrize("name", ["sklearn mlp", "sklearn sgd", "xgboost", "lightgbm", "sklearn boosting"])
def test_going_on_from_a_file_equals_going_on_from_the_model(name, tmp_path):
    data, learner = people(200), FAMILIES[name]
    one = learner.fit(data, effort=2, rng=rng(1))
    learner.save(one, tmp_path / "checkpoint")
    further = [learner.fit(data, effort=2, rng=rng(2), start=s) for s in (one, learner.load(tmp_path / "checkpoint"))]
    np.testing.assert_array_equal(*(model.predict_proba(data.X) for model in further))


def test_storage_and_inference_cost_are_counted(tmp_path):
    data, rng = people(240), Seeded(1)
    trained = SISA(FAST, effort=6, shards=3, slices=4, folder=tmp_path).train(data, rng)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert storage(trained) == Storage(files=12, size_bytes=size, models_a_prediction=3)
    plain, base = Retrain(FAST, 6).train(data, rng), EUPG(LocalDP(1.0), FAST, 6, 2).train(data, rng)
    assert (storage(plain).files, storage(plain).models_a_prediction) == (1, 1)
    FAST.save(plain.model, tmp_path / "model")
    assert storage(plain).size_bytes == (tmp_path / "model").stat().st_size
    assert storage(base).files == 2


def test_storage_of_an_earlier_state_counts_what_is_left():
    data, rng = people(240), Seeded(1)
    sisa = SISA(FAST, effort=6, shards=1, slices=4)
    trained = sisa.train(data, rng)
    gone = next(r for r in data.ids.tolist() if place(trained, r)[1] == 1)
    after = sisa.forget(trained, data.without([gone]), rng)
    assert storage(trained).files == 1
    assert storage(after).files == 4


def test_earlier_state_can_still_be_used_after_its_checkpoints_were_erased():
    """Two different requests on one state: the second goes further back, and is still exact."""
    data, rng = people(150), Seeded(1)
    sisa = SISA(FAST, effort=8, shards=1, slices=4)
    trained = sisa.train(data, rng)
    first, second = (next(r for r in data.ids.tolist() if place(trained, r)[1] == part) for part in (1, 3))
    after = sisa.forget(trained, data.without([first]), rng)
    assert not any(trained.memory.folder.holds(name) for name in trained.memory.checkpoints[0][1:])
    other = sisa.forget(trained, data.without([second]), rng)
    assert same(other, sisa.train(data.without([second]), rng), data.X)
    assert same(
        sisa.forget(after, data.without([first, second]), rng), sisa.train(data.without([first, second]), rng), data.X
    )


def test_temporary_folder_is_private_and_goes_with_its_last_user():
    data, rng = people(60), Seeded(1)
    sisa = SISA(FAST, effort=2, shards=2, slices=2)
    trained = sisa.train(data, rng)
    folder = trained.memory.folder.path
    if os.name == "posix":
        assert folder.stat().st_mode & 0o077 == 0
    after = sisa.forget(trained, data.without(["r0"]), rng)
    del trained
    gc.collect()
    assert folder.is_dir()
    del after
    gc.collect()
    assert not folder.exists()


def test_given_folder_stays_and_is_shared_without_harm(tmp_path):
    data = people(60)
    sisa = SISA(FAST, effort=2, shards=2, slices=2, folder=tmp_path / "new" / "folder")
    one, two = (sisa.train(data, Seeded(seed)) for seed in (1, 2))
    assert not names(one) & names(two)
    sisa.forget(one, data.without(["r0"]), Seeded(1))
    assert names(two) <= set(files(tmp_path / "new" / "folder"))


def test_replaced_models_do_not_live_on():
    data, rng = people(120), Seeded(1)
    sisa = SISA(FAST, effort=4, shards=2, slices=2)
    trained = sisa.train(data, rng)
    old = weakref.ref(trained.memory.models[place(trained, "r0")[0]])
    after = sisa.forget(trained, data.without(["r0"]), rng)
    del trained
    gc.collect()
    assert old() is None
    assert after.model
