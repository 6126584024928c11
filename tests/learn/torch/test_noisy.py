"""Noisy steps: how far two runs can drift apart, what the noise is, and what of the start may pass through.

The accounting itself is checked in ``tests/golden/test_gaussian_accounting.py``.
"""

import copy
import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, kstest, norm
from torch import nn

from eupg.data.encode import Encoder
from eupg.errors import DataError, ParameterError
from eupg.guarantees.gaussian import gaussian_epsilon, gaussian_ratio
from eupg.learn import MLP, TorchLearner
from eupg.learn.noisy_finetuning import GradientClipping, ModelClipping
from eupg.learn.torch.noisy import train_noisily
from eupg.learn.torch.optimiser import TrainingRule
from eupg.rng import Secret
from people import SCHEMA, people
from statistical.refuting import RARE


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def flat(network: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in network.parameters()]).double()


def run(network, X, y, noise, sigma, *, seed=1, batch_size=8, noise_rng=None):
    """Take the noisy steps on a copy and return it."""
    mine = copy.deepcopy(network)
    generator = torch.Generator().manual_seed(seed)
    rule = TrainingRule(learning_rate=1.0, weight_decay=0.0, batch_size=batch_size)
    train_noisily(mine, X, y, rule, noise=noise, sigma=sigma, generator=generator, rng=noise_rng or rng(seed))
    return mine


def toy(rows: int = 24, inputs: int = 3, classes: int = 2, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (rows,), generator=generator)
    return torch.randn(rows, inputs, generator=generator) + y[:, None], y


def drawn_network(seed: int, activation: nn.Module) -> nn.Module:
    """Return a small network; with ReLU its gradient is the written-out one, else PyTorch's."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(3, 4), activation, nn.Linear(4, 2))


def scaled(network: nn.Module, factor: float) -> nn.Module:
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(factor)
    return network


class Runaway(nn.Module):
    """One weight, whose square is the logit of the right class: gradients always push it away from zero."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([value]))

    def forward(self, inputs):
        return torch.stack([self.weight.square().expand(len(inputs)), torch.zeros(len(inputs))], dim=1)


GRADIENT = st.builds(
    GradientClipping,
    start=st.floats(0.05, 5),
    gradient=st.floats(0.01, 5),
    decay=st.floats(0, 5),
    step_size=st.floats(0.01, 0.2),
    steps=st.integers(1, 12),
)


@given(GRADIENT, st.floats(0, 2), st.integers(0, 99), st.sampled_from([0.1, 1.0, 30.0]), st.booleans())
@settings(max_examples=60)
def test_two_runs_with_the_same_noise_and_batches_stay_within_reach(noise, sigma, seed, size, plain):
    X, y = toy(seed=seed)
    first = drawn_network(seed, nn.ReLU() if plain else nn.Tanh())
    second = scaled(copy.deepcopy(first), -size)
    ends = [flat(run(network, X, y, noise, sigma, seed=seed)) for network in (first, second)]
    apart = float((ends[0] - ends[1]).norm())
    assert apart <= noise.reach * (1 + 1e-5) + 1e-5 * (1 + sigma)


