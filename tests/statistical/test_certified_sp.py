"""Try to refute Certified-SP's (ε, δ) on a convex problem, from the weights alone; and show that too little noise is.

Records on a line, and logistic regression through them, whose optimum SciPy finds to ten digits. The forgotten records
contradict the retained ones so strongly that the optimum turns round: the two starts, clipped, lie as far apart as
clipping lets them, which is the worst case of the claim. Each run takes the noisy steps on the retained records, from
the optimum of all records (unlearned) or from that of the retained ones (retrained).

A half-space S along the line between the two starts refutes P(S) ≤ e^ε·P′(S) + δ when the lower confidence bound of the
first exceeds e^ε times the upper one of the second, plus δ (Clopper and Pearson). Thresholds are fixed before the runs
and share α = 1e-6 over both directions: a true claim is refuted at most once in a million tests. With 3,000 runs from
each start, (1, 1e-5) is found broken where the ends lie 0.95 spreads apart instead of 0.268: a σ too small by 3.6.
"""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.stats import beta, norm
from torch import nn

from eupg import Secret, Seeded
from eupg.data.attribute import Categorical, Numeric, Role
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.forget.certified_sp import CertifiedSP
from eupg.guarantees.gaussian import gaussian_ratio
from eupg.learn import TorchLearner
from eupg.learn.noisy_finetuning import GradientClipping, ModelClipping
from eupg.learn.torch.noisy import train_noisily
from eupg.learn.torch.optimiser import TrainingRule
from eupg.learn.torch.training import threads_for
from statistical.refuting import ALPHA

RUNS = 3_000
RIDGE = 0.01
GRADIENT = GradientClipping(start=0.5, gradient=0.02, decay=0.5, step_size=0.1, steps=3)
MODEL = ModelClipping(radius=0.5, step_size=0.01, steps=2)
THRESHOLDS = np.linspace(-2, 2, 9)  # in spreads, from half-way between the two ends without noise
SCHEMA = Schema(
    (
        Numeric(name="dose", lower=-10, upper=10),
        Categorical(name="ill", role=Role.LABEL, categories=("no", "yes")),
    )
)


def toy(rows: int = 40) -> tuple[Dataset, list[str]]:
    """Return records, the larger part of which contradicts the others, and the ids of that part."""
    dose = np.tile(np.linspace(-2, 2, rows // 2), 6)
    agrees = np.arange(len(dose)) < rows // 2
    y = np.where(agrees, dose > 0, dose < 0)
    ids = np.array([f"r{i}" for i in range(len(dose))])
    return Dataset(SCHEMA, dose[:, None], y.astype(int), ids, ids), ids[~agrees].tolist()


def optimum(data: Dataset) -> np.ndarray:
    """Return the weights (two slopes, two offsets) that minimise the ridge-penalised cross-entropy, to ten digits."""
    inputs, y = (data.X[:, 0] - data.X.mean()) / data.X.std(), data.y

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        logits = np.outer(inputs, w[:2]) + w[2:]
        chance = np.exp(logits - np.logaddexp(*logits.T)[:, None])
        slope = (chance - np.eye(2)[y]) / len(y)
        value = -np.log(chance[np.arange(len(y)), y]).mean() + RIDGE / 2 * w @ w
        return value, np.concatenate([slope.T @ inputs, slope.sum(axis=0)]) + RIDGE * w

    found = minimize(loss, np.zeros(4), jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 1000}).x
    assert np.abs(loss(found)[1]).max() < 1e-9
    return found


DATA, FORGOTTEN = toy()
RETAINED = DATA.without(FORGOTTEN)
STARTS = {"unlearned": optimum(DATA), "retrained": optimum(RETAINED)}
LINE = (STARTS["unlearned"] - STARTS["retrained"]) / np.linalg.norm(STARTS["unlearned"] - STARTS["retrained"])


def linear(inputs: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, classes))


def set_weights(network: nn.Module, values: np.ndarray) -> nn.Module:
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor(values[:2, None]))
        network[0].bias.copy_(torch.tensor(values[2:]))
    return network


RULE = TrainingRule(learning_rate=1.0, weight_decay=0.0, batch_size=20)


def get_weights(network: nn.Module) -> np.ndarray:
    return np.concatenate([p.detach().double().numpy().ravel() for p in network.parameters()])


def ends(start: str, noise, sigma: float, rng: np.random.Generator, runs: int = RUNS) -> np.ndarray:
    """Return the weights after noisy steps on the retained records, run after run."""
    dose = RETAINED.X[:, 0]
    X, y = torch.tensor(((dose - dose.mean()) / dose.std())[:, None], dtype=torch.float32), torch.tensor(RETAINED.y)
    network, generator, found = linear(1, 2), torch.Generator().manual_seed(int(rng.integers(2**31))), []
    with threads_for(network):
        for _ in range(runs):
            set_weights(network, STARTS[start])
            train_noisily(network, X, y, RULE, noise=noise, sigma=sigma, generator=generator, rng=rng)
            found.append(get_weights(network))
    return np.array(found)


