"""A base model trained under differential privacy: its claim, what it may depend on, and the flow around it."""

import dataclasses
import json
import subprocess
import sys
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import chisquare
from torch import nn

from eupg import EUPG, Certificate, EUPGClassifier, Manager, Schema, Secret, Seeded, verify
from eupg.checks import names_reachable_from
from eupg.cli import main
from eupg.errors import DataError, ParameterError
from eupg.forget import DPSGDBase, dp_sgd
from eupg.forget.dp_sgd import COUNTING, rows_of_units
from eupg.guarantees import DifferentiallyPrivate, Neighbours, Unit, guarantee_from_json
from eupg.learn import MLP, SklearnLearner, TorchLearner, XGBoostLearner
from eupg.learn.sampled_gaussian import sampled_epsilon
from eupg.manage.description import describe, rebuild
from manage.test_manager_canary import NAME, WANTED
from manage.test_manager_canary import table as with_canary
from managed import HELD_OUT, RECORDS, person
from people import SCHEMA, people
from statistical.refuting import RARE
from traces import traces

NETWORK = TorchLearner(network=MLP((8,)))
BASE = DPSGDBase(epsilon=2.0, max_records=2, batch=20, people=50)
METHOD = EUPG(BASE, NETWORK, pretrain=2, finetune=1)
# Without the column that names the person.
RECORDWISE = Schema(SCHEMA.attributes[1:])


@pytest.fixture(autouse=True)
def _no_salt(monkeypatch):
    """Leave the random salt of model files out, so that equal models are equal files."""
    monkeypatch.setattr("eupg.learn.envelope.secrets", SimpleNamespace(token_hex=lambda size: "00" * size))


def saved(model, folder) -> bytes:
    NETWORK.save(model, folder / "model")
    return (folder / "model").read_bytes()


class TestClaim:
    def test_covers_all_of_a_person_and_their_presence(self):
        claim = DPSGDBase(epsilon=1.5, delta=1e-6).guarantee(SCHEMA)
        assert (claim.epsilon, claim.delta, claim.unit) == (1.5, 1e-6, Unit.PERSON)
        assert claim.neighbours is Neighbours.ADD_OR_REMOVE
        assert set(claim.covers) == {a.name for a in (*SCHEMA.features, SCHEMA.label)}
        assert claim.leaves_open == ()

    def test_speaks_of_records_where_no_person_is_named(self):
        claim = DPSGDBase(epsilon=1.5).guarantee(RECORDWISE)
        assert claim.unit is Unit.RECORD
        assert claim.for_person(3).epsilon == 4.5

    @pytest.mark.parametrize(
        ("base", "said"),
        [
            (DPSGDBase(), "A fiftieth of ε pays for counting the people with noise."),
            (DPSGDBase(people=900), "The number of people was declared as about 900 and is taken as public."),
            (DPSGDBase(), "takes it for true Gaussian noise."),
            (DPSGDBase(), "exact numbers of records that are noted beside it are not covered."),
        ],
    )
    def test_says_what_narrows_it(self, base, said):
        assert said in base.guarantee(SCHEMA).sentence()

    def test_says_what_the_schema_read_from_the_data(self):
        town = dataclasses.replace(SCHEMA["town"], inferred=("categories",))
        schema = Schema(tuple(town if a.name == "town" else a for a in SCHEMA.attributes))
        assert "ategories of 'town' read from the data" in DPSGDBase().guarantee(schema).sentence()

    def test_is_the_promised_one_and_says_whether_it_was_seeded(self):
        claim = METHOD.base(people(60), Seeded(1)).claim
        assert claim == dataclasses.replace(BASE.guarantee(SCHEMA), seeded=True)
        assert "not private" in claim.sentence()
        claim = METHOD.base(people(60), Secret()).claim
        assert claim == BASE.guarantee(SCHEMA)

    def test_survives_json(self):
        claim = BASE.guarantee(SCHEMA)
        assert guarantee_from_json(json.loads(json.dumps(claim.to_json()))) == claim


