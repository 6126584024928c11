"""Private training: what one unit can do to a step, what noise is added, who is drawn, and how it adds up."""

import copy
import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from opacus.accountants import PRVAccountant, RDPAccountant
from scipy.stats import chi2, kstest
from torch import nn
from torch.nn.functional import cross_entropy

from eupg.data.encode import Encoder
from eupg.errors import ParameterError
from eupg.guarantees.gaussian import gaussian_epsilon
from eupg.learn import TorchLearner
from eupg.learn.sampled_gaussian import least_noise, sampled_epsilon
from eupg.learn.torch import dp_sgd
from eupg.learn.torch.dp_sgd import PrivateSteps, check_network, fit_privately, train_privately
from people import SCHEMA, people
from statistical.refuting import RARE

ONE = PrivateSteps(rate=1.0, count=1, batch=4.0, clip=0.5, noise=0.0, learning_rate=1.0, momentum=0.0)


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def network(seed: int = 0, inputs: int = 3) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(inputs, 5), nn.Tanh(), nn.Linear(5, 2))


def table(rows: int = 30, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (rows,), generator=generator)
    return 3 * torch.randn(rows, 3, generator=generator) + y[:, None], y


def flat(model: nn.Module) -> np.ndarray:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()]).double().numpy()


def moved(model, X, y, rows, steps, seed=1) -> np.ndarray:
    """Return how far the weights move."""
    mine = copy.deepcopy(model)
    train_privately(mine, X, y, rows, steps=steps, rng=rng(seed))
    return flat(mine) - flat(model)


def by_hand(model, X, y, rows, steps) -> np.ndarray:
    """Return one step without noise: unit by unit, clipped, added up, divided by the expected number."""
    total = np.zeros(len(flat(model)))
    for unit in rows:
        places = unit[unit >= 0]
        mine = copy.deepcopy(model)
        cross_entropy(mine(X[places]), y[places], reduction="sum").backward()
        slope = torch.cat([p.grad.reshape(-1) for p in mine.parameters()]).double().numpy()
        total += slope * min(1.0, steps.clip / np.linalg.norm(slope))
    return -steps.learning_rate * total / steps.batch


def drawn_rows(units: int, records: int, seed: int) -> np.ndarray:
    """Return units with one to ``records`` records each, of 30."""
    generator = rng(seed)
    rows = np.full((units, records), -1)
    order, at = generator.permutation(30), 0
    for unit in rows:
        size = generator.integers(1, records + 1)
        unit[:size], at = order[at : at + size], at + size
    return rows


@given(st.integers(1, 4), st.integers(0, 99), st.sampled_from([0.05, 1.0, 30.0]), st.integers(1, 7))
@settings(max_examples=30, deadline=None)
def test_gradients_of_a_units_records_are_clipped_together(records, seed, clip, units):
    X, y = table(seed=seed)
    model, rows, steps = network(seed), drawn_rows(units, records, seed), dataclasses.replace(ONE, clip=clip)
    np.testing.assert_allclose(moved(model, X, y, rows, steps), by_hand(model, X, y, rows, steps), atol=1e-5)


def test_clipping_record_by_record_would_be_told_apart():
    """The loop above must not agree with the wrong unit, or it would show nothing."""
    X, y = table()
    rows = drawn_rows(6, 4, 3)
    single = rows[rows >= 0][:, None]
    assert np.abs(moved(network(), X, y, rows, ONE) - by_hand(network(), X, y, single, ONE)).max() > 1e-3


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_units_that_do_not_fit_at_once_are_one_step(monkeypatch, at_once):
    X, y = table()
    rows = drawn_rows(7, 3, 2)
    whole = by_hand(network(), X, y, rows, ONE)
    monkeypatch.setattr(dp_sgd, "_AT_ONCE", at_once)
    np.testing.assert_allclose(moved(network(), X, y, rows, ONE), whole, atol=1e-5)


@given(st.integers(0, 999), st.floats(0.01, 10), st.floats(1, 1e6))
@settings(max_examples=25, deadline=None)
def test_one_unit_more_moves_a_step_by_no_more_than_the_clip(seed, clip, size):
    X, y = table(seed=seed)
    X[:4] *= size
    model, steps = network(seed), dataclasses.replace(ONE, clip=clip)
    rows = drawn_rows(6, 4, seed)
    rows[0] = [0, 1, 2, 3]
    apart = moved(model, X, y, rows, steps) - moved(model, X, y, rows[1:], steps)
    # Weights are in single precision: what they moved is read off to about 1e-6.
    assert np.linalg.norm(apart) <= clip / steps.batch * (1 + 1e-4) + 1e-5