def bounds(hits: np.ndarray, runs: int, error: float) -> tuple[np.ndarray, np.ndarray]:
    low = np.where(hits > 0, beta.ppf(error, np.maximum(hits, 1), runs - hits + 1), 0.0)
    high = np.where(hits < runs, beta.isf(error, hits + 1, np.maximum(runs - hits, 1)), 1.0)
    return low, high


def refuted(first: np.ndarray, second: np.ndarray, epsilon: float, delta: float) -> bool:
    """Tell whether a half-space above or below a threshold, in either direction, contradicts (ε, δ)."""
    error = ALPHA / (2 * 4 * len(THRESHOLDS))
    for a, b in ((first, second), (second, first)):
        for sign in (1, -1):
            hits, others = ((sign * x[:, None] > sign * THRESHOLDS).sum(axis=0) for x in (a, b))
            low, _ = bounds(hits, len(a), error)
            _, high = bounds(others, len(b), error)
            if (low > math.exp(epsilon) * high + delta).any():
                return True
    return False


def along_the_line(noise, sigma: float, rng: np.random.Generator) -> list[np.ndarray]:
    """Return the ends of both kinds of runs along the line between the starts, in spreads from half-way."""
    middle = np.mean([ends(start, noise, 0.0, rng, runs=1)[0] @ LINE for start in STARTS])
    spread = sigma
    if isinstance(noise, GradientClipping):
        spread *= math.sqrt((noise.keeps ** (2 * np.arange(noise.steps))).sum())
    return [(ends(start, noise, sigma, rng) @ LINE - middle) / spread for start in STARTS]


def test_the_two_starts_lie_as_far_apart_as_clipping_lets_them():
    clipped = [w * min(1.0, 0.5 / np.linalg.norm(w)) for w in STARTS.values()]
    assert np.linalg.norm(clipped[0] - clipped[1]) > 0.999


@pytest.mark.parametrize("seed", range(20))
def test_distance_of_unlearned_and_retrained_stays_within_the_bound_and_comes_near(seed):
    sigma = GRADIENT.sigma(1.0, 1e-5)
    found = [ends(start, GRADIENT, sigma, np.random.default_rng(seed), runs=1)[0] for start in STARTS]
    apart = np.linalg.norm(found[0] - found[1])
    assert 0.95 * GRADIENT.reach < apart <= GRADIENT.reach


@pytest.mark.parametrize(
    ("noise", "delta"), [(GRADIENT, 1e-5), (MODEL, 1e-2)], ids=["gradient clipping", "model clipping"]
)
def test_claim_withstands_and_a_fifth_of_the_noise_is_refuted(noise, delta):
    sigma = noise.sigma(1.0, delta)
    # Fresh randomness of the operating system for the true claim; the broken one is repeatable.
    assert not refuted(*along_the_line(noise, sigma, Secret().generator()), 1.0, delta)
    assert refuted(*along_the_line(noise, sigma / 5, Seeded(1).generator()), 1.0, delta)


def test_published_noise_refutes_the_epsilon_it_was_published_with_but_not_the_true_one():
    certified = CertifiedSP(TorchLearner(linear), noise=GRADIENT, published_calibration=True)
    found = along_the_line(GRADIENT, certified.sigma, Seeded(2).generator())
    assert refuted(*found, 1.004, 1e-5)
    assert not refuted(*found, certified.claimed_epsilon, 1e-5)


def test_whole_method_withstands():
    """The same through :class:`CertifiedSP`: what it hands over after a request, from both starts; repeatable."""
    certified = CertifiedSP(TorchLearner(linear, batch_size=20), effort=1, finetune=3, noise=GRADIENT)
    spread = certified.sigma * math.sqrt((GRADIENT.keeps ** (2 * np.arange(3))).sum())
    found = []
    for number, values in enumerate(STARTS.values()):
        state = certified.train(DATA, Seeded(number))
        set_weights(state.model.network, values)
        seeds = range(1_000 * (number + 1), 1_000 * (number + 2))
        models = (certified.forget(state, RETAINED, Seeded(seed)).model.network for seed in seeds)
        found.append(np.array([get_weights(model) @ LINE for model in models]) / spread)
    assert not refuted(*found, 1.0, 1e-5)
    shift = (found[0].mean() - found[1].mean()) / gaussian_ratio(1.0, 1e-5)
    assert shift == pytest.approx(1.0, abs=0.5), (
        "the starts must matter nearly as much as allowed, or this shows little"
    )


def test_power_of_the_test_is_as_stated():
    """Expected counts, without any run: 0.95 spreads are found, 0.268 are not."""

    def expected(apart: float) -> list[np.ndarray]:
        return [norm.ppf((np.arange(RUNS) + 0.5) / RUNS) + side * apart / 2 for side in (1, -1)]

    assert refuted(*expected(0.95), 1.0, 1e-5)
    assert not refuted(*expected(0.268), 1.0, 1e-5)
