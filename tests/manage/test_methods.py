"""One manager, ledger and certificate for every method."""

import dataclasses
import json
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from eupg import Manager, Retrain, Seeded
from eupg.checks import ContractViolation, check_durable
from eupg.errors import ParameterError, PrivacyError, WrongState
from eupg.forget import SISA, ExactTrees
from eupg.forget.released import Released
from eupg.guarantees import CertifiedUnlearning, Exact, Guarantee, KAnonymous, NoGuarantee
from eupg.guarantees.wording import REQUESTS_APART
from eupg.learn import SklearnLearner
from eupg.manage.quality import quality_of
from managed import HELD_OUT, LOOK, METHODS, NEWCOMERS, RECORDS, RNG, TREES, person, trained
from traces import of_text, traces

CLAIMS: dict[str, type[Guarantee]] = {"certified-sp": CertifiedUnlearning, "leaf-ridge": KAnonymous}
EXACT = sorted(METHODS.keys() - CLAIMS.keys())
each_method = pytest.mark.parametrize("name", METHODS)


@each_method
def test_every_method_trains_adds_forgets_and_certifies(name, tmp_path):
    with trained(tmp_path, METHODS[name]) as manager:
        manager.add(NEWCOMERS)
        request = manager.request_erasure(subject=person(3))
        done = manager.forget()
        assert (done.records, done.trained) == (3, True)
        certificate = manager.certify(request.id)
        manager.verify(certificate)
        served = manager.predict(LOOK)
        status = manager.status()
    assert isinstance(certificate.body.claimed.claim, CLAIMS.get(name, Exact))
    assert certificate.body.method.name == type(METHODS[name]).__name__ == status.method
    assert any(METHODS[name].repair in m.sentence for m in certificate.body.measured)
    assert (status.records, status.exposed) == (len(RECORDS) + len(NEWCOMERS) - 3, 59)
    # Opened again without the method, the workspace knows it.
    with closing(Manager(tmp_path, rng=RNG)) as again:
        assert repr(again.method) == repr(METHODS[name])
        np.testing.assert_array_equal(again.predict(LOOK), served)
        again.request_erasure(subject=person(4))
        assert again.forget().trained
        again.verify()


@each_method
def test_every_method_goes_on_from_its_files(name, tmp_path):
    check_durable(METHODS[name], RECORDS, tmp_path)


def test_method_that_loses_its_state_is_found_out(tmp_path):
    class Forgetful(ExactTrees):
        def restore(self, served, parts, kept):
            return dataclasses.replace(super().restore(served, parts, kept), ids=frozenset())

    class Telling(Retrain):
        def save(self, model, path):
            super().save(model, path)
            with path.open("ab") as file:
                file.write(RECORDS.ids[0].encode())

        def load(self, path):
            whole = path.with_name("whole")
            whole.write_bytes(path.read_bytes()[: -len(RECORDS.ids[0])])
            return super().load(whole)

    for method, words in ((Forgetful(most_cells=200), "which records"), (Telling(TREES, 1), "not name anyone")):
        folder = tmp_path / words
        folder.mkdir()
        with pytest.raises(ContractViolation, match=words):
            check_durable(method, RECORDS, folder)


@each_method
def test_workspace_forgets_what_the_method_alone_would(name, tmp_path):
    method = METHODS[name]
    with trained(tmp_path, method) as manager:
        manager.request_many(subjects=[person(3), person(9)])
        manager.forget()
        served, base = manager.predict(LOOK), manager.base_model if name == "leaf-ridge" else None
    rest = RECORDS.select(~np.isin(RECORDS.subjects, [person(3), person(9)]))
    expected = method.forget(method.train(RECORDS, RNG), rest, RNG).model.predict_proba(LOOK)
    np.testing.assert_array_equal(served, expected)
    assert base is None or not np.array_equal(base.predict_proba(LOOK), served)


@pytest.mark.parametrize("name", EXACT)
def test_exact_methods_serve_what_a_workspace_without_the_person_serves(name, tmp_path):
    rest = RECORDS.select(RECORDS.subjects != person(3))
    with trained(tmp_path / "with", METHODS[name]) as manager:
        manager.request_erasure(subject=person(3))
        manager.forget()
        after = manager.predict(LOOK)
    with trained(tmp_path / "without", METHODS[name], records=rest) as manager:
        np.testing.assert_array_equal(manager.predict(LOOK), after)


@each_method
def test_nothing_of_a_forgotten_person_stays_in_the_files(name, tmp_path):
    with trained(tmp_path, METHODS[name]) as manager:
        manager.request_erasure(subject=person(3))
        manager.forget()
        state, space = manager.space.state(), manager.space
        assert {p.name for p in (space.folder / "store").iterdir()} == state.live_files
    gone = RECORDS.select(RECORDS.subjects == person(3))
    assert not traces(tmp_path, {name: of_text(name) for name in [*gone.ids, person(3)]})


@each_method
def test_only_files_that_changed_are_written(name, tmp_path):
    with trained(tmp_path, METHODS[name]) as manager:
        before = manager.space.state()
        manager.request_erasure(subject=person(3))
        manager.forget()
        after = manager.space.state()
    assert before.served != after.served
    kept = {part for part, digest in before.parts.items() if after.parts.get(part) == digest}
    # SISA keeps the checkpoints of the shard that never held the person.
    expected = {"leaf-ridge": 1, "sisa": 2}
    assert len(kept) >= expected.get(name, 0)
    assert not kept & {"counts", "sums", "dealing"}