def test_unit_without_a_finite_gradient_counts_nothing():
    X, y = table()
    rows = np.arange(5)[:, None]
    X[2] = torch.inf
    found = moved(network(), X, y, rows, ONE)
    np.testing.assert_allclose(found, by_hand(network(), X, y, rows[[0, 1, 3, 4]], ONE), atol=1e-5)


def noise_of(rows, steps, seed=3) -> np.ndarray:
    """Return the noise of a step: what it moved besides the gradients."""
    X, y = table()
    model = nn.Sequential(nn.Linear(3, 2000))
    return (moved(model, X, y, rows, steps, seed) - by_hand(model, X, y, rows, steps)) / steps.learning_rate


def spread_refuted(drawn, expected) -> bool:
    """Tell whether a spread is refuted; false alarms are as rare as RARE, and 5 % too little is found from 8,000 on."""
    size = len(drawn)
    low, high = chi2.ppf([RARE / 2, 1 - RARE / 2], size)
    return not low <= (drawn**2).sum() / expected**2 <= high


@pytest.mark.parametrize("units", [0, 6])
def test_noise_is_normal_with_the_spread_of_noise_times_clip_over_the_expected_batch(units):
    steps = dataclasses.replace(ONE, noise=50.0, batch=2.0)
    drawn = noise_of(np.arange(units)[:, None], steps)
    assert len(drawn) == 8000
    assert not spread_refuted(drawn, 50.0 * steps.clip / 2.0)
    assert kstest(drawn / drawn.std(), "norm").pvalue > RARE
    assert spread_refuted(drawn / 2, 50.0 * steps.clip / 2.0), "halved noise must be caught"


def test_noise_is_drawn_anew_at_each_step():
    steps = dataclasses.replace(ONE, noise=50.0, count=2)
    first, both = (noise_of(np.empty((0, 1), int), dataclasses.replace(steps, count=n)) for n in (1, 2))
    # The rate falls along a cosine: the second of two steps is half as long.
    second = 2 * (both - first)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.06
    assert not spread_refuted(second, 50.0 * steps.clip / steps.batch)


def test_halved_noise_in_the_optimiser_is_caught(monkeypatch):
    monkeypatch.setattr(dp_sgd, "_ROUNDING", 0.5)
    steps = dataclasses.replace(ONE, noise=50.0)
    assert spread_refuted(noise_of(np.arange(6)[:, None], steps), 50.0 * steps.clip / steps.batch)