def test_noise_is_enough_for_the_budget_that_is_left_after_counting():
    for base, share in ((DPSGDBase(epsilon=2.0), 1 - COUNTING), (DPSGDBase(epsilon=2.0, people=7), 1.0)):
        steps = base.steps(20_000, 3)
        assert (steps.rate, steps.batch) == (base.batch / 20_000, base.batch)
        assert steps.count == -(-3 * 20_000 // base.batch)
        spent = sampled_epsilon(steps.noise, base.delta, rate=steps.rate, steps=steps.count)
        assert 0.99 * share * 2.0 < spent <= share * 2.0


def test_few_people_are_drawn_all_at_once_and_never_more_often():
    steps = BASE.steps(3, 4)
    assert (steps.rate, steps.count, steps.batch) == (1.0, 4, 20.0)


def taken_steps(monkeypatch, base, data, off):
    """Return the steps that are taken where the count is off by so many."""
    seen = []
    monkeypatch.setattr(dp_sgd, "discrete_laplace", lambda scale, count, rng: np.array([off]))
    monkeypatch.setattr(dp_sgd, "fit_privately", lambda *given, steps, **_: seen.append(steps))
    base.pretrain(data, NETWORK, effort=2, rng=Seeded(1))
    return seen[0]


def test_steps_follow_from_the_noisy_count_alone(monkeypatch):
    counted = DPSGDBase(batch=20)
    many, few = people(150), people(120)
    assert taken_steps(monkeypatch, counted, many, 0) == taken_steps(monkeypatch, counted, few, 10)
    assert taken_steps(monkeypatch, counted, many, 0) != taken_steps(monkeypatch, counted, few, 0)
    assert taken_steps(monkeypatch, BASE, many, 0) == taken_steps(monkeypatch, BASE, few, 99)


def test_count_has_the_noise_that_a_fiftieth_of_the_budget_asks_for():
    drawn = np.array([DPSGDBase(epsilon=10.0)._count(10_000, Secret()) for _ in range(3000)]) - 10_000
    scale = 1 / (10.0 * COUNTING)
    # |noise| has about the mean and the spread of its scale: six standard errors.
    assert abs(np.abs(drawn).mean() - scale) < 6 * scale / np.sqrt(3000) + 0.1
    assert np.abs(drawn / 2).mean() < scale - 6 * scale / np.sqrt(3000) - 0.1, "halved noise must be caught"
    assert len(np.unique(drawn)) > 20


@pytest.mark.parametrize("records", [1, 2, 3, 5])
def test_each_person_is_one_line_of_at_most_so_many_of_their_records(records):
    data = people(80)
    rows = rows_of_units(data, records, Secret())
    assert len(rows) == len(np.unique(data.subjects))
    used = [set(data.subjects[line[line >= 0]].tolist()) for line in rows]
    assert all(len(who) == 1 for who in used)
    assert len(set.union(*used)) == len(rows)
    sizes = np.minimum(np.unique(data.subjects, return_counts=True)[1], records)
    assert sorted((rows >= 0).sum(axis=1)) == sorted(sizes)
    assert len(np.unique(rows[rows >= 0])) == sizes.sum()


def test_every_record_is_a_line_where_no_person_is_named():
    data = dataclasses.replace(people(30), schema=RECORDWISE)
    np.testing.assert_array_equal(rows_of_units(data, 5, Secret()), np.arange(30)[:, None])


def test_records_are_left_out_uniformly():
    data, times = people(30), np.zeros(30)
    for _ in range(600):
        rows = rows_of_units(data, 1, Secret())
        times[rows[:, 0]] += 1
    assert times.sum() == 6000
    assert min(chisquare(three).pvalue for three in times.reshape(10, 3)) > RARE


class TestRefusals:
    @pytest.mark.parametrize("learner", [XGBoostLearner(), SklearnLearner()], ids=["xgboost", "sklearn"])
    def test_learner_without_a_network_when_the_method_is_built(self, learner):
        with pytest.raises(ParameterError, match=r"is not a TorchLearner: use TorchLearner\(\), or protect the data"):
            EUPG(DPSGDBase(), learner)

    def test_batch_normalisation_before_any_record_is_read(self):
        def network(inputs, classes):
            return nn.Sequential(nn.Linear(inputs, 4), nn.BatchNorm1d(4), nn.Linear(4, classes))

        unreadable = SimpleNamespace(schema=SCHEMA)
        with pytest.raises(ParameterError, match="in place of batch normalisation"):
            BASE.pretrain(unreadable, TorchLearner(network=network), effort=1, rng=Seeded(1))

    def test_class_in_place_of_an_object(self):
        with pytest.raises(ParameterError, match="expected a mechanism"):
            EUPG(DPSGDBase, NETWORK)

    def test_nobody(self):
        nobody = people(30).select(np.zeros(30, dtype=bool))
        with pytest.raises(DataError, match="no record"):
            BASE.pretrain(nobody, NETWORK, effort=1, rng=Seeded(1))

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"epsilon": 0}, "epsilon must be a finite number above 0"),
            ({"delta": 1.0}, "delta must be a number from 0 to below 1"),
            ({"delta": 0.0}, "delta must be a finite number above 0"),
            ({"max_records": 0}, "max_records must be a whole number of at least 1"),
            ({"batch": 2.5}, "batch must be a whole number"),
            ({"people": 0}, "people must be a whole number of at least 1"),
            ({"clip": float("nan")}, "clip must be a finite number"),
            ({"momentum": 1.0}, "momentum must be a number from 0 to below 1"),
        ],
    )
    def test_values_that_mean_nothing(self, wrong, message):
        with pytest.raises(ParameterError, match=message):
            DPSGDBase(**wrong)


