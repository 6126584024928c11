"""What processes of one run share is made once, is whole, and is what each would have made itself."""

import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from eupg import EUPG, SISA, Retrain, Seeded
from eupg.forget import CertifiedSP
from eupg.learn import MLP, LightGBMLearner, SklearnLearner, TorchLearner, XGBoostLearner
from eupg.protect import MDAV, ProbabilisticKAnonymity
from eupg_reproduction import base, exposure_audit, methods, quality, runtime, shared_references
from eupg_reproduction.cell import Cell
from eupg_reproduction.run_cache import FOLDER, RunCache, clear, name_of
from eupg_reproduction.trainings import Trainings
from eupg_reproduction.worker import END
from people import people
from test_trainings import small  # noqa: F401

LEARNERS = {
    "mlp": TorchLearner(MLP((8,)), batch_size=16),
    "xgboost": XGBoostLearner(max_depth=2, threads=1),
    "lightgbm": LightGBMLearner(leaves=4, threads=1),
    "logistic": SklearnLearner(),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    return tmp_path


def never():
    pytest.fail("this was made before")


def test_what_one_made_another_takes(folder):
    assert RunCache.of_run().get("a", lambda: [1, 2]) == [1, 2]
    assert RunCache.of_run().get("a", never) == [1, 2]
    assert [path.name for path in folder.iterdir()] == ["a"]


def test_who_measures_time_takes_nothing_and_keeps_what_it_makes(folder):
    RunCache.of_run().get("a", lambda: 1)
    assert RunCache.of_run(reads=False).get("a", lambda: 2) == 2
    assert RunCache.of_run().get("a", never) == 2


def test_who_gives_nothing_leaves_nothing(folder):
    assert RunCache.of_run(writes=False).get("a", lambda: 1) == 1
    assert not list(folder.iterdir())


def test_without_a_run_nothing_is_kept(monkeypatch):
    monkeypatch.delenv(FOLDER, raising=False)
    assert [RunCache.of_run().get("a", lambda i=i: i) for i in (1, 2)] == [1, 2]
    clear()


@pytest.mark.parametrize(("last", "stays"), [(END, True), ("", False)])
def test_a_killed_runs_folder_is_deleted_and_a_living_ones_is_not(folder, last, stays):
    RunCache.of_run().get("a", lambda: 1)
    # The parent of this process is alive, as is for a moment that of one whose run was just killed.
    worker = [sys.executable, "-m", "eupg_reproduction.worker"]
    assert subprocess.run(worker, input=last, text=True, check=False, timeout=120).returncode == 0
    assert folder.exists() == stays


def test_what_cannot_be_written_is_made_again_and_nothing_is_lost(folder, monkeypatch):
    def full(self, content):
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert [RunCache.of_run().get("a", lambda i=i: i) for i in (1, 2)] == [1, 2]
    assert not list(folder.iterdir())


def test_one_process_makes_what_several_want(folder):
    assert [RunCache.of_run().claims("a") for _ in range(3)] == [True, False, False]
    assert RunCache.of_run().claims("b")
    assert [RunCache.of_run(reads=False).claims("a") for _ in range(2)] == [True, True]


class Slow:
    """A recipe that takes its time, and notes which halves it was asked for."""

    def __init__(self, place):
        self.place = place

    def __repr__(self):
        return "Slow()"

    def train(self, data, rng):
        (self.place / f"{rng.path[-1]} by {threading.get_ident()}").touch()
        time.sleep(0.1)
        return SimpleNamespace(model=SimpleNamespace(predict_proba=lambda X: np.full((len(X), 2), 0.5)))


@pytest.mark.usefixtures("small")
def test_who_needs_the_same_reference_models_divides_them(folder, tmp_path_factory):
    place, source = tmp_path_factory.mktemp("asked"), methods.source("adult")
    work = partial(shared_references.shared_references, Slow(place), source, 8)
    both = [threading.Thread(target=work) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join(60)
    trained = [path.name.split(" by ")[0] for path in place.iterdir()]
    assert len(set(trained)) == 16
    assert len(trained) <= 17


def test_names_tell_words_and_records_apart():
    one, two = np.arange(3), np.array([0, 1, 3])
    assert len({name_of("a", one), name_of("b", one), name_of("a", two), name_of("a")}) == 4
    assert name_of("a", one) == name_of("a", one.copy())


@pytest.mark.parametrize("model", LEARNERS)
def test_a_request_that_was_timed_is_the_one_that_is_measured_later(model, folder):
    learner, data = LEARNERS[model], people(300)
    retained = data.select(np.arange(len(data)) >= 20)
    ways = [
        Retrain(learner, 4),
        SISA(learner, 4, shards=2, slices=2, jobs=1),
        EUPG(ProbabilisticKAnonymity(5), learner, 4, 2),
        *([CertifiedSP(learner, 4, 2)] if model == "mlp" else []),
    ]
    for method in ways:
        timed = Trainings(data, Seeded(1), RunCache.of_run(reads=False)).honour(method, retained)
        later = Trainings(data, Seeded(1), RunCache.of_run())
        later.train = lambda method: never()
        found, alone = later.honour(method, retained), Trainings(data, Seeded(1)).honour(method, retained)
        for one in (timed, found):
            np.testing.assert_array_equal(one.before.predict_proba(data.X), alone.before.predict_proba(data.X))
            np.testing.assert_array_equal(one.after.predict_proba(data.X), alone.after.predict_proba(data.X))
        assert (found.claim, found.storage, found.shared) == (alone.claim, alone.storage, alone.shared)
        assert found.seconds == timed.seconds


@pytest.mark.parametrize("model", LEARNERS)
def test_another_effort_goes_on_from_a_base_that_was_kept(model, folder):
    learner, data = LEARNERS[model], people(300)
    retained = data.select(np.arange(len(data)) >= 20)
    first = Trainings(data, Seeded(1), RunCache.of_run(reads=False))
    first.honour(EUPG(ProbabilisticKAnonymity(5), learner, 4, 1), retained)
    method = EUPG(ProbabilisticKAnonymity(5), learner, 4, 3)
    later = Trainings(data, Seeded(1), RunCache.of_run())
    later._base = lambda method: never()
    found, alone = later.honour(method, retained), Trainings(data, Seeded(1)).honour(method, retained)
    np.testing.assert_array_equal(found.after.predict_proba(data.X), alone.after.predict_proba(data.X))


@pytest.mark.parametrize("change", ["seed", "records", "retained", "method"])
def test_nothing_is_taken_from_another_request(change, folder):
    learner, data = LEARNERS["xgboost"], people(300)
    retained, method = data.select(np.arange(len(data)) >= 20), Retrain(learner, 4)
    Trainings(data, Seeded(1), RunCache.of_run()).honour(method, retained)
    kept = len(list(folder.iterdir()))
    rng = Seeded(2) if change == "seed" else Seeded(1)
    if change == "records":
        data = data.select(np.arange(len(data)) != 299)
        retained = data.select(np.arange(len(data)) >= 20)
    if change == "retained":
        retained = data.select(np.arange(len(data)) >= 30)
    if change == "method":
        method = Retrain(learner, 5)
    Trainings(data, rng, RunCache.of_run()).honour(method, retained)
    assert len(list(folder.iterdir())) > kept


def _quality(method, number=0, **more):
    settings = {"kind": "quality", "set": "adult", "model": "xgboost", "recipe": "paper", "effort": 5, "finetune": 1}
    return Cell.of(settings | {"method": method, "forget": 0.1, "references": 2, "repetition": number} | more)


@pytest.mark.usefixtures("small")
def test_a_run_trains_reference_models_once_for_all_repetitions_and_shares(folder, monkeypatch):
    seen = []
    train = Retrain.train

    def counted(self, data, rng):
        seen.append(rng.path)
        return train(self, data, rng)

    monkeypatch.setattr(Retrain, "train", counted)
    for number in (0, 1, 2):
        for share in (0.1, 0.5):
            list(quality.measure([_quality("Short retrain", number, forget=share)]))
    references = [path for path in seen if "reference" in str(path)]
    assert sorted(references) == [(f"reference {i}",) for i in range(4)]


@pytest.mark.usefixtures("small")
def test_figures_are_the_same_whoever_trained_the_references(folder, monkeypatch):
    first = [found.metrics for number in (0, 1) for _, found in quality.measure([_quality("Retrain", number)])]
    monkeypatch.delenv(FOLDER)
    alone = [found.metrics for number in (0, 1) for _, found in quality.measure([_quality("Retrain", number)])]
    assert first == alone


@pytest.mark.usefixtures("small")
def test_every_record_is_outside_of_as_many_references_as_asked_for():
    source = methods.source("adult")
    found = shared_references.shared_references(Retrain(LEARNERS["xgboost"], 2), source, 3)
    assert found.inside.shape == (6, len(source.train) + len(source.test))
    assert (found.inside.sum(axis=0) == 3).all()
    every = Retrain(LEARNERS["xgboost"], 2)
    for i in range(6):
        model = every.train(found.pool.select(found.inside[i]), Seeded(11).stage(f"reference {i}")).model
        np.testing.assert_allclose(found.probabilities[i], model.predict_proba(found.pool.X), atol=1e-7)


@pytest.mark.usefixtures("small")
def test_quality_takes_what_runtime_has_trained(folder, monkeypatch):
    cell = _quality("EUPG k=30", references=0)
    timed = {k: v for k, v in cell.config.items() if k != "references"}
    ((_, first),) = runtime.measure([Cell.of(timed | {"kind": "runtime"})])
    monkeypatch.setattr(Trainings, "train", lambda self, method: never())
    ((_, found),) = quality.measure([cell])
    assert found.seconds == first.seconds


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("measured", [base, exposure_audit])
def test_audits_of_a_protection_use_references_that_are_protected_alike(measured, folder, monkeypatch):
    settings = {"set": "heart", "model": "xgboost", "references": 2, "repetition": 0}
    if measured is base:
        cell = Cell.of({"kind": "base", "method": "k=30", "effort": 4, "forget": 0.1} | settings)
    else:
        cell = Cell.of({"kind": "exposure_audit", "method": "k=30", "exposure": 0.3} | settings)
    asked = []
    make = shared_references.shared_references
    monkeypatch.setattr(
        measured, "shared_references", lambda recipe, *a, **k: asked.append(recipe) or make(recipe, *a, **k)
    )
    ((_, found),) = measured.measure([cell])
    assert isinstance(asked[0], EUPG)
    assert asked[0].mechanism == ProbabilisticKAnonymity(30, MDAV())
    assert ("audit" if measured is base else "never seen raw") in found.metrics