def test_units_are_drawn_one_by_one_with_the_rate(monkeypatch):
    drawn = []
    monkeypatch.setattr(dp_sgd, "_AT_ONCE", 10**6)
    monkeypatch.setattr(dp_sgd, "_set_gradients", lambda hooked, X, y, rows: drawn.append(rows) or empty(hooked))
    rows = np.arange(600).reshape(200, 3)
    steps = dataclasses.replace(ONE, rate=0.1, count=400, noise=1.0)
    train_privately(network(), torch.zeros(600, 3), torch.zeros(600, dtype=int), rows, steps=steps, rng=rng())
    times = np.array([[row[0] // 3 for row in step] for step in drawn], dtype=object)
    assert all((step[:, 0] % 3 == 0).all() and (np.diff(step, axis=1) == 1).all() for step in drawn)
    sizes = np.array([len(step) for step in times])
    # 80,000 draws of chance 0.1: six standard errors; a fixed batch size would have no spread at all.
    assert abs(sizes.sum() - 8000) < 6 * math.sqrt(80_000 * 0.09)
    assert 0.7 < sizes.var() / (200 * 0.09) < 1.4


def empty(hooked) -> None:
    for weight in hooked.parameters():
        weight.grad_sample = weight.new_zeros((0, *weight.shape))


def test_step_that_drew_nobody_is_noisy_all_the_same():
    steps = dataclasses.replace(ONE, rate=1e-12, noise=1.0, count=3)
    X, y = table()
    assert np.abs(moved(network(), X, y, np.arange(5)[:, None], steps)).min() > 0


@pytest.mark.parametrize(("noise", "rate", "steps"), [(1.0, 0.01, 900), (2.0, 0.05, 400), (0.7, 0.004, 1000)])
def test_accounting_agrees_with_other_accountants(noise, rate, steps):
    """Opacus' two accountants share no code with the one used: one is tight to 0.02, the other an upper bound."""
    found = sampled_epsilon(noise, 1e-5, rate=rate, steps=steps)
    tight, loose = PRVAccountant(), RDPAccountant()
    tight.history = loose.history = [(noise, rate, steps)]
    assert found == pytest.approx(tight.get_epsilon(1e-5), abs=0.02)
    assert found <= loose.get_epsilon(1e-5)


@pytest.mark.parametrize("steps", [1, 50])
def test_accounting_without_sampling_is_the_exact_gaussian_formula(steps):
    exact = gaussian_epsilon(math.sqrt(steps) / 4.0, 1e-5)
    assert exact <= sampled_epsilon(4.0, 1e-5, rate=1.0, steps=steps) <= exact + 0.01


@given(st.floats(1, 4), st.sampled_from([0.01, 0.2, 1.0]), st.integers(50, 500))
@settings(max_examples=3, deadline=None)
def test_least_noise_is_enough_and_hardly_more(epsilon, rate, steps):
    noise = least_noise(epsilon, 1e-5, rate=rate, steps=steps)
    assert sampled_epsilon(noise, 1e-5, rate=rate, steps=steps) <= epsilon
    assert sampled_epsilon(noise * 0.99, 1e-5, rate=rate, steps=steps) > epsilon * 0.998


def test_accounting_refuses_what_has_no_meaning():
    with pytest.raises(ParameterError, match="expected ε above 0"):
        least_noise(0.0, 1e-5, rate=0.1, steps=5)


def test_scales_come_from_the_bounds_alone():
    encoder = Encoder.of_bounds(SCHEMA)
    names = [a.name for a in SCHEMA.features]
    assert encoder.pinned
    assert [names[j] for j in encoder.logarithmic] == ["income"]
    assert [names[j] for j in encoder.mixed] == ["age"]
    assert encoder.centre[names.index("age")] == pytest.approx(1 / 2)
    assert encoder.spread[names.index("age")] == pytest.approx(1 / math.sqrt(12))
    assert encoder.centre[names.index("score")] == 0
    assert encoder.spread[names.index("score")] == pytest.approx(2 / math.sqrt(12))
    ends = encoder(np.array([[0.0, 0, 0, 0, np.nan, -1], [100.0, 5000, 2, 3, 1, 1]]))
    np.testing.assert_allclose(ends[0, :3], -math.sqrt(3), rtol=1e-6)
    np.testing.assert_allclose(ends[1, :3], math.sqrt(3), rtol=1e-6)


def test_logarithmic_scales_survive_a_file(tmp_path):
    model = fit(TorchLearner())
    TorchLearner().save(model, tmp_path / "model")
    again = TorchLearner().load(tmp_path / "model")
    assert again.encoder.logarithmic == model.encoder.logarithmic != ()
    assert again.encoder.mixed == model.encoder.mixed != ()
    np.testing.assert_array_equal(again.predict_proba(people(40, 5).X), model.predict_proba(people(40, 5).X))


def fit(learner, *, steps=None):
    data = people(60)
    steps = steps or dataclasses.replace(ONE, count=5, rate=0.5, noise=1.0)
    return fit_privately(learner, data, np.arange(60)[:, None], effort=1, steps=steps, weights=rng(1), noise=rng(2))


def test_nothing_of_single_gradients_hangs_on_the_model():
    for weight in fit(TorchLearner()).network.parameters():
        assert weight.grad is None
        assert not {"grad_sample", "summed_grad"} & set(vars(weight))


class Steady:
    """Draws such that a unit more at the end changes nothing for the others, and is itself never drawn."""

    def __init__(self, known: int) -> None:
        self.known, self.stream = known, rng(4)

    def random(self, units: int) -> np.ndarray:
        return np.append(self.stream.random(self.known), np.ones(units - self.known))

    def standard_normal(self, shape) -> np.ndarray:
        return self.stream.standard_normal(shape)


def test_unit_that_is_never_drawn_leaves_no_bit_behind():
    """Neither by its values, through scales, nor by being one more: here the last person holds every extreme."""
    data = people(63)
    X = data.X.copy()
    X[60:] = [100.0, 5000.0, 2, 3, 1, 1.0]
    data = dataclasses.replace(data, X=X)
    steps = dataclasses.replace(ONE, count=8, rate=0.3, noise=1.0)
    found = []
    for table, rows in ((data, np.arange(63)), (data.select(np.arange(63) < 60), np.arange(60))):
        draws = {"weights": rng(1), "noise": Steady(20)}
        model = fit_privately(TorchLearner(), table, rows.reshape(-1, 3), effort=1, steps=steps, **draws)
        found.append(flat(model.network))
    np.testing.assert_array_equal(found[0], found[1])


def test_other_noise_is_another_model_and_the_same_is_the_same():
    data = people(60)
    steps = dataclasses.replace(ONE, count=5, rate=0.5, noise=1.0)
    models = [
        fit_privately(
            TorchLearner(), data, np.arange(60)[:, None], effort=1, steps=steps, weights=rng(1), noise=rng(seed)
        ).predict_proba(data.X)
        for seed in (2, 2, 3)
    ]
    assert np.array_equal(models[0], models[1])
    assert not np.array_equal(models[0], models[2])


class Mixing(nn.Module):
    """Takes the mean of all rows away from each."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.last = nn.Linear(inputs, classes)

    def forward(self, inputs):
        return self.last(inputs - inputs.mean(dim=0, keepdim=True))


class MixingInTraining(Mixing):
    """Does so while it trains only."""

    def forward(self, inputs):
        return super().forward(inputs) if self.training else self.last(inputs)


class MixingBehindDropout(MixingInTraining):
    """Does so, and draws at random too."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__(inputs, classes)
        self.drop = nn.Dropout(0.5)

    def forward(self, inputs):
        return super().forward(self.drop(inputs))


class Idle(Mixing):
    """Has weights that it does not use."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__(inputs, classes)
        self.spare = nn.Linear(2, 2)

    def forward(self, inputs):
        return self.last(inputs)


def bare_normalised(inputs: int, classes: int) -> nn.Module:
    layers = nn.Linear(inputs, 4), nn.BatchNorm1d(4, affine=False, track_running_stats=False), nn.Linear(4, classes)
    return nn.Sequential(*layers)


def flattening(inputs: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(0, -2), nn.Linear(inputs, classes))


def normalised(inputs: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 4), nn.BatchNorm1d(4), nn.Linear(4, classes))


def frozen(inputs: int, classes: int) -> nn.Module:
    return nn.Linear(inputs, classes).requires_grad_(False)


@pytest.mark.parametrize(
    ("factory", "records", "message"),
    [
        (normalised, 1, "cannot be trained privately.*BatchNorm"),
        (frozen, 1, "no weight that trains"),
        (bare_normalised, 1, "does not accept a single record"),
        (Mixing, 1, "reads each record by itself"),
        (MixingInTraining, 1, "reads each record by itself"),
        (MixingBehindDropout, 1, "reads each record by itself"),
        (Idle, 1, "'spare.weight' and maybe others never train"),
        (flattening, 3, "it must take"),
    ],
)
def test_networks_that_would_break_the_claim_are_refused(factory, records, message):
    with pytest.raises(ParameterError, match=message):
        check_network(TorchLearner(network=factory), SCHEMA, records=records)


@pytest.mark.parametrize("records", [1, 3])
def test_network_with_layer_normalisation_and_dropout_is_trained(records):
    def factory(inputs, classes):
        return nn.Sequential(nn.Linear(inputs, 6), nn.LayerNorm(6), nn.Dropout(0.1), nn.ReLU(), nn.Linear(6, classes))

    # Often: whether it is refused must not hang on what dropout happens to draw.
    for _ in range(100):
        check_network(TorchLearner(network=factory), SCHEMA, records=records)
    rows = np.arange(60).reshape(-1, records)
    steps = dataclasses.replace(ONE, count=3, rate=0.5, noise=1.0)
    model = fit_privately(
        TorchLearner(network=factory), people(60), rows, effort=1, steps=steps, weights=rng(1), noise=rng(2)
    )
    assert np.isfinite(model.predict_proba(people(20).X)).all()