def test_claims_say_what_each_method_assumes(tmp_path):
    caveats = {}
    for name in ("retrain", "sisa", "exact-trees"):
        with trained(tmp_path / name, METHODS[name]) as manager:
            request = manager.request_erasure(subject=person(3))
            manager.forget()
            caveats[name] = manager.certify(request.id).body.claimed.claim.caveats
    assert REQUESTS_APART not in (*caveats["retrain"], *caveats["exact-trees"])
    assert REQUESTS_APART in caveats["sisa"]


def test_records_added_later_leave_a_certified_trace(tmp_path):
    with trained(tmp_path, METHODS["certified-sp"]) as manager:
        manager.add(NEWCOMERS)
        request = manager.request_erasure(subject=person(2, "birch"))
        manager.forget()
        assert isinstance(manager.certify(request.id).body.claimed.claim, CertifiedUnlearning)


@pytest.mark.parametrize("name", ["retrain", "sisa", "certified-sp", "exact-trees"])
def test_renewing_a_method_without_releases_is_refused(name, tmp_path):
    with trained(tmp_path, METHODS[name]) as manager, pytest.raises(WrongState, match="makes no release"):
        manager.renew()


def test_likelihoods_that_name_people_are_refused(tmp_path):
    method = SISA(SklearnLearner(), effort=1, slices=1, jobs=1, likelihood={person(3): 0.5})
    with closing(Manager(tmp_path, method, rng=RNG)) as manager:
        with pytest.raises(ParameterError, match="likelihoods, which name people"):
            manager.train(RECORDS, hold_out=HELD_OUT)
        assert not manager.space.trained


def test_method_that_claims_nothing_is_refused(tmp_path):
    class Careless(Retrain):
        def train(self, data, rng):
            return dataclasses.replace(super().train(data, rng), claim=NoGuarantee(), released=Released.of(data))

    with (
        closing(Manager(tmp_path, Careless(TREES, 1), rng=RNG)) as manager,
        pytest.raises(PrivacyError, match="claims"),
    ):
        manager.train(RECORDS, hold_out=HELD_OUT)


def test_plug_in_is_opened_with_the_same_method(tmp_path):
    class Own(Retrain):
        pass

    own = Own(TREES, 2)
    with trained(tmp_path, own) as manager:
        served = manager.predict(LOOK)
    with pytest.raises(ParameterError, match="which only you can build"):
        _ = Manager(tmp_path).method
    with closing(Manager(tmp_path, own, rng=RNG)) as manager:
        np.testing.assert_array_equal(manager.predict(LOOK), served)


def test_something_that_is_not_a_method_is_refused(tmp_path):
    for wrong in (TREES, Retrain, object()):
        method: Any = wrong
        with pytest.raises(ParameterError, match=r"eupg\.forget\.Durable"):
            Manager(tmp_path, method)


class TestQuality:
    def test_agrees_with_resampling_of_people(self):
        data = dataclasses.replace(RECORDS, subjects=np.array([f"p{i // 3}" for i in range(len(RECORDS))]))
        model = Retrain(TREES, 3).train(NEWCOMERS, Seeded(1)).model
        quality: Any = quality_of("", model, data, None)
        chances, draw = model.predict_proba(data.X), np.random.default_rng(1)
        people = np.arange(len(data)).reshape(-1, 3)
        accuracies, aucs = [], []
        for _ in range(2000):
            rows = people[draw.integers(len(people), size=len(people))].ravel()
            score, y = chances[rows, 1], data.y[rows]
            accuracies.append((chances[rows].argmax(axis=1) == y).mean())
            pairs = score[y == 1][:, None] - score[y == 0][None, :]
            aucs.append(((pairs > 0) + 0.5 * (pairs == 0)).mean())
        for found, drawn in ((quality.accuracy, accuracies), (quality.auc, aucs)):
            assert abs(found.value - np.mean(drawn)) < 0.01
            assert abs((found.high - found.low) / 2 - 1.96 * np.std(drawn)) < 0.015

    def test_is_noted_after_every_change_and_shown_in_status(self, tmp_path):
        manager = Manager(tmp_path, METHODS["exact-trees"], rng=RNG)
        manager.train(RECORDS, hold_out=NEWCOMERS)
        assert manager.status().quality is None  # Ten people are too few.
        manager.close()
        many = dataclasses.replace(NEWCOMERS, subjects=NEWCOMERS.ids)
        with closing(Manager(tmp_path / "more", METHODS["exact-trees"], rng=RNG)) as manager:
            manager.train(RECORDS, hold_out=many)
            first: Any = manager.status().quality
            assert (first.records, first.people, first.auc_change) == (30, 30, None)
            manager.request_erasure(subject=person(3))
            manager.forget()
            second: Any = manager.status().quality
            assert second.served != first.served
            assert second.auc_change is not None
            assert "change against the model before" in second.lines[0]
            json.dumps(manager.status().to_json())

    def test_a_rare_class_is_pointed_out(self):
        rare = dataclasses.replace(RECORDS, y=(np.arange(len(RECORDS)) % 20 == 0).astype(np.int64))
        model = Retrain(TREES, 1).train(rare, Seeded(1)).model
        quality: Any = quality_of("", model, rare, None)
        assert "Accuracy says little here" in quality.lines[1]


def test_requests_after_which_nothing_can_be_trained_fail_alone(tmp_path):
    two = RECORDS.select(np.arange(len(RECORDS)) < 6)
    with trained(tmp_path, METHODS["exact-trees"], records=two) as manager:
        manager.request_many(subjects=[person(0), person(1)])
        done = manager.forget()
        assert (len(done.requests), len(done.failed)) == (1, 1)
        manager.verify()