class TestFlow:
    def test_learns(self):
        """With a budget that hardly asks for noise the base model alone tells the classes apart."""
        data, fresh = people(600), people(300, seed=8)
        base = DPSGDBase(epsilon=20.0, max_records=3, batch=50)
        model, _ = base.pretrain(data, NETWORK, effort=15, rng=Seeded(1))
        assert (model.predict_proba(fresh.X).argmax(axis=1) == fresh.y).mean() > 0.75

    def test_claim_of_a_person_does_not_grow_with_their_records(self):
        data = people(60)
        trained = METHOD.train(data, Seeded(2))
        assert trained.claim_for(data.of_subjects(["p3"])) == trained.claim
        loose = dataclasses.replace(data, schema=RECORDWISE)
        claim = METHOD.train(loose, Seeded(2)).claim_for(loose.of_subjects(["p3"]))
        assert (claim.unit, claim.epsilon) == (Unit.RECORD, 6.0)

    def test_served_model_keeps_the_scales_of_the_bounds(self):
        data = people(300)
        after = METHOD.forget(METHOD.train(data, Seeded(2)), data.without(["r0"]), Seeded(2))
        assert after.model.encoder is after.memory.encoder
        assert after.model is not after.memory

    def test_changed_forgotten_rows_leave_the_result_bit_identical(self, tmp_path):
        """Given the base model, nothing of the forgotten rows may reach the new one."""
        data, rng = people(120), Seeded(3)
        X, y = data.X.copy(), data.y.copy()
        X[:9, 0], y[:9] = 100 - X[:9, 0], 1 - y[:9]
        changed = dataclasses.replace(data, X=X, y=y)
        base = METHOD.base(data, rng)
        forgotten = data.ids[:9].tolist()
        results = []
        for records in (data, changed):
            after = METHOD.forget(METHOD.resume(base, records, rng), records.without(forgotten), rng)
            assert not set(forgotten) & set(names_reachable_from(after))
            results.append(saved(after.model, tmp_path))
        assert results[0] == results[1]

    def test_erasing_someone_never_seen_raw_changes_no_model(self):
        data, rng = people(150), Seeded(3)
        method = dataclasses.replace(METHOD, exposure=0.3)
        trained = method.train(data, rng)
        unseen = next(s for s in data.subjects if not set(data.of_subjects([s]).ids) & trained.ids)
        seen = next(s for s in data.subjects if set(data.of_subjects([s]).ids) & trained.ids)
        without = data.without(data.of_subjects([unseen]).ids.tolist())
        after = method.forget(trained, without, rng)
        assert after.model is trained.model
        again = method.forget(after, without.without(without.of_subjects([seen]).ids.tolist()), rng)
        assert again.model is not trained.model
        assert again.memory is trained.memory

    def test_same_seed_is_the_same_base_and_the_systems_randomness_never_is(self, tmp_path):
        data = people(60)
        seeded = [saved(METHOD.base(data, Seeded(5)).model, tmp_path) for _ in range(2)]
        secret = [saved(METHOD.base(data, Secret()).model, tmp_path) for _ in range(2)]
        assert seeded[0] == seeded[1]
        assert secret[0] != secret[1]

    def test_scikit_learns_face_takes_it(self):
        X = np.arange(200.0).reshape(100, 2)
        model = EUPGClassifier(BASE, NETWORK, pretrain=1, finetune=1, random_state=7).fit(X, X[:, 0] > 100)
        assert isinstance(model.claim_, DifferentiallyPrivate)
        assert len(model.forget(records=["3"]).record_ids_) == 99


