"""Whether the noise of private trees is as large as claimed, judged by questions to released models alone.

Someone who knows every other record trains many models with a canary and many without it, and compares the models'
scores of the canary. With one step of descent, a canary whose vector and residual are both at their limits moves the
model by the whole sensitivity, so the claimed ratio μ is reached, up to the small share spent on counts. The bounds on
μ are those of Gaussian differential privacy, Φ⁻¹(1 − FPR) − Φ⁻¹(1 − TPR), from Clopper–Pearson bounds.

Under pure ε one answer about one group decides. The canary moves it by the whole sensitivity b, so that outcomes above
some threshold become exp(b/s) times as likely and no more: the bound on that factor is P(above | in)/P(above | out).

False alarms: each of the six bounds fails with probability at most 1e-3, and seeds are fixed. Half the noise, or a
contribution of twice the limit, doubles μ; the last two tests show that this is caught.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import beta, norm

from eupg import Dataset, PrivateTrees, Schema, Seeded
from eupg.data import Categorical, Role
from eupg.forget.private_trees import budget, noisy_answers, training
from eupg.learn import LeafLearner
from eupg.learn.leaves.grids import histogram_cells
from eupg.learn.leaves.learner import LeafModel
from eupg.protect.noise import fast

MODELS = 250
PURE_ANSWERS = 20_000
ALPHA = 1e-3
PRIVATE = PrivateTrees(epsilon=6.0)
SCHEMA = Schema(
    (
        Categorical(name="town", categories=("A", "B", "C", "D")),
        Categorical(name="job", categories=("w", "x", "y", "z")),
        Categorical(name="ill", role=Role.LABEL, categories=("no", "yes")),
    )
)


def table(*, canary: bool) -> Dataset:
    """Return records whose gradients cancel in every cell, and perhaps one more."""
    values = (0.0, 0.0, 1.0, 2.0, 3.0)
    rows = np.array(list(product(values, values, (0, 1))) * 20)
    X, y = rows[:, :2], rows[:, 2].astype(int)
    if canary:
        X, y = np.vstack([X, [[3.0, 3.0]]]), np.append(y, 1)
    names = np.array([f"r{i}" for i in range(len(y))])
    return Dataset(SCHEMA, X, y, names, names)


def margins(*, canary: bool) -> np.ndarray:
    """Return what many models say about the canary."""
    data, seed = table(canary=canary), 0 if canary else MODELS
    models = [PRIVATE.pretrain(data, LeafLearner(), effort=1, rng=Seeded(seed + number))[0] for number in range(MODELS)]
    asked = np.array([[3.0, 3.0]])
    return np.array([model.margins(asked)[0] for model in models if isinstance(model, LeafModel)])


def bounds_on_ratio() -> tuple[float, float]:
    """Return the least and the largest μ that the models agree with."""
    inside, outside = margins(canary=True), margins(canary=False)
    # Halfway between the two medians, which move too little to matter for the bounds.
    threshold = (np.median(inside) + np.median(outside)) / 2
    hits, alarms = int((inside > threshold).sum()), int((outside > threshold).sum())
    low = norm.ppf(beta.ppf(ALPHA, hits, MODELS - hits + 1)) - norm.ppf(
        beta.ppf(1 - ALPHA, alarms + 1, MODELS - alarms)
    )
    high = norm.ppf(beta.ppf(1 - ALPHA, hits + 1, MODELS - hits)) - norm.ppf(
        beta.ppf(ALPHA, alarms, MODELS - alarms + 1)
    )
    return float(low), float(high)


@pytest.fixture
def one_step(monkeypatch):
    settings = {"_FEWEST_STEPS": 1, "_MOST_STEPS": 1, "_TAIL": 1.0, "_MOMENTUM": 0.0, "_DECAY": 0.0}
    for name, value in settings.items():
        monkeypatch.setattr(training, name, value)


def test_the_canary_is_told_apart_as_well_as_claimed_and_no_better(one_step):
    low, high = bounds_on_ratio()
    assert low <= PRIVATE.budget.ratio, "models reveal more than the claim allows"
    # The setting reaches the claim: a test that saw nothing would pass the line above, too.
    assert high >= 0.99 * PRIVATE.budget.ratio
    assert low >= 0.5 * PRIVATE.budget.ratio


def test_half_the_noise_is_caught(one_step, monkeypatch):
    drawn = fast.exact_gaussian
    monkeypatch.setattr(budget, "exact_gaussian", lambda size, rng: drawn(size, rng) // 2)
    low, _ = bounds_on_ratio()
    assert low > PRIVATE.budget.ratio


def test_a_residual_that_is_not_cut_is_caught(one_step, monkeypatch):
    of = noisy_answers.ResidualSums.of_vectors

    def uncut(design, X, y, bound, people):
        sums = of(design, X, y, bound, people)
        return replace(sums, limits=2 * sums.limits)

    monkeypatch.setattr(noisy_answers.ResidualSums, "of_vectors", staticmethod(uncut))
    low, _ = bounds_on_ratio()
    assert low > PRIVATE.budget.ratio


def bounds_on_epsilon() -> tuple[float, float]:
    """Return the least and the largest ε that noisy sums of residuals agree with, and that of the claim is 1."""
    cells = histogram_cells(SCHEMA)
    told = {}
    for canary in (False, True):
        data = table(canary=canary)
        source = noisy_answers.RecordAnswers(
            noisy_answers.HeldRecords(data.X, data.y, None), budget.LaplaceBudget(PURE_ANSWERS), Seeded(int(canary))
        )
        ask, scores = source.residuals(cells, 2, 1.0), np.zeros((cells.count, 1))
        told[canary] = np.array([ask(scores, 1)[3, 0] for _ in range(PURE_ANSWERS)])
    # The canary's residual is −½, the largest there is; beyond it, all outcomes have the same ratio.
    hits, alarms = ((told[canary] <= -noisy_answers.group_residual(2)).sum() for canary in (True, False))
    low, high = (
        np.log(beta.ppf(a, hits + (a > 0.5), PURE_ANSWERS - hits + (a < 0.5)))
        - np.log(beta.ppf(1 - a, alarms + (a < 0.5), PURE_ANSWERS - alarms + (a > 0.5)))
        for a in (ALPHA, 1 - ALPHA)
    )
    return float(low), float(high)


def test_pure_epsilon_is_reached_and_not_exceeded():
    low, high = bounds_on_epsilon()
    assert low <= 1.0 <= high
    assert low >= 0.9


def test_half_the_laplace_noise_is_caught(monkeypatch):
    drawn = fast.exact_laplace
    monkeypatch.setattr(budget, "exact_laplace", lambda size, rng: drawn(size, rng) // 2)
    assert bounds_on_epsilon()[0] > 1.5


def test_a_pure_residual_that_is_not_cut_is_caught(monkeypatch):
    of = noisy_answers.ResidualSums.of_groups

    def uncut(*records):
        sums = of(*records)
        return replace(sums, limits=2 * sums.limits)

    monkeypatch.setattr(noisy_answers.ResidualSums, "of_groups", staticmethod(uncut))
    assert bounds_on_epsilon()[0] > 1.2
