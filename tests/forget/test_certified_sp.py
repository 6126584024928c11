"""Certified-SP: what it claims, how it gets there, and what it refuses."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from torch import nn

from eupg import Retrain, Secret, Seeded
from eupg.checks import names_reachable_from
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.errors import DataError, NothingRetained, ParameterError, UnknownRecord
from eupg.forget.certified_sp import CertifiedSP
from eupg.guarantees import CertifiedUnlearning
from eupg.guarantees.gaussian import gaussian_delta, gaussian_epsilon
from eupg.learn import MLP, LightGBMLearner, SklearnLearner, TorchLearner, XGBoostLearner
from eupg.learn.noisy_finetuning import GradientClipping, ModelClipping
from forget.families import late
from people import SCHEMA, people
from statistical.refuting import RARE

GRADIENT = GradientClipping(start=1.0, gradient=0.1, decay=0.5, step_size=0.1, steps=3)
MODEL = ModelClipping(radius=0.5, step_size=0.1, steps=3)
LEARNER = TorchLearner(MLP((8,)), batch_size=32)


def method(noise=GRADIENT, learner=LEARNER, **options) -> CertifiedSP:
    return CertifiedSP(learner, effort=2, finetune=2, noise=noise, **options)


def weights(trained) -> np.ndarray:
    return torch.cat([p.detach().reshape(-1) for p in trained.model.network.parameters()]).double().numpy()


@dataclasses.dataclass(frozen=True)
class Spying(TorchLearner):
    """Notes what it is asked for."""

    calls: list = dataclasses.field(default_factory=list)

    def fit(self, examples, *, effort, rng, start=None):
        self.calls.append({"effort": effort, "start": start, "rows": len(examples.y)})
        return super().fit(examples, effort=effort, rng=rng, start=start)

    def fit_noisy(self, examples, *, effort, noise, sigma, rng, start):
        self.calls.append({"effort": effort, "start": start, "noise": noise, "sigma": sigma, "rows": len(examples.y)})
        return super().fit_noisy(examples, effort=effort, noise=noise, sigma=sigma, rng=rng, start=start)


@pytest.mark.parametrize("noise", [GRADIENT, MODEL])
def test_noise_of_the_claim_is_the_noise_that_is_added(noise):
    data, spy = people(120), Spying(MLP((8,)), batch_size=32)
    certified = method(noise, spy, epsilon=0.5, delta=1e-6)
    trained = certified.train(data, Seeded(1))
    certified.forget(trained, data.without(["r0"]), Seeded(1))
    first, then = spy.calls
    assert first == {"effort": 2, "start": None, "rows": 120}
    expected = {"effort": 2, "start": trained.model, "noise": noise, "sigma": noise.sigma(0.5, 1e-6), "rows": 119}
    assert then == expected


@pytest.mark.parametrize("finetune", [1, 3])
def test_spread_of_the_weights_is_the_sigma_of_the_claim(finetune):
    """With ρ = 0 and one step the weights end as noise, beside which a gradient of norm 1 is nothing.

    A false alarm less than once in 10⁸; with some 17,000 weights a σ wrong by 5 % is found.
    """
    noise = GradientClipping(start=1.0, gradient=1.0, decay=1.0, step_size=1.0, steps=1)
    slow = TorchLearner(MLP((128, 120)), batch_size=500, learning_rate=1e-12, weight_decay=0)
    certified = CertifiedSP(slow, effort=1, finetune=finetune, noise=noise)
    data = people(120)
    after = certified.forget(certified.train(data, Secret()), data.without(["r0"]), Secret())
    found = weights(after) / certified.sigma
    total, n = float((found**2).sum()), len(found)
    assert min(chi2.cdf(total, n), chi2.sf(total, n)) > RARE
    assert chi2.sf(total * 1.05**2, n) < RARE


@pytest.mark.parametrize("noise", [GRADIENT, MODEL])
def test_claim_of_a_record_is_the_stated_unlearning(noise):
    data = people(120)
    trained = method(noise, epsilon=0.7, delta=1e-6).train(data, Secret())
    claim = trained.claim_for(data.select(data.ids == "r0"))
    assert isinstance(claim, CertifiedUnlearning)
    assert (claim.epsilon, claim.delta, claim.seeded) == (0.7, 1e-6, False)
    assert "noise is pseudo-random" in claim.sentence()


@given(st.integers(1, 80))
@settings(max_examples=8)
def test_claim_covers_the_whole_forget_set_whatever_its_size(gone):
    data, certified = people(120), method()
    trained = certified.train(data, Seeded(1))
    forgotten = data.select(np.arange(120) < gone)
    claim = trained.claim_for(forgotten)
    assert (claim.epsilon, claim.delta) == (1.0, 1e-5)
    after = certified.forget(trained, data.select(np.arange(120) >= gone), Seeded(1))
    assert after.claim == trained.claim
    assert claim.for_person(gone) == claim


def test_sigma_gives_the_claim_that_is_made():
    certified = method()
    assert gaussian_delta(GRADIENT.ratio(certified.sigma), 1.0) == pytest.approx(1e-5, rel=1e-6)
    assert gaussian_delta(2 * MODEL.radius / method(MODEL).sigma, 1.0) ** 3 == pytest.approx(1e-5, rel=1e-6)


def test_published_calibration_says_the_true_epsilon():
    certified = method(published_calibration=True)
    assert certified.sigma == pytest.approx(GRADIENT.reach / math.sqrt((0.95 ** (2 * np.arange(3))).sum() * 2))
    assert certified.claimed_epsilon == pytest.approx(6.573, abs=1e-3)
    assert certified.sigma < method().sigma / 5
    data = people(120)
    claim = certified.train(data, Secret()).claim_for(data.select(data.ids == "r0"))
    assert claim.epsilon == gaussian_epsilon(math.sqrt(2), 1e-5)
    assert "ε=6.573" in claim.sentence()
    assert "published code, which reports this as ε=1" in claim.sentence()


def test_published_calibration_of_another_epsilon():
    certified = method(published_calibration=True, epsilon=0.5, delta=1e-6)
    assert certified.claimed_epsilon == pytest.approx(gaussian_epsilon(1.0, 1e-6))


def test_default_settings_claim_what_they_say():
    certified = CertifiedSP(TorchLearner())
    assert certified.noise.epsilon(certified.sigma, 1e-5) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(
    "learner", [SklearnLearner(), XGBoostLearner(), LightGBMLearner()], ids=lambda x: type(x).__name__
)
def test_learner_without_gradients_is_refused_when_the_method_is_built(learner):
    with pytest.raises(ParameterError, match=f"{type(learner).__name__} has no gradients.*use TorchLearner"):
        CertifiedSP(learner)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"learner": TorchLearner}, "expected a learner such as"),
        ({"learner": "torch"}, "expected a learner such as"),
        ({"noise": 0.1}, "noise must be a GradientClipping or a ModelClipping"),
        ({"effort": 0}, "effort must be a whole number of at least 1"),
        ({"finetune": 0}, "finetune must be a whole number of at least 1"),
        ({"epsilon": 0.0}, "epsilon must be a finite number above 0"),
        ({"epsilon": math.nan}, "epsilon must be a finite number above 0"),
        ({"delta": 0.0}, "delta must be a finite number above 0"),
        ({"delta": 1.0}, "delta must be a number from 0 to below 1"),
        ({"noise": MODEL, "published_calibration": True}, "pass a GradientClipping"),
    ],
)
def test_wrong_parameters_are_refused_when_the_method_is_built(wrong, message):
    with pytest.raises(ParameterError, match=message):
        CertifiedSP(**({"learner": LEARNER} | wrong))


def test_frozen_weights_are_refused_at_training():
    def frozen(inputs: int, classes: int) -> nn.Module:
        network = MLP((4,))(inputs, classes)
        network[0].bias.requires_grad_(False)
        return network

    with pytest.raises(ParameterError, match="do not train"):
        method(learner=TorchLearner(frozen)).train(people(120), Seeded(1))


def test_more_noisy_steps_than_the_budget_are_refused_at_training_and_at_forgetting():
    data = people(120)
    certified = CertifiedSP(LEARNER, effort=1, finetune=1, noise=dataclasses.replace(GRADIENT, steps=5))
    with pytest.raises(DataError, match="5 noisy steps do not fit into 1 epochs of 120 records, which are 4 steps"):
        certified.train(data, Seeded(1))
    trained = dataclasses.replace(certified, noise=GRADIENT).train(data, Seeded(1))
    with pytest.raises(DataError, match="5 noisy steps do not fit into 1 epochs of 119 records, which are 4 steps"):
        certified.forget(trained, data.without(["r0"]), Seeded(1))


@pytest.mark.parametrize("noise", [GRADIENT, MODEL])
def test_secret_noise_differs_between_runs_and_seeded_noise_repeats(noise):
    data, certified = people(120), method(noise)
    trained, retained = certified.train(data, Seeded(1)), data.without(["r0"])
    secret = [certified.forget(trained, retained, Secret()) for _ in range(2)]
    seeded = [certified.forget(trained, retained, Seeded(4)) for _ in range(2)]
    assert (weights(secret[0]) != weights(secret[1])).mean() > 0.9
    assert not any(after.claim.seeded for after in secret)
    np.testing.assert_array_equal(weights(seeded[0]), weights(seeded[1]))
    assert all("not private" in after.claim.sentence() for after in seeded)


def test_noise_seeded_once_stays_seeded_until_it_is_drawn_again():
    """Records added later bring no new noise: the seeded one is still all that hides who was forgotten before."""
    data, certified = people(120), method()
    retained = data.without(["r0"])
    after = certified.forget(certified.train(data, Secret()), retained, Seeded(1))
    grown = certified.update(after, retained.plus(late(data, "newcomer")), Secret())
    assert grown.claim.seeded
    assert not certified.forget(grown, retained.without(["r1"]), Secret()).claim.seeded


def test_repeated_requests_each_take_the_noisy_steps():
    data, spy = people(120), Spying(MLP((8,)), batch_size=32)
    certified = method(learner=spy)
    state = certified.train(data, Secret())
    first = state.claim_for(data.of_subjects(["p7"]))
    for number in range(3):
        before = state.model
        data = data.without([f"r{number}"])
        state = certified.forget(state, data, Secret())
        assert spy.calls[-1]["start"] is before
        assert spy.calls[-1]["sigma"] == certified.sigma
        assert state.ids == set(data.ids.tolist())
        assert state.claim_for(data.of_subjects(["p7"])) == first
    assert not {"r0", "r1", "r2"} & names_reachable_from(state)


def test_records_that_come_later_are_claimed_like_the_others():
    data, certified = people(120), method()
    more = data.plus(late(data, "newcomer"))
    grown = certified.update(certified.train(data, Seeded(1)), more, Seeded(1))
    assert isinstance(grown.claim_for(more.of_subjects(["newcomer"])), CertifiedUnlearning)
    assert isinstance(grown.claim_for(more.of_subjects(["p7"])), CertifiedUnlearning)
    after = certified.forget(grown, data, Seeded(1))
    assert not {"late-1", "late-2", "newcomer"} & names_reachable_from(after)


def test_adding_records_takes_no_noisy_steps_and_replacing_some_does():
    data, spy = people(120), Spying(MLP((8,)), batch_size=32)
    certified = method(learner=spy)
    trained = certified.train(data, Seeded(1))
    certified.update(trained, data.plus(late(data, "newcomer")), Seeded(1))
    assert "noise" not in spy.calls[-1]
    certified.update(trained, data.without(["r0"]).plus(late(data, "newcomer")), Seeded(1))
    assert spy.calls[-1]["noise"] == GRADIENT


def test_forgetting_nothing_changes_nothing():
    data, certified = people(120), method()
    trained = certified.train(data, Seeded(1))
    assert certified.forget(trained, data, Seeded(1)) is trained


def test_changed_forgotten_rows_matter_only_through_the_start():
    """The retained records are the same, and so is the noise: two starts stay within reach of each other."""
    data = people(120)
    X, y = data.X.copy(), data.y.copy()
    X[:20, 0], y[:20] = 100 - X[:20, 0], 1 - y[:20]
    changed = Dataset(data.schema, X, y, data.ids, data.subjects)
    exact = CertifiedSP(LEARNER, effort=2, finetune=1, noise=dataclasses.replace(GRADIENT, steps=4))
    gone = data.ids[:20].tolist()
    before = [exact.train(d, Seeded(1)) for d in (data, changed)]
    after = [exact.forget(t, data.without(gone), Seeded(1)) for t in before]
    apart = np.linalg.norm(weights(after[0]) - weights(after[1]))
    assert 0 < apart <= exact.noise.reach


def test_nobody_left_and_odd_requests_are_named():
    data, certified = people(60), method()
    trained = certified.train(data, Seeded(1))
    with pytest.raises(NothingRetained, match="retire the model"):
        certified.forget(trained, data.select(np.zeros(60, dtype=bool)), Seeded(1))
    after = certified.forget(trained, data.without(["r1"]), Seeded(1))
    with pytest.raises(UnknownRecord, match="to add records call update"):
        certified.forget(after, data, Seeded(1))
    turned = Schema((*SCHEMA.attributes[:-1], dataclasses.replace(SCHEMA.label, categories=("yes", "no"))))
    other = Dataset(turned, data.X, data.y, data.ids, data.subjects).without(["r1"])
    with pytest.raises(DataError, match="another schema"):
        certified.forget(trained, other, Seeded(1))


def test_first_training_is_that_of_retrain():
    data = people(120)
    mine, plain = method().train(data, Seeded(1)), Retrain(LEARNER, 2).train(data, Seeded(1))
    np.testing.assert_array_equal(mine.model.predict_proba(data.X), plain.model.predict_proba(data.X))