class TestWorkspace:
    def test_from_training_to_a_verified_certificate(self, tmp_path):
        with closing(Manager(tmp_path, METHOD)) as manager:
            manager.train(RECORDS, hold_out=HELD_OUT)
            request = manager.request_erasure(subject=person(4))
            assert manager.forget().trained
            certificate = manager.certify(request.id)
            manager.verify(certificate)
        certificate.save(tmp_path / "certificate.json")
        verify(tmp_path / "certificate.json", key=tmp_path / "keys" / "signing.pub")
        assert Certificate.load(tmp_path / "certificate.json") == certificate
        claim = certificate.body.claimed.claim
        assert (claim.epsilon, claim.delta, claim.records, claim.unit) == (2.0, 1e-5, 1, "person")
        assert claim.strength() == "person-level ε = 2, δ = 1e-05 (any number of records)"
        assert "as it would be if the erased records had never been in the data" in claim.plain_words()
        assert "takes it for true Gaussian noise" in certificate.body.claimed.sentence
        assert "protected copy" not in str(certificate)
        assert any("does not cover the number of records" in text for text in certificate.body.assumed)

    def test_opens_again_and_budgets_of_two_base_models_add_up(self, tmp_path):
        with closing(Manager(tmp_path, METHOD, rng=Seeded(7))) as manager:
            manager.train(RECORDS, hold_out=HELD_OUT)
        with closing(Manager(tmp_path, rng=Seeded(8))) as manager:
            assert repr(manager.method) == repr(METHOD)
            before = manager.space.state()
            assert before.releases[0].digest == before.base
            manager.renew()
            request = manager.request_erasure(subject=person(4))
            manager.forget()
            claim = manager.certify(request.id).body.claimed.claim
            assert (claim.epsilon, claim.delta) == (4.0, 2e-5)

    def test_canary_stands_in_no_file_after_forgetting(self, tmp_path):
        with closing(Manager(tmp_path, dataclasses.replace(METHOD, finetune=2))) as manager:
            manager.train(with_canary(), hold_out=0.0)
            assert {what for _, what, _ in traces(tmp_path / "records", WANTED)} == set(WANTED)
            request = manager.request_erasure(subject=NAME)
            assert manager.forget().records == 3
            manager.certify(request.id).save(tmp_path / "certificate.json")
            assert traces(tmp_path, WANTED) == []
        assert traces(tmp_path, WANTED) == []


@pytest.mark.parametrize("base", [BASE, DPSGDBase(), DPSGDBase(epsilon=3.0, people=10, clip=2.0)], ids=repr)
def test_description_builds_it_again(base):
    noted = json.loads(json.dumps(describe(dataclasses.replace(METHOD, mechanism=base))))
    assert rebuild(noted).mechanism == base


def test_absent_framework_names_the_extra_to_install():
    code = "import sys; sys.modules['opacus'] = None\nimport eupg.forget\neupg.forget.DPSGDBase"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "DPSGDBase needs opacus" in found.stderr
    assert "pip install 'eupg[dpsgd]'" in found.stderr


class TestCommandLine:
    @pytest.fixture
    def files(self, tmp_path):
        data = people(150)
        frame = data.to_pandas().reset_index().assign(person=data.subjects)
        frame.to_csv(tmp_path / "records.csv", index=False)
        data.schema.save(tmp_path / "schema.toml")
        return ["--data", str(tmp_path / "records.csv"), "--schema", str(tmp_path / "schema.toml"), "--id", "record"]

    def test_trains_with_it(self, files, tmp_path, capsys):
        asked = ["--guarantee", "dpsgd", "--epsilon", "3", "--delta", "1e-6", "--max-records", "2", "--pretrain", "1"]
        command = ["train", "--workspace", str(tmp_path / "space"), *files, *asked, "--learner", "mlp"]
        assert main([*command, "--exposure", "0.5", "--finetune", "1"]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert "ε=3, δ=1e-06" in said
        assert "one unit is a person" in said

    def test_says_why_another_learner_is_refused(self, files, tmp_path, capsys):
        command = ["train", "--workspace", str(tmp_path / "space"), *files, "--guarantee", "dpsgd"]
        assert main([*command, "--learner", "xgboost"]) == 2
        assert "is not a TorchLearner" in " ".join(capsys.readouterr().out.split())
