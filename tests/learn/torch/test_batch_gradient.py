"""The written-out gradient against automatic differentiation, and where it steps aside."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from eupg.learn.torch.batch_gradient import plain_gradient
from eupg.learn.torch.networks import MLP


@given(
    st.lists(st.integers(1, 20), max_size=3),
    st.integers(2, 4),
    st.integers(1, 12),
    st.integers(1, 30),
    st.integers(0, 99),
)
def test_gradient_is_that_of_automatic_differentiation(hidden, classes, inputs, rows, seed):
    generator = torch.Generator().manual_seed(seed)
    network = MLP(tuple(hidden))(inputs, classes)
    X = torch.randn(rows, inputs, generator=generator)
    y = torch.randint(classes, (rows,), generator=generator)
    nn.functional.cross_entropy(network(X), y).backward()
    expected = [p.grad.clone() for p in network.parameters()]
    set_gradients = plain_gradient(network)
    assert set_gradients is not None
    set_gradients(X, y)
    for parameter, gradient in zip(network.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize(
    "network",
    [
        nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)),
        nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 2)),
        nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.1), nn.Linear(4, 2)),
        nn.Sequential(nn.Linear(3, 2), nn.ReLU()),
        nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)),
        nn.Linear(3, 2),
        nn.Sequential(nn.Linear(3, 2)).double(),
        nn.Sequential(nn.Linear(3, 2)).requires_grad_(False),
    ],
    ids=repr,
)
def test_other_networks_are_left_to_automatic_differentiation(network):
    assert plain_gradient(network) is None


def test_subclass_with_a_forward_of_its_own_is_left_alone():
    class Doubled(nn.Sequential):
        def forward(self, inputs):
            return 2 * super().forward(inputs)

    assert plain_gradient(Doubled(nn.Linear(3, 2))) is None