@pytest.mark.parametrize("decay", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("steps", [1, 3, 10])
def test_the_reach_is_attained_where_gradients_push_apart(decay, steps):
    noise = GradientClipping(start=2.0, gradient=0.01, decay=decay, step_size=0.1, steps=steps)
    X, y = torch.zeros(8, 1), torch.zeros(8, dtype=torch.int64)
    ends = [flat(run(Runaway(value), X, y, noise, 0.0)) for value in (5.0, -5.0)]
    assert float((ends[0] - ends[1]).abs()) == pytest.approx(noise.reach, rel=1e-4)


@given(st.floats(0.05, 3), st.integers(1, 8), st.integers(0, 99), st.floats(0.01, 50))
@settings(max_examples=30)
def test_model_clipping_keeps_weights_within_the_radius_before_the_noise(radius, steps, seed, step_size):
    X, y = toy(seed=seed)
    noise, network = ModelClipping(radius, step_size, steps), drawn_network(seed, nn.ReLU())
    calm, blurred = (run(network, X, y, noise, sigma, seed=seed) for sigma in (0.0, 0.3))
    assert float(flat(calm).norm()) <= radius * (1 + 1e-6)
    drawn = last_draw(noise.steps, len(flat(blurred)), seed)
    assert float((flat(blurred) - 0.3 * drawn).norm()) <= radius * (1 + 1e-4)


def last_draw(steps: int, weights: int, seed: int) -> torch.Tensor:
    """Return what NumPy draws last for so many steps."""
    generator = rng(seed)
    return torch.tensor([generator.standard_normal(weights, dtype=np.float32) for _ in range(steps)][-1]).double()


def test_steps_are_those_of_the_formula():
    """x ← ρx − γ·clip(g) + σ·noise, from a clipped start, on a problem whose gradient is written out by hand."""
    noise = GradientClipping(start=1.0, gradient=0.05, decay=0.5, step_size=0.2, steps=6)
    X, y = toy(rows=8)
    network = nn.Sequential(nn.Linear(3, 2))
    x, generator = flat(network).numpy(), rng(1)
    x = x * min(1.0, noise.start / np.linalg.norm(x))
    inputs, labels = X.double().numpy(), np.eye(2)[y.numpy()]
    for _ in range(noise.steps):
        logits = inputs @ x[:6].reshape(2, 3).T + x[6:]
        chance = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        slope = (chance - labels) / len(labels)
        g = np.concatenate([(slope.T @ inputs).ravel(), slope.sum(axis=0)])
        g *= min(1.0, noise.gradient / np.linalg.norm(g))
        x = 0.9 * x - 0.2 * g + 0.3 * generator.standard_normal(8, dtype=np.float32)
    found = flat(run(network, X, y, noise, 0.3)).numpy()
    np.testing.assert_allclose(found, x, atol=1e-5)


def draws(steps: int, weights: int, sigma: float) -> np.ndarray:
    """Return what is added at each step: with ρ = 0 and hardly a gradient, the end is the last draw alone."""
    X, y, seed = torch.zeros(4, weights // 2), torch.zeros(4, dtype=torch.int64), int(Secret().words(1)[0])
    network = nn.Sequential(nn.Linear(weights // 2, 2, bias=False))
    ends = [
        flat(run(network, X, y, GradientClipping(1.0, 1e-30, 1.0, 1.0, t), sigma, noise_rng=rng(seed)))
        for t in range(1, steps + 1)
    ]
    return np.array([end.numpy() for end in ends]) / sigma


def test_noise_is_drawn_anew_at_each_step():
    """Correlations of two steps' draws: a false alarm less than once in 10⁹; a draw used twice has correlation 1."""
    drawn = draws(20, 4000, sigma=0.7)
    z = np.triu(np.corrcoef(drawn), 1) * math.sqrt(4000)
    pairs = 20 * 19 / 2
    assert np.abs(z).max() < norm.isf(RARE / 2 / pairs)


def test_noise_is_standard_normal_times_sigma():
    """80,000 draws; a false alarm less than once in 10⁸; a spread wrong by 3 % or a mean wrong by 0.03 σ is found."""
    drawn = draws(20, 4000, sigma=0.7).ravel()
    n, most = len(drawn), RARE
    assert min(chi2.cdf((drawn**2).sum(), n), chi2.sf((drawn**2).sum(), n)) > most
    assert norm.sf(abs(drawn.mean()) * math.sqrt(n)) > most
    assert kstest(drawn, "norm").pvalue > most
    assert chi2.sf((drawn**2).sum() * 1.03**2, n) < most


@pytest.mark.parametrize("noise", [GradientClipping(1.0, 0.1, 0.1, 0.1, 2), ModelClipping(1.0, 0.1, 2)])
def test_gradient_that_is_no_number_is_refused(noise):
    X, y = toy()
    X[3, 1] = math.nan
    with pytest.raises(DataError, match="not finite"):
        run(MLP((4,))(3, 2), X, y, noise, 0.1, batch_size=24)


def test_training_goes_on_with_weights_of_its_own():
    """After the steps no weight is a view of a shared tensor, and no gradient of the last step is left behind."""
    X, y = toy()
    network = run(MLP((4,))(3, 2), X, y, GradientClipping(1.0, 0.1, 0.1, 0.1, 2), 0.1)
    assert len({p.untyped_storage().data_ptr() for p in network.parameters()}) == 4
    assert all(p.grad is None for p in network.parameters())


BLANK = GradientClipping(start=1.0, gradient=1e-30, decay=1.0, step_size=1.0, steps=1)
SOME = GradientClipping(start=1.0, gradient=0.1, decay=0.5, step_size=0.1, steps=4)


def normed(inputs: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, classes))


class Counting(nn.Module):
    """Keeps a running sum of its weights in a buffer, and scales its answers by it: state that no noise blurs."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, classes)
        self.register_buffer("total", torch.zeros(1))

    def forward(self, inputs):
        if self.training:
            self.total += self.linear.weight.detach().sum()
        return self.linear(inputs) * (1 + self.total)


def starts(learner: TorchLearner) -> list:
    return [learner.fit(people(200, seed), effort=2, rng=rng(seed)) for seed in (1, 2)]


def noisy(learner, start, noise, *, effort=1, sigma=0.1, rows=160, seed=3):
    return learner.fit_noisy(people(rows), effort=effort, noise=noise, sigma=sigma, rng=rng(seed), start=start)


@pytest.mark.parametrize("effort", [1, 2], ids=["noisy steps alone", "plain epochs after"])
@pytest.mark.parametrize("factory", [MLP((8,)), normed, Counting], ids=["plain", "batch norm", "counting"])
def test_nothing_of_the_start_survives_steps_that_keep_nothing(factory, effort):
    """With ρ = 0 and no gradient to speak of, the weights end as pure noise; so must scales, buffers, everything."""
    learner = TorchLearner(factory, batch_size=200)
    X = people(200).X
    first, second = (noisy(learner, start, BLANK, effort=effort).predict_proba(X) for start in starts(learner))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("factory", [normed, Counting])
def test_buffers_of_the_start_make_no_difference(factory):
    learner = TorchLearner(factory, batch_size=32)
    start = starts(learner)[0]
    other = copy.deepcopy(start)
    for buffer in other.network.buffers():
        buffer.add_(7)
    ends = [noisy(learner, s, SOME).predict_proba(people(200).X) for s in (start, other)]
    np.testing.assert_array_equal(*ends)


def test_batch_norm_statistics_are_those_of_the_retained_records_under_the_noisy_weights():
    learner = TorchLearner(normed, batch_size=32)
    model = noisy(learner, starts(learner)[0], GradientClipping(1.0, 0.1, 0.5, 0.1, 5))
    with torch.inference_mode():
        hidden = model.network[0](torch.from_numpy(model.encoder(people(160).X)))
    torch.testing.assert_close(model.network[1].running_mean, hidden.mean(dim=0), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(model.network[1].running_var, hidden.var(dim=0), atol=0.05, rtol=0.1)


def test_scales_are_those_of_the_schema_whatever_the_start_had():
    """Plain fits keep the start's scales; here those of an earlier version would carry what was forgotten."""
    learner = TorchLearner(batch_size=8)
    start = starts(learner)[0]
    other = dataclasses.replace(start, encoder=dataclasses.replace(start.encoder, centre=start.encoder.centre + 1))
    for base in (start, other):
        model = noisy(learner, base, SOME, rows=30)
        assert model.encoder.to_json() == Encoder.of_bounds(SCHEMA).to_json()


def test_start_is_left_as_it_was():
    learner = TorchLearner(normed, batch_size=32)
    start = starts(learner)[0]
    before = copy.deepcopy(start.network.state_dict())
    noisy(learner, start, SOME)
    for name, value in start.network.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


def test_frozen_weights_are_refused():
    def frozen(inputs: int, classes: int) -> nn.Module:
        network = MLP((4,))(inputs, classes)
        network[0].weight.requires_grad_(False)
        return network

    learner = TorchLearner(frozen)
    with pytest.raises(ParameterError, match=r"1 weights of the network do not train, first '0\.weight'"):
        learner.check_noisy(people(), effort=20, noise=ModelClipping(1.0, 0.1, 2))
    TorchLearner(MLP((4,))).check_noisy(people(), effort=20, noise=ModelClipping(1.0, 0.1, 2))


def test_more_noisy_steps_than_the_budget_are_refused_with_the_remedy():
    learner = TorchLearner(batch_size=32)
    start = starts(learner)[0]
    with pytest.raises(DataError, match=r"6 noisy steps do not fit .* 5 steps: take fewer, or raise the effort"):
        noisy(learner, start, GradientClipping(1.0, 0.1, 0.5, 0.1, 6))
    noisy(learner, start, GradientClipping(1.0, 0.1, 0.5, 0.1, 5))


def test_the_rest_of_the_budget_is_plain_training():
    """Enough of it, and the model predicts well in spite of the noise."""
    learner = TorchLearner(batch_size=32)
    start, test = starts(learner)[0], people(500, 9)
    after = learner.fit_noisy(people(600, 5), effort=10, noise=SOME, sigma=0.5, rng=rng(), start=start)
    assert (after.predict_proba(test.X).argmax(axis=1) == test.y).mean() > 0.8
    assert after.effort == 10


def test_another_network_cannot_be_the_start():
    with pytest.raises(ParameterError, match="another network"):
        noisy(TorchLearner(MLP((4,)), batch_size=32), starts(TorchLearner(MLP((5,))))[0], SOME)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"start": 0.0}, "start must be a finite number above 0"),
        ({"gradient": math.nan}, "gradient must be a finite number above 0"),
        ({"decay": -0.1}, "decay must be a finite number of at least 0"),
        ({"step_size": math.inf}, "step_size must be a finite number above 0"),
        ({"steps": 0}, "steps must be a whole number of at least 1"),
        ({"steps": 2.0}, "steps must be a whole number of at least 1"),
        ({"decay": 20.0}, "step_size × decay must be at most 1, got 2"),
    ],
)
def test_meaningless_steps_are_refused(wrong, message):
    good = {"start": 1.0, "gradient": 0.1, "decay": 0.5, "step_size": 0.1, "steps": 4}
    with pytest.raises(ParameterError, match=message):
        GradientClipping(**(good | wrong))


def test_meaningless_radius_is_refused():
    with pytest.raises(ParameterError, match="radius must be a finite number above 0"):
        ModelClipping(-1.0, 0.1, 3)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(-1.0, 1e-5), (math.inf, 1e-5), (1.0, 0.0), (1.0, 1.0), (1.0, math.nan)]
)
def test_meaningless_claim_is_refused(epsilon, delta):
    with pytest.raises(ParameterError, match="expected ε of at least 0 and δ between 0 and 1"):
        gaussian_ratio(epsilon, delta)


def test_noise_enough_for_any_delta_needs_no_epsilon():
    assert gaussian_epsilon(1e-6, 1e-5) == 0.0
