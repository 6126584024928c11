"""Optimisers and schedules against PyTorch's own."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from eupg.errors import ParameterError
from eupg.learn import TorchLearner
from eupg.learn.torch.inputs import shuffled
from eupg.learn.torch.optimiser import TrainingRule
from eupg.learn.torch.training import train


def small_network(seed: int = 1) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 2))


def rows() -> tuple[torch.Tensor, torch.Tensor]:
    X = torch.randn(40, 3, generator=torch.Generator().manual_seed(2))
    return X, (X.sum(dim=1) > 0).long()


@given(st.integers(2, 200), st.floats(0.05, 0.95), st.floats(1e-4, 1.0))
def test_one_cycle_is_that_of_pytorch(steps, warm_up, rate):
    # At exactly one step of warm-up PyTorch divides by zero.
    if abs(warm_up * steps - 1) < 1e-6:
        return
    optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, rate, total_steps=steps, pct_start=warm_up, cycle_momentum=False
    )
    rule = TrainingRule(rate, 0.0, 8, schedule="one-cycle", warm_up=warm_up)
    for step in range(steps):
        assert math.isclose(rule.rate_at(step, steps, (0.0, 1.0)), optimiser.param_groups[0]["lr"], rel_tol=1e-6)
        optimiser.step()
        if step < steps - 1:
            schedule.step()


@given(st.integers(1, 50), st.integers(1, 50), st.sampled_from(["cosine", "one-cycle"]))
def test_parts_of_a_schedule_are_the_whole(first, second, schedule):
    rule, steps = TrainingRule(0.1, 0.0, 8, schedule=schedule), first + second
    whole = [rule.rate_at(step, steps, (0.0, 1.0)) for step in range(steps)]
    parts = [rule.rate_at(step, first, (0.0, first / steps)) for step in range(first)]
    parts += [rule.rate_at(step, second, (first / steps, 1.0)) for step in range(second)]
    assert parts == pytest.approx(whole, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_sgd_with_one_cycle_moves_as_a_loop_of_pytorch_does(nesterov, smoothing):
    X, y = rows()
    rule = TrainingRule(
        0.3, 1e-2, 8, optimiser="sgd", nesterov=nesterov, schedule="one-cycle", label_smoothing=smoothing
    )
    ours, theirs = small_network(), small_network()
    train(ours, X, y, rule, steps=15, generator=torch.Generator().manual_seed(3))
    optimiser = torch.optim.SGD(theirs.parameters(), lr=0.3, momentum=0.9, weight_decay=1e-2, nesterov=nesterov)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.3, total_steps=15, cycle_momentum=False)
    loss, source = nn.CrossEntropyLoss(label_smoothing=smoothing), shuffled(X, y, 8, torch.Generator().manual_seed(3))
    for _ in range(15):
        inputs, labels = next(source)
        optimiser.zero_grad()
        loss(theirs(inputs), labels).backward()
        optimiser.step()
        if schedule.last_epoch < 14:
            schedule.step()
    for one, other in zip(ours.state_dict().values(), theirs.state_dict().values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_moments_of_another_optimiser_are_left_out():
    X, y = rows()
    ends = []
    for moments in (None, {"exp_avg.0.weight": torch.ones(5, 3), "step.0.weight": torch.tensor(9.0)}):
        network = small_network()
        rule = TrainingRule(0.1, 0.0, 8, optimiser="sgd")
        train(network, X, y, rule, steps=5, generator=torch.Generator().manual_seed(3), moments=moments)
        ends.append(network[0].weight)
    assert torch.equal(*ends)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"optimiser": "lion"}, "optimiser must be one of adam, sgd, got 'lion'"),
        ({"schedule": "flat"}, "schedule must be one of cosine, one-cycle, got 'flat'"),
        ({"precision": "float16"}, "precision must be one of float32, bfloat16, got 'float16'"),
        ({"momentum": 1.0}, "momentum must be a number from 0 to below 1, got 1.0"),
        ({"label_smoothing": -0.1}, "label_smoothing must be a number from 0 to below 1, got -0.1"),
        ({"warm_up": float("nan")}, "warm_up must be a number from 0 to below 1, got nan"),
        ({"nesterov": True, "momentum": 0.0}, "nesterov needs a momentum above 0"),
        ({"augment": True}, "augment must be an Augment or None, got True"),
    ],
)
def test_meaningless_settings_are_refused(wrong, message):
    with pytest.raises(ParameterError, match=message):
        TorchLearner(**wrong)


def test_new_settings_show_only_where_they_were_changed():
    """Stores of reference models know a learner by this text."""
    settings = "learning_rate=0.01, batch_size=256, weight_decay=0.0001, anchor=0.0, head_only=False, device='cpu'"
    assert repr(TorchLearner()) == f"TorchLearner(network=MLP(hidden=(128, 128)), {settings})"
    assert repr(TorchLearner(optimiser="sgd", momentum=0.5)).endswith("device='cpu', optimiser='sgd', momentum=0.5)")
